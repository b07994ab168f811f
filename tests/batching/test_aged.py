"""Batches that also end by age: against a plain-Python reading, round by round and many rounds at once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bandit, Exact, Gaussian, Thompson, random
from blts.batching import Aged, DoubledSinceSwitch, DoublingCounts, Fixed, Geometric, Sequential
from blts.leap.choice import obstacle

ARMS = 3
PLAYED = np.random.default_rng(0).integers(0, ARMS, 60)


def ends_of(scheme) -> list[int]:
    state, ends = scheme.init(random.key(0), ARMS), []
    for t, action in enumerate(PLAYED, 1):
        state, due = scheme.step(state, (), jnp.asarray(action))
        if due:
            ends.append(t)
    return ends


def reading(ends: list[int], rounds: int) -> list[int]:
    """The ends of the other scheme, and each round that is `rounds` after the last end of either."""
    out, last = [], 0
    for t in range(1, len(PLAYED) + 1):
        if t in ends or t - last >= rounds:
            out.append(t)
            last = t
    return out


@pytest.mark.parametrize("scheme", [DoublingCounts(), DoubledSinceSwitch(), Fixed(13), Sequential(), Geometric(0.1)], ids=str)
@pytest.mark.parametrize("rounds", [1, 7, 100])
def test_batches_end_as_the_other_scheme_says_or_by_age(scheme, rounds):
    expected, found = reading(ends_of(scheme), rounds), ends_of(Aged(scheme, rounds))
    assert found == expected
    assert len(found) <= Aged(scheme, rounds).max_batches(60, ARMS)
    assert reading(ends_of(scheme), rounds + 1) != found or rounds == 100 or isinstance(scheme, Sequential)


@pytest.mark.parametrize("scheme", [DoublingCounts(), Fixed(13)], ids=str)
def test_many_rounds_at_once_end_the_same_batches(scheme):
    aged = Aged(scheme, 7)
    state, ends, t = aged.init(random.key(0), ARMS), [], 0
    while t < 60:
        room, rounds = (np.asarray(x) for x in aged.room(state))
        room = np.broadcast_to(room, (ARMS,))
        stop = t
        while stop < 60:  # until the plays of an arm, or the rounds, are used up
            stop += 1
            if stop - t >= rounds or (np.bincount(PLAYED[t:stop], minlength=ARMS) >= room).any():
                break
        state, due = aged.advance(state, jnp.asarray(np.bincount(PLAYED[t:stop], minlength=ARMS)))
        t = stop
        if due:
            ends.append(t)
    assert ends == ends_of(aged)


@pytest.mark.parametrize(
    ("scheme", "why"), [(DoublingCounts(), None), (Geometric(0.1), "Geometric does not say when a batch ends")]
)
def test_only_schemes_that_know_their_ends_leap(scheme, why):
    env, model = Bandit.with_means(Gaussian(), [0.0, 1.0]), Gaussian()
    found = obstacle(env, Thompson(model, Exact(), 2), Aged(scheme, 7), 10**6, False)
    assert found is None if why is None else why in (found or "")
