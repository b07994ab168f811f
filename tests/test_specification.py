"""A model that cannot give the rewards is refused before a simulation starts, whoever wrote the model or the environment."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from blts import _random, registry, simulate
from blts._module import array, module
from blts._typing import Numbers
from blts.agents import PSRL, UCB1, BayesUCB, Exact, Perturb, Rows, Thompson, Uniform
from blts.batching import DoublingCounts, StaticDoubling
from blts.envs import Bandit, Bootstrap, rand_hie, riverswim
from blts.envs.base import Env, Step
from blts.errors import ConfigError
from blts.models import Bernoulli, Exponential, Gaussian, LogNormal, Poisson, Tabular, from_functions, from_numpyro
from blts.models.support import SUPPORTS, WITHIN, narrowest_support
from blts.samplers import LogGammaRows, sgld
from blts.specification import check_rewards
from registered import ENVIRONMENTS

NORMAL = Bandit.with_means(Gaussian(), [0.0, 1.0])


def exact(model):
    return Thompson(model, Exact(), 2)


@module
class Own(Env):
    """An environment of one's own, which says nothing about its rewards."""

    low: Numbers = array(default=0.0)
    actions = 2

    def reset(self, key):
        return (), ()

    def step(self, key, state, action):
        return state, Step((), self.low + _random.uniform(key), jnp.zeros(()))


class Loss(Bandit):
    """Its model's support no longer holds."""

    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=-step.reward)


class Negative(Poisson):
    def sample(self, key, theta, obs, action):
        return -super().sample(key, theta, obs, action)


@pytest.mark.parametrize(
    ("env", "model", "why"),
    [
        (
            NORMAL,
            Poisson(),
            "rewards that are any finite number, and the agent's Poisson model is for rewards that are 0, 1, 2",
        ),
        (NORMAL, Exponential(), "the agent's Gamma model is for rewards that are above zero"),
        (Bandit.with_means(Poisson(), [1.0, 2.0]), Bernoulli(), "0 or 1"),
        (Bandit.with_means(Bernoulli(), [0.1, 0.2]), LogNormal(), "above zero"),
        (Bootstrap.of({"A": [0.5, 1.0], "B": [2.0]}), Poisson(), "above zero, and the agent's Poisson"),
        (Own(-0.5), Exponential(), "The environment pays -0"),
        (Loss.with_means(Poisson(), [1.0, 2.0]), Poisson(), "The environment pays -"),
        (Bandit(Negative(), [[0.0], [1.0]]), Poisson(), "The environment pays -"),
    ],
)
def test_a_model_that_cannot_give_the_rewards_is_refused(env, model, why):
    with pytest.raises(ConfigError, match=why):
        simulate(0, env, exact(model), DoublingCounts(), horizon=5, replications=2)


@pytest.mark.parametrize(
    ("env", "model"),
    [
        (NORMAL, Gaussian()),
        (Bandit.with_means(Bernoulli(), [0.1, 0.2]), Poisson()),
        (Bandit.with_means(Bernoulli(), [0.1, 0.2]), Gaussian()),
        (Bandit.with_means(Exponential(), [1.0, 2.0]), Gaussian()),
        (Own(0.0), Exponential()),
        (Own(-5.0), Gaussian()),
    ],
)
def test_what_fits_runs(env, model):
    check_rewards(env, exact(model))


def test_it_runs_when_told_so():
    trace = simulate(0, NORMAL, exact(Exponential()), DoublingCounts(), horizon=5, replications=2, misspecified=True)
    assert trace.plays.sum() == 10


def test_other_learners_are_asked_too():
    with pytest.raises(ConfigError, match="above zero"):
        check_rewards(NORMAL, BayesUCB(Exponential(), 100, arms=2))
    river = riverswim(states=3)
    psrl = lambda model: PSRL(Tabular(model, states=3, actions=2), Rows(LogGammaRows()))  # noqa: E731
    check_rewards(river, psrl(Gaussian()))
    with pytest.raises(ConfigError, match="The environment pays 0, and the agent's Gamma model"):
        check_rewards(river, psrl(Exponential()))


def test_densities_of_ones_own_are_tried_on_the_rewards():
    import numpyro.distributions as dist

    share = from_numpyro(lambda a: dist.Beta(a, 2.0), {"a": dist.Gamma(2.0, 1.0)}, arms=2)
    check_rewards(Own(0.0), Thompson(share, Perturb(sgld())))
    with pytest.raises(ConfigError, match="the agent's NumPyro model"):
        check_rewards(Own(3.0), Thompson(share, Perturb(sgld())))
    check_rewards(Bandit(share), Thompson(share, Perturb(sgld())))
    root = from_functions(lambda x: -0.5 * x[0] ** 2, lambda x, r: -((jnp.sqrt(r) - x[0]) ** 2), L=2.0, arms=2)
    with pytest.raises(ConfigError, match="the agent's Functions model"):
        check_rewards(NORMAL, Thompson(root, Perturb(sgld())))


def test_supports_are_nested_as_their_tests_say():
    samples = {"binary": [0, 1], "count": [0, 1, 7], "positive": [0.5, 2], "nonnegative": [0, 0.5, 7], "real": [-1, 0, 0.5]}
    for name, values in samples.items():
        holds = {other for other, (test, _) in SUPPORTS.items() if all(map(test, values))}
        assert holds == set(WITHIN[name])
        assert narrowest_support(np.array(values)) == name
    assert narrowest_support(np.asarray(rand_hie().rewards)) == "nonnegative"


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_named_environments_fit_their_priors(name):
    problem = registry.build("environment", name)
    if problem.world in ("bandit", "contextual"):
        env = problem.env
        for model in problem.priors.values():
            check_rewards(env, Thompson(model, Perturb(sgld()), env.actions, env.shared, env.features))


def test_static_doubling_is_no_matter():
    """The check looks at rewards, not at when they are seen."""
    with pytest.raises(ConfigError, match="0, 1, 2"):
        simulate(0, NORMAL, exact(Poisson()), StaticDoubling(), horizon=5, replications=2, engine="leap")


def test_regret_of_other_means_than_are_paid_is_said():
    """A subclass that changes the reward and hands on the regret."""
    settings = {"horizon": 50, "replications": 20}
    trace = simulate(0, Loss.with_means(Gaussian(sd=0.1), [0.0, 1.0]), exact(Gaussian()), DoublingCounts(), **settings)
    assert "WARNING: Loss overrides step and pays" in str(trace)
    assert "override means" in trace.warnings[0]

    class Negated(Bandit):
        def means(self, theta, obs=()):
            return -super().means(theta, obs)

    class Logged(Bandit):
        def step(self, key, state, action):
            return super().step(key, state, action)

    class Honest(Loss):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(regret=jnp.max(state.gaps) - state.gaps[action])

    for fine in (Logged, Honest):
        trace = simulate(0, fine.with_means(Gaussian(sd=0.1), [0.0, 1.0]), exact(Gaussian()), DoublingCounts(), **settings)
        assert trace.warnings == []
    negated = Negated(Gaussian(), theta=np.array([[0.0], [1.0]]))
    trace = simulate(0, negated, Uniform(2), DoublingCounts(), **settings)
    assert "Negated overrides means and pays +0.979 a round beside the means [-0, -1]" in trace.warnings[0]
    assert "let its step pay these means too" in trace.warnings[0]
    with pytest.raises(ConfigError, match="overrides means"):
        simulate(0, negated, exact(Gaussian()), DoublingCounts(), engine="leap", **settings)
    assert str(Loss.with_means(Gaussian(), [0.0, 1.0])) == "Loss, changed from a bandit of 2 arms with mean rewards [0, 1]."


def test_a_regret_that_is_no_number_is_said():
    class Broken(Bandit):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(regret=jnp.nan)

    trace = simulate(0, Broken.with_means(Gaussian(), [0.0, 1.0]), Uniform(2), DoublingCounts(), horizon=20, replications=3)
    assert "WARNING: the regret of some replications is not a finite number" in str(trace)


@pytest.mark.parametrize("theta", [None, [[0.0], [0.5], [1.0]]])
def test_regret_of_other_means_than_are_sampled_is_said(theta):
    """A model that changes `sample` and not `mean_reward`, on arms that are given and on arms that are drawn."""

    class Mirrored(Gaussian):
        def sample(self, key, theta, obs, action):
            return -super().sample(key, theta, obs, action)

    class Consistent(Mirrored):
        def mean_reward(self, theta, obs, action):
            return -theta[0]

    class Noisier(Gaussian):
        def sample(self, key, theta, obs, action):
            return theta[0] + 3 * _random.normal(key)

    def warnings(model):
        agent = Thompson(Gaussian(), Exact(), 3)
        return simulate(0, Bandit(model, theta, 3), agent, DoublingCounts(), horizon=5, replications=2).warnings

    (why,) = warnings(Mirrored())
    assert "Mirrored overrides sample: arm" in why
    assert "override sample and mean_reward so that they agree" in why
    assert warnings(Consistent()) == warnings(Noisier()) == []


def test_actions_that_do_not_exist_are_told():
    class Beyond(UCB1):
        def best(self, state, obs, played):
            return jnp.asarray(7)

    with pytest.raises(ConfigError, match=r"Beyond played actions that do not exist in up to 5 of 5 rounds; .* from 0 to 1"):
        simulate(0, NORMAL, Beyond(2), DoublingCounts(), horizon=5, replications=2)
