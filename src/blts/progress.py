"""How far long work has come: a bar in terminals and notebooks, and nothing in pipes and files."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import ConfigError

PATIENCE = 1.0
"""Seconds after which a bar is shown: what is done sooner needs none."""


def wanted(show: bool | None) -> bool:
    """Whether progress is shown.

    Args:
        show: True or False; None for where a person looks: a terminal or a notebook.

    Returns:
        Whether it is.

    Raises:
        ConfigError: it is none of these.

    >>> from blts.progress import wanted
    >>> wanted(True), wanted(False)
    (True, False)
    """
    if show is None:
        return sys.stderr.isatty() or in_notebook()
    if not isinstance(show, bool):
        raise ConfigError(f"progress must be True, False or None; got {show!r}.")
    return show


def in_notebook() -> bool:
    """Whether a person looks at a notebook rather than at a terminal.

    Returns:
        Whether this process is the kernel of one.

    >>> from blts.progress import in_notebook
    >>> in_notebook()
    False
    """
    return "ipykernel" in sys.modules and not sys.stderr.isatty()


class CellLine:
    """A line in the output of a notebook's cell that changes in place. (The bars of rich need ipywidgets there.)"""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str) -> None:
        """Show it, or change it.

        Args:
            text: what it says.
        """
        from IPython.display import display  # type: ignore[import-not-found]

        content = {"text/plain": text}
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)

    def end(self) -> None:
        """Leave nothing, if anything was shown."""
        if self.handle is not None:
            self.show("")


def columns() -> list[Any]:
    """What all bars show: words, a bar, how many of how many, and the time that went by and that is left.

    Returns:
        Columns of `rich.progress`.

    >>> from blts.progress import columns
    >>> len(columns())
    5
    """
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]


@contextmanager
def bar(words: str, total: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, or a line in a notebook, for work that is done in parts.

    Args:
        words: what is done.
        total: how much of it there is.
        show: see `wanted`.

    Returns:
        A context manager, whose value is called with how much was done since it was last called.

    >>> from blts.progress import bar
    >>> with bar("replications", 100, show=False) as advance:
    ...     advance(100)
    """
    if not wanted(show):
        yield lambda amount: None
        return
    if in_notebook():
        with _counted(words, total) as advance_line:
            yield advance_line
        return
    from rich.console import Console
    from rich.progress import Progress

    drawn = Progress(*columns(), console=Console(stderr=True), transient=True)
    task, began = drawn.add_task(words, total=total), time.perf_counter()

    def advance(amount: int) -> None:
        drawn.update(task, advance=amount)
        if not drawn.live.is_started and time.perf_counter() - began > PATIENCE:
            drawn.start()

    try:
        yield advance
    finally:
        drawn.stop()


@contextmanager
def _counted(words: str, total: int) -> Iterator[Callable[[int], None]]:
    """`bar` in a notebook."""
    line, began, done = CellLine(), time.perf_counter(), 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        took = time.perf_counter() - began
        if took > PATIENCE and done:
            line.show(f"{words} {done}/{total}, {took:.0f} s, {took * (total - done) / done:.0f} s left")

    try:
        yield advance
    finally:
        line.end()


@contextmanager
def working(words: str, show: bool | None = None) -> Iterator[None]:
    """A moving sign on standard error, or a line in a notebook, for work that has no parts.

    Args:
        words: what is done.
        show: see `wanted`.

    Returns:
        A context manager.

    >>> from blts.progress import working
    >>> with working("refreshing", show=False):
    ...     pass
    """
    if not wanted(show):
        yield
        return
    if in_notebook():
        line = CellLine()
        start, stop = lambda: line.show(f"{words} …"), line.end
    else:
        from rich.console import Console

        status = Console(stderr=True).status(words)
        start, stop = status.start, status.stop
    timer = threading.Timer(PATIENCE, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        stop()
