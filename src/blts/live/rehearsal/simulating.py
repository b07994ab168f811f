"""An experiment rehearsed: its very specification, many times, with assumed arms, in memory.

A rehearsal goes through time in steps. In each, the units that arrived get decisions, the rewards that are due are told, and the
worker refreshes what is due; once in a while somebody reads a report and may name a winner. Decisions, refreshes and the rules of
when and from what are the functions that experiments run (`policy`, `learning`, `closing`), so an experiment with a replication's
seed that is driven through the same steps makes the same decisions. Here all replications of a block make a step at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Tree
from ...errors import whole
from .. import policy, priors
from ..closing import Closed, by_cadence, next_began
from ..conclusions.naming import WinnerRule, named_by_reports
from ..durations import in_words
from ..learning import capacity_for, diagnostics, empty_dtype, failings, learn_many
from ..ledger import NO_REWARDS, Fold, Rewards
from ..parts import single_model
from ..spec import Spec
from .planning import Plan, plan_of, world
from .results import Rehearsal

AT_ONCE = 2e7  # rewards in memory
BLOCKS = (8, 64)  # replications that are refreshed together: two compiled sizes


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
        winner_of: who names a winner; by default the rule of reports (P(best) and evidence against every other arm).

    Returns:
        What happened, with Monte Carlo standard errors.

    Raises:
        ConfigError: an arm is not assumed or cannot be, or a number is out of range.

    >>> from blts.live import Spec, rehearse
    >>> spec = Spec.of(["A", "B"], "bernoulli", batching={"name": "fixed", "size": 50})
    >>> rehearse(spec, {"A": 0.1, "B": 0.9}, units=200, replications=4).refreshes.tolist()
    [4, 4, 4, 4]
    """
    plan = plan_of(spec, truth, units, per_day=per_day, delay=delay, seed=seed, exposed=exposed, step=step, report=report_every)
    whole("replications", replications, 2, 100_000)
    size = max(1, min(replications, int(AT_ONCE / (units * len(plan.arms)))))
    rule = winner_of or named_by_reports
    blocks = [run(plan, range(r, min(r + size, replications)), rule).outcome() for r in range(0, replications, size)]
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in Outcome._fields}
    silence = spec.default_reward is not None
    return Rehearsal(
        specification=f"{spec.model.words}, {spec.sampler.words}, {spec.batching.words} batching",
        assumed=[
            f"{units} units, {per_day:g} a day; rewards come {plan.delay.words}"
            + (f", and units that earn {spec.default_reward:g} are silent" if silence else ""),
            f"in steps of {in_words(plan.step)}; a report is read every {in_words(plan.report)}"
            + (f", and {in_words(plan.patience)} after the last unit" if plan.patience else ""),
            *([f"{exposed:.0%} of the decisions are carried out"] if spec.exposure == "explicit" else []),
            *(
                [f"refreshes are stated every {in_words(often)} and rehearsed every step; give a shorter step"]
                if (often := spec.refresh_seconds) is not None and often < plan.step
                else []
            ),
        ],
        labels=[arm.label for arm in spec.arms],
        means=np.array([arm.mean for arm in plan.arms]),
        words=[arm.words for arm in plan.arms],
        units=units,
        edges=np.linspace(0, units, plan.bins + 1),
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


def run(plan: Plan, replications: Sequence[int], winner_of: WinnerRule) -> Block:
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
        self.plan, self.spec, self.built = plan, plan.spec, plan.built
        self.explicit = self.spec.exposure == "explicit"
        worlds = [world(plan, r) for r in replications]
        self.offered, self.delays = np.stack([w.rewards for w in worlds]), np.stack([w.delays for w in worlds])
        self.carried_out = np.stack([w.exposed for w in worlds])
        R, U, K = self.offered.shape
        self.R, self.active = R, tuple(range(K))
        agent, batching = self.built.agent, self.built.batching
        self.single = single_model(self.spec.model) if self.spec.prior is not None and self.spec.prior.learned else None
        self.agents = jax.tree.map(lambda x: np.array(np.broadcast_to(x, (R, *np.shape(x)))), agent)
        """Those of all replications, which differ in a prior that is learned."""
        self.keys = jnp.stack([policy.root_key(w.seed) for w in worlds])
        self.states = _host(jax.vmap(lambda key: policy.start(key, agent))(self.keys))
        self.laws, self.by_law = np.full((R, K), 1.0 / K, empty_dtype()), np.zeros(R, bool)
        self._freeze(np.arange(R), self.states)
        self.clock = _host(jax.vmap(lambda key: policy.start_clock(key, batching, K))(self.keys))
        # The tables
        self.arms, self.unit, self.at = np.zeros((R, U), np.int32), np.zeros((R, U), np.int32), np.zeros((R, U))
        self.exposed, self.rewards, self.settled = np.full((R, U), np.nan), np.full((R, U), np.nan), np.zeros((R, U), bool)
        self.earned, self.comes = np.zeros((R, U)), np.full((R, U), np.inf)
        # The row of each experiment
        self.t, self.began, self.closing = np.zeros(R, int), np.zeros(R, int), np.zeros(R, int)
        self.last_at, self.entries = np.zeros(R), np.zeros(R, int)
        self.learned: list[Rewards] = [NO_REWARDS] * R
        self.last_t, self.repeat = np.full(R, -1), np.zeros(R, int)
        self.refreshes, self.unused = np.zeros(R, int), np.zeros(R, int)
        self.winner, self.named_at = np.full(R, -1), np.full(R, np.nan)

    def step(self, now: float, first: int, n: int) -> None:
        """The units from `first` on get decisions, rewards are told, and the worker refreshes. Where the experiment is strict and
        was refreshed, the units that got no decision ask again; what then gets none goes without."""
        left, lanes = np.full(self.R, n), np.ones(self.R, bool)
        while lanes.any():
            got = self._ask(now, first + n - left, np.where(lanes, left, 0))
            self._tell(now)
            left = left - got
            lanes &= self._refresh(now, lanes) & (left > 0)

    def _ask(self, now: float, first: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """Decisions for up to so many units of each replication; how many there were."""
        got = np.zeros(self.R, int)
        while True:
            some = np.minimum(limits - got, policy.LARGEST)
            some[(self.closing > 0) & self.spec.strict] = 0
            if not some.any():
                return got
            arms, closes, count = self._decide(some)
            r, j = np.nonzero(np.arange(arms.shape[1]) < count[:, None])
            place, unit = self.t[r] + j, (first + got)[r] + j
            self.arms[r, place], self.unit[r, place], self.at[r, place] = arms[r, j], unit, now
            earned, out = self.offered[r, unit, arms[r, j]], self.carried_out[r, unit]
            silent = ~out if self.spec.default_reward is None else ~out | (earned == self.spec.default_reward)
            self.earned[r, place] = earned
            self.exposed[r, place] = np.where(out, now, np.nan)
            self.comes[r, place] = np.where(silent, np.inf, now + self.delays[r, unit])
            closes &= np.arange(arms.shape[1]) < count[:, None]
            ends = closes.any(1) & (self.closing == 0)
            self.closing = np.where(ends, self.t + 1 + closes.argmax(1), self.closing)
            self.t, got = self.t + count, got + count

    def _decide(self, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arms, whether the scheme closed the batch with each, and how many of them there are."""
        size, strict = policy.chunk_size(int(limits.max())), self.spec.strict
        frozen: Any = (self.states, self.laws, self.by_law)
        parts = self.agents, self.built.batching
        arms, closes = np.zeros((self.R, size), int), np.zeros((self.R, size), bool)
        count, before = np.zeros(self.R, int), self.clock
        for by_law in np.unique(self.by_law):
            mine = np.where(self.by_law == by_law, limits, 0).astype(np.int32)
            args: Any = (self.keys, *parts, policy.Frozen(*frozen), before, self.built.mixture, mine)
            clock, found = policy.decide_for_many(*args, size=size, strict=strict, by_law=bool(by_law))
            live = np.asarray(found.live)
            arms, closes = np.where(live, found.arms, arms), np.where(live, found.closes, closes)
            count += live.sum(1)
            some = self.by_law == by_law
            self.clock = jax.tree.map(lambda new, old, s=some: _where(s, np.asarray(new), old), clock, self.clock)
        return arms, closes, count

    def _tell(self, now: float) -> None:
        """The rewards that have come."""
        told = self.comes[:, : self.t.max(initial=0)] <= now
        r, place = np.nonzero(told)
        self.rewards[r, place], self.settled[r, place], self.comes[r, place] = self.earned[r, place], True, np.inf
        self.entries += told.sum(1)

    def _closed(self, r: int, now: float) -> Closed:
        columns = (column[r, : self.t[r]] for column in (self.arms, self.at, self.exposed, self.rewards, self.settled))
        return Closed.at(self.spec, Fold(0, 0, *columns), now)

    def _refresh(self, now: float, lanes: np.ndarray) -> np.ndarray:
        """Refresh those of some replications for which it is due; which those were."""
        chosen: list[tuple[int, Rewards]] = []
        for r in np.flatnonzero(lanes).tolist():
            due = self.closing[r] > 0
            if not due and not by_cadence(self.spec, now - self.last_at[r], int(self.entries[r])):
                continue
            closed = self._closed(r, now)
            if due and closed.awaited(self.began[r], self.closing[r]):
                continue
            rows, silent = closed.rows(self.explicit), closed.silent()
            if not due and np.array_equal(rows.t, self.learned[r].t) and np.array_equal(rows.rewards, self.learned[r].rewards):
                continue
            if self.spec.default_reward is not None:
                self.rewards[r, silent] = self.spec.default_reward
            self.settled[r, silent] = True
            chosen.append((r, rows))
        for start in range(0, len(chosen), BLOCKS[-1]):
            self._learn(chosen[start : start + BLOCKS[-1]])
        done = np.array([r for r, _ in chosen], int)
        self.began[done] = [next_began(bool(self.closing[r] > 0), int(self.closing[r]), int(self.t[r])) for r, _ in chosen]
        self.closing[done], self.entries[done], self.last_at[done] = 0, 0, now
        self.clock = self.clock._replace(due=self.closing > 0)
        for r, rows in chosen:
            self.learned[r] = rows
        refreshed = np.zeros(self.R, bool)
        refreshed[done] = True
        return refreshed

    def _learn(self, chosen: Sequence[tuple[int, Rewards]]) -> None:
        """New versions of some replications, used where they are sound."""
        m, agent = len(chosen), self.built.agent
        size, capacity = next(b for b in BLOCKS if b >= m), capacity_for(self.plan.units)
        arms, rewards = np.zeros((size, capacity), np.int32), np.zeros((size, capacity))
        count, lanes = np.zeros(size, np.int32), np.array([r for r, _ in chosen] + [chosen[0][0]] * (size - m))
        for i, (_, rows) in enumerate(chosen):
            n = count[i] = len(rows.t)
            arms[i, :n], rewards[i, :n] = rows.arms, rows.rewards
        self.repeat = np.where(self.last_t == self.t, self.repeat, 0)
        states = jax.tree.map(lambda x: x[lanes], self.states)
        agents = self._fitted(lanes, [rows for _, rows in chosen])
        rest = self.t[lanes].astype(np.int32), self.repeat[lanes].astype(np.int32)
        states, info = _host(learn_many(self.keys[lanes], agents, states, (arms, rewards, count), *rest))
        mine = lanes[:m]
        self.repeat[mine] += 1
        self.last_t[mine] = self.t[mine]
        self.refreshes[mine] += 1
        for i, r in enumerate(mine):
            one: Any = (jax.tree.map(lambda x, i=i: x[i], states), np.ones(1), False)
            figures = diagnostics(jax.tree.map(lambda x, i=i: x[i], info))
            if failings(policy.Frozen(*one), figures, policy.is_fixed(agent), self.spec.rhat):
                self.unused[r] += 1
                lanes[i] = -1
        used = np.flatnonzero(lanes[:m] >= 0)
        if used.size:
            new = jax.tree.map(lambda x: x[used], states)
            jax.tree.map(lambda old, x: old.__setitem__(lanes[used], x), self.states, new)
            jax.tree.map(lambda old, x: old.__setitem__(lanes[used], x[used]), self.agents, agents)
            self._freeze(lanes[used], new)

    def _fitted(self, lanes: np.ndarray, rows: Sequence[Rewards]) -> Any:
        """The agents of some replications, with a prior that is learned from these rewards; the rest is padding."""
        agents = jax.tree.map(lambda x: x[lanes], self.agents)
        if self.single is None:
            return agents
        leaves, structure = jax.tree_util.tree_flatten_with_path(agents)
        of_model = {jax.tree_util.keystr(path).removeprefix(".model."): leaf for path, leaf in leaves}
        for i, some in enumerate(rows):
            for name, value in priors.fitted(self.single, some.arms, some.rewards).items():
                of_model[name][i] = value
        return jax.tree.unflatten(structure, [leaf for _, leaf in leaves])

    def _freeze(self, lanes: np.ndarray, states: Tree) -> None:
        """Who chooses in the new states of some replications; where that is their propensities, these."""
        agent = self.built.agent
        for i, r in enumerate(lanes):
            self.by_law[r] = policy.draws_from_law(agent, jax.tree.map(lambda x, i=i: x[i], states), self.spec.draw)
        if self.by_law[lanes].any():
            size = next((b for b in BLOCKS if b >= len(lanes)), len(lanes))
            padded = np.resize(lanes, size)
            agents, states = jax.tree.map(lambda x: x[padded], (self.agents, self.states))
            laws = policy.propensities_of_many(agents, states)
            self.laws[lanes] = np.asarray(laws)[: len(lanes)]

    def read(self, now: float, arrived: int, winner_of: WinnerRule) -> None:
        """Somebody reads the reports of those that have named nobody yet."""
        fewest = np.asarray(self.clock.plays).min(1)
        for r in np.flatnonzero((self.winner < 0) & (fewest >= self.spec.burn_in)).tolist():
            rows = self._closed(r, now).rows(self.explicit)
            named = winner_of(self.built.model, rows.arms, rows.rewards, self.active) if len(rows.t) else None
            if named is not None:
                self.winner[r], self.named_at[r] = named, arrived

    def outcome(self) -> Outcome:
        bins = self.plan.bins
        counts = np.zeros((self.R, bins, len(self.active)), int)
        r, place = np.nonzero(np.arange(self.plan.units) < self.t[:, None])
        np.add.at(counts, (r, self.unit[r, place] * bins // self.plan.units, self.arms[r, place]), 1)
        return Outcome(counts, self.refreshes, self.unused, self.winner, self.named_at)


def _host(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.array(x), tree)


def _where(which: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(which.reshape(-1, *[1] * (new.ndim - 1)), new, old)
