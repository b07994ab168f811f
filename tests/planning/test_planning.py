"""Planners against enumeration, linear programmes and each other; certificates against planners that are wrong."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from blts.errors import BltsError, ConfigError
from blts.planning import NotConverged, Sparse, check, howard, plan, relative_value_iteration, solve, structure
from blts.planning import solution as solution_module
from blts.planning.elimination import evaluate

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


def riverswim(S=6, small=0.005, big=1.0):
    """Left never fails; right is against the stream. At most three successors."""
    after, prob, r = np.zeros((S, 2, 3), int), np.zeros((S, 2, 3)), np.zeros((S, 2))
    s = np.arange(S)
    after[:, 0] = np.maximum(s - 1, 0)[:, None]
    prob[:, 0, 0] = 1
    after[:, 1] = np.stack([np.maximum(s - 1, 0), s, np.minimum(s + 1, S - 1)], 1)
    prob[:, 1] = 0.05, 0.6, 0.35
    prob[0, 1], prob[-1, 1] = (0, 0.4, 0.6), (0.4, 0.6, 0)
    r[0, 0], r[-1, 1] = small, big
    return Sparse(after, prob), r


def full(transitions):
    if not isinstance(transitions, Sparse):
        return transitions
    S, A, K = transitions.next.shape
    P = np.zeros((S, A, S))
    for s, a, k in itertools.product(range(S), range(A), range(K)):
        P[s, a, transitions.next[s, a, k]] += transitions.prob[s, a, k]
    return P


def garnet(seed, S, A=3, K=4):
    rng = np.random.default_rng(seed)
    after = np.argsort(rng.random((S, A, S)), -1)[..., :K]
    after[:, 0, 0] = (np.arange(S) + 1) % S  # a cycle through all states: communicating
    return Sparse(after, rng.dirichlet(np.ones(K), (S, A))), rng.random((S, A))


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


def best_by_programme(P, r):
    """max Σ x r over stationary frequencies of states and actions."""
    S, A = r.shape
    flow = np.repeat(np.eye(S), A, 1) - P.reshape(S * A, S).T
    found = optimize.linprog(
        -r.ravel(), A_eq=np.vstack([flow, np.ones(S * A)]), b_eq=np.append(np.zeros(S), 1), bounds=(0, None), method="highs"
    )
    assert found.success
    return -found.fun


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


def jitted(P, r, policy=None, most=100):
    """Howard's method in double precision; one compilation for all models of a shape."""
    policy = np.argmax(r, -1) if policy is None else np.asarray(policy)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, howard(jnp.asarray(P, float), jnp.asarray(r, float), policy, most=most))


def hot(P, r, policy=None, most=100, sweeps=2000):
    """The planner of sampled models, in single precision; one compilation for all models of a shape."""
    policy = np.argmax(r, -1) if policy is None else policy
    return plan(jnp.asarray(P, jnp.float32), jnp.asarray(r, jnp.float32), jnp.asarray(policy), most=most, sweeps=sweeps)


def garnets(count=40):
    """Small ones, one after another, as tables and as dense arrays."""
    models = [garnet(seed, 5, 2, 3) for seed in range(count)]
    return models, np.stack([full(table) for table, _ in models]), np.stack([r for _, r in models])


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
    found = jitted(P, r, policy=np.zeros(5, int), most=1)
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
    found = relative_value_iteration(lambda h: jnp.asarray(P, jnp.float32) @ h, r, h, most=1)
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
    undamped = run(damping=0.0, most=500)  # the mutant never settles, and does not say that it has
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
        capped = relative_value_iteration(table.expect, jnp.asarray(r), most=S)
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
    found, cut = hot(P, r, sweeps=500), hot(P, r, most=1, sweeps=1)
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
    failed = ~np.asarray(hot(P, r, most=1, sweeps=0).converged)
    both = hot(P, r, most=1)
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
    found = hot(P, r, policy=np.ones((40, 5), int), sweeps=3)
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


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"tolerance": np.nan}, {"most": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError):
        solve(GOOD, REWARDS, **options)
