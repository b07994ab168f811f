"""Optima of parametric dynamics by two methods, and the recommender."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import planning
from blts.dynamics import (
    Admission,
    Feedback,
    Inventory,
    LinearQuadratic,
    LogitRiverSwim,
    LostSales,
    Replacement,
    recommender,
)
from blts.dynamics.recommender import log_follow
from worlds import best_of_all, solved

# Optima, by two methods


def finite_gain(transitions, rewards, policy) -> float:
    """The gain of a policy in double precision: g + h = r + P h, h(0) = 0."""
    P, r = np.asarray(transitions, float), np.asarray(rewards, float)
    states = np.arange(r.shape[0])
    equations = np.eye(r.shape[0]) - P[states, policy]
    equations[:, 0] = 1
    return float(np.linalg.solve(equations, r[states, policy])[0])


def wear_table(machine: Replacement, theta):
    """The machine as a table of transitions and rewards."""
    S = machine.levels + 1
    p = 1 / (1 + np.exp(-(theta[0] + theta[1] * np.arange(S) / machine.levels)))
    p[-1] = 0
    P = np.zeros((S, 2, S))
    P[:, 1, 0] = 1
    for s in range(S):
        P[s, 0, s] += 1 - p[s]
        P[s, 0, min(s + 1, S - 1)] += p[s]
    return P, -np.stack([float(machine.running) * np.arange(S) ** 2, np.full(S, float(machine.replacing))], 1)


def queue_table(desk: Admission, theta):
    """The uniformised queue; a slot costs each customer cost/(λ + μ) in expectation."""
    S, (arrival, service) = desk.capacity + 1, np.exp(theta)
    p, n = arrival / (arrival + service), np.arange(S)
    P = np.zeros((S, 2, S))
    for s in range(S):
        P[s, :, max(s - 1, 0)] += 1 - p
        P[s, 0, s] += p
        P[s, 1, min(s + 1, S - 1)] += p
    hold = -float(desk.cost) * n / (arrival + service)
    admit = hold + float(desk.reward) * p * (n < S - 1)
    return P, np.stack([hold, admit], 1)


howard = jax.jit(planning.howard)


def test_linear_quadratic_optimum():
    lq = LinearQuadratic()
    policy, gain, same = solved(lq, lq.true)
    assert float(gain) == pytest.approx(-1.245227, abs=2e-6)
    assert float(policy.gain) == pytest.approx(1.362370, abs=2e-6)
    assert float(same) == pytest.approx(-1.245227, abs=1e-5)


@pytest.mark.parametrize("theta", [(0.9, 0.5), (1.5, 0.3), (-1.2, 0.8), (0.2, 0.0), (0.5, -2.0)])
def test_riccati_root_is_the_limit_of_its_iteration(theta):
    lq, (a, b), P = LinearQuadratic(), theta, 1.0
    for _ in range(5000):
        P = 1.0 + a * a * P - (a * b * P) ** 2 / (0.1 + b * b * P)
    plan, gain, _ = solved(lq, jnp.asarray(theta))
    assert float(gain) == pytest.approx(-P, rel=1e-4)
    assert bool(plan.stabilises)
    assert abs(a - b * float(plan.gain)) < 1
    assert float(lq.gain_of(jnp.asarray(theta), Feedback(plan.gain + 0.05, plan.stabilises))) <= float(gain) + 1e-6


def test_what_cannot_be_stabilised_is_flagged():
    lq = LinearQuadratic()
    plan = lq.plan(jnp.asarray([1.1, 0.001]))
    assert not plan.stabilises
    assert float(plan.gain) == 0.0
    assert float(lq.gain_of(jnp.asarray([1.1, 0.001]), plan)) == -np.inf
    assert float(lq.act(Feedback(jnp.asarray(100.0), jnp.asarray(True)), jnp.asarray(5.0))) == -10.0


def test_inventory_optimum_by_quantile_and_by_enumeration():
    shop, demand = Inventory(), stats.poisson(4)
    d = np.arange(200)
    cost = [float(demand.pmf(d) @ (1.0 * np.maximum(s - d, 0) + 4.0 * np.maximum(d - s, 0))) for s in range(20)]
    np.testing.assert_allclose(shop.costs(shop.true)[:20], cost, rtol=1e-5)
    assert int(shop.plan(shop.true)) == int(np.argmin(cost)) == 6
    assert float(shop.gain(shop.true)) == pytest.approx(-2.977173, abs=2e-5)
    lost = LostSales()
    profit = [float(demand.pmf(d) @ (4.0 * np.minimum(s, d) - 1.0 * np.maximum(s - d, 0))) for s in range(20)]
    assert int(lost.plan(lost.true)) == int(np.argmax(profit)) == 6
    assert float(lost.gain(lost.true)) == pytest.approx(max(profit), abs=2e-5)


def test_admission_optimum_by_thresholds_and_by_policy_iteration():
    desk = Admission()
    policy, gain, same = solved(desk, desk.true)
    assert int(policy) == 3
    assert float(gain) == float(same) == pytest.approx(1.52363746, abs=2e-6)
    table = queue_table(desk, np.asarray(desk.true))
    assert finite_gain(*table, (np.arange(desk.capacity + 1) < 3).astype(int)) == pytest.approx(1.52363746, abs=1e-6)
    small = queue_table(Admission(capacity=7), np.asarray(desk.true))  # the same threshold, with less to compile
    assert float(howard(*map(jnp.asarray, small)).gain) == pytest.approx(1.52363746, abs=1e-4)


def test_replacement_optimum_by_limits_and_by_all_policies():
    machine = Replacement()
    policy, gain, same = solved(machine, machine.true)
    assert int(policy) == 3
    assert float(gain) == float(same) == pytest.approx(-0.94530537, abs=1e-6)
    table = wear_table(machine, (-1.0, 2.0))
    assert finite_gain(*table, (np.arange(11) >= 3).astype(int)) == pytest.approx(-0.94530537, abs=1e-8)
    assert best_of_all(*table) == pytest.approx(-0.94530537, abs=1e-8)


def test_riverswim_optimum_by_formula_and_by_policy_iteration():
    river = LogitRiverSwim()
    _, gain, same = solved(river, river.true)
    assert float(gain) == pytest.approx(0.85715014, abs=1e-6)
    assert float(same) == pytest.approx(0.85715014, abs=1e-5)
    P, r = jax.jit(lambda river: (river.transitions(river.true), river.rewards()))(river)
    assert finite_gain(P, r, np.ones(6, int)) == pytest.approx(0.85715014, abs=5e-6)
    assert float(howard(P, r).gain) == pytest.approx(0.85715014, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_optima_are_those_of_all_policies_away_from_the_named_problem(seed):
    theta = np.random.default_rng(seed).normal(0, 1.0, 2)
    machine, desk, river = Replacement(levels=8), Admission(capacity=8), LogitRiverSwim(length=4)
    for dynamics, table in (
        (machine, wear_table(machine, theta)),
        (desk, queue_table(desk, theta)),
        (river, jax.jit(lambda x: (river.transitions(x), river.rewards()))(jnp.asarray(theta))),
    ):
        gain = solved(dynamics, jnp.asarray(theta, jnp.float32))[1]
        assert float(gain) == pytest.approx(best_of_all(*table), abs=1e-4), type(dynamics).__name__


def test_double_precision_optima():
    with jax.enable_x64(True):
        found = [
            float(jax.jit(lambda d: d.gain(d.true))(d))
            for d in (LinearQuadratic(), Inventory(), Admission(), Replacement(), LogitRiverSwim())
        ]
        np.testing.assert_allclose(found, [-1.2452266594, -2.977173, 1.52363746, -0.94530537, 0.85715014], atol=5e-7)
        poi = recommender()
        plan, P, r = poi_table(poi, poi.true)
        assert float(plan.gain) == pytest.approx(finite_gain(P, r, plan.policy), abs=1e-8)


@jax.jit
def poi_table(poi, theta):
    return poi.solve(theta), poi.transitions(theta), poi.expect(theta, jnp.asarray(poi.rewards, float))


# The recommender


def test_recommender_backup_and_plan():
    """The O(S²) backup is the sum over next points, and value iteration finds what policy iteration does."""
    poi = recommender(points=5, phi=0.4)
    plan, P, r = poi_table(poi, poi.true)
    p, a = np.asarray(poi.passive), np.arange(5)
    f = p**0.4
    by_hand = np.where(a[:, None] == a, f[:, :, None], ((1 - f) / (1 - p))[:, :, None] * p[:, None])
    np.testing.assert_allclose(P, by_hand, atol=1e-6)
    np.testing.assert_allclose(r, by_hand @ np.asarray(poi.rewards), atol=1e-6)
    assert float(plan.gain) == pytest.approx(float(howard(by_hand, r).gain), abs=1e-4)
    gain_of = jax.jit(poi.gain_of)
    assert float(gain_of(poi.true, plan.policy)) == pytest.approx(float(plan.gain), abs=1e-4)
    assert float(gain_of(poi.true, jnp.zeros(5, int))) < float(plan.gain) - 0.1


def test_at_phi_one_every_policy_earns_the_passive_gain():
    poi = recommender(points=5)
    p = np.asarray(poi.passive)
    values, vectors = np.linalg.eig(p.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    passive = float(pi / pi.sum() @ np.asarray(poi.rewards))
    one = jnp.asarray([10.0])  # φ = 0.99995, the largest that is planned for
    gain_of, gain = jax.jit(poi.gain_of), jax.jit(poi.gain)
    for policy in ([0] * 5, [4] * 5, [1, 2, 3, 4, 0]):
        assert float(gain_of(one, jnp.asarray(policy))) == pytest.approx(passive, abs=2e-4)
    assert float(gain(one)) == pytest.approx(passive, abs=2e-4)
    assert float(gain(poi.true)) > passive + 0.1


def test_concave_in_phi_and_not_in_its_inverse():
    phi, p = np.meshgrid(np.linspace(0.02, 1.0, 50), [0.01, 0.1, 0.5, 0.9, 0.99])
    with jax.enable_x64(True):
        for followed in (True, False):
            of_phi = lambda x, p, seen=followed: log_follow(jnp.log(x), jnp.log(p), seen)  # noqa: E731
            second = jax.jit(jax.vmap(jax.grad(jax.grad(of_phi))))
            assert np.all(second(jnp.asarray(phi.ravel()), jnp.asarray(p.ravel())) <= 1e-9)
        of_theta = lambda x, p: log_follow(-jnp.log(x), jnp.log(p), False)  # noqa: E731
        bent = jax.jit(jax.vmap(jax.grad(jax.grad(of_theta))))(1 / jnp.asarray(phi.ravel()), jnp.asarray(p.ravel()))
        assert bent.max() > 1e-3  # so the check above can fail
