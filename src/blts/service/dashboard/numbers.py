"""Numbers, moments and texts as people read them."""

from __future__ import annotations

import datetime
import math
import re

from ...live.conclusions.words import probability
from ...live.durations import in_words

THIN = "\u202f"
"""The narrow space that does not break, before a per cent sign."""
NONE = "–"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that cannot be seen and change what is: controls, and marks that turn the direction of text."""


def visible(text: object) -> str:
    """A text in which every hidden character is shown as its number, so that it can deceive nobody.

    >>> visible("pay \\u202eme")
    'pay ⟨U+202E⟩me'
    """
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", str(text))


def short(text: object, longest: int = 28) -> str:
    """The beginning of a text, for where there is little room."""
    shown = visible(text)
    return shown if len(shown) <= longest else shown[: longest - 1].rstrip() + "…"


def count(n: float | None) -> str:
    """A whole number with separators of thousands."""
    return NONE if n is None else f"{n:,.0f}"


def plural(n: int, one: str, several: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "arm"), plural(1200, "decision")
    ('1 arm', '1,200 decisions')
    """
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def number(x: float | None, digits: int = 3) -> str:
    """A number with so many digits that matter, without an exponent unless it is very small or very large.

    >>> number(1234.5678), number(0.0123456), number(12.0)
    ('1,235', '0.0123', '12')
    """
    if x is None or not math.isfinite(x):
        return NONE
    if x == 0:
        return "0"
    size = math.floor(math.log10(abs(x)))
    if not -5 <= size < 12:
        return f"{x:.{digits - 1}e}".replace("-", "−")
    places = max(0, digits - 1 - size)
    text = f"{x:,.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def percent(x: float | None, digits: int = 3) -> str:
    """A share in per cent.

    >>> percent(0.17729), percent(1.0)
    ('17.7\\u202f%', '100\\u202f%')
    """
    return NONE if x is None or not math.isfinite(x) else f"{number(100 * x, digits)}{THIN}%"


def chance(p: float | None, error: float | None = None) -> str:
    """A probability of being best, never shown as 0 or 1."""
    if p is None or not math.isfinite(p):
        return NONE
    words = probability(p, error or 0.0)
    sign, _, digits = words.rpartition(" ")
    return f"{ {'': '', 'above': '> ', 'below': '< '}[sign] }{percent(float(digits))}"


def reward(x: float | None, unit: str) -> str:
    """A mean reward: in per cent where rewards are 0 or 1 (the unit "rate"), a plain number elsewhere."""
    return percent(x) if unit == "rate" else number(x)


def difference(x: float | None, unit: str, *, signed: bool = True) -> str:
    """A difference of two mean rewards; that of two rates is in percentage points."""
    if x is None or not math.isfinite(x):
        return NONE
    sign = ("+" if x > 0 else "") if signed else ""
    if unit != "rate":
        return f"{sign}{number(x)}"
    points = number(100 * x, 2)
    return f"{sign}{points} point{'' if points in ('1', '−1') else 's'}"


def relative(x: float | None) -> str:
    """A relative difference that is given in per cent, as reports do."""
    if x is None or not math.isfinite(x):
        return NONE
    return f"{'+' if x > 0 else ''}{number(x, 2)}{THIN}%"


def moment(at: float | None) -> str:
    """Seconds since 1970 as a date and time in UTC."""
    found = _date(at)
    if found is None:
        return NONE if at is None else f"{at:g} s"
    return f"{found.day} {found:%b %Y, %H:%M} UTC"


def iso(at: float | None) -> str:
    """The same for machines."""
    found = _date(at)
    return "" if found is None else found.strftime("%Y-%m-%dT%H:%M:%SZ")


def _date(at: float | None) -> datetime.datetime | None:
    try:
        return None if at is None else datetime.datetime.fromtimestamp(at, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return None


def ago(at: float | None, now: float) -> str:
    """How long ago a moment was, roughly.

    >>> ago(0, 7300), ago(100, 90), ago(0, 30)
    ('2 hours ago', 'just now', 'just now')
    """
    if at is None:
        return "never"
    passed = now - at
    if passed < -60:
        return f"in {_roughly(-passed)}"
    return "just now" if passed < 45 else f"{_roughly(passed)} ago"


def _roughly(seconds: float) -> str:
    for name, size, enough in (("year", 31_557_600, 1.5), ("month", 2_629_800, 2), ("day", 86_400, 1), ("hour", 3_600, 1)):
        if seconds >= enough * size:
            return plural(round(seconds / size), name)
    return plural(max(1, round(seconds / 60)), "minute")


def duration(seconds: float | None) -> str:
    """A duration in words."""
    return NONE if seconds is None else in_words(seconds)
