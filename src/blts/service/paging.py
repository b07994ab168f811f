"""Pages of lists that are short enough to be read as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import ConfigError, shown
from .bodies import Listing

T = TypeVar("T")


def paged(rows: Sequence[T], name: Callable[[T], str], which: Listing) -> tuple[list[T], str | None]:
    """A page of some rows.

    Args:
        rows: all of them.
        name: what a row is called.
        which: after which of them, and how many.

    Returns:
        Those rows, and the name of the last of them if there are more.

    Raises:
        ConfigError: there is no row of that name.
    """
    names = [name(row) for row in rows]
    if which.after is not None and which.after not in names:
        raise ConfigError(f"after must be the `next` of another page; got {shown(which.after)}.")
    first = 0 if which.after is None else names.index(which.after) + 1
    some = list(rows[first : first + which.limit])
    return some, name(some[-1]) if first + len(some) < len(rows) else None
