"""The round of an experiment: `ask`, `tell`, `tell-aggregate`, `refresh`."""

from __future__ import annotations

from typing import Annotated

import typer

from .base import NOT_ACCEPTED, WAITS, AsJson, Db, Name, Request, app, opened
from .output import print_json, say, show_table
from .rewards import read_rewards


@app.command()
def ask(
    name: Name,
    n: Annotated[int, typer.Option("--n", help="How many decisions.")] = 1,
    request_id: Request = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Get decisions. They are stored before they are printed."""
    answer = opened(db, name).ask(n, request_id)
    if as_json:
        decisions = [
            {
                "decision_id": d.id,
                "id": d.id,
                "arm": d.arm,
                "batch": d.batch,
                "policy_version": d.policy,
                "propensities": d.propensities,
            }
            for d in answer.decisions
        ]
        print_json(
            {
                "decisions": decisions,
                "feedback_due": answer.feedback_due,
                "awaited": answer.awaited,
                "paused": answer.paused,
                "why": answer.why,
            }
        )
        return
    if answer.decisions:
        rows = [[d.id, d.arm, d.batch, d.policy, d.propensities[d.arm]] for d in answer.decisions]
        show_table(f"{name}: {len(rows)} decisions", ["decision_id", "arm", "batch", "policy", "propensity"], rows)
    if answer.why:
        say(f"{len(answer.decisions)} of {n} decisions: {answer.why}.")


@app.command()
def tell(
    name: Name,
    file: Annotated[str, typer.Argument(help="A CSV or JSONL file with decision_id and reward; - for standard input.")] = "-",
    request_id: Request = None,
    strict: Annotated[bool, typer.Option("--strict", help=f"Exit with {NOT_ACCEPTED} if a row was not accepted.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record rewards. Each row is accepted, or reported as duplicate, conflict, unknown or invalid."""
    rows = read_rewards(file)
    told = opened(db, name).tell(rows, request_id)
    if as_json:
        print_json(told._asdict())
    else:
        outcomes = ("accepted", "duplicate", "conflict", "unknown", "invalid")
        say(", ".join(f"{getattr(told, outcome)} {outcome}" for outcome in outcomes) + f"; {told.awaited} rewards are awaited.")
        for outcome, ids in told.ids.items():
            shown = ", ".join(f"{i[0]} ({i[1]})" if isinstance(i, list) else str(i) for i in ids[:10])
            say(f"{outcome}: {shown}{f' and {len(ids) - 10} more' if len(ids) > 10 else ''}")
        if told.why:
            say(f"Not used: {told.why}.")
    if strict and told.conflict + told.unknown + told.invalid:
        raise typer.Exit(NOT_ACCEPTED)


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
        say(f"{told.accepted} accepted; {told.awaited} rewards are awaited.")


@app.command()
def refresh(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Close the batch with the rewards that are in.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the rewards and write a new policy version, when the batch is complete."""
    from ...live.learning import chains_in_words

    done = opened(db, name).refresh(force=force)
    if as_json:
        print_json(done._asdict())
    elif done.refreshed and done.in_use:
        chains = chains_in_words(done.diagnostics)
        say(f"Policy version {done.version} is in use; batch {done.batch} is open.{' ' + chains if chains else ''}")
    else:
        say(f"{'Not used' if done.refreshed else 'Not refreshed'}: {done.why}.")
    if not done.refreshed:
        raise typer.Exit(WAITS)
