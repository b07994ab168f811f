"""Subclasses of contextual parts that override one method: they play with the probabilities that they say, or are refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    OFUL,
    UCB,
    Context,
    Contextual,
    DoublingCounts,
    Exact,
    GaussianContexts,
    Greedy,
    LaplaceApproximation,
    Linear,
    LinearUnknownVariance,
    Perturb,
    Played,
    Row,
    SquareCB,
    Tempered,
    Thompson,
    random,
    registry,
    sgld,
    simulate,
    ula,
)
from blts.catalogue.condition import BANDITS
from blts.catalogue.setting import Setting
from blts.declared import provides
from blts.errors import BltsError
from blts.models import Logistic, Network, PoissonRegression
from laws import LEVEL, counts_p
from overridden import spied

ARMS, DRAWS = 3, 4000
MEAN = np.array([0.3, -0.2])
OBS = Context(arms=jnp.array([[0.5, 1.0], [1.0, -0.3], [-0.6, 0.4]]))
FEATURES, PLAYED = np.random.default_rng(0).normal(size=(6, ARMS, 2)), np.array([0, 1, 2, 0, 1, 2])
REWARDS = FEATURES[np.arange(6), PLAYED] @ [1.2, -0.3]
ROWS = Row(Context(arms=jnp.asarray(FEATURES, float)), jnp.asarray(PLAYED), jnp.asarray(REWARDS, float))


class Bent(Linear):
    def mean_reward(self, theta, obs, action):
        return jnp.sinh(super().mean_reward(theta, obs, action)) + 3.0 * action


class Doubled(Linear):
    def normal(self, summary):
        normal = super().normal(summary)
        return normal._replace(root=2 * normal.root)


class Shifted(Linear):
    def draw(self, key, summary):
        return super().draw(key, summary) + 0.5


class Wide(Exact):
    def draw(self, key, model, state):
        return state.mean + 3 * (super().draw(key, model, state) - state.mean)


class Rotated(Tempered):
    def draw(self, key, model, state):
        return super().draw(key, model, state)[:, ::-1]


class Opposite(Thompson):
    def mean_rewards(self, theta, obs):
        return -super().mean_rewards(theta, obs)


class Timid(UCB):
    def estimates(self, state, obs):
        mean, sd = super().estimates(state, obs)
        return mean - 2 * sd, sd


class Contrary(Greedy):
    def estimates(self, state, obs):
        mean, sd = super().estimates(state, obs)
        return -mean, sd


class Lying(Exact):
    """The mutant: it claims that its draws are still those of the posterior."""

    def draw(self, key, model, state):
        return Wide().draw(key, model, state)

    def laws(self, model, state, obs):
        return Exact().laws(model, state, obs)

    def normal(self, model, state):
        return state


def of(agent, model=Linear, belief=None, **options):
    return lambda shared: agent(model(MEAN, sd=0.5), belief, arms=ARMS, shared=shared, **options)


PLAIN = {"Thompson": of(Thompson, belief=Exact()), "UCB": of(UCB), "Greedy": of(Greedy)}
USED = {
    "mean_reward of a model": ("Thompson", of(Thompson, Bent, Exact())),
    "mean_reward of a model, Laplace": ("Thompson", of(Thompson, Bent, LaplaceApproximation())),
    "mean_reward of a model, UCB": ("UCB", of(UCB, Bent)),
    "normal of a model": ("Thompson", of(Thompson, Doubled, Exact())),
    "draw of a model": ("Thompson", of(Thompson, Shifted, Exact())),
    "draw of a belief": ("Thompson", of(Thompson, belief=Wide())),
    "draw of a tempered belief": ("Thompson", of(Thompson, belief=Rotated(Exact(), 1.0))),
    "mean_rewards of an agent": ("Thompson", of(Opposite, belief=Exact())),
    "estimates of an agent": ("UCB", of(Timid)),
    "estimates of a greedy agent": ("Greedy", of(Contrary, c=0.3)),
}


@jax.jit
def learned(agent):
    history = agent.empty(jax.tree.map(lambda x: jnp.zeros_like(x[0]), ROWS), 6)
    history, _ = jax.lax.scan(lambda h, row: (agent.remember(h, Row(*row), jnp.ones((), bool)), None), history, tuple(ROWS[:3]))
    block = jax.tree.map(lambda x: x[None], (agent.init(random.key(0)), history))
    return jax.tree.map(lambda x: x[0], agent.observe(random.split(random.key(1), 1), *block)[0])


@jax.jit
def played_and_said(agent, state, keys, obs):
    played = Played(jnp.asarray(4), jnp.zeros(ARMS, int))
    said = agent.propensities(state, obs) if provides(agent, "propensities") else agent.propensities_at(state, obs, played)
    return jax.vmap(lambda key: agent.act(key, state, obs, played))(keys), said


def counts_and_law(agent, obs=OBS):
    played, said = played_and_said(agent, learned(agent), random.split(random.key(2), DRAWS), obs)
    return np.bincount(np.asarray(played), minlength=ARMS), np.asarray(said, float)


def fits(counts, law) -> bool:
    """Whether frequencies are within four standard errors of probabilities that may be estimated from 4096 draws themselves."""
    return bool(np.abs(counts / DRAWS - law).max() < 4 * np.sqrt(0.25 / DRAWS + 0.25 / 4096))


@pytest.fixture(scope="module")
def plain():
    """What the agents say that override nothing."""
    return {(name, shared): counts_and_law(agent(shared))[1] for name, agent in PLAIN.items() for shared in (False, True)}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", USED)
def test_what_is_overridden_is_played_and_said(plain, name, shared):
    """Actions have the probabilities of `propensities`, which are not those without the override."""
    base, agent = USED[name]
    counts, law = counts_and_law(agent(shared))
    assert fits(counts, law)
    assert not fits(counts, plain[base, shared])


def test_a_law_that_is_claimed_and_not_drawn_is_noticed():
    assert not fits(*counts_and_law(of(Thompson, belief=Lying())(True)))


def overriding(base, name, **fields):
    """A subclass whose override does nothing else than its base."""
    return type(f"Own{base.__name__}", (base,), {name: lambda self, *args: getattr(base, name)(self, *args), **fields})


REFUSED = {
    "OwnExact overrides normal": lambda: Thompson(Linear(MEAN), overriding(Exact, "normal")(), arms=2),
    "OwnLaplaceApproximation overrides normal": lambda: UCB(Linear(MEAN), overriding(LaplaceApproximation, "normal")(), arms=2),
    "OwnPerturb overrides normal": lambda: Thompson(Linear(MEAN), overriding(Perturb, "normal")(ula()), arms=2),
    "Thompson: OwnLinear overrides add": lambda: Thompson(overriding(Linear, "add")(MEAN), Exact(), arms=2),
    "OwnLinear overrides log_prior": lambda: Thompson(overriding(Linear, "log_prior")(MEAN), arms=2),
    "OwnLinear overrides log_likelihood": lambda: Thompson(overriding(Linear, "log_likelihood")(MEAN), arms=2),
    "OwnLogistic overrides log_density": lambda: Contextual(
        overriding(Logistic, "log_density")(MEAN), GaussianContexts([1.0, 1.0]), arms=2
    ),
    "does not use mean_rewards; override estimates": lambda: overriding(UCB, "mean_rewards")(Linear(MEAN), arms=2),
}


@pytest.mark.parametrize("match", REFUSED)
def test_what_cannot_be_used_is_refused(match):
    with pytest.raises(BltsError, match=match):
        REFUSED[match]()


def test_act_of_ones_own_has_no_propensities():
    for base in (Thompson, UCB, Greedy):
        agent = overriding(base, "act")(Linear(MEAN), arms=2)
        assert not provides(agent, "propensities")
        assert not provides(agent, "propensities_at") or base is not Greedy


@pytest.mark.parametrize("base", [Linear, Logistic, Network])
def test_a_prior_of_ones_own_may_call_that_of_its_base(base):
    """`init` of the base needs no `init_from`, which the subclass loses."""

    class Narrow(base):
        def init(self, key):
            return 0.1 * super().init(key)

    model = Narrow(2) if base is Network else Narrow(MEAN)
    assert not provides(model, "init_from")
    assert model.init(random.key(0)).shape == (model.dim,)


# Environments


class Paid(Contextual):
    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=-step.reward)


class Honest(Contextual):
    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=2 * step.reward, regret=2 * step.regret)


class Said(Contextual):
    def means(self, theta, obs):
        return -super().means(theta, obs)


class Consistent(Bent):
    def sample(self, key, theta, obs, action):
        return self.mean_reward(theta, obs, action) + random.normal(key)


class Noisier(Linear):
    def sample(self, key, theta, obs, action):
        return super().sample(key, theta, obs, action) + random.normal(key)


WORLDS = {
    "Bent overrides mean_reward: arm": lambda: Contextual(Bent(MEAN), GaussianContexts([1.0, 1.0]), arms=2),
    "Paid overrides step: arm": lambda: Paid(Linear(MEAN), GaussianContexts([1.0, 1.0]), arms=2),
    "Said overrides means: arm": lambda: Said(Linear(MEAN), GaussianContexts([1.0, 1.0]), arms=2),
}
FINE = {
    "a step with its own regret": lambda: Honest(Linear(MEAN), GaussianContexts([1.0, 1.0]), arms=2),
    "a model that overrides both": lambda: Contextual(Consistent(MEAN), GaussianContexts([1.0, 1.0]), arms=2),
    "a sample of the same mean": lambda: Contextual(Noisier(MEAN), GaussianContexts([1.0, 1.0], arms=2), shared=True),
}


def warnings_of(env) -> list[str]:
    return simulate(0, env, Thompson(Linear(MEAN), Exact(), arms=2, shared=env.shared), DoublingCounts(), **SETTINGS).warnings


SETTINGS = {"horizon": 8, "replications": 2}


@pytest.mark.parametrize("match", WORLDS)
def test_regret_of_other_means_than_are_paid_is_said(match):
    (why,) = warnings_of(WORLDS[match]())
    assert match in why


@pytest.mark.parametrize("name", FINE)
def test_regret_of_the_means_that_are_paid_needs_no_word(name):
    assert warnings_of(FINE[name]()) == []


# Contexts that are zero, and that are not finite


@pytest.mark.parametrize(
    "agent",
    [
        Thompson(LinearUnknownVariance([0.0, 0.0]), arms=ARMS),
        Thompson(Linear([0.0, 0.0]), arms=ARMS),
        Thompson(Linear([0.0, 0.0]), Perturb(ula(steps=2)), arms=ARMS),
    ],
    ids=["unknown variance", "linear", "perturbed"],
)
def test_features_that_are_all_zero_prefer_no_arm(agent):
    """The probabilities were NaN; the mutant prefers the first of equal arms."""
    state, keys = agent.init(random.key(0)), random.split(random.key(2), DRAWS)
    for arms, right in (([[0, 0]] * 3, [1 / 3] * 3), ([[0, 0], [1, 0.5], [0, 0]], [0.25, 0.5, 0.25])):
        played, said = played_and_said(agent, state, keys, Context(arms=jnp.asarray(arms, float)))
        np.testing.assert_allclose(said, right, atol=1e-3)
        assert counts_p(np.bincount(np.asarray(played), minlength=3), right) > LEVEL
        assert counts_p([right[0] * 2 * DRAWS, DRAWS - right[0] * 2 * DRAWS, 0], right) < LEVEL


def test_a_context_that_is_rarely_wrong_is_named():
    """Once in 500 rounds: beyond what is tried when the world is built."""

    def spoiled(key):
        return jnp.where(random.uniform(random.fold_in(key, 1)) < 0.002, jnp.nan, random.normal(key, (2,)))

    def closed(key):
        return Context(random.normal(key, (2,)), available=random.uniform(random.fold_in(key, 1)) > jnp.array([0.002, 0.002]))

    settings = {"horizon": 200, "replications": 5, "first": 3}
    for contexts, shows in ((spoiled, r"x \[nan, nan\]"), (closed, r"available 0 \(×2\)")):
        env = Contextual(Linear(MEAN), contexts, arms=2)
        match = rf"^Contextual: contexts must be finite and leave an arm to play; round \d+ of replication 7 shows .*{shows}\.$"
        with pytest.raises(BltsError, match=match):
            simulate(0, env, Thompson(Linear(MEAN), Exact(), arms=2), DoublingCounts(), **settings)
    # The others are as they were.
    rest = simulate(0, env, Thompson(Linear(MEAN), Exact(), arms=2), DoublingCounts(), horizon=200, replications=4, first=3)
    assert rest.warnings == []


class Flat(Linear):
    """A prior without curvature: until its rows determine θ, the posterior is no distribution."""

    def init(self, key):
        return random.normal(key, (2,))

    def log_prior(self, theta):
        return 0.0 * theta[0]

    def prior_precision(self):
        return jnp.zeros(2)


GAUSSIAN = GaussianContexts([1.0, 1.0])
UNUSABLE = {
    "the prior of Flat is flat": lambda: UCB(Flat(MEAN), arms=2),
    "whose squares overflow": lambda: Contextual(Linear(MEAN), 1e30 * FEATURES[:, 0], arms=2),
    "a round shows the same for all of them": lambda: simulated(Thompson(Linear(MEAN), arms=2, shared=True)),
    r"it has a context of shape \(2,\)": lambda: simulated(Thompson(Linear([0.0] * 3), arms=2)),
}


def simulated(agent):
    return simulate(0, Contextual(Linear(MEAN), GAUSSIAN, arms=2), agent, DoublingCounts(), **SETTINGS)


@pytest.mark.parametrize("match", UNUSABLE)
def test_what_no_number_can_come_of_is_refused_before_any_work(match):
    with pytest.raises(BltsError, match=match):
        UNUSABLE[match]()


# Every contextual agent by name: what decides its posterior is called, or refused


KINDS = {
    "Linear": Linear(MEAN),
    "Logistic": Logistic(MEAN),
    "PoissonRegression": PoissonRegression(MEAN),
    "Network": Network(2, (3,)),
}
DECISIVE = ("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "mean_reward", "marginal")
CHOSEN = {"draw", "normal", "marginal"}
"""Of the exact posterior: a belief of chains that is chosen by name does not call them."""
NAMED = [name for name, entry in registry.entries("agent").items() if "contextual" in entry.about.get("worlds", BANDITS)]
OTHERS = {"neural-ts", "neural-pool", "uniform", "ucb1", "eps-greedy", "base", "bayes-ucb"}
"""These build a model of their own, or have none; Bayes-UCB is for bandits without contexts."""


def agent_of(name, model):
    """The agent of the catalogue for 2 arms."""
    env = Contextual(Linear(MEAN), GAUSSIAN, arms=2)
    return registry.build("agent", name, Setting(env, model, 50))


def calls(agent) -> None:
    """One row is learned, and one round played, without numbers."""

    def all_of_it():
        obs = jnp.ones(2)
        history = agent.empty(Row(jnp.zeros(2), jnp.zeros((), int), jnp.zeros(())), 4)
        history = agent.remember(history, Row(obs, jnp.zeros((), int), jnp.ones(())), jnp.ones((), bool))
        block = jax.tree.map(lambda x: jnp.asarray(x)[None], (agent.init(random.key(0)), history))
        state = jax.tree.map(lambda x: x[0], agent.observe(random.split(random.key(1), 1), *block)[0])
        return agent.act(random.key(2), state, obs, Played(jnp.asarray(4), jnp.zeros(2, int)))

    jax.eval_shape(all_of_it)


def silently_unused(name, model) -> list[str]:
    try:
        belief = getattr(agent_of(name, model), "belief", None)
    except BltsError:  # not for this kind of model
        return []
    unused = []
    for method in DECISIVE:
        if not provides(model, method) or (method in CHOSEN and not isinstance(belief, Exact)):
            continue
        called = set()
        try:
            agent = agent_of(name, spied(model, (method,), called))
        except BltsError:
            continue
        called.clear()
        calls(agent)
        unused += [] if method in called else [method]
    return unused


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(set(NAMED) - OTHERS))
def test_every_contextual_agent_calls_what_a_model_overrides_or_refuses_it(name, kind):
    assert silently_unused(name, KINDS[kind]) == []


def test_an_override_that_nothing_calls_is_found(monkeypatch):
    """The mutant: without the refusal, `add` alone made greedy play fall back to log_likelihood without a word."""
    monkeypatch.setattr(Thompson, "_check_overrides", lambda self: None)
    assert silently_unused("greedy", Linear(MEAN)) == ["empty", "add"]
    assert silently_unused("exact-ts", Linear(MEAN)) == []  # Exact() refuses by itself


@pytest.mark.parametrize("agent", [Thompson, UCB, Greedy, SquareCB, OFUL])
def test_a_summary_of_ones_own_needs_its_likelihood(agent):
    with pytest.raises(BltsError, match=rf"^{agent.__name__}: OwnLinear overrides add, on which Linear.log_likelihood_of rests"):
        agent(overriding(Linear, "add")(MEAN), arms=2)
    with pytest.raises(BltsError, match=r"overrides log_likelihood_of alone, which would not be used; override log_likelihood too"):
        UCB(overriding(Linear, "log_likelihood_of")(MEAN), arms=2)
    with pytest.raises(BltsError, match=r"Chain: minibatches sum .* OwnLinear overrides log_likelihood_of alone"):
        Thompson(overriding(Linear, "log_likelihood_of")(MEAN), Perturb(sgld()), arms=2)


def test_a_whole_summary_of_ones_own_is_used():
    """All of it overridden, with the likelihood of a row: chains and Laplace approximations take it."""
    names = ("log_likelihood", "mean_reward", "information", "sample", "empty", "add", "log_likelihood_of")
    called = set()
    model = spied(Linear(MEAN), names, called)
    calls(Thompson(model, arms=2))
    assert {"empty", "add", "log_likelihood_of"} <= called
    calls(UCB(model, arms=2))
