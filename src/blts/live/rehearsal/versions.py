"""The policy versions in use of the replications that play the same arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import _random
from ..._typing import PRNGKey, Tree
from .. import policy, priors
from ..arms import Held, carried
from ..learning import Data, capacity_for, diagnostics, empty_dtype, failings, learn_from, learn_many, too_fine
from ..ledger import Rewards
from ..parts import single_model
from ..private import Privacy
from ..releases import Arms, Totals
from ..releases import memory as history_of
from .planning import Plan

BLOCKS = (8, 64)  # replications that are refreshed together: two compiled sizes


class Choices(NamedTuple):
    """Decisions of each replication, [replications, decisions]."""

    arms: np.ndarray
    """Numbers among all arms."""
    propensities: np.ndarray
    """[replications, decisions, arms]; without the agent's own share, which is what they lack of 1, where `Law` has to be asked."""
    closes: np.ndarray
    """Whether the batching scheme closed the batch with each."""
    made: np.ndarray
    """How many there are, [replications]."""


class Batch(NamedTuple):
    """A replication that is refreshed."""

    replication: int
    rows: Rewards
    t: int
    repeat: int
    totals: Totals | None = None
    """All that was released, where refreshes are private: what is learned from instead of the rows."""


class Law:
    """The propensities that an agent has from some decision on. They take milliseconds, so they are computed when asked for.

    Args:
        t: decisions before the first one that it makes.
        active: numbers of the arms that it plays.
        arms: how many arms there are.
        agent: who decides.
        state: what it has learned.
    """

    def __init__(self, t: int, active: tuple[int, ...], arms: int, agent: Any, state: Tree):
        self.t, self._active, self._arms, self._agent, self._state = t, list(active), arms, agent, state

    @cached_property
    def vector(self) -> np.ndarray:
        """One for each arm; zeros of an agent that has no vector for a whole batch."""
        out = np.zeros(self._arms)
        if policy.is_fixed(self._agent):
            out[self._active] = np.asarray(policy.propensities_of(self._agent, self._state), float)
        return out


class Versions:
    """The policies of the replications that play some arms.

    Arrays have a row for every replication, so that one program serves them whoever they are; rows of the others are idle.

    Args:
        plan: what is rehearsed.
        active: numbers of the arms.
        keys: of all replications.
    """

    def __init__(self, plan: Plan, active: tuple[int, ...], keys: PRNGKey):
        self.plan, self.spec, self.active, self.keys = plan, plan.spec, active, keys
        self.built = plan.built if len(active) == len(plan.arms) else self.spec.build(active, self.spec.arms)
        agent, R, K = self.built.agent, len(keys), len(active)
        self.single = single_model(self.spec.model) if self.spec.prior is not None and self.spec.prior.learned else None
        self.agents = jax.tree.map(lambda x: np.array(np.broadcast_to(x, (R, *np.shape(x)))), agent)
        """Those of all replications, which differ in a prior that is learned."""
        self.states = _host(jax.vmap(lambda key: policy.start(key, agent))(keys))
        self.laws, self.by_law = np.zeros((R, K), empty_dtype()), np.zeros(R, bool)
        """Where arms are drawn from the propensities, these, and elsewhere 0: `Law` computes them if a report needs them."""
        begun = jax.vmap(lambda key: policy.start_clock(key, self.built.batching, K))(keys)
        self.clock, self._has_keys = _host(begun), jax.tree.map(_is_key, begun)

    def decide(self, limits: np.ndarray) -> Choices:
        """Up to so many decisions of each replication."""
        (R, K), size = self.laws.shape, policy.chunk_size(int(limits.max()))
        frozen: Any = (self.states, self.laws, self.by_law)
        arms, closes, count = np.zeros((R, size), int), np.zeros((R, size), bool), np.zeros(R, int)
        p, before = np.zeros((R, size, K), empty_dtype()), self.clock
        for by_law in np.unique(self.by_law[limits > 0]):
            some = self.by_law == by_law
            limited = np.where(some, limits, 0).astype(np.int32)
            clock = self._with_keys(before)
            args: Any = (self.keys, self.agents, self.built.batching, policy.Frozen(*frozen), clock, self.built.mixture, limited)
            clock, found = policy.decide_for_many(*args, size=size, strict=self.spec.strict, by_law=bool(by_law))
            live = np.asarray(found.live)
            arms, closes = np.where(live, found.arms, arms), np.where(live, found.closes, closes)
            p = np.where(live[..., None], found.propensities, p)
            count += live.sum(1)
            self.clock = jax.tree.map(lambda new, old, s=some: _where(s, new, old), _host(clock), self.clock)
        every = np.zeros((R, size, len(self.plan.arms)), p.dtype)
        every[..., list(self.active)] = p
        return Choices(np.array(self.active)[arms], every, closes, count)

    def learn(self, batches: Sequence[Batch]) -> list[list[str]]:
        """Learn from the rewards of some replications, at most `BLOCKS[-1]`; the new versions are used where they are sound.

        Returns:
            For each why it is not used; empty where it is.
        """
        if self.spec.privacy is not None:
            return self._learn_privately(self.spec.privacy, batches)
        m, capacity = len(batches), capacity_for(self.plan.units)
        size = next(b for b in BLOCKS if b >= m)
        mine = np.array([one.replication for one in batches] + [batches[0].replication] * (size - m))
        datas: list[Data] = [one.rows.data.of(self.active) for one in batches]
        arms, rewards, count = np.zeros((size, capacity), np.int32), np.zeros((size, capacity)), np.zeros(size, np.int32)
        for i, data in enumerate(datas):
            n = count[i] = len(data.arms)
            arms[i, :n], rewards[i, :n] = data.arms, data.rewards
        t, repeat = np.zeros(size, np.int32), np.zeros(size, np.int32)
        t[:m], repeat[:m] = [one.t for one in batches], [one.repeat for one in batches]
        states = jax.tree.map(lambda x: x[mine], self.states)
        agents = self._fitted(mine, [one.rows for one in batches])
        states, info = _host(learn_many(self.keys[mine], agents, states, (arms, rewards, count), t, repeat))
        failed = []
        for i, data in enumerate(datas):
            one: Any = (jax.tree.map(lambda x, i=i: x[i], states), np.ones(1), False)
            figures = diagnostics(jax.tree.map(lambda x, i=i: x[i], info))
            found = failings(policy.Frozen(*one), figures, policy.is_fixed(self.built.agent), self.spec.rhat)
            failed.append(found + too_fine(data.arms, data.rewards))
        self._use(mine, states, agents, failed)
        return failed

    def _learn_privately(self, said: Privacy, batches: Sequence[Batch]) -> list[list[str]]:
        """The same from what was released."""
        mine, failed, found = np.array([one.replication for one in batches]), [], []
        arms = Arms(self.active, [self.spec.arms[i].label for i in self.active], self.built.agent)
        for r, one in zip(mine, batches, strict=True):
            state = jax.tree.map(lambda x, r=r: x[r], self.states)
            memory = history_of(said, arms, one.totals or Totals())
            state, info = _host(learn_from(self.keys[r], arms.agent, state, memory, t=one.t, repeat=one.repeat))
            frozen: Any = (state, np.ones(1), False)
            failed.append(failings(policy.Frozen(*frozen), diagnostics(info), policy.is_fixed(arms.agent), self.spec.rhat))
            found.append(state)
        states = jax.tree.map(lambda *x: np.stack(x), *found)
        self._use(mine, states, jax.tree.map(lambda x: x[mine], self.agents), failed)
        return failed

    def _use(self, mine: np.ndarray, states: Tree, agents: Any, failed: Sequence[list[str]]) -> None:
        """Use the new states of some replications where nothing speaks against them."""
        used = np.array([i for i, why in enumerate(failed) if not why], int)
        if used.size:
            new = jax.tree.map(lambda x: x[used], states)
            jax.tree.map(lambda old, x: old.__setitem__(mine[used], x), self.states, new)
            jax.tree.map(lambda old, x: old.__setitem__(mine[used], x[used]), self.agents, agents)
            self.freeze(mine[used], new)

    def _fitted(self, mine: np.ndarray, rows: Sequence[Rewards]) -> Any:
        """The agents of some replications, with a prior that is learned from these rewards; the rest is padding."""
        agents = jax.tree.map(lambda x: x[mine], self.agents)
        if self.single is None or self.built.agent.model is None:
            return agents
        leaves, structure = jax.tree_util.tree_flatten_with_path(agents)
        of_model = {jax.tree_util.keystr(path).removeprefix(".model."): leaf for path, leaf in leaves}
        for i, some in enumerate(rows):
            for name, value in priors.fitted(self.single, some.arms, some.rewards).items():
                of_model[name][i] = value
        return jax.tree.unflatten(structure, [leaf for _, leaf in leaves])

    def freeze(self, mine: np.ndarray, states: Tree) -> None:
        """Who chooses in the new states of some replications; where that is their propensities, these."""
        agent = self.built.agent
        for i, r in enumerate(mine):
            self.by_law[r] = policy.draws_from_law(agent, jax.tree.map(lambda x, i=i: x[i], states), self.spec.draw)
        self.laws[mine] = 0.0
        drawn = mine[self.by_law[mine]]
        if len(drawn):
            size = next((b for b in BLOCKS if b >= len(drawn)), len(drawn))
            padded = np.resize(drawn, size)
            agents, states = jax.tree.map(lambda x: x[padded], (self.agents, self.states))
            laws = policy.propensities_of_many(agents, states)
            self.laws[drawn] = np.asarray(laws)[: len(drawn)]

    def take(self, r: int, before: Versions, prior: Mapping[str, float], version: int) -> None:
        """Go on with these arms in a replication that played others, with all that is known of those that stay.

        Args:
            r: the replication.
            before: what it played.
            prior: the numbers of its learned prior.
            version: the number of the policy version that this makes.
        """
        built = self.spec.build(self.active, self.spec.arms, prior)
        state, clock = jax.tree.map(lambda x: x[r], (before.states, before.clock))
        held = Held(before.active, state, policy.Clock(*before._with_keys(clock)))
        frozen, ticks = carried(self.keys[r], held, self.active, built, version, self.spec.draw)
        new = built.agent, frozen.state, _host(ticks)
        jax.tree.map(lambda old, x: old.__setitem__(r, x), (self.agents, self.states, self.clock), new)
        self.by_law[r] = bool(frozen.by_law)
        self.laws[r] = np.asarray(frozen.law) * self.by_law[r]

    def _with_keys(self, clock: Any) -> Any:
        """A clock whose words of keys, which arrays hold, are keys again."""
        return jax.tree.map(lambda key, x: _random.from_words(x) if key else x, self._has_keys, clock)

    def law(self, r: int, t: int) -> Law:
        """What a replication's agent plays after t decisions."""
        agent, state = jax.tree.map(lambda x: x[r].copy(), (self.agents, self.states))
        return Law(t, self.active, len(self.plan.arms), agent, state)


def _host(tree: Any) -> Any:
    """As arrays of NumPy, keys as their words."""
    return jax.tree.map(lambda x: np.array(_random.words_of(x) if _is_key(x) else x), tree)


def _is_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _where(which: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(which.reshape(-1, *[1] * (new.ndim - 1)), new, old)
