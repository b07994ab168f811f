"""What a person changes in a running experiment: `pause`, `resume`, `stop`, `add-arm`, `retire-arm`, `correct`, `cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ConfigError
from .base import AsJson, Db, Metric, Name, Reason, app, opened
from .output import done, in_words

if TYPE_CHECKING:
    from ...live import Experiment


@app.command()
def pause(name: Name, reason: Reason = "", db: Db = None, as_json: AsJson = False) -> None:
    """Hand out no decisions until `resume`; rewards are still accepted."""
    opened(db, name).pause(reason)
    done(as_json, {"paused": True}, f"{name} is paused.")


@app.command()
def resume(name: Name, reason: Reason = "", db: Db = None, as_json: AsJson = False) -> None:
    """Hand out decisions again."""
    opened(db, name).resume(reason)
    done(as_json, {"paused": False}, f"{name} goes on.")


@app.command()
def stop(
    name: Name,
    promote: Annotated[str | None, typer.Option(help="The arm of every new decision; without it there are none.")] = None,
    reason: Reason = "",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """End an experiment, for good."""
    experiment = opened(db, name)
    version = experiment.stop(promote, reason)
    sentence = f"{name} is stopped" + (
        f"; every new decision is {promote}; units that have one keep it." if promote else "; there are no more decisions."
    )
    if promote is not None and not as_json:
        _warn(experiment, promote)
    done(as_json, {"stopped": True, "promoted": promote, "policy_version": version}, sentence)


def _warn(experiment: Experiment, promote: str) -> None:
    """Say so where the last stored report does not name the promoted arm."""
    from ...live import reports

    last = reports.last(experiment)
    if last is None or last["winner"] != promote:
        said = "there is no stored report" if last is None else last["recommendation"]
        typer.echo(f"Note: no report names {promote!r} the winner ({said.rstrip('.')}).", err=True)


@app.command("add-arm")
def add_arm(
    name: Name,
    label: Annotated[str, typer.Argument(help="The new arm.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="A number of the model for this arm, as name=value.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Add an arm from the next decision on."""
    from ..simulate import options_of

    version = opened(db, name).add_arm(label, **options_of(set_ or []))
    done(as_json, {"arm": label, "policy_version": version}, f"{label} is in; policy version {version}.")


@app.command("retire-arm")
def retire_arm(
    name: Name, label: Annotated[str, typer.Argument(help="The arm.")], reason: Reason = "", db: Db = None, as_json: AsJson = False
) -> None:
    """Play an arm no more; what it earned stays."""
    version = opened(db, name).retire_arm(label, reason)
    done(as_json, {"arm": label, "policy_version": version}, f"{label} is out; policy version {version}.")


@app.command(context_settings={"ignore_unknown_options": True})  # a reward may begin with a minus
def correct(
    name: Name,
    decision_id: Annotated[str, typer.Argument(help="The decision.")],
    reward: Annotated[str, typer.Argument(help="The right reward.", metavar="reward")],
    metric: Metric = None,
    reason: Reason = "",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Replace a reward, or a value of a metric; the next refresh learns from the new reward."""
    if decision_id.startswith("--"):
        raise ConfigError(
            f"There is no option {decision_id!r}; a correction names the decision: correct {name} DECISION_ID REWARD."
        )
    try:
        number = float(reward)
    except ValueError:
        raise ConfigError(f"A reward must be a number; got {reward!r}.") from None
    changed = opened(db, name).correct(decision_id, number, reason, metric=metric)
    done(as_json, {"changed": changed}, "Corrected." if changed else "It stood so already.")


@app.command()
def cancel(
    name: Name,
    decision_ids: Annotated[list[str], typer.Argument(help="Decisions whose unit was never exposed.")],
    reason: Reason = "",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw decisions that nobody was exposed to."""
    changed = opened(db, name).cancel(decision_ids, reason)
    done(as_json, {"cancelled": changed}, f"{in_words(changed, 'decision')} cancelled.")
