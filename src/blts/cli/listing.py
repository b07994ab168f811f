"""`blts list`: everything that has a name."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

KINDS = {"environment": "environments", "agent": "agents", "batching": "batching", "model": "models", "method": "published methods"}


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show every environment, agent, batching scheme, model, prior and published method by name."""
    from ..problems import PRIORS
    from ..registry import entries

    found = {
        heading: [{"name": e.name, "summary": e.summary, "options": e.options()} for e in entries(kind).values()]
        for kind, heading in KINDS.items()
    }
    found["priors"] = [{"name": name, "summary": summary, "options": {}} for name, summary in PRIORS.items()]
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console

    console = Console()
    for heading, items in found.items():
        console.print(named(heading.capitalize(), items))
        console.print()


def named(heading: str, items: list[dict]) -> Any:
    """A table of names, what they are, and their options."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, title=heading, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True, min_width=26)
    table.add_column()
    for item in items:
        options = ", ".join(f"{name}={value}" for name, value in item["options"].items())
        table.add_row(item["name"], item["summary"] + (f" [dim]({options})[/]" if options else ""))
    return table
