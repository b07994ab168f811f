"""What one caller asks for, checked before anything is read or stored."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigError, shown, whole
from .answers import Decision
from .checks import check_text
from .showing import Shown, shown_of
from .vectors import digest

if TYPE_CHECKING:
    from .session import Session

MOST_AT_ONCE = 1_000_000  # decisions of one request


class Request(NamedTuple):
    """What one caller asks for: n decisions, or one for each of some units."""

    n: int
    units: tuple[str, ...] | None
    """As they were given; only their hashes are stored."""
    hashes: tuple[str, ...]
    id: str | None
    shown: Shown | None = None
    """What each decision is shown; None without contexts."""
    actor: str | None = None
    """Who asks, for the audit log; None is whoever opened the experiment."""

    @property
    def what(self) -> str:
        """What the request is for, to refuse its id for something else."""
        shown = "" if self.shown is None else f" shown {digest(json.dumps(self.shown))}"
        if self.units is None:
            return f"ask {self.n}{shown}"
        return f"ask units {digest(chr(10).join(self.hashes))}{shown}"

    @property
    def masks(self) -> set[str]:
        """The labels that its masks name."""
        return set() if self.shown is None else {label for labels in self.shown.available for label in labels or ()}

    def kept(self, place: int, decision: Decision) -> Decision:
        """The decision of one of its units, which may be from before: with the unit, and whether this request has its arm."""
        mask = None if self.shown is None else self.shown.available[place]
        unit = None if self.units is None else self.units[place]
        return decision._replace(unit=unit, available=decision.available and (mask is None or decision.arm in mask))


def request_of(
    session: Session,
    n: int | None,
    units: Sequence[str] | None,
    request_id: str | None,
    contexts: Sequence[Mapping[str, Any]] | None = None,
    available: Sequence[Any] | None = None,
) -> Request:
    """Check what somebody asks for: n decisions, or one for each unit. Nothing is read or stored."""
    if units is None and n is None and isinstance(contexts, Sequence):
        n = len(contexts)
    if units is None:
        n = whole("n", 1 if n is None else n, 1, MOST_AT_ONCE)
        request = Request(n, None, (), request_id)
    else:
        given = tuple(_checked_units(units))
        if n is not None and whole("n", n, 1, MOST_AT_ONCE) != len(given):
            raise ConfigError("Give n, or units, which have one decision each, not both.")
        request = Request(len(given), given, tuple(unit_hash(session, unit) for unit in given), request_id)
    if request_id is not None:
        check_text("request_id", request_id)
    return request._replace(shown=shown_of(session.spec, contexts, available, request.n), actor=session.actor)


def _checked_units(units: Sequence[str]) -> Sequence[str]:
    if isinstance(units, str) or not isinstance(units, Sequence):
        raise ConfigError(f"units must be a list of texts, one for each unit; got {shown(units)}.")
    if not 1 <= len(units) <= MOST_AT_ONCE:
        raise ConfigError(f"A request has between 1 and {MOST_AT_ONCE} units; got {len(units)}.")
    for unit in units:
        check_text("A unit", unit)
    return units


def unit_hash(session: Session, unit: str) -> str:
    """What a unit is stored as: a hash keyed with the experiment's pepper."""
    return hmac.new(session.pepper.encode(), unit.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:32]
