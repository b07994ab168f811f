"""OFUL against a loop in NumPy that is fed the same contexts and rewards."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    OFUL,
    Context,
    Determinant,
    Exact,
    LaplaceApproximation,
    Linear,
    Perturb,
    Played,
    Row,
    Tempered,
    condition,
    random,
    ula,
)
from blts.errors import ConfigError
from blts.models import Logistic

ARMS, DIM, ROUNDS, SD, TAU, DELTA, NORM = 4, 3, 120, 0.5, 0.7, 0.1, 1.3
MEAN = np.array([0.2, -0.1, 0.3])
MODEL = Linear(MEAN, TAU, SD)
RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(ROUNDS, ARMS, DIM)).astype(np.float32)
THETA = MEAN + RNG.normal(size=(ARMS, DIM)) * 0.5
NOISE = SD * RNG.normal(size=(ROUNDS, ARMS))


def rewards(shared: bool) -> np.ndarray:
    """What every arm would pay in every round."""
    theta = np.broadcast_to(THETA[:1], THETA.shape) if shared else THETA
    return (np.einsum("tad,ad->ta", FEATURES, theta) + NOISE).astype(np.float32)


def by_hand(shared: bool, factor: float, mutant: str = "") -> tuple[list[int], list[float], list[int]]:
    """The paper's algorithm in its own letters: V = λI + Σxxᵀ, √β, and the largest x·θ̂ + √β |x|_V⁻¹ of the last refresh.

    Returns the arms, the radius √β of the arm played, and the rounds (from 1) with which batches end.
    """
    lam, thetas, paid = SD**2 / TAU**2, 1 if shared else ARMS, rewards(shared).astype(float)
    V = np.stack([lam * np.eye(DIM)] * thetas)
    b = np.stack([lam * MEAN] * thetas)
    delta = DELTA if mutant == "no union" else DELTA / thetas
    log_dets = lambda V: np.linalg.slogdet(V)[1]  # noqa: E731
    frozen, start, arms, radii, ends = (V.copy(), b.copy()), log_dets(V).sum(), [], [], []
    for t, x in enumerate(FEATURES.astype(float)):
        index, roots = [], []
        for a in range(ARMS):
            k = 0 if shared else a
            Vk, estimate = frozen[0][k], np.linalg.solve(frozen[0][k], frozen[1][k])
            growth = 0.0 if mutant == "constant" else log_dets(Vk) - DIM * np.log(lam)
            bias = 0.0 if mutant == "no norm" else np.sqrt(lam) * NORM
            roots.append(SD * np.sqrt(2 * (0.5 * growth + np.log(1 / delta))) + bias)
            index.append(x[a] @ estimate + roots[-1] * np.sqrt(x[a] @ np.linalg.solve(Vk, x[a])))
        a = int(np.argmax(index))
        k = 0 if shared else a
        V[k] += np.outer(x[a], x[a])
        b[k] += x[a] * paid[t, a]
        arms.append(a)
        radii.append(roots[a])
        if log_dets(V).sum() - start > np.log(factor):
            frozen, start = (V.copy(), b.copy()), log_dets(V).sum()
            ends.append(t + 1)
    return arms, radii, ends


@jax.jit
def played(agent, batching, features, paid):
    """The arms, the radii √β of them, and whether the batch ended."""
    obs = Context(arms=features[0])
    history = agent.empty(jax.tree.map(jnp.zeros_like, Row(obs, jnp.zeros((), int), paid[0, 0])), ROUNDS)

    def step(carry, x):
        state, history, clock, t = carry
        obs = Context(arms=x[0])
        a = agent.act(random.key(0), state, obs, Played(t, jnp.zeros(ARMS, int)))
        history = agent.remember(history, Row(obs, a, x[1][a]), jnp.ones((), bool))
        clock, due = batching.step(clock, obs, a)
        new, _ = agent.observe(random.split(random.key(0), 1), *jax.tree.map(lambda x: x[None], (state, history)))
        after = jax.tree.map(lambda new, old: jnp.where(due, new[0], old), new, state)
        return (after, history, clock, t + 1), (a, SD * agent.radius(state)[a], due)

    start = (agent.init(random.key(0)), history, batching.init(random.key(0), ARMS), jnp.ones((), int))
    return jax.lax.scan(step, start, (features, paid))[1]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("factor", [1 + 1e-6, 4.0], ids=["every round", "rarely switching"])
def test_it_is_the_papers_algorithm(shared, factor):
    agent = OFUL(MODEL, arms=ARMS, shared=shared, delta=DELTA, norm=NORM)
    arms, radii, due = played(agent, Determinant.of(agent, factor), jnp.asarray(FEATURES), jnp.asarray(rewards(shared)))
    right, roots, ends = by_hand(shared, factor)
    assert np.asarray(arms).tolist() == right
    np.testing.assert_allclose(radii, roots, rtol=1e-4)
    assert (np.flatnonzero(due) + 1).tolist() == ends
    assert len(ends) == ROUNDS if factor < 2 else len(ends) < ROUNDS / 3
    for mutant in ("constant", "no norm", *(() if shared else ("no union",))):
        assert not np.allclose(radii, by_hand(shared, factor, mutant)[1], rtol=1e-3), mutant


def test_unequal_prior_sds_take_the_smallest():
    agent = OFUL(Linear(MEAN, [1.0, 0.5, 2.0], SD), arms=ARMS, shared=True, delta=DELTA, norm=NORM)
    np.testing.assert_allclose(agent.radius(agent.init(random.key(0))), np.sqrt(2 * np.log(1 / DELTA)) + NORM / 0.5, rtol=1e-5)


def test_it_has_a_name():
    found = condition("linear", "oful", "determinant", horizon=100, options={"norm": 2.0})
    assert isinstance(found.agent, OFUL)
    assert float(found.agent.norm) == 2.0
    assert "OFUL, δ = 0.05, |θ - prior mean| ≤ 2" in str(found.agent)


REFUSED = {
    "not of Logistic with LaplaceApproximation": lambda: OFUL(Logistic(MEAN), arms=2),
    "not of Linear with Tempered": lambda: OFUL(MODEL, Tempered(Exact(), 2.0), arms=2),
    "not of Linear with LaplaceApproximation": lambda: OFUL(MODEL, LaplaceApproximation(), arms=2),
    "not of Linear with Perturb": lambda: OFUL(MODEL, Perturb(ula()), arms=2),
    "delta must be between 0 and 1": lambda: OFUL(MODEL, arms=2, delta=1.0),
    "norm must be > 0": lambda: OFUL(MODEL, arms=2, norm=0.0),
}


@pytest.mark.parametrize("match", REFUSED)
def test_what_has_no_such_radius_is_refused(match):
    with pytest.raises(ConfigError, match=match):
        REFUSED[match]()
