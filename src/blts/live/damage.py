"""What was changed outside of blts: noticed when it is read, and said in a sentence that names `verify`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import BltsError, StoreError

if TYPE_CHECKING:
    from .session import Session

Function = TypeVar("Function", bound=Callable[..., Any])


class Damaged(StoreError):
    """Rows that are not as they were written.

    Args:
        what: what is wrong, as a clause.
        name: of the experiment, where it is known.
    """

    def __init__(self, what: str, name: str = "NAME"):
        super().__init__(f"The database was changed outside of blts: {what}; see: blts experiment verify {name}.")
        self.what = what


@contextlib.contextmanager
def noticed(session: Session) -> Iterator[None]:
    """Say so where code fails because of what is stored; an error with another reason is raised as it is."""
    try:
        yield
    except (BltsError, MemoryError):
        raise
    except Exception as error:  # rows that blts does not write can fail anywhere
        from .verify import differences

        found = differences(session, replayed=False)
        if not found and isinstance(error, OverflowError):  # a count near the largest number, which only a replay knows to be wrong
            found = differences(session)
        if not found:
            raise
        raise Damaged(found[0], session.name) from error


def notices(function: Function) -> Function:
    """A method of an experiment, or a function whose first argument is one, that says so where what is stored makes it fail."""

    @functools.wraps(function)
    def careful(experiment: Any, *args: Any, **kwargs: Any) -> Any:
        with noticed(experiment.session):
            return function(experiment, *args, **kwargs)

    return cast(Function, careful)
