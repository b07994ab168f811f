"""The command line in words, from the commands themselves: what `blts … --help` says of each."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import typer

from blts import cli


def page(root: pathlib.Path) -> str:
    """Every command with its arguments and options.

    Args:
        root: of the repository; the commands are those of the imported package.

    Returns:
        Markdown below a page's title.
    """
    del root
    app = typer.main.get_command(cli.app)
    return "\n\n".join(part for name, command in _commands(app, "blts") for part in _written(name, command))


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if name != "blts":
        yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from _commands(below, f"{name} {part}")


def _written(name: str, command: Any) -> Iterator[str]:
    depth = len(name.split())
    yield f"{'#' * depth} {name}"
    yield (command.help or "").strip().replace("\n\n", "\n\n")
    if getattr(command, "commands", None):
        return
    context = command.make_context(name, [], resilient_parsing=True)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {pieces}\n```"
    records = [parameter.get_help_record(context) for parameter in command.params if not getattr(parameter, "hidden", False)]
    rows = [f"| `{left}` | {_cell(right)} |" for left, right in filter(None, records)]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[").replace("<", "\\<").replace("  \\[", " \\[")
