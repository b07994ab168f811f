"""`blts list`: everything that has a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..registry import Entry

KINDS = {
    "environment": "environments",
    "agent": "agents",
    "batching": "batching",
    "stopping rule": "stopping rules",
    "sampler": "samplers",
    "model": "models",
    "method": "published methods",
    "feedback": "feedback",
}


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show every environment, agent, batching scheme, sampler, model, prior and published method by name.

    Those of other installed packages are marked with the package; packages that cannot be used are named on standard error.
    """
    from ..problems import PRIORS
    from ..registry import OWN, entries, unusable_parts

    found = {heading: [shown(entry) for entry in entries(kind).values()] for kind, heading in KINDS.items()}
    found["priors"] = [{"name": name, "summary": summary, "options": {}, "package": OWN} for name, summary in PRIORS.items()]
    for sentence in unusable_parts():
        typer.echo(f"blts: {sentence}", err=True)
    if as_json:
        typer.echo(json.dumps(found, default=str))
        return
    from rich.console import Console

    console = Console()
    for heading, items in found.items():
        console.print(named(heading.capitalize(), items))
        console.print()


def shown(entry: Entry) -> dict[str, Any]:
    """What is printed of a registered part, without fields of a class that are None: no text stands for their objects."""
    options = {name: value for name, value in entry.options().items() if value is not None or not isinstance(entry.builder, type)}
    return {"name": entry.name, "summary": entry.summary, "options": options, "package": entry.package}


def named(heading: str, items: list[dict]) -> Any:
    """A table of names, what they are, and their options."""
    from rich.markup import escape
    from rich.table import Table

    from ..registry import OWN

    table = Table(box=None, pad_edge=False, show_header=False, title=heading, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True, min_width=26)
    table.add_column()
    for item in items:
        options = ", ".join(f"{name}={value}" for name, value in item["options"].items())
        package = "" if item["package"] in ("", OWN) else f" [dim]from {escape(item['package'])}[/]"
        table.add_row(item["name"], escape(item["summary"]) + (f" [dim]({escape(options)})[/]" if options else "") + package)
    return table
