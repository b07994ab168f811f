"""The round of an experiment: `ask`, `tell`, `tell-aggregate`, `refresh`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError
from .base import NOT_ACCEPTED, WAITS, AsJson, Db, Metric, Name, Request, app, opened
from .contexts import from_options, read_contexts, refused
from .output import done, in_words, print_json, say, show_table
from .rewards import by_metric, read_rewards, read_units

if TYPE_CHECKING:
    from ...live import Experiment
    from ...live.answers import Answer, Told


@app.command()
def ask(
    name: Name,
    n: Annotated[int | None, typer.Option("--n", help="How many decisions; by default 1.")] = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", help="Whom a decision is for; repeatable. A unit keeps its decision.")
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="A file with one unit a line, or a CSV file with a column unit; - for standard input.")
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option("--context", help='What is known of a unit, as JSON: {"age": 31}; repeatable.')
    ] = None,
    contexts: Annotated[
        str | None,
        typer.Option(
            help="A CSV or JSONL file with the features, and unit and available (A; B) where wanted; - for standard input."
        ),
    ] = None,
    available: Annotated[
        list[str] | None, typer.Option("--available", help="An arm that these decisions can be; repeatable, by default all.")
    ] = None,
    request_id: Request = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Get decisions. They are stored before they are printed."""
    whom = [*(unit or []), *(read_units(units) if units is not None else [])]
    if units is not None and not whom:
        raise ConfigError(f"The file {units} has no units.")
    experiment = opened(db, name)
    shown: list[Any] | None = from_options(context) if context else None
    masks: list[Any] | None = available or None
    if contexts is not None:
        refused([*whom, *(context or []), *(available or [])], "--unit, --units, --context and --available")
        asked = read_contexts(contexts, experiment.spec.encoding)
        whom, shown, masks = asked.units or [], asked.contexts, asked.available
    answer = experiment.ask(n, request_id, units=whom or None, contexts=shown, available=masks)
    if answer.stopped and not answer.decisions:
        raise ConfigError(f"The experiment {name!r} is stopped, and no arm was promoted: there are no more decisions.")
    if as_json:
        decisions = [
            {
                "decision_id": d.id,
                "arm": d.arm,
                "batch": d.batch,
                "policy_version": d.policy,
                "propensities": d.propensities,
                "available": d.available,
            }
            | ({} if d.unit is None else {"unit": d.unit})
            for d in answer.decisions
        ]
        print_json(
            {
                "decisions": decisions,
                "feedback_due": answer.feedback_due,
                "awaited": answer.awaited,
                "paused": answer.paused,
                "stopped": answer.stopped,
                "why": answer.why,
            }
        )
    else:
        _show(name, answer, len(whom) or n or len(shown or [1]), bool(whom))
    if not answer.decisions:
        raise typer.Exit(WAITS)


def _show(name: str, answer: Answer, asked: int, by_unit: bool) -> None:
    """Print decisions for people."""
    if answer.decisions:
        rows = [[d.id, d.arm, d.batch, d.policy, d.propensities[d.arm], *([d.unit] if by_unit else [])] for d in answer.decisions]
        columns = ["decision_id", "arm", "batch", "policy", "propensity", *(["unit"] if by_unit else [])]
        show_table(f"{name}: {in_words(len(rows), 'decision')}", columns, rows, words=("unit",))
    kept = [d for d in answer.decisions if not d.available]
    if kept:
        first = f"{kept[0].unit or kept[0].id}: {kept[0].arm}{', …' if len(kept) > 1 else ''}"
        say(
            f"{in_words(len(kept), 'earlier decision')} ({first}) could not be made now, because the arm is retired or not "
            "available; a unit keeps its decision."
        )
    if answer.why:
        say(f"{len(answer.decisions)} of {in_words(asked, 'decision')}: {answer.why}.")


@app.command()
def tell(
    name: Name,
    file: Annotated[
        str | None,
        typer.Argument(
            help="A CSV or JSONL file with decision_id or unit, reward, and metric where it is no reward; - for standard input."
        ),
    ] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="Without a file: whom one reward is of.")] = None,
    decision: Annotated[str | None, typer.Option("--decision", help="Or the id of its decision.")] = None,
    reward: Annotated[float | None, typer.Option("--reward", help="That one reward, or value of --metric.")] = None,
    metric: Metric = None,
    request_id: Request = None,
    strict: Annotated[bool, typer.Option("--strict", help=f"Exit with {NOT_ACCEPTED} if a row was not accepted.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record rewards or values of metrics. Each row is accepted, or reported as duplicate, conflict, unknown or invalid."""
    one = _one(unit, decision, reward)
    if one is not None and file is not None:
        raise ConfigError("Give a file, or one reward with --reward, not both.")
    experiment = opened(db, name)
    rows = one if one is not None else read_rewards(file or "-", [m.name for m in experiment.spec.metrics], metric)
    groups = by_metric(rows, metric)
    told = _told(experiment, groups, request_id if rows else None)  # the id of an empty file can still be told something
    if as_json:
        print_json(told._asdict())
    elif not rows:
        say(f"Nothing was told: {'standard input' if file in (None, '-') else f'the file {file}'} has no rows.")
    else:
        outcomes = ("accepted", "duplicate", "conflict", "unknown", "invalid")
        without = experiment.status()["without_reward"]
        say(
            ", ".join(f"{getattr(told, outcome)} {outcome}" for outcome in outcomes)
            + f"; {in_words(without, 'decision')} without a reward."
        )
        for outcome, ids in told.ids.items():
            shown = ", ".join(f"{i[0]} ({i[1]})" if isinstance(i, list) else str(i) for i in ids[:10])
            say(f"{outcome}: {shown}{f' and {len(ids) - 10} more' if len(ids) > 10 else ''}")
        if told.conflict:
            say("A conflict has another value, was cancelled, or is part of a total: it is as it was. `correct` replaces a value.")
        for warning in told.warnings:
            say(f"WARNING: {warning}")
    refused = told.conflict + told.unknown + told.invalid
    if not rows or (refused and (strict or not told.accepted + told.duplicate)):
        raise typer.Exit(NOT_ACCEPTED)


def _one(unit: str | None, decision: str | None, reward: float | None) -> list[Any] | None:
    """The row that options give; None where they give none."""
    if unit is None and decision is None and reward is None:
        return None
    if reward is None or (unit is None) == (decision is None):
        raise ConfigError("One reward is told with --reward and either --unit or --decision, as: --unit ann --reward 1.")
    return [{"reward": reward} | ({"decision_id": decision} if unit is None else {"unit": unit})]


def _told(experiment: Experiment, groups: dict[str | None, list[Any]], request_id: str | None) -> Told:
    """Tell the rows of each metric in a transaction of its own, and add up what became of them."""
    from ...live.metrics.definition import metric_named
    from ...live.metrics.objective import refuse_rewards

    for metric in groups:  # refused before anything is written
        if metric is None:
            refuse_rewards(experiment.spec)
        else:
            metric_named(experiment.spec, metric)
    several = len(groups) > 1
    answers = [
        experiment.tell(rows, f"{request_id}:{metric}" if several and request_id and metric else request_id, metric=metric)
        for metric, rows in groups.items()
    ]
    outcomes = ("accepted", "duplicate", "conflict", "unknown", "invalid")
    sums = {outcome: sum(getattr(one, outcome) for one in answers) for outcome in outcomes}
    ids = {outcome: some for outcome in outcomes if (some := [i for one in answers for i in one.ids.get(outcome, [])])}
    loud = tuple(dict.fromkeys(warning for one in answers for warning in one.warnings))
    return answers[-1]._replace(ids=ids, warnings=loud, **sums)


@app.command("tell-aggregate")
def tell_aggregate(
    name: Name,
    arm: Annotated[str, typer.Option(help="The arm.")],
    count: Annotated[int, typer.Option(help="How many rewards the totals are of.")],
    request_id: Annotated[str, typer.Option("--request-id", help="The same id again counts once.")],
    total: Annotated[float | None, typer.Option(help="The sum of the rewards.")] = None,
    total_of_squares: Annotated[float | None, typer.Option(help="The sum of their squares.")] = None,
    positive: Annotated[int | None, typer.Option(help="How many are above zero.")] = None,
    total_of_logs: Annotated[float | None, typer.Option(help="The sum of the logarithms of those above zero.")] = None,
    total_of_squared_logs: Annotated[float | None, typer.Option(help="The sum of the squares of those logarithms.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record totals of an arm, for models whose posterior needs no more."""
    told = opened(db, name).tell_aggregate(
        arm,
        count,
        request_id=request_id,
        total=total,
        total_of_squares=total_of_squares,
        positive=positive,
        total_of_logs=total_of_logs,
        total_of_squared_logs=total_of_squared_logs,
    )
    if as_json:
        print_json(told._asdict())
    else:
        say(f"{told.accepted} accepted; {in_words(told.awaited, 'reward')} of this batch awaited.")


@app.command()
def expose(
    name: Name,
    decision: Annotated[list[str] | None, typer.Argument(help="Decision ids.")] = None,
    unit: Annotated[list[str] | None, typer.Option("--unit", help="Or whom the decision was for; repeatable.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record that decisions were carried out, in an experiment that learns only from those."""
    if not decision and not unit:
        raise ConfigError("Name what was carried out: decision ids, or --unit.")
    count = opened(db, name).expose(decision or [], units=unit or [])
    done(as_json, {"exposed": count}, f"{in_words(count, 'exposure')} recorded.")


@app.command()
def refresh(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Close the batch with the rewards that are in.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the rewards and write a new policy version, when the batch is complete."""
    from ...live.learning import chains_in_words

    experiment = opened(db, name)
    answer = experiment.refresh(force=force, progress=False if as_json else None)
    if as_json:
        print_json(answer._asdict())
    elif answer.refreshed and answer.in_use:
        chains = chains_in_words(answer.diagnostics)
        say(f"Policy version {answer.version} is in use; batch {answer.batch} is open.{' ' + chains if chains else ''}")
    else:
        now = "" if answer.refreshed or force or not str(answer.why).startswith("batch ") else " `--force` closes it now."
        say(f"{'Not used' if answer.refreshed else 'Not refreshed'}: {answer.why}.{now}")
    if not answer.refreshed:
        raise typer.Exit(WAITS)
