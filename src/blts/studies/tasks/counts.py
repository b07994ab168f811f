"""What a learner has seen of its plays: the lemma k(t)/2 ≤ k(B(t)) ≤ k(t), and the batches that Theorem 2 bounds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ... import registry, theory
from ...errors import ConfigError
from ...simulation import simulate
from ..spec import Condition
from .base import About, Arrays
from .simulate import Simulate, built


@registry.register("task", "counts")
class Counts:
    """Rewards seen over plays made, of every arm in every round: the lemma k(t)/2 ≤ k(B(t)) ≤ k(t), and Theorem 2.

    The keys are those of "simulate", less `times`: every round is looked at. k(t) counts an arm's plays up to round t, that of
    round t included, and k(B(t)) those in batches that closed before it. In the round of an arm's first play this is 0 of 1
    under any scheme, so an arm counts from the round after it.

    >>> from blts import registry
    >>> task = registry.build("task", "counts")
    >>> condition = task.normal({"env": "gaussian", "agent": "ucb1", "batching": "dynamic", "horizon": 100})
    >>> arrays, about = task.run(condition, seed=0, first=0, replications=10)
    >>> float(arrays["least"].min()), int(arrays["batches"].max()) <= about["batches_sharp"]
    (0.5, True)
    """

    metrics: ClassVar[tuple[str, ...]] = ("least", "mean", "batches")

    def normal(self, condition: Condition) -> Condition:
        if "times" in condition:
            raise ConfigError(f"The task 'counts' looks at every round; leave times out; got {condition['times']!r}.")
        normal = Simulate().normal(condition)
        del normal["times"]
        if normal["horizon"] < 2:
            raise ConfigError(
                f"horizon must be ≥ 2, since an arm counts from the round after its first play; got {normal['horizon']}."
            )
        if built(normal).env.states != 1:
            raise ConfigError(
                f"The lemma is about the arms of a bandit; give env a bandit, such as 'gaussian'; got {normal['env']!r}."
            )
        return normal

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        chosen = built(condition)
        arms, T = int(chosen.env.actions), chosen.horizon
        parts = (chosen.env, chosen.agent, chosen.batching)
        trace = simulate(seed, *parts, horizon=T, replications=replications, first=first, times=1, keep_actions=True, threads=1)
        actions = np.asarray(trace.actions)
        found = [ratios(actions[r], trace.ends[r], arms) for r in range(replications)]
        arrays = {
            "least": np.array([x.min() for x in found]),
            "mean": np.array([x.mean() for x in found]),
            "batches": trace.batches,
        }
        about = {
            "actions": arms,
            "env": trace.env,
            "agent": trace.agent,
            "batching": trace.batching,
            "batches_bound": theory.batches_bound(arms, T),
            "batches_sharp": theory.batches_sharp(arms, T),
        }
        return arrays, about


def ratios(actions: np.ndarray, ends: np.ndarray, arms: int) -> np.ndarray:
    """k(B(t))/k(t) of one run, for all arms in all rounds after their first play, in one list.

    `actions` are those of rounds 1, 2, …; `ends` the rounds with which batches ended, filled up with 0.

    >>> from blts.studies.tasks.counts import ratios
    >>> ratios(np.array([0, 0, 1, 1]), np.array([1, 2, 0]), arms=2).tolist()  # round 2: 1 of 2; then arm 0: 2 of 2; arm 1: 0 of 2
    [0.5, 1.0, 1.0, 0.0]
    """
    rounds = np.arange(1, actions.size + 1)
    plays = np.cumsum(actions[:, None] == np.arange(arms), 0)
    closed = np.sort(ends[ends > 0])
    last = np.r_[0, closed][np.searchsorted(closed, rounds, side="left")]  # the last round of the batch before
    seen = np.where(last[:, None] > 0, plays[last - 1], 0)
    before = np.vstack([np.zeros((1, arms), int), plays[:-1]])
    counted = before > 0
    return seen[counted] / plays[counted]
