"""Private refreshes: rewards are released once, as noisy sums, and a policy is a function of these alone.

A version covers the decisions whose window was over at its cutoff, as far as the ledger had been read. Those that it covers and no
version before did are released with it: their rewards as they were then, summed for every active arm, with Gaussian noise. So a
reward is in one release. The noise is a function of the experiment's pepper and of the very rows that are released: a refresh that
is computed again is the same, and one of other rows has other noise. `blts.privacy` says what noise buys.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from .. import privacy
from .._typing import Tree
from ..agents import Agent, Exact, Private
from ..agents.beliefs.private import Released
from ..errors import StoreError
from . import schema
from .ledger import Fold, Rewards
from .private import Privacy

if TYPE_CHECKING:
    from .session import Session

DIGITS = 20
"""Released sums are multiples of a power of two, 2⁻²⁰ of the noise's sd at most. Without that, the last digits of a floating point
number would tell of the reward that noise was added to (Mironov 2012)."""
NOISE, DATA = b"\xff noise ", b"\xff data "
"""What keyed digests of releases begin with. No text in UTF-8 has the byte 0xff, so none is the digest of a unit."""


class Limits(NamedTuple):
    """How far a refresh had read, and which windows were over."""

    watermark: int
    known: int
    """Decisions that had been made."""
    cutoff: float
    """Decisions whose window began later are not covered."""

    @staticmethod
    def of(watermark: int, about: dict[str, Any]) -> Limits:
        """Those of a version that was written."""
        return Limits(watermark, about["known"], about["cutoff"])


def covered(fold: Fold, explicit: bool, cutoff: float) -> np.ndarray:
    """Which of the decisions of a fold a refresh covers; limits never decrease, so neither does this."""
    return fold.starts(explicit) <= cutoff


def new_rows(rows: Rewards, before: np.ndarray) -> Rewards:
    """The rows of a refresh that no earlier one covered.

    Args:
        rows: all that the refresh covers.
        before: of the decisions that there were at the last refresh, whether it covered them.

    Returns:
        Those that are released now, in the order of decisions.
    """
    old = np.zeros(max(len(before), int(rows.t.max(initial=0))), bool)
    old[: len(before)] = before
    mine = ~old[rows.t - 1]
    return Rewards(rows.t[mine], rows.arms[mine], rows.rewards[mine])


class Release(NamedTuple):
    """What one version makes public of the rewards that are new to it; nothing of an arm without any. By the labels of arms."""

    rows: dict[str, int]
    sums: dict[str, float]
    sd: float
    """Of their noise."""


class Totals(NamedTuple):
    """All that was released so far, by the labels of arms: what a policy is a function of."""

    releases: int = 0
    rows: dict[str, int] = {}  # noqa: RUF012
    worth: dict[str, float] = {}  # noqa: RUF012
    """How many rewards without noise the sums are worth."""
    sums: dict[str, float] = {}  # noqa: RUF012
    """Noisy sums, each multiplied by what a row of its release is worth."""

    def plus(self, release: Release, sd: Mapping[str, float]) -> Totals:
        """With one more release.

        Args:
            release: rows and noisy sums.
            sd: of the rewards of each arm, as the model says.

        Returns:
            The totals. A noisy sum of n rewards is N(nθ, n sd² + σ²), worth n/(1 + σ²/(n sd²)) rewards of its mean.
        """
        if not release.rows:
            return self
        rows, worth, sums = dict(self.rows), dict(self.worth), dict(self.sums)
        for label, n in release.rows.items():
            share = n * sd[label] ** 2 / (n * sd[label] ** 2 + release.sd**2)
            rows[label] = rows.get(label, 0) + n
            worth[label] = worth.get(label, 0.0) + share * n
            sums[label] = sums.get(label, 0.0) + share * release.sums[label]
        return Totals(self.releases + 1, rows, worth, sums)


class Step(NamedTuple):
    """A private refresh."""

    release: Release
    totals: Totals
    digest: str
    """Of the rewards that were released; keyed, because with another digest one could try out rewards."""

    @property
    def about(self) -> dict[str, Any]:
        """What a version says of itself: numbers that are released, and no others."""
        return {"release": self.release._asdict(), "totals": self.totals._asdict()}


class Arms(NamedTuple):
    """The active arms, in their order."""

    numbers: tuple[int, ...]
    """Among all there have been."""
    labels: list[str]
    agent: Agent

    @property
    def sd(self) -> dict[str, float]:
        """Of the rewards of each, as the model says."""
        model: Any = self.agent.model
        return dict(zip(self.labels, np.broadcast_to(np.asarray(model.sd, float), len(self.labels)).tolist(), strict=True))


def step(pepper: str, said: Privacy, arms: Arms, before: Totals, new: Rewards, limits: Limits, version: int) -> Step:
    """Release the sums of new rows: a pure function of the ledger and the pepper.

    Args:
        pepper: the experiment's.
        said: what is promised.
        arms: those that learn.
        before: what was released before.
        new: the rows that no earlier version covered.
        limits: of this refresh.
        version: the number that it gets.

    Returns:
        The release, and the totals with it.
    """
    if not pepper:
        raise StoreError("The secret that noise is made of, this experiment's pepper, is lost; restore the database from a backup.")
    digest = new.digest()
    what = json.dumps([version, limits.known, limits.cutoff, digest]).encode()
    clipped, rows, sums = np.clip(new.rewards, said.low, said.high), {}, {}
    grid = 2.0 ** (math.floor(math.log2(said.noise_sd)) - DIGITS)
    for arm, label in zip(arms.numbers, arms.labels, strict=True):
        mine = clipped[new.arms == arm]
        if len(mine):
            noisy = math.fsum(mine) + said.noise_sd * noise(pepper, what, arm)
            rows[label], sums[label] = len(mine), grid * round(noisy / grid)
    release = Release(rows, sums, said.noise_sd)
    return Step(release, before.plus(release, arms.sd), _keyed(pepper, DATA, digest.encode()).hex())


def _keyed(pepper: str, purpose: bytes, what: bytes) -> bytes:
    return hmac.new(pepper.encode(), purpose + what, hashlib.sha256).digest()


def noise(pepper: str, what: bytes, arm: int) -> float:
    """A standard normal number that nobody can compute without the pepper.

    Args:
        pepper: the experiment's.
        what: is released.
        arm: its number.

    Returns:
        The same number for the same release and arm, and an independent one for any other.
    """
    number = int.from_bytes(_keyed(pepper, NOISE, what + b" %d" % arm)[:8], "big") >> 11
    return NormalDist().inv_cdf((number + 0.5) / 2.0**53)


def memory(said: Privacy, arms: Arms, totals: Totals) -> Tree:
    """What the agent remembers after all releases so far, from which it learns; no reward is in it.

    Args:
        said: what is promised.
        arms: those that learn.
        totals: all that was released.

    Returns:
        Its memory.
    """
    rule: Any = Private(Exact(), **said._asdict())
    column = lambda of: jnp.asarray([of.get(label, 0) for label in arms.labels])  # noqa: E731
    released = Released(column(totals.worth) * 1.0, column(totals.sums) * 1.0, column(totals.rows), jnp.asarray(totals.releases))
    belief: Any = arms.agent.belief
    return belief.of_summaries(arms.agent.model, rule.summary(arms.agent.model, released))


# Where the budget stands


class Last(NamedTuple):
    """The last refresh of a private experiment, in use or not: what it covered is spent."""

    limits: Limits | None
    """None before the first."""
    totals: Totals
    not_learned: int
    """Entries about rewards that were released before, up to its watermark."""


def last(c: sa.Connection, experiment: int) -> Last:
    """The last refresh of an experiment, by its id."""
    made, log = schema.policies, schema.audit
    query = sa.select(made.c.watermark, made.c.about, log.c.detail).where(made.c.experiment == experiment, made.c.kind == "refresh")
    query = query.where(log.c.experiment == experiment, log.c.position == made.c.position)
    row = c.execute(query.order_by(made.c.version.desc()).limit(1)).first()
    if row is None:
        return Last(None, Totals(), 0)
    about = json.loads(row.about)
    return Last(Limits.of(row.watermark, about), Totals(**about["privacy"]["totals"]), json.loads(row.detail)["not_learned"])


def not_learned(c: sa.Connection, experiment: int, explicit: bool, found: Last, upto: int) -> int:
    """How many entries there are, up to a position of the ledger, about rewards that had been released: corrections, cancellations,
    and rewards that came late.

    Args:
        c: a connection.
        experiment: its id.
        explicit: whether windows begin with exposures.
        found: the last refresh.
        upto: the position.

    Returns:
        Their number.
    """
    limits, entry, began = found.limits, schema.rewards, schema.exposures if explicit else schema.decisions
    if limits is None:
        return 0
    same = sa.and_(began.c.experiment == entry.c.experiment, began.c.t == entry.c.t)
    query = sa.select(sa.func.count()).select_from(entry.join(began, same)).where(entry.c.experiment == experiment)
    query = query.where(entry.c.position > limits.watermark, entry.c.position <= upto, entry.c.t <= limits.known)
    query = query.where(began.c.at <= limits.cutoff)
    if explicit:
        query = query.where(began.c.position <= limits.watermark)
    return found.not_learned + c.execute(query).scalar_one()


def budget(session: Session, c: sa.Connection, position: int) -> dict[str, Any] | None:
    """What was spent so far, for `status` and reports; None where nothing is private.

    Args:
        session: the experiment.
        c: a connection.
        position: of the last entry of its ledger.

    Returns:
        A table that JSON can hold.
    """
    said = session.spec.privacy
    if said is None:
        return None
    found = last(c, session.id)
    late = not_learned(c, session.id, session.spec.exposure == "explicit", found, position)
    releases, rows = found.totals.releases, sum(found.totals.rows.values())
    return said._asdict() | {
        "epsilon": privacy.epsilon(said.rho),
        "delta": privacy.DELTA,
        "noise_sd": said.noise_sd,
        "releases": releases,
        "rows_released": rows,
        "not_learned": late,
        "words": in_words(said, releases, rows, late),
    }


def in_words(said: Privacy, releases: int, rows: int, late: int) -> str:
    """Where the budget stands, in sentences."""
    if not releases:
        return f"{said.guarantee} Nothing is released yet."
    many = "1 release was" if releases == 1 else f"{releases} releases were"
    spent = f"So far {many} made, of {rows} rewards in all, whose budget is spent"
    return f"{said.guarantee} {spent}; later entries about them, such as corrections, which are not learned from: {late}."
