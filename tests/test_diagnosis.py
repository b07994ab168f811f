"""Chains that went wrong are noticed, said everywhere and started again; what is right is not warned about."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bandit, DoublingCounts, Exact, Gaussian, Perturb, Pool, StudentT, Thompson, diagnosis, mala, random, sgld, simulate
from blts._typing import Info
from blts.agents.beliefs import default_belief
from blts.agents.beliefs.diagnostics import split_rhat
from blts.agents.beliefs.pool import restarted, stuck_chains
from blts.live import Spec
from blts.live.learning import chains_in_words, failings
from blts.models import from_functions
from blts.models.arms import arm, stack
from blts.report.tables import unfinished
from blts.samplers import MALA, Chain, Langevin
from blts.samplers.modes import Modes, Whitening
from grids import WORLDS, OnGrid, gumbel, log_of_arms
from laws import LEVEL, ks_p

SIZE = 1024
COUNTS = (1, 4, 32)  # rewards of the arms below
OLD = Chain(MALA(0.5), 20)  # what `mala()` was for every model: a step from L alone
GUMBEL = Pool(mala(steps=40), SIZE)


@cache
def gumbel_arms():
    """The best Gumbel arm, three times, with some rewards of its own each time."""
    world = gumbel()
    single, theta = arm(stack(world.model, 4), jnp.asarray(3)), jnp.asarray(world.theta[3], float)
    draw = jax.vmap(lambda key: single.sample(key, theta, (), 0))
    rewards = [np.asarray(draw(random.split(random.key(n), n))) for n in COUNTS]
    return stack(single, len(COUNTS)), log_of_arms(rewards)


def block(tree):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)


@jax.jit
def begun(belief, model):
    return belief.init(random.key(1), model)


@jax.jit
def after_refresh(belief, model, state, log):
    """Beliefs that differ in their numbers share a program."""
    return belief.refresh(random.key(0)[None], model, block(state), block(log))


def refreshed(belief, start=None):
    """A pool's values after one refresh on the Gumbel arms, and how it went."""
    model, log = gumbel_arms()
    state = begun(belief, model)
    state = state if start is None else state._replace(thetas=start(state.thetas))
    state, info = jax.tree.map(lambda x: x[0], after_refresh(belief, model, state, log))
    return np.asarray(state.thetas), np.asarray(belief.values(model, state.thetas, ())), info


@cache
def plain():
    return refreshed(GUMBEL.check_model(gumbel_arms()[0]))


@cache
def old():
    return refreshed(Pool(OLD, SIZE))


@cache
def exact_values() -> np.ndarray:
    """Mean rewards of the Gumbel arms drawn from their posteriors on a grid, [arms, draws], sorted."""
    model, log = gumbel_arms()
    grid = OnGrid(size=128)
    state, _ = jax.jit(grid.refresh)(random.key(0)[None], model, None, block(log))
    state = jax.tree.map(lambda x: x[0], state)
    mean = jax.vmap(lambda single, x: single.mean_reward(x, (), 0))
    draw = jax.jit(jax.vmap(lambda key: mean(model, grid.draw(key, model, state))))
    return np.sort(np.asarray(draw(random.split(random.key(2), 50_000))).T, 1)


def law_p(values) -> float:
    """The smallest p-value over the arms. The reference has 50 times as many draws, so its error is not seen."""
    cdf = lambda a: lambda x: np.searchsorted(exact_values()[a], x) / exact_values().shape[1]  # noqa: E731
    return min(ks_p(values[a], cdf(a)) for a in range(len(COUNTS)))


# What a refresh reports


def test_the_pool_that_froze_is_found_out():
    """A step from L = 7.4 where curvature has no bound. Before, R-hat was not judged, and the frozen counted as draws."""
    _, values, info = old()
    assert not bool(info.sound)
    assert info.rhat > diagnosis.RHAT_LIMIT
    assert info.stuck > diagnosis.STUCK_LIMIT
    assert info.ess < SIZE / 10
    assert law_p(values) < LEVEL


def test_the_same_model_and_chain_are_right_now():
    _, values, info = plain()
    assert bool(info.sound)
    assert info.stuck <= diagnosis.STUCK_LIMIT
    assert law_p(values) > LEVEL


@pytest.mark.slow
def test_an_unadjusted_chain_is_told_from_a_right_one():
    """The mutant of the test above: long steps around the mode that nothing accepts or refuses."""
    assert law_p(refreshed(Pool(Chain(Langevin(0.5), 40, scale="mode"), SIZE))[1]) < LEVEL


def test_chains_far_out_start_again():
    """Every fifth chain far outside, some where neither value nor gradient is finite in single precision."""
    away = jnp.where(jnp.arange(SIZE) % 5 == 0, 10.0 ** (jnp.arange(SIZE) % 7), 0.0)
    thetas, values, info = refreshed(GUMBEL.check_model(gumbel_arms()[0]), lambda x: x + away[:, None])
    assert np.isfinite(thetas).all()
    assert bool(info.sound)
    assert law_p(values) > LEVEL


def test_a_step_that_is_far_too_long_is_shortened():
    """Steps of 50 posterior variances: without adaptation next to nothing is accepted."""
    adapted = refreshed(Pool(mala(50.0, steps=40, scale="mode"), SIZE))[2]
    assert adapted.acceptance > 0.3
    fixed = refreshed(Pool(mala(50.0, steps=20), SIZE))[2]  # the mutant
    assert fixed.acceptance < 0.1


def test_stuck_chains_are_those_that_do_not_move_or_are_far_from_the_others():
    x = random.normal(random.key(0), (256, 2))
    acceptance = jnp.full(256, 0.6).at[3].set(0.0)
    x = x.at[7].set(jnp.array([0.0, 40.0])).at[9].set(jnp.nan)
    stuck = np.asarray(stuck_chains(x, acceptance))
    assert set(np.flatnonzero(stuck)) == {3, 7, 9}
    again = np.asarray(restarted(x, jnp.asarray(stuck)))
    assert np.array_equal(again[[3, 7, 9]], np.asarray(x)[[0, 1, 2]])
    assert np.array_equal(np.delete(again, [3, 7, 9], 0), np.delete(np.asarray(x), [3, 7, 9], 0))
    most = jnp.arange(256) < 200
    assert np.array_equal(restarted(x, most), x, equal_nan=True)  # nobody knows who is right


def test_frozen_chains_are_no_effective_draws():
    """64 chains that stay where they are: before, they were 64 effective draws."""
    places = random.normal(random.key(0), (1, 64, 1, 1))
    still = SimpleNamespace(half_steps=jnp.full((1, 64), 5.0))
    still.half_means, still.half_variances = jnp.broadcast_to(places, (1, 64, 2, 1)), jnp.full((1, 64, 2, 1), 1e-4)
    rhat, ess = split_rhat(still)
    assert rhat[0, 0] > 50
    assert ess[0, 0] < 0.1
    still.half_variances = jnp.full((1, 64, 2, 1), 1.0)  # chains that see as much as they differ
    assert split_rhat(still)[1][0, 0] > 16


# Several modes


def share_below_zero(model, rewards) -> tuple[float, float, bool]:
    """P(θ < 0) of a pool of one arm after one refresh, the same by quadrature, and whether the refresh was sound."""
    arms = stack(model, 1)
    belief = default_belief(arms, SIZE).check_model(arms)
    state = begun(belief, arms)
    log = log_of_arms([np.asarray(rewards, float)])
    state, info = after_refresh(belief, arms, state, log)
    x = jnp.linspace(-30, 30, 60_001)
    single = arm(arms, jnp.asarray(0))
    density = lambda y: single.log_prior(y) + jnp.sum(jax.vmap(lambda row: single.log_likelihood(y, row))(log.rows))  # noqa: E731
    p = np.asarray(jax.nn.softmax(jax.vmap(density)(x[:, None])))
    return float(np.mean(np.asarray(state.thetas) < 0)), float(p[np.asarray(x) < 0].sum()), bool(info.sound[0])


def student_t(scale):
    return StudentT(prior_mean=[0.0], prior_sd=10.0, scale=scale, df=3.0)


def square():
    """Rewards around θ²: the sign is never learned."""
    return from_functions(
        lambda theta: -0.5 * jnp.sum(theta**2) / 9,
        lambda theta, reward: -0.5 * (reward - theta[0] ** 2) ** 2,
        mean_reward=lambda theta: theta[0] ** 2,
        init=lambda key: 3 * random.normal(key, (1,)),
        L=4.0,
        arms=1,
    )


CLUSTERS = [-5, -5.1, -4.95, 5, 5.1, 4.9]


@pytest.mark.parametrize(
    ("model", "rewards"),
    [(student_t(0.1), CLUSTERS), (student_t(1.0), [-4, 4.1]), (square(), [9.0] * 50)],
    ids=["clusters", "two rewards", "square"],
)
def test_the_chains_of_a_pool_are_shared_out_to_the_modes(model, rewards):
    ours, exact, sound = share_below_zero(model, rewards)
    assert abs(ours - exact) < 0.03  # Laplace's masses are not exact
    assert sound


@pytest.mark.parametrize(
    ("shares", "u", "mode"),
    [([1, 0, 0], 1.0, 0), ([0.5, 0.5, 0], 1.0, 1), ([0.5, 0, 0.5], 0.5, 2), ([0.2, 0.3, 0.5], 0.3, 1), ([1, 0, 0], 0.0, 0)],
)
def test_no_chain_is_given_to_a_mode_that_was_not_found(shares, u, mode):
    """The last of 1024 chains has u = (1023 + v)/1024, which rounds to 1 for the largest v."""
    assert np.float32(1023) + np.float32(1 - 2**-24) == 1024
    found = Modes(Whitening.empty(3, dim=1), jnp.asarray(shares, float))
    assert int(found.which(jnp.asarray(u))) == mode


def test_one_mode_is_told_from_two(monkeypatch):
    """The mutant: all chains around one mode. It is compiled anew, and kept for no other test."""
    monkeypatch.setattr("blts.samplers.modes.MODES", 1)
    after_refresh.clear_cache()
    ours, exact, _ = share_below_zero(student_t(0.1), CLUSTERS)
    after_refresh.clear_cache()
    assert abs(ours - exact) > 0.3


# What is said


def info_of(**figures):
    return Info.of(jnp.asarray(True), **figures)


@pytest.mark.parametrize(
    ("figures", "sound"),
    [
        ({}, True),
        ({"rhat": 3.0, "stuck": 0.005, "least": 0.5}, True),
        ({"rhat": 35.0, "stuck": 0.0, "least": 0.6}, False),
        ({"rhat": 1.1, "stuck": 16 / 256, "least": 0.6}, False),
        ({"rhat": 1.1, "stuck": 0.0, "least": 0.05}, False),
    ],
)
def test_a_refresh_is_judged_as_it_is_described(figures, sound):
    assert bool(info_of(**figures).sound) == sound == (not diagnosis.failings(**figures))


@cache
def good_trace():
    model = Gaussian(prior_mean=[0.0, 0.0], sd=1.0)
    return simulate(0, Bandit(model, theta=np.array([[0.0], [1.0]])), Thompson(model), DoublingCounts(), horizon=20, replications=4)


def trace_with(**figures):
    old, R = good_trace().diagnostics, good_trace().replications
    new = old._replace(**{name: np.array([value] + [np.nan] * (R - 1)) for name, value in figures.items()})
    return dataclasses.replace(good_trace(), diagnostics=new._replace(unsound=np.array([3] + [0] * (R - 1))))


def test_one_bad_replication_is_said_in_every_print():
    bad = trace_with(rhat=35.0, stuck=16 / 256, ess=2.0)
    for text in (repr(bad), bad._repr_html_()):
        assert "R-hat at most 35.00, at least 2 effective draws an arm, at most 6.2 % of an arm's chains stuck" in text
        assert f"WARNING: in 3 of {bad.diagnostics.refreshes.sum()} refreshes" in text
        assert "R-hat is 35, above 4: the chains do not agree; 6 % of an arm's chains are stuck" in text
    assert bad.summary()["rhat"] == 35
    assert bad.summary()["stuck"] == 16 / 256
    assert bad.summary()["refreshes_unsound"] == 3
    for quiet in (good_trace(), trace_with(rhat=1.2, stuck=0.0, ess=300.0)):
        assert not quiet.warnings
        assert "WARNING" not in repr(quiet)


def test_a_report_warns_of_its_conditions():
    arrays = {"finite": np.ones(2, bool), "refreshes": np.array([9, 9]), "unsound": np.array([0, 4])}
    arrays |= {"rhat": np.array([1.2, 35.0]), "stuck": np.array([0.0, 0.0625]), "least": np.array([0.6, 0.6])}
    outcome = SimpleNamespace(measured=[SimpleNamespace(arrays=arrays, condition={})], label=lambda *_: "Gumbel")
    outcome.study = SimpleNamespace(rows=(), columns=())
    said = unfinished_of(outcome)
    assert len(said) == 1
    assert "Gumbel: in 4 of 18 refreshes" in said[0]
    arrays["rhat"], arrays["stuck"] = np.full(2, np.nan), np.full(2, np.nan)
    assert unfinished_of(outcome) == []


def unfinished_of(outcome):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blts.report.tables.label_names", lambda _: [])
        return unfinished(outcome)


def test_a_live_refresh_with_stuck_chains_is_not_used():
    frozen = SimpleNamespace(state=np.zeros(2), law=np.array([0.5, 0.5]))
    info = {"finite": True, "rhat": 1.2, "stuck": 0.0, "least": 0.6, "acceptance": 0.6, "ess": 200.0}
    assert failings(frozen, info, True, diagnosis.RHAT_LIMIT) == []
    assert failings(frozen, info | {"stuck": 0.0625}, True, diagnosis.RHAT_LIMIT) == ["6 % of an arm's chains are stuck"]
    assert "R-hat is 35" in failings(frozen, info | {"rhat": 35.0}, True, diagnosis.RHAT_LIMIT)[0]
    assert chains_in_words(info).startswith("Chains: R-hat at most 1.20, at least 200 effective draws an arm, acceptance 0.60")
    assert chains_in_words({"finite": True, "rhat": None}) == ""  # an exact agent, or what an older version wrote


# The default


def test_the_default_is_exact_where_it_can_be():
    assert isinstance(Thompson(Gaussian(prior_mean=[0.0, 1.0])).belief, Exact)
    belief = Thompson(StudentT(prior_mean=[0.0, 1.0])).belief
    assert repr(belief) == repr(default_belief(StudentT()))
    assert isinstance(belief, Pool)
    assert belief.chain.scale == "mode"
    assert Spec.of(["A", "B"], "numbers").sampler.name == "thompson"


def test_a_model_of_ones_own_takes_steps_from_its_rewards_and_the_papers_models_from_L():
    own, ours = gumbel().model, Gaussian(prior_mean=[0.0, 1.0])
    assert Thompson(own, Perturb(sgld())).belief.chain.scale == Thompson(own, Pool(mala())).belief.chain.scale == "mode"
    assert Thompson(ours, Perturb(sgld())).belief.chain.scale == "information"


def regrets(name, belief, replications):
    world = WORLDS[name]()
    trace = simulate(0, world.env, Thompson(world.model, belief), DoublingCounts(), horizon=300, replications=replications)
    return trace.final_regret, trace


def ratio_of(ours, reference) -> tuple[float, float]:
    """The ratio of the means, and its standard error."""
    se = lambda x: x.std(ddof=1) / math.sqrt(x.size) / x.mean()  # noqa: E731
    ratio = ours.mean() / reference.mean()
    return ratio, ratio * math.hypot(se(ours), se(reference))


PLAYED = 200


@cache
def reference(name):
    return regrets(name, OnGrid(), PLAYED)[0]


@pytest.mark.slow
@pytest.mark.parametrize("belief", [Perturb(sgld()), Pool(mala(), 256)], ids=["perturb", "pool"])
def test_the_gumbel_model_plays_as_well_as_its_exact_posterior(belief):
    ours, _ = regrets("gumbel", belief, PLAYED)
    ratio, se = ratio_of(ours, reference("gumbel"))
    print(f"gumbel, {belief}: {ours.mean():.2f}, {ratio:.2f} ({se:.2f}) times the exact {reference('gumbel').mean():.2f}")
    assert ratio < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_the_default_plays_as_well_as_the_exact_posterior(name):
    """Within 1.1 times, as far as the standard error lets it be said; and no refresh is warned about."""
    ours, trace = regrets(name, None, PLAYED)
    ratio, se = ratio_of(ours, reference(name))
    print(f"{name}: {ours.mean():.2f}, {ratio:.2f} ({se:.2f}) times the exact {reference(name).mean():.2f}; {trace.chains}")
    assert ratio - 2 * se < 1.1
    assert ratio < 1.2
    assert not trace.warnings


@pytest.mark.slow
def test_a_perturbation_is_told_from_the_exact_posterior():
    """The mutant: Algorithm 2's double width, on Student-t arms."""
    ratio, se = ratio_of(regrets("Student-t", Perturb(sgld()), PLAYED)[0], reference("Student-t"))
    assert ratio - 2 * se > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("env", ["gaussian", "laplace", "bernoulli"])
def test_right_pools_are_not_warned_about(env):
    from blts.catalogue import condition

    chosen = condition(env, "mala-ts", horizon=300)
    trace = simulate(2, chosen.env, chosen.agent, chosen.batching, horizon=300, replications=100)
    print(env, trace.chains)
    assert not trace.warnings
