"""Planners against enumeration, linear programmes and each other."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts.planning import howard, relative_value_iteration, solve, structure
from blts.planning.elimination import evaluate
from small_mdps import best_by_programme, full, garnet, garnets, hot, jitted, riverswim

# Models


def printed_riverswim(S=5, small=2.0, big=10.0):
    """Right moves on with 0.8, else back; left moves back with 0.2, else stays; rewards belong to the states."""
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] += 0.2
        P[s, 0, s] += 0.8
        P[s, 1, min(s + 1, S - 1)] += 0.8
        P[s, 1, max(s - 1, 0)] += 0.2
    r[0], r[-1] = small, big
    return P, r


def nchain(S=5, slip=0.2, exact=False):
    """Forward moves on, back returns to the start, and each is taken for the other with probability `slip`."""
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s, a in itertools.product(range(S), range(2)):
        forward = 1 - slip if a == 1 else slip
        P[s, a, min(s + 1, S - 1)] += forward
        P[s, a, 0] += 1 - forward
        if exact:
            r[s, a] = 10 * forward * (s == S - 1) + 2 * (1 - forward)
        else:
            r[s, a] = 10 * (s == S - 1) + 2 * (1 - forward) * (s == 0)
    return P, r


FIVE = {
    "printed": (printed_riverswim(), 7.5132),
    "strens": (nchain(), 4.1760),
    "nchain": (nchain(exact=True), 3.6768),
    "osband-5": ((full(riverswim(5, 2, 10)[0]), riverswim(5, 2, 10)[1]), 4.2893),
}
PUBLISHED = FIVE | {"osband-6": (riverswim(), 0.4286)}

# Oracles


def gain_of(P, r, policy):
    """By the Cesàro limit, from each state: (I + P)/2 squared fifty times."""
    every = np.arange(len(policy))
    chain = (np.eye(len(policy)) + P[every, policy]) / 2
    for _ in range(50):
        chain = chain @ chain
        chain /= chain.sum(1, keepdims=True)
    return chain @ r[every, policy]


def best_by_enumeration(P, r):
    S, A = r.shape
    return max(gain_of(P, r, np.array(policy)).max() for policy in itertools.product(range(A), repeat=S))


def certificate(P, r, found) -> tuple[float, float]:
    """The bounds, recomputed here from bias and policy alone."""
    h, every = np.asarray(found.bias, float), np.arange(r.shape[0])
    q = r + P @ h
    return float((q[every, np.asarray(found.policy)] - h).min()), float((q.max(1) - h).max())


def certifies(P, r, found, slack=1e-12) -> bool:
    """Whether what a plan says of itself is true."""
    low, high = certificate(P, r, found)
    mine = float(gain_of(P, r, np.asarray(found.policy)).min())
    honest = abs(float(found.gain) - (low + high) / 2) <= slack and abs(float(found.residual) - (high - low)) <= 2 * slack
    return honest and low - slack <= mine <= high + slack


def at(found, i):
    return jax.tree.map(lambda x: x[i], found)


# Known optima


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_optima(name):
    (transitions, r), gain = PUBLISHED[name]
    P, found = full(transitions), solve(transitions, r)
    assert found.gain == pytest.approx(gain, abs=5e-5)
    assert found.gain == pytest.approx(best_by_enumeration(P, r), abs=1e-8)
    assert found.gain == pytest.approx(best_by_programme(P, r), abs=1e-8)
    assert certifies(P, r, found)
    assert found.residual <= 1e-9 * np.abs(r).max()
    assert found.bias.min() == 0
    assert found.span == found.bias.max()


def test_howard_in_double_precision():
    P, r = (np.stack([FIVE[name][0][i] for name in FIVE]) for i in (0, 1))
    found = jitted(P, r)
    for i, (_, gain) in enumerate(FIVE.values()):
        assert found.gain[i] == pytest.approx(gain, abs=5e-5)
        assert found.gain[i] == pytest.approx(solve(P[i], r[i]).gain, abs=1e-10)
        assert certifies(P[i], r[i], at(found, i))
    assert found.converged.all()


def test_a_capped_howard_says_so():
    """The mutant: from 'go left everywhere' one evaluation is not enough, and the residual shows it."""
    P, r = FIVE["osband-5"][0]
    found = jitted(P, r, policy=np.zeros(5, int), max_iterations=1)
    assert gain_of(P, r, found.policy).max() < 4.2
    assert not found.converged
    assert found.residual > 1
    assert certifies(P, r, found)  # wrong, but honest about it
    assert not certifies(P, r, found._replace(residual=np.zeros(())))  # a residual computed wrongly
    assert not certifies(P, r, found._replace(gain=np.asarray(4.2893)))


@pytest.mark.parametrize("S", [5, 20, 50])
def test_garnets_against_linear_programmes(S):
    for seed in range(6):
        transitions, r = garnet(seed, S)
        P = full(transitions)
        best = best_by_programme(P, r)
        for table in (transitions, P):
            found = solve(table, r)
            assert found.gain == pytest.approx(best, abs=1e-8)
            assert certifies(P, r, found)


def test_batched_garnets_in_both_precisions():
    _, P, r = garnets()
    exact = np.array([solve(P[i], r[i]).gain for i in range(40)])
    double, single = jitted(P, r), hot(P, r)
    np.testing.assert_allclose(double.gain, exact, atol=1e-10)
    np.testing.assert_allclose(single.gain, exact, atol=1e-5)
    assert double.converged.all()
    assert single.converged.all()
    assert np.all(np.abs(np.asarray(single.gain) - exact) <= np.asarray(single.residual))
    warm = hot(P, r, single.policy)
    assert (np.asarray(warm.iterations) == 1).all()
    np.testing.assert_array_equal(warm.policy, single.policy)


def test_blocks_and_vmap_change_nothing(monkeypatch):
    from blts.planning import policy_iteration

    _, P, r = garnets()
    whole = hot(P, r)
    monkeypatch.setattr(policy_iteration, "CACHED", 7 * 25)  # seven models a block, and one that is not full
    P, r = jnp.asarray(P, jnp.float32), jnp.asarray(r, jnp.float32)
    for found in (howard(P.reshape(4, 10, 5, 2, 5), r.reshape(4, 10, 5, 2)), jax.vmap(howard)(P, r)):
        for x, y in zip(whole, found, strict=True):
            np.testing.assert_allclose(x, y.reshape(x.shape), rtol=1e-5, atol=1e-5)


# Elimination


@pytest.mark.parametrize("S", [1, 2, 7])
def test_elimination_solves_the_equations(S):
    rng = np.random.default_rng(S)
    P, r = rng.dirichlet(np.ones(S), (5, S)), rng.random((5, S))
    with jax.enable_x64(True):
        g, h = (np.asarray(x).T for x in evaluate(jnp.asarray(P.transpose(1, 2, 0)), jnp.asarray(r.T)))
    for i in range(5):
        np.testing.assert_allclose(g[i] + h[i], r[i] + P[i] @ h[i], atol=1e-12)
        np.testing.assert_allclose(g[i], gain_of(P[i][:, None], r[i][:, None], np.zeros(S, int)), atol=1e-9)


def test_elimination_of_a_chain_with_several_classes():
    """States 1 and 4 absorb, 0, 2 and 3 lead to both: gains and biases differ by state and solve both equations."""
    P = np.array([[0.2, 0.3, 0.1, 0.2, 0.2], [0, 1, 0, 0, 0], [0, 0.5, 0, 0.5, 0], [0.1, 0, 0.4, 0, 0.5], [0, 0, 0, 0, 1]])
    r = np.array([1.0, 2, 3, 4, 5])
    with jax.enable_x64(True):
        g, h = (np.asarray(x)[:, 0] for x in evaluate(jnp.asarray(P)[..., None], jnp.asarray(r)[:, None]))
    np.testing.assert_allclose(g, gain_of(P[:, None], r[:, None], np.zeros(5, int)), atol=1e-12)
    np.testing.assert_allclose(P @ g, g, atol=1e-14)
    np.testing.assert_allclose(g + h, r + P @ h, atol=1e-13)


def test_tiny_probabilities_do_not_cancel():
    """Two states left with probabilities a and b spend shares b : a in them, however small both are."""
    a, b = 3e-12, 1e-12
    P, r = np.array([[1 - a, a], [b, 1 - b]]), np.array([0.0, 1.0])
    with jax.enable_x64(True):
        g = np.asarray(evaluate(jnp.asarray(P)[..., None], jnp.asarray(r)[:, None])[0])
    np.testing.assert_allclose(g, a / (a + b), rtol=1e-6)  # 1 − a itself is known to 1e-16
    assert abs(np.linalg.solve(np.array([[1.0, -P[0, 1]], [1.0, 1 - P[1, 1]]]), r)[0] - a / (a + b)) > 1e-6  # by 1 − p_nn


def test_a_residual_is_never_below_rounding():
    """Biases near 2^40 with rewards of 1: in single precision T h − h is rounded to nothing, and that is no certificate."""
    leave = 2.0**-41
    P = np.array([[[1 - leave, leave]], [[leave, 1 - leave]]])
    r, h = jnp.array([[0.0], [1.0]], jnp.float32), jnp.array([0.0, 2.0**40], jnp.float32)
    found = relative_value_iteration(lambda h: jnp.asarray(P, jnp.float32) @ h, r, h, max_iterations=1)
    assert float(found.residual) > 1e4
    assert not found.converged


# Multichain on the way, periodic, tied, transient


def test_absorbing_policies_on_the_way():
    """From 'stay everywhere' each state is a class of its own; only the last one pays."""
    S = 5
    P = np.stack([np.eye(S), np.roll(np.eye(S), 1, 1)], 1)
    r = np.linspace(0, 1, S)[:, None] * np.array([1.0, 0.0])
    found = jitted(P, r, policy=np.zeros(S, int))
    assert found.gain == pytest.approx(1.0, abs=1e-12)
    assert found.policy.tolist() == [1] * (S - 1) + [0]
    assert found.converged
    assert solve(P, r).policy.tolist() == [1] * (S - 1) + [0]


def test_two_cycles_need_damping():
    swap = np.eye(2)[::-1][:, None]
    r = np.array([[0.0], [1.0]])
    run = partial(relative_value_iteration, lambda h: jnp.asarray(swap, jnp.float32) @ h, jnp.asarray(r, jnp.float32))
    found = run()
    assert found.converged
    assert float(found.gain) == pytest.approx(0.5, abs=1e-4)
    undamped = run(damping=0.0, max_iterations=500)  # the mutant never settles, and does not say that it has
    assert not undamped.converged
    assert float(undamped.residual) == pytest.approx(1.0)
    assert solve(swap, r).gain == pytest.approx(0.5, abs=1e-12)


def test_ties_keep_the_policy_and_start_at_the_smallest_action():
    P, r = np.full((5, 2, 5), 0.2), np.arange(5.0)[:, None] * np.ones(2)
    assert jitted(P, r).policy.tolist() == [0] * 5
    kept = jitted(P, r, policy=[1, 1, 0, 1, 0])
    assert kept.policy.tolist() == [1, 1, 0, 1, 0]
    assert int(kept.iterations) == 1
    assert solve(P, r).policy.tolist() == [0] * 5


def test_transient_states_are_weakly_communicating():
    P, r = np.zeros((5, 2, 5)), np.full((5, 2), 9.0)  # the last three states pay well, for a while
    P[0], P[1], r[:2] = [[0.5, 0.5, 0, 0, 0], [0, 1, 0, 0, 0]], [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]], [[1, 0], [0, 2]]
    P[2] = [0.5, 0, 0, 0.5, 0], [0, 0.1, 0.9, 0, 0]
    P[3] = [0.2, 0, 0.8, 0, 0], [0, 0.3, 0, 0.7, 0]
    P[4] = [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]
    found = structure(P)
    assert (found.communicating, found.weakly_communicating) == (False, True)
    for answer in (solve(P, r), jitted(P, r)):
        assert answer.gain == pytest.approx(best_by_programme(P, r), abs=1e-10)
        assert answer.gain == pytest.approx(best_by_enumeration(P, r), abs=1e-6)
