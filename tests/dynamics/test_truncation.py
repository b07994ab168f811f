"""Truncation is part of the certificate: worlds with infinitely many levels against NumPy without their formulas."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import _random, random
from blts._module import from_json, to_json
from blts.agents import PSRL, Follow, Parameters
from blts.agents.psrl import plans_of
from blts.batching import StaticDoubling
from blts.catalogue import condition
from blts.dynamics import Admission, Inventory, LinearQuadratic, LostSales, rollout
from blts.dynamics.poisson_demand import log_tail
from blts.envs import ParametricMDP
from blts.errors import ConfigError
from blts.problems import optimum
from blts.registry import build
from blts.samplers import sgld
from blts.simulation import simulate


def solved(name: str, **options) -> dict:
    return optimum(lambda: build("environment", name, **options))


# References in NumPy


def newsvendor(rate: float, holding: float, missing: float) -> tuple[int, float]:
    """The Poisson quantile, and the cost a period by summation over demand."""
    S, d = int(stats.poisson.ppf(missing / (missing + holding), rate)), np.arange(20 * int(rate + 10))
    return S, float(stats.poisson.pmf(d, rate) @ (holding * np.maximum(S - d, 0) + missing * np.maximum(d - S, 0)))


def policy_iteration(moves, rewards, allowed) -> tuple[float, np.ndarray]:
    """Howard's method for `moves[y]`, the law of the next state after action y in any state, and `rewards[x, y]`."""
    S = rewards.shape[0]
    policy, r = np.arange(S), np.where(allowed, rewards, -np.inf)
    for _ in range(100):
        equations = np.eye(S) - moves[policy]
        equations[:, 0] = 1
        g_and_h = np.linalg.solve(equations, rewards[np.arange(S), policy])
        gain, h = g_and_h[0], np.concatenate([[0.0], g_and_h[1:]])
        q = r + moves @ h
        better = np.where(q[np.arange(S), policy] >= q.max(1) - 1e-10, policy, q.argmax(1))
        if (better == policy).all():
            return float(gain), policy
        policy = better
    raise AssertionError("not solved")


def shop_in_numpy(holding, price, unit_cost, fixed_cost, rate, levels) -> tuple[float, np.ndarray]:
    """Lost sales over the stock 0 … levels - 1, of which the start policy orders up to the top."""
    stock = np.arange(levels)
    moves = np.zeros((levels, levels))
    for y in stock:
        moves[y, 1 : y + 1] = stats.poisson.pmf(y - np.arange(1, y + 1), rate)
        moves[y, 0] = 1 - moves[y].sum()
    sold, left = moves @ -stock + stock, moves @ stock
    ordered = stock - stock[:, None]
    rewards = price * sold - holding * left - unit_cost * ordered - fixed_cost * (ordered > 0)
    return policy_iteration(moves, rewards, ordered >= 0)


def queue_in_numpy(arrival, service, reward, cost, capacity) -> tuple[float, int]:
    """The gain a slot of every threshold, from the stationary law of its own birth–death chain."""
    best = (-np.inf, 0)
    for k in range(capacity + 1):
        pi = (arrival / service) ** np.arange(k + 1)
        pi /= pi.sum()
        gain = (arrival * reward * (1 - pi[-1]) - cost * pi @ np.arange(k + 1)) / (arrival + service)
        best = max(best, (gain, k))
    return best


# What is solved


@pytest.mark.parametrize("rate", [4.0, 30.0, 300.0])
def test_base_stocks_are_not_cut_off(rate):
    """Rate 30 was said to cost 44.138 at the level 19, certified to 2.7e-14."""
    S, cost = newsvendor(rate, 1.0, 4.0)
    found = solved("inventory", rate=rate)
    assert found["policy"] == S == {4.0: 6, 30.0: 35, 300.0: 315}[rate]
    assert found["gain"] == pytest.approx(-cost, abs=1e-9)
    assert rate != 30.0 or found["gain"] == pytest.approx(-7.862, abs=5e-4)
    assert found["residual"] < 1e-9
    lost = solved("lost-sales", rate=rate)
    assert lost["policy"] == S
    assert lost["gain"] == pytest.approx(4.0 * rate - cost, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "reach"),
    [({}, 50), ({"arrival": 3.0}, 50), ({"reward": 60.0, "arrival": 1.5}, 200), ({"reward": 300.0, "arrival": 0.95}, 400)],
)
def test_thresholds_are_not_cut_off(options, reach):
    gain, threshold = queue_in_numpy(**{"arrival": 0.8, "service": 1.0, "reward": 6.0, "cost": 1.0} | options, capacity=reach)
    found = solved("admission", **options)
    assert found["policy"] == threshold < reach
    assert found["gain"] == pytest.approx(gain, abs=1e-9)
    assert found["residual"] < 1e-9
    assert options or found["gain"] == pytest.approx(1.52363746, abs=1e-8)


SHOPS = [
    {"price": 9.0, "unit_cost": 5.0, "fixed_cost": 10.0},
    {"price": 20.0, "unit_cost": 3.0, "fixed_cost": 50.0, "rate": 2.5, "holding": 0.5},
    {"price": 9.0, "unit_cost": 5.0, "fixed_cost": 3.0, "rate": 10.0, "holding": 2.0},
    {"price": 9.0, "unit_cost": 0.0, "fixed_cost": 0.5, "rate": 0.7},
    {"price": 4.0, "unit_cost": 3.9, "fixed_cost": 10.0},
]


@jax.jit
def certified(world, theta):
    """Worlds that differ in their numbers share a program."""
    return world.certify(theta)


@jax.jit
def planned(world, theta):
    return world.plan(theta), world.gain(theta)


@jax.jit
def gain_of(world, theta, policy):
    return world.gain_of(theta, policy)


@pytest.mark.parametrize("costs", SHOPS, ids=str)
def test_lost_sales_with_costs(costs):
    """Against policy iteration over 150 levels; the last shop earns nothing and is best left closed."""
    full = {"holding": 1.0, "rate": 4.0} | costs
    gain, policy = shop_in_numpy(**full, levels=150)
    found = solved("lost-sales", **costs)
    assert found["gain"] == pytest.approx(gain, abs=1e-9)
    seen = int(policy.max(initial=1, where=policy > np.arange(150))) + 1  # stocks that the policy can reach
    np.testing.assert_array_equal(found["policy"][:seen], policy[:seen])
    assert found["residual"] < 1e-9
    shop = LostSales(**full)
    assert from_json(to_json(shop)).levels == shop.levels
    single = certified(shop, shop.true)
    assert abs(float(single.gain) - gain) <= float(single.residual) < 2e-3 * (1 + gain)
    assert float(gain_of(shop, shop.true, jnp.asarray(found["policy"]))) == pytest.approx(gain, abs=2e-3)


def test_a_fixed_cost_changes_the_plan():
    """The mutant: the base stock of the shop without a fixed cost loses far more than the certificate allows."""
    shop = LostSales(price=9.0, unit_cost=5.0, fixed_cost=10.0)
    found = certified(shop, shop.true)
    base = jnp.full(shop.levels, planned(LostSales(price=9.0, unit_cost=5.0), shop.true)[0])
    assert float(gain_of(shop, shop.true, base)) < float(found.gain) - 1 < float(found.gain) - float(found.residual)


def test_a_shop_earns_what_its_plan_says():
    shop = LostSales(price=9.0, unit_cost=5.0, fixed_cost=10.0)
    run = jax.jit(lambda key, plan: rollout(key, shop, shop.true, plan, 40_000).rows.reward)
    plan, gain = planned(shop, shop.true)
    reward = np.asarray(run(random.key(1), plan), float)
    error = reward.reshape(100, -1).mean(1).std() / 10
    assert abs(reward.mean() - float(gain)) < 4.5 * error
    base = jnp.full(shop.levels, 6)
    assert np.mean(run(random.key(1), base)) < float(gain) - 4.5 * error


def test_costs_at_the_command_line():
    from typer.testing import CliRunner

    from blts.cli import app

    call = ["mdp", "solve", "lost-sales", "--json", "--set", "price=9", "--set", "unit_cost=5", "--set", "fixed_cost=10"]
    found = json.loads(CliRunner().invoke(app, call).stdout)
    assert found["gain"] == pytest.approx(7.25060724, abs=1e-7)
    assert found["policy"][:4] == [10, 10, 2, 3]


# What is refused


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Inventory(rate=30.0, levels=20), r"levels=20 cuts off .* rate 30; give levels=36 or more, or leave it out"),
        (lambda: LostSales(rate=30.0, levels=20), r"LostSales: levels=20 cuts off"),
        (lambda: LostSales(fixed_cost=10.0, levels=20), r"LostSales: levels=20 cuts off .* give levels=\d+ or more"),
        (lambda: Inventory(rate=1e6), "count demand in larger units"),
        (lambda: Admission(capacity=2), "capacity=2 cuts off thresholds that these rates may need; give capacity=4"),
        (lambda: Admission(service=1e6), "are planned for, and these rates need"),
        (lambda: LinearQuadratic(limit=2.0), "limit=2 cuts off the best actions"),
        (lambda: LinearQuadratic(sd=100.0, limit=10.0), "limit=10 cuts off the best actions"),
        (lambda: ParametricMDP(Inventory(), theta=[np.log(300.0)]), "levels=64 cuts off what is best for a demand of rate 300"),
        (lambda: ParametricMDP(Inventory(levels=20), drawn=True), "levels=20 cuts off .* the prior's upper quantile"),
        (lambda: ParametricMDP(Admission(capacity=5), drawn=True), "capacity=5 cuts off thresholds that the prior may need"),
        (lambda: condition("linear-quadratic", "sgld-psrl", drawn=True), "no bounded action stabilises"),
        (lambda: condition("inventory", "optimal", options={"rate": 30.0, "levels": 20}), "levels=20 cuts off"),
    ],
)
def test_what_would_be_cut_off_is_refused_in_a_sentence(build, words):
    with pytest.raises(ConfigError, match=words) as error:
        build()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


# What a simulation flags


def test_sampled_rates_beyond_the_levels_are_flagged():
    """The residual is at least what the largest level loses against the best one, and rounding where that is among them."""
    shop = Inventory(levels=20)
    certify = jax.jit(shop.certify)
    for rate in (0.01, 1.0, 4.0, 12.0):
        assert float(certify(jnp.log(jnp.asarray([rate]))).residual) < 1e-3
    for rate in (25.0, 30.0, 100.0):
        d = np.arange(1000)
        at_most = float(stats.poisson.pmf(d, rate) @ (np.maximum(19 - d, 0) + 4.0 * np.maximum(d - 19, 0)))
        assert float(certify(jnp.log(jnp.asarray([rate]))).residual) >= at_most - newsvendor(rate, 1.0, 4.0)[1] - 1e-3
    assert float(certify(jnp.asarray([60.0])).residual) == np.inf
    desk = jax.jit(Admission(capacity=5).certify)
    assert float(desk(jnp.asarray([0.0, 0.0])).residual) < 1e-4
    gain, _ = queue_in_numpy(np.exp(2.0), np.exp(3.0), 6.0, 1.0, 300)
    found = desk(jnp.asarray([2.0, 3.0]))
    assert gain - float(found.gain) > 5e-3
    assert float(found.residual) >= gain - float(found.gain)
    lost = LostSales(fixed_cost=10.0, levels=64)
    far = certified(lost, jnp.log(jnp.asarray([100.0])))
    assert float(far.residual) >= shop_in_numpy(1.0, 4.0, 0.0, 10.0, 100.0, 200)[0] - float(far.gain) > 1.0


def test_posterior_sampling_reports_what_truncation_may_lose():
    few = Inventory(levels=8)  # enough for the truth, and not for prior draws of 10 and more
    trace = simulate(0, ParametricMDP(few), PSRL(few, Parameters(sgld())), StaticDoubling(), horizon=3, replications=256)
    assert trace.diagnostics.residual.max() > 1.0
    shop = Inventory()
    drawn = jax.jit(jax.vmap(shop.init))(_random.split(random.key(0), 4096))
    residuals = jax.jit(lambda shop: plans_of(shop, drawn)[1])
    assert float(residuals(shop).max()) < 1e-2
    assert float(residuals(few).max()) > 1.0


def test_the_best_policy_earns_the_gain_at_a_rate_far_from_the_prior():
    shop = Inventory(rate=30.0)
    env = ParametricMDP(shop)
    trace = simulate(0, env, Follow.knowing(shop, env), StaticDoubling(), horizon=100, replications=400)
    error = trace.mean_reward.std(ddof=1) / 20
    assert abs(trace.mean_reward.mean() + 7.861643) < 4 * error
    assert abs(trace.mean_reward.mean() + 44.138) > 100 * error  # at the level 19


def test_upper_tail_with_many_levels():
    y, t = (x.ravel() for x in np.meshgrid([1, 5, 30, 60, 100, 126], np.linspace(-1, 5.5, 16)))
    exact = stats.poisson(np.exp(t)).logsf(y - 1)
    found = jax.jit(jax.vmap(lambda y, t: log_tail(y, t, 128)))(y, t.astype(np.float32))
    np.testing.assert_allclose(found, exact, rtol=5e-5, atol=5e-6)
