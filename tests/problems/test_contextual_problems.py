"""Named bandits with contexts against means of an independent NumPy implementation, and their temperatures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from blts import condition, registry, simulate
from blts.cli.simulate import options_of
from blts.errors import ConfigError
from compiling import optimised
from registered import DATA

SEED, RUNS = 0, 200
REFERENCES = {
    ("linear-20d", "exact-ts", "sequential"): (62.7, 0.9, 10_000),
    ("linear-20d", "exact-ts", "fixed"): (240.0, 2.7, 100),
}
"""Mean regret at T = 10⁴, its standard error, and the number of batches; "fixed" has 100 rounds a batch."""
TEMPERATURES = {4.0: 114.5, 0.368: 61.3, 1.0: 73.1}
"""The regret of exact draws at a temperature, with the ridge parameter 0.01."""
CLOSE = 2.5


def run(env, agent, batching, prior=None, runs=RUNS, **options):
    chosen = condition(env, agent, batching, prior, options=options)
    with optimised():
        return simulate(SEED, chosen.env, chosen.agent, chosen.batching, horizon=chosen.horizon, replications=runs, times=1)


def errors_away(trace, mean: float, error: float) -> float:
    regret = trace.final_regret
    return abs(regret.mean() - mean) / math.hypot(error, regret.std(ddof=1) / math.sqrt(regret.size))


@pytest.mark.parametrize("key", [pytest.param(key, marks=() if key[2] == "sequential" else pytest.mark.slow) for key in REFERENCES])
def test_linear_20d_is_within_three_standard_errors(key):
    mean, error, batches = REFERENCES[key]
    trace = run(*key, **({"size": 100} if key[2] == "fixed" else {}))
    assert errors_away(trace, mean, error) < 3
    assert (trace.batches == batches).all()


def test_temperatures_are_those_of_the_published_comparison():
    """With one compilation. The mutant multiplies the sd, so that 4 is 16."""
    found = {t: run("linear-20d", "lin-ts", "sequential", "weak", temperature=t).final_regret.mean() for t in (*TEMPERATURES, 16.0)}
    assert all(abs(found[t] - mean) < CLOSE for t, mean in TEMPERATURES.items()), found
    assert abs(found[16.0] - TEMPERATURES[4.0]) > 4 * CLOSE


@pytest.mark.slow
def test_other_rows():
    """Doubled plays, shared θ, greedy play and unequal scales; standard errors as of the first reference where none is known."""
    doubled = run("linear-20d", "exact-ts", "dynamic")
    assert errors_away(doubled, 68.0, 0.9) < 3
    assert abs(doubled.batches.mean() - 55.9) < 1
    assert errors_away(run("linear-20d", "exact-ts", "static"), 86.0, 1.0) < 3
    assert errors_away(doubled, 62.7, 0.9) > 3  # the mutant: sequential play
    assert errors_away(run("shared-linear", "exact-ts", "sequential", runs=24), 246.8, 5.9) < 3
    assert errors_away(run("shared-linear", "greedy", "sequential", runs=24), 137.9, 5.9) < 3
    greedy = run("linear-20d", "greedy", "sequential").final_regret
    assert abs(np.median(greedy) - 55.8) < 6
    assert greedy.std() > 200  # a few runs never recover
    unequal = run("unequal-scales", "exact-ts", "dynamic", runs=400)
    assert errors_away(unequal, 46.9, 0.5) < 3
    assert abs(unequal.batches.mean() - 41.9) < 1


LANGEVIN = ("blts", "ula-ts", "baoab-ts", "mala-ts")


@pytest.mark.slow
@pytest.mark.parametrize("env", ["linear-20d", "shared-linear"])
def test_langevin_draws_lose_no_more_than_exact_ones(env):
    """At most 1.05 times the regret, in the same batches ± 3 %. The mutants: γ = 1, and gradients without a control variate."""
    runs, horizon = (400, 2000) if env == "linear-20d" else (96, 2000)

    def found(agent, **options):
        chosen = condition(env, agent, "determinant", horizon=horizon, options={"factor": 16.0} | options)
        trace = simulate(SEED, *chosen[:3], horizon=horizon, replications=runs, times=1)
        assert trace.diagnostics.finite.all()
        print(f"{env} {agent} {options}: {trace.final_regret.mean():.1f}, {trace.batches.mean():.1f} batches")
        return trace.final_regret.mean(), trace.batches.mean()

    regret, batches = found("exact-ts")
    for agent in LANGEVIN:
        theirs, count = found(agent)
        assert theirs < 1.05 * regret, agent
        assert abs(count / batches - 1) < 0.03, agent
    assert found("blts", gamma=1.0)[0] > 1.05 * regret
    if env == "shared-linear":
        assert found("blts", control_variate=False)[0] > 1.05 * regret


def test_chains_and_draws_around_them_have_the_posteriors_covariance_together():
    """Where nothing is said; what is given stays as it is, and bandits without contexts have the paper's γ = 1."""
    for name in ("blts", "ula-ts"):
        belief = condition("linear-20d", name).agent.belief
        assert float(belief.chain.kernel.temperature) + 1 / float(belief.gamma) == 1
        given = condition("linear-20d", name, options={"gamma": 1.0}).agent.belief
        paper = condition("gaussian", name).agent.belief
        assert [(float(b.chain.kernel.temperature), float(b.gamma)) for b in (given, paper)] == [(1.0, 1.0)] * 2
    said = lambda env, agent, **options: condition(env, agent, options=options).agent.belief.chain.control_variate  # noqa: E731
    assert said("linear-20d", "blts")
    assert said("linear-20d", "baoab-ts", minibatch=32)
    assert not said("linear-20d", "baoab-ts")
    assert not said("linear-20d", "blts", control_variate=False)
    assert not said("gaussian", "blts")


@pytest.mark.parametrize("agent", ["exact-ts", "thompson", "lin-ucb", "greedy", "square-cb", "blts", "baoab-ts", "uniform"])
def test_agents_take_the_worlds_own_features(agent):
    """One θ for all arms, and the map that the wheel's linear agents see."""
    shared = condition("shared-linear", agent, horizon=10).agent
    assert shared.shared is (agent != "uniform")
    assert shared.actions == 50
    on_wheel = condition("wheel", agent, horizon=10).agent
    assert on_wheel.features is (None if agent == "uniform" else condition("wheel", agent).env.features)


def test_agents_that_cannot_play_say_so():
    with pytest.raises(ConfigError, match="'lin-ucb' cannot play 'gaussian', which is a bandit without contexts; use one of blts"):
        condition("gaussian", "lin-ucb")
    with pytest.raises(ConfigError, match="'bayes-ucb' cannot play 'linear-20d', which is a bandit with contexts; use one of"):
        condition("linear-20d", "bayes-ucb")
    with pytest.raises(ConfigError, match="'ds-psrl' cannot play 'linear-20d'"):
        condition("linear-20d", "ds-psrl")
    with pytest.raises(ConfigError, match="Gaussian has no contexts"):
        condition("shared-linear", "exact-ts", prior="gaussian")
    with pytest.raises(ConfigError, match="delta must be between 0 and 1"):
        condition("wheel", "greedy", options=options_of(["delta=2"]))


def test_a_contextual_world_can_be_drawn_from_another_prior():
    drawn = condition("linear", "exact-ts", prior="uninformative", drawn=True).env
    assert drawn.theta is None
    assert drawn.actions == 5
    if "wine" in DATA:
        try:
            registry.find("environment", "wine").build()
        except ConfigError:
            return
        with pytest.raises(ConfigError, match="Recorded rewards cannot be drawn"):
            condition("wine", "exact-ts", drawn=True)
