"""`blts evaluate`: what each action of a log would have earned, always played."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..logged import Evaluation, Log, Value


def command(
    log: Annotated[str, typer.Argument(help="A .csv or .parquet file with a row for each decision.")],
    reward: Annotated[str, typer.Option(help="The column of rewards.")] = "reward",
    action: Annotated[str, typer.Option(help="The column of actions: whole numbers from 0, or labels.")] = "action",
    propensity: Annotated[
        str, typer.Option(help="The column of the probabilities that the actions had, or one number for all rows.")
    ] = "propensity",
    context: Annotated[list[str] | None, typer.Option(help="A column of the context, with numbers; repeatable.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate every constant action, and the policy that wrote the log, from a log of decisions."""
    from ..logged import constant_values, logged_value, read_log

    if not 0 < level < 1:
        raise ConfigError(f"--level must be between 0 and 1; got {level:g}.")
    found = read_log(log, reward=reward, action=action, propensity=_number_or_name(propensity), context=context or [])
    own, values = logged_value(found, level=level), constant_values(found, level=level)
    if as_json:
        typer.echo(json.dumps(_json(found, own, values)))
    else:
        _show(found, own, values, level)


def _number_or_name(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _json(log: Log, own: Value, values: dict[str, Evaluation]) -> dict[str, Any]:
    number = lambda x: x if not isinstance(x, float) or math.isfinite(x) else None  # noqa: E731
    value = lambda v: {name: number(x) for name, x in v._asdict().items()}  # noqa: E731
    arms = {
        label: {name: value(getattr(e, name)) for name in ("ipw", "snipw", "direct", "dr")}
        | {"effective_size": e.effective_size, "largest_weight": e.largest_weight, "warnings": e.warnings}
        for label, e in values.items()
    }
    return {"rows": len(log), "logged": value(own), "actions": arms}


def _show(log: Log, own: Value, values: dict[str, Evaluation], level: float) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    console.print(f"{len(log)} rows, {len(log.labels)} actions; value a row with {level:.0%} intervals")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("policy")
    for heading in ("plays", "IPW", "doubly robust", "effective"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("as logged", str(len(log)), _cell(own), _cell(own), str(len(log)))
    for (label, e), plays in zip(values.items(), log.plays, strict=True):
        table.add_row(escape(f"always {label}"), str(plays), _cell(e.ipw), _cell(e.dr), f"{e.effective_size:.0f}")
    console.print(table)
    for label, e in values.items():
        for why in dict.fromkeys(v.why for v in (e.ipw, e.dr) if v.why):
            console.print(f"always {label} has no interval: {why}.", style="dim", highlight=False, markup=False)
        for warning in e.warnings:
            console.print(f"WARNING: always {label}: {warning}", style="bold red", highlight=False, markup=False)


def _cell(value: Value) -> str:
    if not math.isfinite(value.value):
        return "–"
    return f"{value.value:.4f}" + (f" [{value.low:.4f}, {value.high:.4f}]" if not value.why else "")
