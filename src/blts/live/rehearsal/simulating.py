"""An experiment rehearsed: its very specification, many times, with assumed arms, in memory.

A rehearsal goes through time in steps. In each, the units that arrived get decisions, the rewards and values of metrics that are
due are told, and the worker refreshes what is due and does what guardrails and the stopping rule ask for (`acting`). Once in a
while somebody reads a report, which may name a winner. Decisions, refreshes, reports and the rules of when and from what are the
functions that experiments run (`policy`, `learning`, `closing`, `conclusions`, `metrics`), so an experiment with a replication's
seed that is driven through the same steps makes the same decisions. Here all replications of a block make a step at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ...errors import whole
from ...models import Model
from .. import policy, priors, releases
from ..closing import Closed, by_cadence, next_began
from ..learning import empty_dtype
from ..ledger import NO_REWARDS, Fold, Rewards
from ..parts import single_model
from ..private import Privacy
from ..spec import Spec
from . import acting
from .planning import Plan, plan_of, world
from .results import Rehearsal
from .rules import Stops, guardrails_of
from .versions import BLOCKS, Batch, Versions

AT_ONCE = 2e7  # rewards in memory
WinnerRule = Callable[[Model, np.ndarray, np.ndarray, tuple[int, ...]], int | None]
"""(model, arms, rewards, active arms) -> the arm that somebody who sees these rewards names the best, or None."""


def rehearse(
    spec: Spec,
    truth: Mapping[str, object],
    *,
    units: int,
    per_day: float = 500.0,
    delay: str | float | Sequence[float] | None = None,
    replications: int = 200,
    seed: int = 0,
    exposed: float = 1.0,
    step: str | float | None = None,
    report_every: str | float = "1d",
    metrics: Mapping[str, object] | None = None,
    start: str | float | None = None,
    winner_of: WinnerRule | None = None,
) -> Rehearsal:
    """Simulate an experiment before it is created.

    Args:
        spec: of the experiment. Its seed is not used: every replication has its own.
        truth: what each arm is assumed to earn: a rate for conversions ("0.1"), a mean and a spread for numbers ("50±20"), a mean
            for counts, buyers and what they spend for revenue ("0.1x40±15"), or an `AssumedArm`.
        units: how many units arrive.
        per_day: how many of them a day, evenly.
        delay: after which rewards come: "exponential 6h", "fixed 1d", "empirical FILE", seconds, or None for at once. Where the
            specification has a default reward, units that earn just that are silent.
        replications: how many experiments are simulated.
        seed: the same gives the same numbers.
        exposed: the share of decisions that are carried out, where exposure is explicit.
        step: of time; by default a 480th of the experiment.
        report_every: how often a report is read and may name a winner; one is also read when the last window has passed.
        metrics: what is assumed of the specification's metrics: for each name what all arms have, or a mapping with what each arm
            has, written as in `truth`. A metric that is left out is the same for all arms (`assumptions.UNSTATED`).
        start: when the experiment begins, for a stopping rule with a date: a date or time, or seconds since 1970; by default now.
        winner_of: who names a winner when a report is read; by default the report. Stopping rules heed reports in any case.

    Returns:
        What happened, with Monte Carlo standard errors.

    Raises:
        ConfigError: an arm is not assumed or cannot be, or a number is out of range.

    >>> from blts.live import Spec, rehearse
    >>> spec = Spec.of(["A", "B"], "bernoulli", batching={"name": "fixed", "size": 50})
    >>> rehearse(spec, {"A": 0.1, "B": 0.9}, units=200, replications=4).refreshes.tolist()
    [4, 4, 4, 4]
    """
    plan = plan_of(
        spec,
        truth,
        units,
        per_day=per_day,
        delay=delay,
        seed=seed,
        exposed=exposed,
        step=step,
        report=report_every,
        metrics=metrics,
        start=start,
    )
    whole("replications", replications, 2, 100_000)
    size = max(1, min(replications, int(AT_ONCE / (units * len(plan.arms) * (1 + len(plan.metrics))))))
    blocks = [run(plan, range(r, min(r + size, replications)), winner_of).outcome() for r in range(0, replications, size)]
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in Outcome._fields if name != "acts"}
    acts = acting.Acts(*(np.concatenate([getattr(block.acts, name) for block in blocks]) for name in acting.Acts._fields))
    return Rehearsal(
        specification=f"{spec.model.words}, {spec.sampler.words}, {spec.batching.words} batching",
        assumed=plan.in_words(),
        labels=[arm.label for arm in spec.arms],
        means=np.array([arm.mean for arm in plan.arms]),
        words=[arm.words for arm in plan.arms],
        units=units,
        edges=np.linspace(0, units, plan.bins + 1),
        strict=spec.strict,
        pauses=spec.stop is not None and spec.stop.action == "promote" and spec.stop.otherwise == "pause",
        stops=Stops.of(plan, acts),
        guardrails=guardrails_of(plan, acts),
        **columns,
    )


class Outcome(NamedTuple):
    """What became of some replications."""

    counts: np.ndarray
    """Decisions in each bin of units for each arm, [replications, bins, arms]."""
    refreshes: np.ndarray
    unused: np.ndarray
    """Refreshes that were kept out of use."""
    winner: np.ndarray
    """The arm that was named first; -1 where none was."""
    named_at: np.ndarray
    """After how many units; NaN where none was."""
    acts: acting.Acts
    """What the stopping rule and the guardrails did."""


def run(plan: Plan, replications: Sequence[int], winner_of: WinnerRule | None = None) -> Block:
    """Simulate some replications."""
    block, arrived, read, steps = Block(plan, replications), 0, 0.0, plan.steps()
    for i, (now, until) in enumerate(steps):
        block.step(now, arrived, until - arrived)
        arrived = until
        if now // plan.report > read or i == len(steps) - 1:
            read = now // plan.report
            block.read(now, arrived, winner_of)
    return block


class Block:
    """Some replications of an experiment, with the columns of its tables as arrays [replications, units]."""

    def __init__(self, plan: Plan, replications: Sequence[int]):
        self.plan, self.spec, self.labels = plan, plan.spec, [arm.label for arm in plan.spec.arms]
        self.explicit = self.spec.exposure == "explicit"
        worlds = [world(plan, r) for r in replications]
        self.offered, self.delays = np.stack([w.rewards for w in worlds]), np.stack([w.delays for w in worlds])
        self.carried_out = np.stack([w.exposed for w in worlds])
        self.values = {name: np.stack([w.metrics[name] for w in worlds]) for name in plan.metrics}
        R, U, K = self.offered.shape
        self.R, every = R, tuple(range(K))
        self.single = single_model(self.spec.model) if self.spec.prior is not None and self.spec.prior.learned else None
        self.keys = jnp.stack([policy.root_key(w.seed) for w in worlds])
        # Policies
        self.versions = {every: Versions(plan, every, self.keys)}
        """By the arms that they play."""
        self.versions[every].freeze(np.arange(R), self.versions[every].states)
        self.laws = [[self.versions[every].law(r, 0)] for r in range(R)]
        """What the agent of each replication has played, in order."""
        self.active: list[tuple[int, ...]] = [every] * R
        self.compared: list[tuple[int, ...]] = [every] * R
        """The arms that reports compare: the active ones, or of a stopped experiment those before."""
        # The tables
        self.arms, self.unit, self.at = np.zeros((R, U), np.int32), np.zeros((R, U), np.int32), np.zeros((R, U))
        self.p = np.zeros((R, U, K), empty_dtype())
        self.exposed, self.rewards, self.settled = np.full((R, U), np.nan), np.full((R, U), np.nan), np.zeros((R, U), bool)
        self.entered = np.full((R, U), np.nan)
        self.earned, self.comes = np.zeros((R, U)), np.full((R, U), np.inf)
        self.measured = {name: np.full((R, U), np.nan) for name in plan.metrics}
        self.measured_later = {name: (np.zeros((R, U)), np.full((R, U), np.inf)) for name in plan.metrics}
        """Values that come, and when."""
        # The row of each experiment
        self.t, self.began, self.closing = np.zeros(R, int), np.zeros(R, int), np.zeros(R, int)
        self.last_at, self.entries, self.version = np.zeros(R), np.zeros(R, int), np.ones(R, int)
        self.paused, self.stopped = np.zeros(R, bool), np.zeros(R, bool)
        self.released = [releases.Totals()] * R
        """What was released so far, where refreshes are private."""
        self.covered = [np.zeros(0, bool)] * R
        """Of the decisions that there were at the last refresh, whether it covered them."""
        self.peppers = [f"rehearsal {w.seed}" for w in worlds]
        self.learned: list[Rewards | None] = [NO_REWARDS] * R
        """What the last version learned from."""
        self.prior_from: list[Rewards | None] = [None] * R
        """What the version in use has learned its prior from."""
        self.failed: list[list[str]] = [[] for _ in range(R)]
        self.last_t, self.repeat = np.full(R, -1), np.zeros(R, int)
        self.refreshes, self.unused = np.zeros(R, int), np.zeros(R, int)
        self.winner, self.named_at = np.full(R, -1), np.full(R, np.nan)
        self.worker = acting.Worker(self)

    def step(self, now: float, first: int, n: int) -> None:
        """The units from `first` on get decisions, rewards are told, and the worker refreshes and acts. Where the experiment is
        strict and was refreshed, the units that got no decision ask again; what then gets none goes without."""
        left, again = np.full(self.R, n), np.ones(self.R, bool)
        while again.any():
            got = self._ask(now, first + n - left, np.where(again, left, 0))
            self._tell(now)
            left = left - got
            refreshed = self._refresh(now, again)
            self.worker.round(now, first + n)
            again &= refreshed & (left > 0)

    def _ask(self, now: float, first: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """Decisions for up to so many units of each replication; how many there were."""
        got = np.zeros(self.R, int)
        while True:
            some = np.minimum(limits - got, policy.SIZES[-1])
            some[(self.closing > 0) & self.spec.strict] = 0
            some[self.paused] = 0
            if not some.any():
                return got
            for active, versions in self.versions.items():
                mine = np.where([a == active for a in self.active], some, 0)
                if mine.any():
                    got += self._decide(now, versions, mine, first + got)

    def _decide(self, now: float, versions: Versions, limits: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Decisions by some versions, for the units from `first` on; how many there were."""
        arms, p, closes, count = versions.decide(limits)
        r, j = np.nonzero(np.arange(arms.shape[1]) < count[:, None])
        place, unit, arm = self.t[r] + j, first[r] + j, arms[r, j]
        self.arms[r, place], self.unit[r, place], self.at[r, place], self.p[r, place] = arm, unit, now, p[r, j]
        out, comes = self.carried_out[r, unit], now + self.delays[r, unit]
        self.exposed[r, place] = np.where(out, now, np.nan)
        tables = [(self.earned, self.comes, self.offered, self.spec.default_reward)]
        tables += [(*self.measured_later[m.name], self.values[m.name], m.default) for m in self.spec.metrics]
        for value, when, offered, default in tables:  # silence is worth the default
            mine = offered[r, unit, arm]
            value[r, place] = mine
            when[r, place] = np.where(~out if default is None else ~out | (mine == default), np.inf, comes)
        closes &= np.arange(arms.shape[1]) < count[:, None]
        ends = closes.any(1) & (self.closing == 0)
        self.closing = np.where(ends, self.t + 1 + closes.argmax(1), self.closing)
        self.t = self.t + count
        return count

    def _tell(self, now: float) -> None:
        """The rewards and the values of metrics that have come."""
        upto = self.t.max(initial=0)
        told = self.comes[:, :upto] <= now
        r, place = np.nonzero(told)
        self.rewards[r, place], self.settled[r, place], self.comes[r, place] = self.earned[r, place], True, np.inf
        self.entered[r, place] = now
        self.entries += told.sum(1)
        for name, (value, when) in self.measured_later.items():
            r, place = np.nonzero(when[:, :upto] <= now)
            self.measured[name][r, place], when[r, place] = value[r, place], np.inf

    def _closed(self, r: int, now: float) -> Closed:
        columns = (
            column[r, : self.t[r]] for column in (self.arms, self.at, self.exposed, self.rewards, self.settled, self.entered)
        )
        arms, at, exposed, rewards, settled, entered = columns
        return Closed.at(self.spec, Fold(0, 0, arms, at, exposed, rewards, settled, entered=entered), now)

    def _refresh(self, now: float, some: np.ndarray) -> np.ndarray:
        """Refresh those of some replications for which it is due; which those were."""
        chosen: list[tuple[int, Rewards]] = []
        for r in np.flatnonzero(some).tolist():
            due = self.closing[r] > 0
            if not due and not by_cadence(self.spec, now - self.last_at[r], int(self.entries[r])):
                continue
            closed = self._closed(r, now)
            if due and closed.awaited(self.began[r], self.closing[r]):
                continue
            rows, silent, before = closed.rows(self.explicit), closed.silent(), self.learned[r]
            if self.spec.privacy is not None:
                rows, before = releases.new_rows(rows, self.covered[r]), NO_REWARDS
            same = before is not None and np.array_equal(rows.t, before.t) and np.array_equal(rows.rewards, before.rewards)
            if not due and same:
                continue
            if self.spec.default_reward is not None:
                self.rewards[r, silent] = self.spec.default_reward
            self.settled[r, silent] = True
            if self.spec.privacy is not None:
                self._release(self.spec.privacy, r, rows, now)
                self.covered[r] = closed.over
            chosen.append((r, rows))
        for active, versions in self.versions.items():
            mine = [(r, rows) for r, rows in chosen if self.active[r] == active]
            for start in range(0, len(mine), BLOCKS[-1]):
                self._learn(versions, mine[start : start + BLOCKS[-1]])
        done = np.array([r for r, _ in chosen], int)
        self.began[done] = [next_began(bool(self.closing[r] > 0), int(self.closing[r]), int(self.t[r])) for r, _ in chosen]
        self.closing[done], self.entries[done], self.last_at[done] = 0, 0, now
        for versions in self.versions.values():
            versions.clock = versions.clock._replace(due=self.closing > 0)
        refreshed = np.zeros(self.R, bool)
        refreshed[done] = True
        return refreshed

    def _release(self, said: Privacy, r: int, new: Rewards, now: float) -> None:
        """Release the new rows of a replication, with noise of its own."""
        active, t = self.active[r], int(self.t[r])
        arms = releases.Arms(active, [self.labels[i] for i in active], self.versions[active].built.agent)
        limits = releases.Limits(0, t, now - (self.spec.window or 0.0))
        made = releases.step(self.peppers[r], said, arms, self.released[r], new, limits, int(self.version[r]) + 1)
        self.released[r] = made.totals

    def _learn(self, versions: Versions, chosen: Sequence[tuple[int, Rewards]]) -> None:
        """New versions of some replications, used where they are sound."""
        self.repeat = np.where(self.last_t == self.t, self.repeat, 0)
        batches = [Batch(r, rows, int(self.t[r]), int(self.repeat[r]), self.released[r]) for r, rows in chosen]
        failed = versions.learn(batches)
        for (r, rows), why in zip(chosen, failed, strict=True):
            self.repeat[r] += 1
            self.last_t[r] = self.t[r]
            self.refreshes[r] += 1
            self.version[r] += 1
            self.learned[r], self.failed[r] = rows, why
            if why:
                self.unused[r] += 1
            else:
                self.prior_from[r] = rows
                self.laws[r].append(versions.law(r, int(self.t[r])))

    def rearm(self, r: int, now: float, active: tuple[int, ...]) -> None:
        """Other arms of a replication from now on, in a policy version of its own."""
        if active not in self.versions:
            self.versions[active] = Versions(self.plan, active, self.keys)
        self.version[r] += 1
        rows = self.prior_from[r]
        prior = {} if self.single is None or rows is None else priors.fitted(self.single, rows.arms, rows.rewards)
        self.versions[active].take(r, self.versions[self.active[r]], prior, int(self.version[r]))
        self.laws[r].append(self.versions[active].law(r, int(self.t[r])))
        self.active[r] = self.compared[r] = active
        self.last_at[r], self.learned[r] = now, None

    def stop(self, r: int, now: float, arm: int) -> None:
        """Stop a replication with an arm, which all further units get."""
        before = self.compared[r]
        self.rearm(r, now, (arm,))
        self.compared[r], self.stopped[r] = before, True

    def read(self, now: float, arrived: int, winner_of: WinnerRule | None) -> None:
        """Somebody reads the reports of those that have named nobody yet."""
        for r in np.flatnonzero(self.winner < 0).tolist():
            named = self._named(r, now, winner_of)
            if named is not None:
                self.winner[r], self.named_at[r] = named, arrived

    def _named(self, r: int, now: float, winner_of: WinnerRule | None) -> int | None:
        """The winner that a report on a replication names."""
        if winner_of is None:
            label = acting.report(self, r, now, winner_only=True)["winner"]
            return None if label is None else self.labels.index(label)
        active = self.compared[r]
        plays = np.bincount(self.arms[r, : self.t[r]], minlength=len(self.labels))
        data = acting.counting(self, r, now)
        if plays[list(active)].min() < self.spec.burn_in or not len(data.arms):
            return None
        return winner_of(acting.model_of(self, active, data), data.arms, data.rewards, active)

    def outcome(self) -> Outcome:
        bins = self.plan.bins
        counts = np.zeros((self.R, bins, len(self.labels)), int)
        r, place = np.nonzero(np.arange(self.plan.units) < self.t[:, None])
        np.add.at(counts, (r, self.unit[r, place] * bins // self.plan.units, self.arms[r, place]), 1)
        return Outcome(counts, self.refreshes, self.unused, self.winner, self.named_at, self.worker.acts)
