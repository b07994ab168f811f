"""What all commands of `blts experiment` share: their options, their exit codes, and how an experiment is opened."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ConfigError

if TYPE_CHECKING:
    from ...live import Experiment

app = typer.Typer(
    help="Live experiments: ask for decisions, tell rewards, refresh the posterior.\n\n"
    "Exit codes: 0 done, 1 an error of ours, 2 refused, 3 a refresh has to wait, or ask got no decisions because the experiment is "
    "paused or strict, 4 verify found differences, 5 tell had no rows or accepted none, or with --strict not all.",
    no_args_is_help=True,
)

WAITS, DIFFERS, NOT_ACCEPTED = 3, 4, 5

Name = Annotated[str, typer.Argument(help="The experiment.")]
Db = Annotated[str | None, typer.Option("--db", help="A database URL or a file; by default BLTS_DB, or blts.db here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option(help="A word for the audit log.")]
Metric = Annotated[str | None, typer.Option("--metric", help="A metric of the experiment; without it rewards are meant.")]
Request = Annotated[str | None, typer.Option("--request-id", help="The same id again gives the same answer again.")]


def library() -> types.ModuleType:
    """`blts.live`, with compiled programs kept between commands; `ConfigError` where SQLAlchemy is not installed."""
    from ...compilation import keep_programs

    keep_programs()
    try:
        from ... import live
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise ConfigError('Experiments need SQLAlchemy; install it with: pip install "blts[live]".') from None
    return live


def opened(db: str | None, name: str) -> Experiment:
    """Open an experiment by its name, in the database of `--db`."""
    return library().Experiment.open(db, name)
