"""`blts mdp`: the MDPs that have a name, and what is best in them."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer

from .simulate import options_of

app = typer.Typer(help="MDPs by name, and their optimal policies.", no_args_is_help=True)

SHOWN = 20  # states of a policy that are printed in a terminal


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show every MDP by name, with the options that `--set` can change."""
    from ..registry import entries
    from .listing import named, shown

    found = [shown(entry) for entry in entries("environment").values() if entry.about.get("mdp")]
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console

    Console().print(named("MDPs", found))


@app.command()
def solve(
    name: Annotated[str, typer.Argument(help="The MDP; `blts mdp list` shows all.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="An option, as name=value; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the optimal average reward, the policy that earns it, the span of its bias and the residual that certifies it."""
    from ..compilation import keep_programs

    options = options_of(set_ or [])
    keep_programs()
    from ..problems import optimum
    from ..registry import build, find

    entry = find("environment", name)
    if not entry.about.get("mdp"):
        from ..errors import ConfigError

        raise ConfigError(f"{name!r} is a bandit; `blts mdp list` shows the MDPs.")
    found = {"name": name} | entry.options() | options | optimum(lambda: build("environment", name, **options))
    if as_json:
        typer.echo(json.dumps({key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in found.items()}))
        return
    _show(found, entry.summary)


def _show(found: dict[str, Any], summary: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"[bold]{found['name']}[/]: {summary}")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", min_width=22)
    table.add_column()
    table.add_row("gain, a round", f"{found['gain']:.8g}")
    table.add_row("policy", _policy(found["policy"]))
    for key, label in (("span", "span of the bias"), ("residual", "certified to within")):
        if found[key] is not None:
            table.add_row(label, f"{found[key]:.4g}")
    console.print(table)


def _policy(policy: Any) -> str:
    if isinstance(policy, dict):
        return ", ".join(f"{name} {value:.6g}" for name, value in policy.items())
    if not isinstance(policy, list):
        return f"{policy:.6g}"
    shown = " ".join(map(str, policy[:SHOWN]))
    return shown + (f" … ({len(policy)} states)" if len(policy) > SHOWN else "")
