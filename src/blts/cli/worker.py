"""`blts worker`: looks after the experiments of a database."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from .experiment.base import Db, library
from .experiment.output import say

if TYPE_CHECKING:
    from ..live.worker import Done, Worker

NICE = 10  # it gives way to whoever answers requests on the same cores
PATIENCE = 5.0  # seconds in which leases are given back


def command(
    every: Annotated[float, typer.Option(help="Seconds between two rounds.", min=0.1)] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave, for a scheduler of your own.")] = False,
    while_stdin_is_open: Annotated[bool, typer.Option("--while-stdin-is-open", hidden=True)] = False,
    db: Db = None,
) -> None:
    """Refresh experiments when they are due, close windows, and keep every version's report. Two workers do no harm."""
    library()
    from ..live.worker import Worker

    with contextlib.closing(Worker(db)) as worker:
        _end_on_sigterm(worker)
        if while_stdin_is_open:
            threading.Thread(target=_end_with_stdin, args=(worker,), daemon=True).start()
        if once:
            all_done = worker.once()
            for done in all_done:
                _say(done)
            if not all_done:
                say("Nothing was due.")
            if any(done.problem is not None for done in all_done):
                raise typer.Exit(2)
        else:
            if sys.platform != "win32":
                os.nice(NICE)
            say(f"Looking after the experiments of {worker.database.url.render_as_string()} every {every:g} s; Ctrl-C stops.")
            worker.run(every, _say)


def _end_on_sigterm(worker: Worker) -> None:
    """End the process on SIGTERM, from a thread of its own: an exception might be raised where nobody lets it through."""

    def end(number: int, frame: object) -> None:
        del number, frame
        threading.Thread(target=_end, args=(worker,), daemon=True).start()

    signal.signal(signal.SIGTERM, end)


def _end_with_stdin(worker: Worker) -> None:
    """End this process when the one that started it is gone, which closes its standard input."""
    while os.read(sys.stdin.fileno(), 4096):  # not through a buffer, whose lock an interpreter that ends would want
        pass
    _end(worker)


def _end(worker: Worker) -> None:
    """Give the leases back and end; every change is one transaction, so it can end anywhere."""
    late = threading.Timer(PATIENCE, os._exit, (0,))  # where the database does not answer
    late.daemon = True
    late.start()
    worker.give_back()
    sys.stdout.flush()
    os._exit(0)


def _say(done: Done) -> None:
    lines = [*done.others]
    if done.refreshed is not None:
        in_use = f"policy version {done.refreshed.version} is in use."
        lines.append(in_use if done.refreshed.in_use else f"{done.refreshed.why}.")
    if done.problem is not None:
        lines.append(done.problem)
    for line in [*lines, *done.did]:
        say(f"{done.experiment}: {line}")
