"""`blts paper`: the paper's experiments in one report, beside its printed numbers."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ..errors import ConfigError, whole
from . import study as study_cli

FULL, QUICK = 400, 40


def command(
    only: Annotated[str | None, typer.Option(help="One study, such as gaussian; `blts study list` has all.")] = None,
    replications: Annotated[
        int, typer.Option(help="Runs of each condition of the main tables; the others have more or fewer in proportion.")
    ] = FULL,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help=f"A first look: the paper's own tables, {QUICK} replications.")] = False,
    out: study_cli.Out = study_cli.RESULTS,
    engine: study_cli.Engine = "in-process",
    workers: study_cli.Workers = None,
    address: study_cli.Address = None,
    shard: study_cli.ShardText = None,
) -> None:
    """Run the paper's experiments and write a report beside the paper's numbers."""
    from .. import paper

    if replications < 2:
        raise ConfigError(f"replications must be ≥ 2, so that there is a spread to report; got {replications}.")
    if quick and replications != FULL:
        raise ConfigError(f"--quick has {QUICK} replications; leave it or --replications out.")
    whole("seed", seed, 0)
    factor = (QUICK if quick else replications) / FULL
    names = [only] if only else paper.QUICK if quick else paper.NAMES
    if not only:
        left_out = paper.missing(names)
        names = [name for name in names if name not in left_out]
        for sentence in left_out.values():
            typer.echo(sentence, err=True)
    chosen = [dataclasses.replace(paper.study(name).scaled(factor), seed=seed) for name in names]
    part = study_cli.shard_of(shard)
    from ..compilation import keep_programs
    from ..studies import Heading
    from ..studies.planning import plan

    keep_programs()
    planned = [plan(study) for study in chosen]
    where = {"engine": engine, "workers": workers, "address": address}
    study_cli.execute(planned, out, Heading(paper.TITLE, paper.lead(names)), shard=part, **where)
