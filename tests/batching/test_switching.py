"""Switching rules of MDPs by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import random
from blts.batching import DoubledSinceSwitch, Geometric
from laws import LEVEL, mean_p

# Switching rules


def run_rule(rule, pairs, states: int, actions: int) -> list[int]:
    state, ends = rule.init(random.key(0), actions), []
    step = jax.jit(rule.step)
    for t, (s, a) in enumerate(pairs, 1):
        state, due = step(state, jnp.asarray(s), jnp.asarray(a))
        if due:
            ends.append(t)
    return ends


def tsde_by_hand(pairs, pseudo: float, linear: bool) -> list[int]:
    """New episode at t if t > t_k + T_{k-1}, or N_t(s,a) + c > 2 (N_{t_k}(s,a) + c); N_t counts visits before t."""
    visits: dict = {}
    mark: dict = {}
    ends, began, previous = [], 0, 0
    for t, pair in enumerate(pairs, 1):
        visits[pair] = visits.get(pair, 0) + 1
        doubled = any(visits[p] + pseudo > 2 * (mark.get(p, 0) + pseudo) for p in visits)
        if doubled or (linear and t - began > previous):
            ends.append(t)
            mark, previous, began = dict(visits), t - began, t
    return ends


RNG = np.random.default_rng(2)
PAIRS = [(0, 0) if RNG.uniform() < 0.7 else (int(RNG.integers(3)), int(RNG.integers(2))) for _ in range(400)]


@pytest.mark.parametrize("pseudo", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("linear", [True, False])
def test_tsde_and_dynamic_doubling_by_hand(pseudo, linear):
    rule = DoubledSinceSwitch(3, pseudo, linear)
    ends = run_rule(rule, PAIRS, 3, 2)
    assert ends == tsde_by_hand(PAIRS, pseudo, linear)
    assert ends != tsde_by_hand(PAIRS, pseudo, not linear)
    assert linear or ends != tsde_by_hand(PAIRS, 4 * pseudo + 2, linear)
    assert len(ends) <= rule.max_batches(len(PAIRS), 2)


def test_ucrl2_closes_when_visits_in_the_batch_reach_those_before():
    assert run_rule(DoubledSinceSwitch.ucrl2(1), [(0, 0)] * 40, 1, 1) == [1, 2, 4, 8, 16, 32]
    assert run_rule(DoubledSinceSwitch(1), [(0, 0)] * 40, 1, 1) == [1, 3, 7, 15, 31]


def test_tsde_alone_grows_by_one():
    """Nothing doubles with a huge pseudo-count: batches last 1, 2, 3, … rounds."""
    ends = run_rule(DoubledSinceSwitch.tsde(1, 1e6), [(0, 0)] * 30, 1, 1)
    assert ends == [1, 3, 6, 10, 15, 21, 28]


def test_geometric_batches_have_their_rate_and_differ_between_replications():
    rule = Geometric(0.2)

    def due(key):
        return jax.lax.scan(lambda s, _: rule.step(s, None, None), rule.init(key, 2), None, length=200)[1]

    hits = np.asarray(jax.jit(jax.vmap(due))(random.split(random.key(0), 200)))
    assert mean_p(hits, 0.2, 0.4) > LEVEL
    assert mean_p(hits, 0.21, 0.4) < LEVEL
    assert len({tuple(row) for row in hits}) == 200
