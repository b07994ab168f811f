"""`Determinant` against a plain NumPy reading of its text in float64, its bound, and what it refuses."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB1,
    Context,
    Determinant,
    Gaussian,
    LaplaceApproximation,
    Linear,
    Logistic,
    Thompson,
    contexts,
    from_json,
    random,
    theory,
    to_json,
)
from blts.errors import ConfigError
from blts.models import standardised

DIM, ARMS, ROUNDS = 3, 4, 400


@partial(jax.jit, static_argnames=("actions",))
def ends_of(scheme, obs, played, actions):
    return jax.lax.scan(lambda state, x: scheme.step(state, *x), scheme.init(random.key(0), actions), (obs, played))[1]


def ends(scheme, obs, played, actions=ARMS) -> list[int]:
    """The rounds (from 1) after which a batch ends."""
    return (np.flatnonzero(ends_of(scheme, obs, played, actions)) + 1).tolist()


def by_hand(features, played, factor, precision, weight, *, blocks=ARMS, per_arm=False, mutant=None) -> list[int]:
    """V = prior precision + Σ w φφᵀ as matrices in float64; a batch ends when its determinant has grown by more than the factor."""
    V = np.stack([np.diag(np.broadcast_to(precision, features.shape[1])) for _ in range(blocks)]).astype(float)
    log_dets = lambda: np.array([np.linalg.slogdet(one)[1] for one in V])  # noqa: E731
    start, out = log_dets(), []
    for t, (x, a) in enumerate(zip(features, played, strict=True), 1):
        block = 0 if blocks == 1 else a
        V[block] += np.broadcast_to(weight, blocks)[block] * np.outer(x, x)
        growth = log_dets() - start
        if (growth.max() if per_arm else growth.sum()) > np.log(factor):
            if mutant == "only the arm that ended it starts anew":
                start[block] += growth[block]
            else:
                start = log_dets()
            out.append(t)
    return out


def script(seed, rounds=ROUNDS):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rounds, DIM)).astype(np.float32), rng.integers(0, ARMS, rounds)


PRECISION, WEIGHT = np.array([0.5, 1.0, 2.0]), np.array([0.5, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("factor", [2.0, 16.0])
@pytest.mark.parametrize("seed", range(5))
def test_joint_and_per_arm_determinants_are_those_of_the_matrices(seed, factor):
    x, played = script(seed)
    for per_arm in (False, True):
        scheme = Determinant(DIM, factor, per_arm, prior_precision=PRECISION, weight=WEIGHT)
        assert ends(scheme, x, played) == by_hand(x, played, factor, PRECISION, WEIGHT, per_arm=per_arm)


@pytest.mark.parametrize("seed", range(3))
def test_a_shared_theta_has_one_matrix_of_its_features(seed):
    x, played = script(seed)
    arms = np.random.default_rng(seed + 100).normal(size=(ROUNDS, ARMS, 2)).astype(np.float32)
    scheme = Determinant(DIM + 2, 2.0, shared=True, weight=4.0)
    seen = np.concatenate([x, arms[np.arange(ROUNDS), played]], 1)
    assert ends(scheme, Context(x=jnp.asarray(x), arms=jnp.asarray(arms)), played) == by_hand(seen, played, 2.0, 1.0, 4.0, blocks=1)
    crossed = Determinant(DIM * ARMS, 2.0, shared=True, weight=4.0, features=contexts.Crossed(ARMS))
    assert ends(crossed, x, played) == by_hand(x, played, 2.0, 1.0, 4.0)  # one θ with all θ of disjoint arms in it


def test_wrong_readings_are_noticed():
    x, played = script(0)
    joint = ends(Determinant(DIM, 2.0, prior_precision=PRECISION, weight=WEIGHT), x, played)
    single = ends(Determinant(DIM, 2.0, True, prior_precision=PRECISION, weight=WEIGHT), x, played)
    assert joint != single
    wrong = {"mutant": "only the arm that ended it starts anew"}
    assert single != by_hand(x, played, 2.0, PRECISION, WEIGHT, per_arm=True, **wrong)
    assert joint != by_hand(x, played, 2.0, PRECISION, WEIGHT**0.5)
    assert joint != by_hand(x, played, 2.1, PRECISION, WEIGHT)


def test_the_factor_must_be_exceeded():
    """Two orthogonal rows that each double det V exactly: with factor 2 the first ends no batch and the second does."""
    x = np.eye(2, dtype=np.float32)
    assert ends(Determinant(2, 2.0), x, np.zeros(2, int), 1) == [2]
    assert ends(Determinant(2, 1.99), x, np.zeros(2, int), 1) == [1, 2]


@jax.jit
def after_all(scheme, x, played):
    """The state after all rounds, and the sum of all growth; no batch ends."""
    return jax.lax.scan(lambda state, row: (scheme.step(state, *row)[0], None), scheme.init(random.key(0), 2), (x, played))[0]


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.9, 0.19, 0.06)])
def test_ten_thousand_rounds_in_float32_keep_the_determinant(scales):
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(10_000, DIM)) * scales).astype(np.float32)
    played = rng.integers(0, 2, 10_000)
    state = after_all(Determinant(DIM, 1e30, weight=4.0), x, played)
    for arm in range(2):
        rows = x[played == arm].astype(float)
        V = np.eye(DIM) + 4 * rows.T @ rows
        root = np.asarray(state.root[arm], float)
        assert np.linalg.norm(root.T @ V @ root - np.eye(DIM)) < 1e-3  # relative, in every direction
    exact = sum(
        np.linalg.slogdet(np.eye(DIM) + 4 * x[played == a].astype(float).T @ x[played == a].astype(float))[1] for a in (0, 1)
    )
    assert abs(float(state.growth) / exact - 1) < 1e-4


# The bound


@pytest.mark.parametrize(("per_arm", "shared"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("factor", [1.2, 2.0, 16.0])
def test_batches_stay_within_the_bound(per_arm, shared, factor):
    """Unit vectors, in turns along the axes: about the worst sequence there is."""
    scheme = Determinant(DIM, factor, per_arm, shared, weight=4.0, max_norm=1.0)
    turns = np.eye(DIM, dtype=np.float32)[(np.arange(3000) // ARMS) % DIM]
    played = np.arange(3000) % ARMS
    closed = ends(scheme, turns, played)
    for horizon in (1, 10, 100, 3000):
        assert sum(end <= horizon for end in closed) <= scheme.max_batches(horizon, ARMS)
    assert scheme.max_batches(3000, ARMS) < 3000 / 2
    if not per_arm:  # the joint bound is sharp but for the batches' overshoot
        assert len(closed) > 0.5 * scheme.max_batches(3000, ARMS) or factor < 2


def test_the_bound_is_that_of_the_elliptical_potential():
    assert theory.determinant_batches(20, 10**4, 2.0, 4.0) == int(20 * np.log2(1 + 10**4 * 4 / 20))
    assert theory.determinant_batches(20, 10, 2.0, 4.0) == 10
    assert Determinant(3).max_batches(1000, 2) == 1000  # features without a bound


# From an agent, and refusals


def test_an_agent_gives_its_numbers():
    agent = Thompson(Linear(prior_mean=np.zeros((ARMS, DIM)), prior_sd=[1.0, 2.0, 3.0, 4.0], sd=[0.5, 1.0, 2.0, 4.0]))
    scheme = Determinant.of(agent, 4.0, True)
    assert np.allclose(scheme.prior_precision, 1 / np.array([1.0, 2.0, 3.0, 4.0])[:, None] ** 2 * np.ones(DIM))
    assert np.allclose(scheme.weight, [4.0, 1.0, 0.25, 0.0625])
    assert (scheme.dim, float(scheme.factor), scheme.per_arm, scheme.shared) == (DIM, 4.0, True, False)
    crossed = contexts.Crossed(ARMS)
    shared = Thompson(Linear(prior_mean=np.zeros(DIM * ARMS), sd=0.5), arms=ARMS, shared=True, features=crossed)
    scheme = Determinant.of(shared)
    assert (scheme.shared, scheme.features, scheme.dim) == (True, crossed, DIM * ARMS)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("model", [Linear(np.zeros(DIM), PRECISION**-0.5, 0.5), Logistic(np.zeros(DIM), PRECISION**-0.5)])
def test_a_model_that_standardises_has_the_determinant_of_what_it_learns_from(model, shared):
    """Features of means and sds far from 0 and 1; the mutants leave out the centre, or the scale."""
    x, played = script(7)
    x = (x * [30.0, 0.1, 2.0] + [100.0, -5.0, 0.0]).astype(np.float32)
    agent = Thompson(standardised(model, x), LaplaceApproximation(), arms=ARMS, shared=shared)
    scheme, weight = Determinant.of(agent), 4.0 if isinstance(model, Linear) else 0.25
    right = lambda z: by_hand(z, played, 2.0, PRECISION, weight, blocks=1 if shared else ARMS)  # noqa: E731
    assert ends(scheme, x, played) == right((x - x.mean(0)) / x.std(0))
    assert ends(scheme, x, played) != right(x / x.std(0))
    assert ends(scheme, x, played) != right(x - x.mean(0))
    assert np.allclose(scheme.centre, x.mean(0), rtol=1e-4)
    assert from_json(to_json(scheme)).scale.shape == scheme.scale.shape


def test_arms_may_be_standardised_each_by_its_own_numbers():
    x, played = script(8)
    centre, scale = np.random.default_rng(0).normal(size=(ARMS, DIM)), np.array([[0.5], [1.0], [2.0], [4.0]]) * np.ones(DIM)
    scheme = Determinant.of(Thompson(Linear(np.zeros(DIM), centre=centre, scale=scale), arms=ARMS))
    assert ends(scheme, x, played) == by_hand((x - centre[played]) / scale[played], played, 2.0, 1.0, 1.0)


class Cubed(Linear):
    """Learns from other features than it says."""

    def _x(self, obs):
        return super()._x(obs) ** 3


class OwnView(Thompson):
    """Its model learns from other features than those of the round."""

    def seen(self, row):
        return row._replace(obs=10.0 * row.obs)


REFUSED = {
    "OwnView overrides seen": lambda: Determinant.of(OwnView(Linear([0.0, 0.0]), arms=3)),
    r"Cubed has no bound .*\(Cubed overrides _x": lambda: Determinant.of(Thompson(Cubed([0.0, 0.0]), arms=3)),
    "scale must be > 0": lambda: Determinant(2, scale=[1.0, 0.0]),
    "centre has shape": lambda: Determinant(2, centre=[1.0, 0.0, 0.0]),
    "factor must be above 1": lambda: Determinant(2, 1.0),
    "dim must": lambda: Determinant(0),
    "prior_precision must be > 0": lambda: Determinant(2, prior_precision=0.0),
    "one number for each of 2": lambda: Determinant(2, prior_precision=[1.0, 1.0, 1.0]),
    "leave per_arm out": lambda: Determinant(2, per_arm=True, shared=True),
    "per_arm must be True or False": lambda: Determinant(2, per_arm="yes"),
    "max_norm must be": lambda: Determinant(2, max_norm=-1.0),
    "Gaussian has no contexts": lambda: Determinant.of(Thompson(Gaussian(prior_mean=[0.0, 1.0]))),
    "UCB1 has no contextual model": lambda: Determinant.of(UCB1(3)),
    r"features of shape \(3,\)": lambda: ends(Determinant(2), np.zeros((5, 3)), np.zeros(5, int)),
    "it has no features": lambda: Determinant(2).step(Determinant(2).init(random.key(0), 2), (), 0),
    r"weight has shape \(3,\)": lambda: ends(Determinant(2, weight=[1.0, 1.0, 1.0]), np.zeros((5, 2)), np.zeros(5, int)),
}


@pytest.mark.parametrize("match", REFUSED)
def test_what_it_cannot_know_is_refused_in_a_sentence(match):
    with pytest.raises(ConfigError, match=match):
        REFUSED[match]()


def test_copies_keep_the_bound():
    scheme = Determinant(DIM, 2.0, weight=4.0, max_norm=1.0)
    copy = from_json(to_json(scheme))
    assert repr(copy) == repr(scheme)
    assert copy.max_batches(1000, ARMS) == scheme.max_batches(1000, ARMS) < 1000
    assert dataclasses.replace(scheme, factor=4.0).max_batches(1000, ARMS) < scheme.max_batches(1000, ARMS)
    traced = jax.jit(lambda scheme: jnp.zeros(scheme.max_batches(1000, ARMS)))(scheme)  # it sizes arrays
    assert traced.shape == (scheme.max_batches(1000, ARMS),)
