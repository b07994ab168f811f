"""Certificates against planners that are wrong, models that are hard, and bad input."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts.errors import BltsError, ConfigError
from blts.planning import NotConverged, Sparse, check, relative_value_iteration, solve, structure
from blts.planning import solution as solution_module
from small_mdps import best_by_programme, garnet, garnets, hot, jitted, riverswim

# Not weakly communicating


def test_several_classes_are_refused_and_flagged():
    P, r = np.repeat(np.eye(5)[:, None], 2, 1), np.arange(5.0)[:, None] * np.ones(2)
    with pytest.raises(ConfigError, match="depends on the state a run starts in"):
        solve(P, r)
    found = jitted(P, r)
    assert not found.converged
    assert found.residual == pytest.approx(4.0)  # the interval holds the gains of all states
    stay_or_go = np.stack([np.eye(2), np.array([[0.0, 1], [0, 1]])], 1)  # state 0 may stay for ever
    assert not structure(stay_or_go).weakly_communicating
    assert structure(stay_or_go).staying.tolist() == [0]
    with pytest.raises(ConfigError, match="stay for ever in state 0"):
        solve(stay_or_go, np.zeros((2, 2)))


def reach(P):
    closure = np.eye(P.shape[0], dtype=bool) | (P > 0).any(1)
    for _ in range(P.shape[0]):
        closure = closure | (closure.astype(int) @ closure.astype(int) > 0)
    return closure


def weakly_by_policies(P):
    """Every policy's recurrent states lie in one class that nothing leaves."""
    S, A, _ = P.shape
    closure, recurrent = reach(P), np.zeros(S, bool)
    for policy in itertools.product(range(A), repeat=S):
        own = reach(P[np.arange(S), policy][:, None])
        recurrent |= (own <= own.T).all(1)
    members = np.flatnonzero(recurrent)
    closed = not (closure[members][:, ~recurrent]).any()
    return bool(closed and closure[np.ix_(members, members)].all())


def test_structure_by_enumeration():
    rng, seen = np.random.default_rng(1), []
    for _ in range(150):
        S = int(rng.integers(1, 6))
        P = (rng.random((S, 2, S)) < 0.35).astype(float)
        P[..., 0] += P.sum(-1) == 0
        P /= P.sum(-1, keepdims=True)
        found, closure = structure(P), reach(P)
        assert found.communicating == bool(closure.all())
        assert found.weakly_communicating == weakly_by_policies(P)
        for members, closed in zip(found.classes, found.closed, strict=True):
            assert (closure[np.ix_(members, members)]).all()
            assert closed == (not np.delete(closure[members], members, 1).any())
        assert sorted(np.concatenate(found.classes).tolist()) == list(range(S))
        as_sparse = Sparse(np.broadcast_to(np.arange(S), P.shape), P)
        assert structure(as_sparse).weakly_communicating == found.weakly_communicating
        seen.append((found.communicating, found.weakly_communicating))
    assert set(seen) == {(True, True), (False, True), (False, False)}


# Long chains


@pytest.mark.parametrize("S", [50, 500, 5000])
def test_long_chains_are_certified(S):
    transitions, r = riverswim(S)
    found = solve(transitions, r)
    assert found.policy.all()  # swim on, from everywhere
    assert found.gain == pytest.approx(3 / 7, abs=1e-9)  # the reward's share of rounds at the far end
    assert found.residual <= 1e-9
    # The mutant: as many sweeps of value iteration as a common cap allows leave the left half where it is.
    with jax.enable_x64(True):
        table = Sparse(*map(jnp.asarray, transitions))
        capped = relative_value_iteration(table.expect, jnp.asarray(r), max_iterations=S)
    assert not capped.converged
    assert not np.asarray(capped.policy).all()


def test_long_chains_do_not_depend_on_the_start(monkeypatch):
    """The best reward at the wrong end: a first plan that heads there is left again."""
    S = 1500
    transitions, r = riverswim(S, small=0.5, big=1.0)  # 0.5 a round at the left beats 3/7 at the right
    found = solve(transitions, r)
    assert found.gain == pytest.approx(0.5, abs=1e-9)
    assert found.policy[0] == 0
    monkeypatch.setattr(solution_module, "unichain", lambda transitions, policy, goal: policy)
    transitions, r = riverswim(S)
    crawl = solve(transitions, r)  # from the best immediate rewards, sweeps carry the news upstream
    assert crawl.policy.all()
    assert crawl.iterations < 40


def test_a_slow_walk_is_certified():
    """No drift at all: value iteration alone would need S² sweeps."""
    S = 1000
    s = np.arange(S)
    after = np.stack([np.maximum(s - 1, 0), np.minimum(s + 1, S - 1)], 1)[:, None]
    found = solve(Sparse(after, np.full((S, 1, 2), 0.5)), np.linspace(0, 1, S)[:, None], tolerance=1e-8)
    assert found.gain == pytest.approx(0.5, abs=1e-8)


def test_what_cannot_be_certified_is_not_returned():
    transitions, r = riverswim(50)
    with pytest.raises(NotConverged, match="loses at most") as refused:
        solve(transitions, r, tolerance=1e-18)
    assert refused.value.plan.policy.all()
    assert refused.value.plan.residual < 1e-9
    assert isinstance(refused.value, BltsError)


# The hot path


def test_hard_models_are_right_or_flagged():
    """Sampled rows with probabilities down to 1e-30: every plan that claims convergence is near the exact optimum."""
    rng = np.random.default_rng(3)
    P = np.exp(rng.normal(size=(40, 5, 2, 5)) * 8)
    P /= P.sum(-1, keepdims=True)
    P = P.astype(np.float32)
    r = np.broadcast_to(rng.random((5, 2)).astype(np.float32), (40, 5, 2))
    found, cut = hot(P, r, max_sweeps=500), hot(P, r, max_iterations=1, max_sweeps=1)
    rows = P.astype(float) / P.astype(float).sum(-1, keepdims=True)
    exact = np.array([best_by_programme(x, r[0].astype(float)) for x in rows])

    def sure_and_wrong(found):
        return np.asarray(found.converged), np.abs(np.asarray(found.gain) - exact) > 2e-4

    sure, wrong = sure_and_wrong(found)
    assert sure.mean() > 0.9
    assert not (sure & wrong).any()
    sure, wrong = sure_and_wrong(cut)  # the mutant, cut short, is wrong for many and says so for each
    assert wrong.mean() > 0.1
    assert not (sure & wrong).any()


def test_value_iteration_takes_over():
    """Howard's method cut short leaves models to value iteration, and only those."""
    models, P, r = garnets()
    failed = ~np.asarray(hot(P, r, max_iterations=1, max_sweeps=0).converged)
    both = hot(P, r, max_iterations=1)
    assert 0 < failed.sum() < 40
    assert both.converged.all()
    assert (np.asarray(both.iterations)[failed] > 1).all()
    assert (np.asarray(both.iterations)[~failed] == 1).all()
    np.testing.assert_allclose(both.gain, [solve(x, y).gain for x, y in models], atol=1e-4)


def test_a_warm_bias_saves_sweeps():
    transitions, r = garnet(0, 20)
    table, r = Sparse(jnp.asarray(transitions.next), jnp.asarray(transitions.prob, jnp.float32)), jnp.asarray(r, jnp.float32)
    cold = relative_value_iteration(table.expect, r)
    warm = relative_value_iteration(table.expect, r, cold.bias)
    assert int(warm.iterations) == 1 < int(cold.iterations)
    np.testing.assert_array_equal(cold.policy, warm.policy)


def test_nan_never_converges():
    _, P, r = garnets()
    P[::2, 0, 1, 2] = np.nan
    found = hot(P, r, policy=np.ones((40, 5), int), max_sweeps=3)
    assert not found.converged[::2].any()
    assert found.converged[1::2].all()


# Bad input

GOOD, REWARDS = np.full((2, 2, 2), 0.5), np.zeros((2, 2))


def changed(place, value):
    P = GOOD.copy()
    P[place] = value
    return P


@pytest.mark.parametrize(
    ("transitions", "rewards", "words"),
    [
        (changed((1, 0, 1), 0.4), REWARDS, r"those of \(1, 0\) add up to 0.9"),
        (changed((0, 1), [-0.1, 1.1]), REWARDS, r"\(0, 1\) has -0.1"),
        (changed((1, 1, 0), np.nan), REWARDS, r"\(1, 1\) has nan"),
        (GOOD[0], REWARDS, "shape"),
        (GOOD, np.zeros(2), r"shape \(2, 2\); got shape \(2,\)"),
        (GOOD, np.array([[0, 0], [np.inf, 0]]), r"that of \(1, 0\) is inf"),
        ("model", REWARDS, "array of numbers"),
        (Sparse(np.full((2, 2, 1), 2), np.ones((2, 2, 1))), REWARDS, "from 0 to 1"),
        (Sparse(np.zeros((2, 2, 2), int), np.ones((2, 2, 1))), REWARDS, "must both have shape"),
        (Sparse(np.zeros((2, 2, 1)), np.ones((2, 2, 1))), REWARDS, "whole numbers"),
    ],
)
def test_bad_models_are_refused(transitions, rewards, words):
    for refuse in (check, solve):
        with pytest.raises(ConfigError, match=words):
            refuse(transitions, rewards)


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"tolerance": np.nan}, {"max_iterations": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError):
        solve(GOOD, REWARDS, **options)
