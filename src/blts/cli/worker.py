"""`blts worker`: looks after the experiments of a database."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from .experiment.base import Db, library
from .experiment.output import say

if TYPE_CHECKING:
    from ..live.worker import Done


def command(
    every: Annotated[float, typer.Option(help="Seconds between two rounds.", min=0.1)] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave, for a scheduler of your own.")] = False,
    while_stdin_is_open: Annotated[bool, typer.Option("--while-stdin-is-open", hidden=True)] = False,
    db: Db = None,
) -> None:
    """Refresh experiments when they are due, close windows, and keep every version's report. Two workers do no harm."""
    library()
    if while_stdin_is_open:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    from ..live.worker import Worker

    worker = Worker(db)
    try:
        if once:
            all_done = worker.once()
            for done in all_done:
                _say(done)
            if not all_done:
                say("Nothing was due.")
            if any(done.problem is not None for done in all_done):
                raise typer.Exit(2)
        else:
            say(f"Looking after the experiments of {worker.database.url.render_as_string()} every {every:g} s; Ctrl-C stops.")
            worker.run(every, _say)
    finally:
        worker.close()


def _end_with_stdin() -> None:
    """End this process when the one that started it is gone, which closes its standard input."""
    sys.stdin.buffer.read()
    os._exit(0)  # every change is one transaction, so it can end anywhere


def _say(done: Done) -> None:
    lines = [*done.others]
    if done.refreshed is not None:
        in_use = f"policy version {done.refreshed.version} is in use."
        lines.append(in_use if done.refreshed.in_use else f"{done.refreshed.why}.")
    if done.problem is not None:
        lines.append(done.problem)
    for line in [*lines, *done.did]:
        say(f"{done.experiment}: {line}")
