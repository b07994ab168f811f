"""Odd values for methods, commands and specifications, and how their failures are told."""

from __future__ import annotations

import datetime
import decimal
import fractions
import random
import traceback

import numpy as np

from blts.errors import shown


def nested(depth: int) -> list:
    out: list = []
    for _ in range(depth):
        out = [out]
    return out


TEXTS = (
    "", " ", "\x00", "a\x00b", "\ud800", "x\udfffy", "é", "中", "\u202e", "\ufeff", "a" * 201, "x" * 70_000, "nan", "inf",
    "-0", "1e400", "1_0", str(10**400), "true", "null", "[", "{", '"', "'", ";", "%s", "../x", "--help", "-1", "\n", "\r\n",
    "a,b", "=", "2026-01-01T00:00:00", "0000000000000000-1", "0000000000000000-0", "deadbeef-1", "١", "𝟏", "[bold]", "[/]",
    "\x1b[31m",
)  # fmt: skip
OBJECTS = (
    None, True, False, 0, -1, 1.5, float("nan"), float("inf"), -0.0, 1e-320, 1e31, 10**7, 2**63, 10**400, 10**5000, b"\xff",
    b"ab", [], {}, (), set(), [1], ["a", 1], ("a",), ("a", "b", "c"), {"a": 1}, {1: 2}, {"unit": 5, "reward": 1},
    {"unit": "\ud800", "reward": 1.0}, {"reward": 1}, object(), datetime.datetime(2026, 1, 1), datetime.date(1, 1, 1),
    decimal.Decimal("sNaN"), decimal.Decimal("1.5"), 1j, fractions.Fraction(1, 3), np.array([1.0]), np.array([1.0, 2.0]),
    np.float32(1), np.int64(3), np.nan, len, int, range(3), nested(5000), Ellipsis, lambda: 1,
)  # fmt: skip


class Chance(random.Random):
    """Odd values, and some that exist."""

    ids: tuple[str, ...] = ()
    units: tuple[str, ...] = ("ann", "bob", "cid")

    def text(self) -> str:
        kind = self.randrange(6)
        if kind == 0 and self.ids:
            return self.choice(self.ids)
        if kind == 1:
            return "".join(chr(self.choice((self.randrange(32, 127), self.randrange(0x110000)))) for _ in range(self.randrange(9)))
        if kind == 2 and self.ids:
            i = self.choice(self.ids)
            return self.choice(
                (i.upper(), i + "0", i[1:], " " + i, i.replace("-", "-0"), i.split("-")[0] + "-" + "9" * 18, i + "\n")
            )
        return self.choice((*self.units, *TEXTS))

    def value(self, depth: int = 0):
        kind = self.randrange(5)
        if kind == 0:
            return self.text()
        if kind == 1 and depth < 2:
            return [self.value(depth + 1) for _ in range(self.randrange(4))]
        if kind == 2 and depth < 2:
            keys = ("decision_id", "unit", "reward", "id", self.text())
            return {self.choice(keys): self.value(depth + 1) for _ in range(self.randrange(4))}
        if kind == 3:
            return self.choice((1.0, 0.5, -2.0, 3))
        return self.choice(OBJECTS)

    def maybe(self, good):
        """Something good, or something odd."""
        return good if self.random() < 0.6 else self.value()

    def row(self):
        decision, reward = self.maybe(self.choice(self.ids or ("x",))), self.maybe(self.uniform(-3, 3))
        whom = self.maybe(self.choice(self.units))
        return self.choice(
            ((decision, reward), {"decision_id": decision, "reward": reward}, {"unit": whom, "reward": reward}, self.value())
        )

    def size(self):
        """A number of decisions: small, or impossible. (A million would be granted.)"""
        odd = [x for x in OBJECTS if not isinstance(x, int | np.integer) or not 3 < x <= 1_000_000]
        return self.choice((1, 2, 3, None)) if self.random() < 0.7 else self.choice(odd)


def explained(what: str, given: object, error: BaseException) -> str:
    return f"{what} {shown(given)}: " + "".join(traceback.format_exception(error)[-3:])


def distinct(failed: list[str]) -> str:
    """One failure of each kind."""
    kinds = {failure[-200:]: failure for failure in failed}
    return f"{len(failed)} failures, {len(kinds)} kinds:\n\n" + "\n\n".join(kinds.values())
