"""Parametric dynamics: exact optima, the law of a transition, and samplers against exact posteriors, each with its mutant."""

from __future__ import annotations

import dataclasses
import pickle
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import _random, planning, random
from blts._module import from_json, to_json
from blts._typing import Row
from blts.declared import provides
from blts.dynamics import (
    Admission,
    Dynamics,
    Feedback,
    Inventory,
    LinearQuadratic,
    LogitRiverSwim,
    LostSales,
    Queue,
    Recommender,
    Replacement,
    Transitions,
    from_probabilities,
    quadrature,
    recommender,
    rollout,
    summary_of,
)
from blts.dynamics.inventory import log_tail
from blts.dynamics.recommender import log_follow
from blts.errors import ConfigError
from blts.history import Log
from blts.models.base import Sufficient
from blts.samplers import Chain, Langevin, mala, sgld, ula
from laws import LEVEL, counts_p, ks_p

ALL = (recommender(), LinearQuadratic(), Inventory(), LostSales(), Admission(), Replacement(), LogitRiverSwim())
by_name = pytest.mark.parametrize("dynamics", ALL, ids=lambda d: type(d).__name__)


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


def best_of_all(P, r) -> float:
    """The largest gain from state 0 over all stationary policies: P^(2^40) by squaring, lazily so that no cycle is left."""
    S, A = np.shape(r)
    policies = np.array(list(np.ndindex(*(A,) * S)))
    states = np.arange(S)
    power = 0.5 * (np.eye(S) + np.asarray(P, float)[states, policies])
    for _ in range(40):
        power = power @ power
        power /= power.sum(-1, keepdims=True)
    return float(np.einsum("ps,ps->p", power[:, 0], np.asarray(r, float)[states, policies]).max())


@jax.jit
def solved(dynamics, theta):
    policy = dynamics.plan(theta)
    return policy, dynamics.gain(theta), dynamics.gain_of(theta, policy)


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


# The law of a transition


def some_row(dynamics):
    """An observation and an action where a transition says something."""
    match dynamics:
        case Recommender():
            return jnp.asarray(2), jnp.asarray(4)
        case LinearQuadratic():
            return jnp.asarray(0.7), jnp.asarray(-0.3)
        case Inventory() | LostSales():
            return jnp.asarray(1), jnp.asarray(5)
        case Admission():
            return Queue(jnp.asarray(2), jnp.asarray(True), jnp.asarray(0.0)), jnp.asarray(1)
        case Replacement():
            return jnp.asarray(6), jnp.asarray(0)
        case _:
            return jnp.asarray(3), jnp.asarray(1)


def outcomes(dynamics, obs, action) -> np.ndarray:
    """All next states that can follow."""
    match dynamics:
        case Recommender():
            return np.arange(dynamics.states)
        case Inventory():
            return 5 - np.arange(60)
        case LostSales():
            return np.arange(6)
        case Replacement():
            return np.arange(int(obs), min(int(obs) + 2, 11)) if int(action) == 0 else np.array([0])
        case _:
            return np.unique(np.clip(int(obs) + np.array([-1, 0, 1]) if int(action) else int(obs) - np.ones(1, int), 0, 5))


@jax.jit
def _log_likelihoods(dynamics, theta, obs, action, states):
    return jax.vmap(lambda s: dynamics.log_likelihood(theta, Row(obs, action, jnp.zeros(()), s)))(states)


def probabilities(dynamics, theta, obs, action):
    states = outcomes(dynamics, obs, action)
    return states, np.exp(np.asarray(_log_likelihoods(dynamics, theta, obs, action, jnp.asarray(states))))


FINITE = [d for d in ALL if not isinstance(d, LinearQuadratic | Admission)]


@pytest.mark.parametrize("dynamics", FINITE, ids=lambda d: type(d).__name__)
def test_probabilities_sum_to_one(dynamics):
    for seed in range(5):
        theta = dynamics.true + 0.3 * (seed - 2)
        obs, action = some_row(dynamics)
        assert probabilities(dynamics, theta, obs, action)[1].sum() == pytest.approx(1, abs=3e-5)
    if isinstance(dynamics, LogitRiverSwim):
        for s, a in np.ndindex(6, 2):
            assert probabilities(dynamics, theta, jnp.asarray(s), jnp.asarray(a))[1].sum() == pytest.approx(1, abs=3e-5)


def test_densities_integrate_to_one():
    lq, desk = LinearQuadratic(), Admission()
    x = jnp.linspace(-9, 9, 4001)
    obs, action = some_row(lq)
    density = jnp.exp(jax.vmap(lambda y: lq.log_likelihood(lq.true, Row(obs, action, 0.0, y)))(x))
    assert float(jnp.trapezoid(density, x)) == pytest.approx(1, abs=1e-4)
    t = jnp.linspace(0, 20, 20001)
    of = lambda arrived: jax.vmap(  # noqa: E731
        lambda t: desk.log_likelihood(desk.true, Row(obs, action, 0.0, Queue(jnp.asarray(0), jnp.asarray(arrived), t)))
    )(t)
    assert float(jnp.trapezoid(jnp.exp(of(True)) + jnp.exp(of(False)), t)) == pytest.approx(1, abs=1e-4)


def drawn(dynamics, theta, n=20_000, key=0):
    obs, action = some_row(dynamics)
    keys = _random.split(random.key(key), n)
    return jax.jit(jax.vmap(lambda k: dynamics.sample(k, theta, obs, action)))(keys)


@pytest.mark.parametrize("dynamics", FINITE, ids=lambda d: type(d).__name__)
def test_samples_have_the_likelihood(dynamics):
    """Frequencies of next states against exp(log_likelihood); a θ that is 0.2 off must be found."""
    obs, action = some_row(dynamics)
    found = np.asarray(drawn(dynamics, dynamics.true)[0])
    fit = {}
    for shift in (0.0, 0.2):
        states, p = probabilities(dynamics, dynamics.true + shift, obs, action)
        counts = np.array([(found == s).sum() for s in states])
        assert counts.sum() == found.size
        fit[shift] = counts_p(counts, p / p.sum())
    assert fit[0.0] > LEVEL
    assert fit[0.2] < LEVEL


def test_samples_of_continuous_laws():
    lq, desk = LinearQuadratic(), Admission()
    x = np.asarray(drawn(lq, lq.true)[0])
    assert ks_p(x, stats.norm(0.9 * 0.7 - 0.5 * 0.3, 1.0).cdf) > LEVEL
    assert ks_p(x, stats.norm(0.9 * 0.7, 1.0).cdf) < LEVEL
    seen, reward = drawn(desk, desk.true)
    assert ks_p(seen.elapsed, stats.expon(scale=1 / 1.8).cdf) > LEVEL
    assert ks_p(seen.elapsed, stats.expon(scale=1.0).cdf) < LEVEL
    arrivals = [int(seen.arrived.sum()), int((~seen.arrived).sum())]
    assert counts_p(arrivals, [0.8 / 1.8, 1 / 1.8]) > LEVEL
    assert counts_p(arrivals, [0.5, 0.5]) < LEVEL
    np.testing.assert_array_equal(seen.customers, np.where(seen.arrived, 3, 1))
    np.testing.assert_allclose(reward, 6.0 * np.asarray(seen.arrived) - 2 * np.asarray(seen.elapsed), rtol=1e-5, atol=1e-5)


@by_name
def test_the_plan_earns_its_gain(dynamics):
    """A long run under the best plan, and under another one that must earn less."""
    rounds = 40_000
    run = jax.jit(lambda key, plan: rollout(key, dynamics, dynamics.true, plan, rounds).rows.reward)
    reward = np.asarray(run(random.key(1), dynamics.plan(dynamics.true)), float)
    error = reward.reshape(100, -1).mean(1).std() / 10  # means of 400 rounds are nearly independent
    assert abs(reward.mean() - float(dynamics.gain(dynamics.true))) < 4.5 * error + 1e-5
    worse = jax.tree.map(lambda x: jnp.zeros_like(x), dynamics.plan(dynamics.true))
    assert np.mean(run(random.key(1), worse)) < float(dynamics.gain(dynamics.true)) - 4.5 * error


@by_name
def test_summary_says_what_the_rows_say(dynamics):
    rows = data_of(dynamics, 64)

    @jax.jit
    def both(shift):
        theta, summary = dynamics.true + shift, summary_of(dynamics, rows)
        each = jax.vmap(lambda row: dynamics.log_likelihood(theta, row))(rows)
        return summary.rows, dynamics.log_likelihood_of(theta, summary), each.sum()

    for shift in (-1.0, 0.0, 0.7):
        n, whole, each = both(shift)
        assert int(n) == 64
        np.testing.assert_allclose(whole, each, rtol=2e-4, atol=1e-3)


def test_upper_tail_of_censored_demand():
    """Against SciPy, in value and in slope d/dlog λ = λ pmf(y - 1)/P(D ≥ y), far into both tails."""
    y, t = (x.ravel() for x in np.meshgrid(np.arange(1, 20), np.linspace(-12, 5, 35)))
    tail = lambda y, t: log_tail(y, t, 20)  # noqa: E731
    law = stats.poisson(np.exp(t))
    exact = law.logsf(y - 1)
    np.testing.assert_allclose(jax.jit(jax.vmap(tail))(y, t.astype(np.float32)), exact, rtol=2e-5, atol=2e-6)
    slope = jax.jit(jax.vmap(jax.grad(tail, 1)))(y, t.astype(np.float32))
    np.testing.assert_allclose(slope, np.exp(t + law.logpmf(y - 1) - exact), rtol=1e-3, atol=1e-4)


# Whatever a sampler does

FAR = (0.0, -8.0, 8.0, -60.0, 60.0, -1e30, 1e30, -np.inf, np.inf, np.nan)


@by_name
def test_plans_are_finite_everywhere(dynamics):
    thetas = jnp.asarray(np.stack(np.meshgrid(*[FAR] * dynamics.dim), -1).reshape(-1, dynamics.dim), float)

    def look(theta):
        policy = dynamics.plan(theta)
        return policy, dynamics.gain(theta), dynamics.act(policy, dynamics.start())

    for leaf in jax.tree.leaves(jax.jit(jax.vmap(look))(thetas)):
        assert np.isfinite(np.asarray(leaf, float)).all()


@by_name
def test_gradients_are_finite_near_the_edge(dynamics):
    edge = (-40.0, -20.0, -5.0, 0.0, 5.0, 20.0)
    thetas = jnp.asarray(np.stack(np.meshgrid(*[edge] * dynamics.dim), -1).reshape(-1, dynamics.dim), float)
    rows = data_of(dynamics, 32)
    summary = summary_of(dynamics, rows)

    def look(theta):
        of_rows = jax.grad(lambda x: jnp.sum(jax.vmap(lambda row: dynamics.log_likelihood(x, row))(rows)))(theta)
        of_summary = jax.grad(lambda x: dynamics.log_likelihood_of(x, summary))(theta)
        return of_rows, of_summary, jax.grad(dynamics.log_prior)(theta), dynamics.information(theta)

    slopes = jax.jit(jax.vmap(look))(thetas)
    for leaf in slopes:
        assert np.isfinite(np.asarray(leaf)).all()
    assert (np.asarray(slopes[3]) > 0).all()


# Samplers against exact posteriors

CHAINS = 2000
BOX = {
    "Recommender": (-4.0, 7.0),
    "LinearQuadratic": ((0.3, -0.3), (1.7, 1.3)),
    "Inventory": (0.9, 1.9),
    "LostSales": (0.8, 2.0),
    "Admission": ((-1.2, -1.0), (0.8, 1.0)),
    "Replacement": ((-3.0, -4.0), (0.6, 8.0)),
    "LogitRiverSwim": ((-9.0, -5.0), (1.0, 5.0)),
}


@cache
def data_of(dynamics, n: int) -> Row:
    """Simulated transitions; rounds take turns between the best plan and another, so that all of θ shows."""
    plan, other = dynamics.plan(dynamics.true), None
    if isinstance(dynamics, LinearQuadratic):
        other = Feedback(jnp.asarray(-0.3), jnp.asarray(True))
    elif isinstance(dynamics, LostSales):
        plan = plan - 2  # more stock-outs: a third of the rows is censored
    elif isinstance(dynamics, Replacement):
        plan = plan + 5
    run = jax.jit(lambda key: rollout(key, dynamics, dynamics.true, plan, n, explore=other).rows)
    return run(random.key(11))


summarised = jax.jit(summary_of)


@cache
def oracle(dynamics, n: int):
    name = type(dynamics).__name__
    return quadrature(dynamics, summarised(dynamics, data_of(dynamics, n)), *BOX[name])


def as_history(chain: Chain, model: Transitions, rows: Row):
    """What the chain remembers of the rows, by its own `empty` and `remember`."""
    packed = jax.vmap(Transitions.row)(*rows)
    first = jax.tree.map(lambda x: x[0], packed)
    empty = chain.empty(model, first, rows.reward.shape[0])  # type: ignore[arg-type]
    step = lambda history, row: (chain.remember(model, history, row, jnp.asarray(True)), None)  # noqa: E731
    return jax.lax.scan(step, empty, packed)[0]


def chain_ends(chain: Chain, dynamics, n: int, key=0, far=1.0):
    """Ends of independent chains that start around the truth."""
    model = Transitions(dynamics).stacked()
    start = dynamics.true + far * oracle(dynamics, n).sd * _random.normal(random.key(99), (CHAINS, dynamics.dim))

    @jax.jit
    def run(chain, model, start, rows):
        history = as_history(chain, model, rows)
        assert isinstance(history, Log) == chain.needs_log(model)
        block = jax.tree.map(lambda x: x[None], history)
        keys = random.key(key)[None]
        return chain.run(keys, model, start[None, None], block, jnp.full((1, 1), rows.reward.shape[0]))[0]

    return np.asarray(run(chain, model, start, data_of(dynamics, n)))[0, 0]


FAST = (LinearQuadratic(), Inventory())
SLOW = [pytest.param(d, marks=pytest.mark.slow) for d in (recommender(), LostSales(), Admission(), Replacement(), LogitRiverSwim())]
posteriors = pytest.mark.parametrize("dynamics", [*FAST, *SLOW], ids=lambda d: type(d).__name__)
STEPS = {"Replacement": 300, "LinearQuadratic": 200, "LogitRiverSwim": 300}


@posteriors
def test_mala_reaches_the_posterior(dynamics):
    steps = STEPS.get(type(dynamics).__name__, 100)
    assert oracle(dynamics, 200).distance(chain_ends(mala(0.5, steps), dynamics, 200)).max() < 0.1


@pytest.mark.parametrize("dynamics", FAST, ids=lambda d: type(d).__name__)
def test_sgld_reaches_the_posterior(dynamics):
    """With 100 rows the noise of minibatches of 32 adds less than a tenth to the variance at this step."""
    assert oracle(dynamics, 100).distance(chain_ends(sgld(0.05, 400, 32), dynamics, 100)).max() < 0.15


@pytest.mark.slow
@by_name
def test_sgld_with_a_control_variate_reaches_the_posterior(dynamics):
    steps = STEPS.get(type(dynamics).__name__, 100)
    chain = sgld(0.1, steps, 32, control_variate=True)
    assert oracle(dynamics, 200).distance(chain_ends(chain, dynamics, 200)).max() < 0.1


@pytest.mark.parametrize("dynamics", FAST[1:], ids=lambda d: type(d).__name__)
def test_a_wrong_temperature_is_found(dynamics):
    """The mutant of both tests above: twice the variance is 0.33 sd away."""
    steps = STEPS.get(type(dynamics).__name__, 100)
    hot = Chain(Langevin(0.1, temperature=2.0), steps)
    assert oracle(dynamics, 200).distance(chain_ends(hot, dynamics, 200)).max() > 0.2
    right = oracle(dynamics, 200).distance(chain_ends(ula(0.1, steps), dynamics, 200)).max()
    assert right < 0.15


def test_a_dropped_prior_is_found():
    """With few rows the prior shows."""
    shop = Inventory(a=20.0, b=10.0)
    rows = data_of(shop, 8)
    law = quadrature(shop, summarised(shop, rows), -1.0, 3.0)
    flat = quadrature(dataclasses.replace(shop, a=0.01, b=0.01), rows, -1.0, 3.0)
    draws = jax.jit(jax.vmap(lambda k: shop.draw(k, summary_of(shop, rows))))(_random.split(random.key(3), CHAINS))
    assert law.distance(draws)[0] < 0.1
    assert flat.distance(draws)[0] > 0.5


def test_quadrature_agrees_with_exact_posteriors():
    """Normal for linear-quadratic control, Gammas for rates; rows and summaries give one law."""
    lq = LinearQuadratic()
    summary = summarised(lq, data_of(lq, 200))
    mean, covariance = lq.posterior(summary)
    law = oracle(lq, 200)
    np.testing.assert_allclose(law.mean, mean, atol=2e-3 * law.sd.min())
    np.testing.assert_allclose(law.sd, np.sqrt(np.diag(covariance)), rtol=1e-3)
    np.testing.assert_allclose(law.quantile(0.9), mean + 1.2816 * law.sd, atol=5e-3 * law.sd.min())
    desk = Admission()
    shapes, rate = desk.posterior(summarised(desk, data_of(desk, 200)))
    exact = stats.loggamma(np.asarray(shapes), loc=-np.log(float(rate)))
    np.testing.assert_allclose(oracle(desk, 200).mean, exact.mean(), atol=2e-4)
    np.testing.assert_allclose(oracle(desk, 200).sd, exact.std(), rtol=2e-3)
    draws = jax.jit(jax.vmap(lambda k: desk.draw(k, summary_of(desk, data_of(desk, 200)))))(_random.split(random.key(3), CHAINS))
    assert oracle(desk, 200).distance(draws).max() < 0.1
    by_rows = quadrature(desk, data_of(desk, 200), *BOX["Admission"])
    np.testing.assert_allclose(by_rows.mean, oracle(desk, 200).mean, atol=1e-4)
    with pytest.raises(ConfigError, match="widen"):
        quadrature(Inventory(), summarised(Inventory(), data_of(Inventory(), 64)), 1.3, 1.5)


# Contracts


@by_name
def test_contract(dynamics):
    assert isinstance(dynamics, Dynamics)
    assert provides(dynamics, Sufficient)
    assert dynamics.true.shape == (dynamics.dim,) == dynamics.init(random.key(0)).shape
    assert dynamics.information(dynamics.true).shape == (dynamics.dim,) == dynamics.prior_precision().shape
    assert str(dynamics).endswith(".")
    for copy in (pickle.loads(pickle.dumps(dynamics)), from_json(to_json(dynamics))):
        assert type(copy) is type(dynamics)
        assert float(copy.gain(copy.true)) == float(dynamics.gain(dynamics.true))
    arm = Transitions(dynamics)
    assert provides(pickle.loads(pickle.dumps(arm)), Sufficient)
    assert provides(from_json(to_json(arm)), Sufficient)
    obs = dynamics.start()
    action = dynamics.act(dynamics.plan(dynamics.true), obs)
    next_obs, reward = dynamics.sample(random.key(0), dynamics.true, obs, action)
    like = lambda x: jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), x)  # noqa: E731
    assert like(next_obs) == like(obs)
    assert like(reward) == ((), jnp.result_type(float))


def ladder(theta, state, action):
    up = jax.nn.sigmoid(theta[0] + theta[1] * action)
    at = lambda s: jnp.arange(4) == jnp.clip(s, 0, 3)  # noqa: E731
    return up * at(state + 1) + (1 - up) * at(state - 1)


def test_from_probabilities():
    """Rows go through a log, policy iteration finds the best of all policies, and the posterior is reached."""
    rewards = np.arange(4.0)[:, None] - np.array([0.0, 0.3])
    world = from_probabilities(ladder, rewards, [0.0, 0.0], 2.0, theta=[-0.5, 1.2])
    assert isinstance(world, Dynamics)
    assert not provides(Transitions(world), Sufficient)
    _, gain, same = solved(world, world.true)
    assert float(gain) == pytest.approx(best_of_all(jax.jit(world.transitions)(world.true), rewards), abs=1e-4)
    assert float(same) == pytest.approx(float(gain), abs=1e-4)
    for x in FAR:
        assert np.isfinite(solved(world, jnp.full(2, x))[1])
    next_obs = np.asarray(jax.jit(jax.vmap(lambda k: world.sample(k, world.true, 1, 0)[0]))(_random.split(random.key(0), 20_000)))
    up = 1 / (1 + np.exp(0.5))
    assert counts_p(np.bincount(next_obs, minlength=4), [1 - up, 0, up, 0]) > LEVEL
    assert counts_p(np.bincount(next_obs, minlength=4), [0.96 - up, 0.02, up, 0.02]) < LEVEL
    with pytest.raises(ConfigError, match="sum to 1"):
        from_probabilities(lambda *_: jnp.full(4, 0.3), rewards, [0.0])
    with pytest.raises(ConfigError, match="4 states"):
        from_probabilities(lambda *_: jnp.full(3, 1 / 3), rewards, [0.0])
    with pytest.raises(ConfigError, match="2 numbers"):
        from_probabilities(ladder, rewards, [0.0, 0.0], theta=[1.0])


@by_name
def test_one_compilation_for_all_numbers(dynamics):
    traces = []

    @jax.jit
    def look(dynamics, theta):
        traces.append(1)
        return dynamics.plan(theta), dynamics.gain(theta)

    look(dynamics, dynamics.true)
    other = jax.tree.map(lambda x: np.asarray(x) * 1.0, dynamics)
    look(other, dynamics.true + 0.1)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (partial(Recommender, np.ones((1, 1)), [1.0]), "S ≥ 2"),
        (partial(Recommender, np.eye(2), [0.0, 1.0]), "probabilities > 0"),
        (partial(Recommender, np.full((2, 2), 0.5), [0.0]), "S × S|one number"),
        (partial(recommender, phi=1.5), r"\(0, 1\)"),
        (partial(recommender, points=1), "points"),
        (partial(LinearQuadratic, a=1.2, b=0.0), "stabilised"),
        (partial(LinearQuadratic, r=0.0), "r must be > 0"),
        (partial(LinearQuadratic, prior_mean=[0.0]), "two numbers"),
        (partial(Inventory, rate=-1.0), "rate must be > 0"),
        (partial(LostSales, levels=1), "levels"),
        (partial(LostSales, price=4.0, unit_cost=4.0), "price must be above unit_cost; got 4 and 4"),
        (partial(LostSales, fixed_cost=-1.0), "fixed_cost must be ≥ 0 and finite; got -1"),
        (partial(Admission, service=0.0), "service must be > 0"),
        (partial(Replacement, theta=[1.0]), "two numbers"),
        (partial(LogitRiverSwim, length=1), "length"),
        (partial(LogitRiverSwim, stroke=[0.5, 0.5, 0.5]), "sum to 1"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(build, words):
    with pytest.raises(ConfigError, match=words) as error:
        build()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
