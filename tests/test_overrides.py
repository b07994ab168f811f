"""A subclass that overrides one method gets right numbers or a refusal, wherever it is used.

Every public method of every part is overridden by one that only notes that it was called. What stepping calls, leaping and live
use must call too, or refuse a subclass that overrides it; otherwise an override would be ignored without a word. Programs are
traced and not compiled.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Belief, _random, leap, loop, posterior, simulate
from blts._module import module
from blts._typing import Played, Row
from blts.agents import UCB1, BayesUCB, EpsilonGreedy, Exact, Perturb, Pool, SuccessiveElimination, Thompson, Uniform
from blts.batching import DoubledSinceSwitch, DoublingCounts, Fixed, Grid, OneOf, Sequential, StaticDoubling
from blts.declared import fact, missing, provides, rests_on, why_lost
from blts.envs import Bandit, Bootstrap
from blts.errors import ConfigError, Lost
from blts.leap import engine
from blts.live import learning, policy
from blts.models import (
    Bernoulli,
    Conjugate,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    Linear,
    LogNormal,
    Model,
    Poisson,
    StudentT,
    ZeroInflatedLogNormal,
    stack,
)
from blts.samplers import mala, sgld, ula

ARMS, HORIZON = 3, 40
SKIPPED = {"check", "theory", "with_means", "with_sd", "tsde", "ucrl2", "minimax", "geometric"}
"""Constructors and descriptions: they say nothing about the run of an object that exists."""

MODELS = {
    "Gaussian": Gaussian(prior_mean=[0.0, 0.5, 1.0]),
    "GaussianUnknownVariance": GaussianUnknownVariance(prior_mean=[0.0, 0.5, 1.0]),
    "Bernoulli": Bernoulli(a=[1.0, 2.0, 3.0]),
    "Poisson": Poisson(a=[1.0, 2.0, 3.0]),
    "Gamma": Gamma(a=[3.0, 4.0, 5.0]),
    "LogNormal": LogNormal(prior_mean=[0.0, 0.5, 1.0]),
    "ZeroInflatedLogNormal": ZeroInflatedLogNormal(prior_mean=[0.0, 0.5, 1.0]),
    "Linear": Linear(prior_mean=[0.0, 0.0], alpha=[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]),
    "Laplace": Laplace(prior_mean=[0.0, 0.5, 1.0]),
    "StudentT": StudentT(prior_mean=[0.0, 0.5, 1.0]),
}
BELIEFS = {"Exact": Exact(), "Perturb": Perturb(ula(steps=2)), "SGLD": Perturb(sgld(steps=2)), "Pool": Pool(mala(steps=2), 4)}
SCHEMES = {
    "DoublingCounts": DoublingCounts(),
    "DoubledSinceSwitch": DoubledSinceSwitch(),
    "Sequential": Sequential(),
    "Fixed": Fixed(7),
    "StaticDoubling": StaticDoubling(),
    "Grid": Grid((5, 20)),
    "OneOf": OneOf((Sequential(), DoublingCounts()), 1),
}


def methods(value: Any) -> list[str]:
    """The public methods and properties of an object's class."""
    named = {name: item for c in reversed(type(value).__mro__[:-1]) for name, item in vars(c).items()}
    fields = {field.name for field in dataclasses.fields(value)}
    return sorted(
        name
        for name, item in named.items()
        if not name.startswith("_")
        and name not in SKIPPED | fields
        and hasattr(value, name)
        and (callable(getattr(type(value), name, None)) or isinstance(getattr(type(value), name, None), property))
    )


def spied(value: Any, names: tuple[str, ...], called: set[str], *, facts: bool = False) -> Any:
    """The object as one of a subclass that overrides the named methods, doing the same and noting the calls; with `facts` it also
    states again what is declared of its base."""
    base = type(value)
    declared = {name for c in base.__mro__ for name, item in vars(c).items() if type(item) is type(vars(Exact)["plain_memory"])}
    body: dict[str, Any] = dict.fromkeys(declared, True) if facts else {}
    for name in names:
        if isinstance(getattr(base, name), property):
            body[name] = property(lambda self, name=name: (called.add(name), getattr(super(Sub, self), name))[1])
        else:

            def override(self, *args, name=name, **kwargs):
                called.add(name)
                return getattr(super(Sub, self), name)(*args, **kwargs)

            body[name] = override
    Sub = type(f"Spied{base.__name__}", (base,), body)
    return Sub(**{field.name: getattr(value, field.name) for field in dataclasses.fields(value)})


class Parts(dict):
    """An environment, an agent's model and belief, and a batching scheme: one of them spied upon."""

    @classmethod
    def with_belief(cls, belief, model):
        return cls(model=model, belief=belief)

    @property
    def env(self):
        return self["env"] if "env" in self else Bandit(self["model"], arms=ARMS)

    @property
    def agent(self):
        return self["agent"] if "agent" in self else Thompson(self["model"], self["belief"])

    @property
    def batching(self):
        return self.get("batching", DoublingCounts())


def completed(kind: str, value: Any, name: str, build: Any, called: set[str]) -> Any:
    """The spied object with what it takes to be accepted at all: a model without its `information` is refused outright, so that is
    overridden as well. None where it is refused for good."""
    names = (name,)
    for _ in range(4):
        try:
            object_ = spied(value, names, called)
            parts = build(object_)
            parts.agent  # noqa: B018
            parts.env  # noqa: B018
            return parts
        except ConfigError:
            more = tuple(m for m in (*missing(object_, Model), "sample") if m in methods(value) and m not in names)
            more = tuple(m for m in more if m != "theory" and not hasattr(object_, m))
            if kind != "model" or not more:
                return None
            names += more
    return None


def times():
    return jnp.asarray([10, HORIZON])


def trace_stepping(parts: Parts) -> None:
    key = _random.as_key(0)
    run = lambda: loop.run(  # noqa: E731
        key, parts.env, parts.agent, parts.batching, times(), 0, horizon=HORIZON, replications=2, keep_actions=False
    )
    jax.eval_shape(run)


def leaping_refused(parts: Parts) -> str | None:
    return leap.obstacle(parts.env, parts.agent, parts.batching, HORIZON, False)


def trace_leaping(parts: Parts) -> None:
    arguments = (_random.as_key(0), parts.env, parts.agent, parts.batching, np.array([10, HORIZON], np.int32), np.int32(0))
    with jax.enable_x64(True):
        leap._program.eval_shape(*arguments, horizon=HORIZON, replications=2, keep_actions=False)


def live_refused(parts: Parts) -> str | None:
    try:
        policy.check_agent(parts.agent, "this agent")
    except ConfigError as error:
        return str(error)
    return None


def trace_live(parts: Parts) -> None:
    agent, batching, key = parts.agent, parts.batching, _random.as_key(0)

    def run():
        state, clock = policy.start(key, agent), policy.start_clock(key, batching, ARMS)
        law = agent.propensities(state) if policy.is_fixed(agent) else jnp.full(ARMS, jnp.nan)
        mixture = policy.Mixture(jnp.zeros(ARMS), jnp.zeros((), int))
        frozen = policy.Frozen(state, law, jnp.zeros((), bool))
        decided = policy._decide_many(key, agent, batching, frozen, clock, mixture, 16, size=16, by_law=False)
        data = learning.Data(np.array([0, 1, 2, 0]), np.array([1.0, 0.0, 1.0, 1.0]))
        return decided, learning._observe(agent, key, state, learning.load(agent, data))

    jax.eval_shape(run)


PLAIN = MODELS["Gaussian"]


def cases():
    """(what is spied upon, how to build the rest around it)."""
    for name, model in MODELS.items():
        for belief_name, belief in BELIEFS.items():
            fits = provides(model, Conjugate) if belief_name == "Exact" else name in ("Gaussian", "Laplace")
            if fits:
                yield f"{name} with {belief_name}", "model", model, functools.partial(Parts.with_belief, belief)
    for name, belief in BELIEFS.items():
        yield name, "belief", belief, lambda b: Parts(model=PLAIN, belief=b)
        yield f"Thompson with {name}", "agent", Thompson(PLAIN, belief), lambda a: Parts(model=PLAIN, agent=a)
    for name, chain in (("ula", ula(steps=2)), ("sgld", sgld(steps=2))):
        yield name, "chain", chain, lambda c: Parts(model=PLAIN, belief=Perturb(c))
    agents = [UCB1(ARMS), EpsilonGreedy(ARMS), SuccessiveElimination(ARMS, HORIZON), Uniform(ARMS), BayesUCB(PLAIN, HORIZON)]
    for agent in agents:
        yield type(agent).__name__, "agent", agent, lambda a: Parts(model=PLAIN, agent=a)
    for env in (Bandit.with_means(PLAIN, [0.0, 0.5, 1.0]), Bootstrap.of({i: [0.0, 1.0, float(i)] for i in range(ARMS)})):
        yield type(env).__name__, "env", env, lambda e: Parts(model=PLAIN, belief=Exact(), env=e)
    for name, scheme in SCHEMES.items():
        yield name, "batching", scheme, lambda s: Parts(model=PLAIN, belief=Exact(), batching=s)


CASES = {case[0]: case[1:] for case in cases()}
NEUTRAL = {
    # A declaration about costs or about itself: overriding it is the user's own statement, and changes no number.
    ("agent", "incremental"), ("belief", "incremental"), ("agent", "plain_memory"), ("belief", "plain_memory"),
    ("chain", "needs_log"), ("env", "actions"), ("agent", "actions"),
    # How many batches there can be sizes a record, which is checked after the run.
    ("batching", "most"),
}  # fmt: skip


def calls(kind: str, value: Any, build: Any, trace: Any) -> set[str]:
    """Which methods a trace calls. All are overridden at once, so nothing is lost."""
    called: set[str] = set()
    parts = build(spied(value, tuple(methods(value)), called, facts=True))
    if kind == "model":
        parts["env"] = Bandit(value, arms=ARMS)  # of the rewards' own law the environment makes the calls
    called.clear()
    trace(parts)
    return called


def ignored(kind: str, value: Any, build: Any, trace: Any, refusal: Any) -> list[str]:
    """The methods whose override stepping heeds, and `trace` neither heeds nor refuses."""
    if refusal(build(value)) is not None:
        return []  # not even the plain object gets there
    unheeded = calls(kind, value, build, trace_stepping) - calls(kind, value, build, trace)
    return [
        name for name in sorted(unheeded) if (kind, name) not in NEUTRAL and not _noticed(kind, value, name, build, trace, refusal)
    ]


def _noticed(kind: str, value: Any, name: str, build: Any, trace: Any, refusal: Any) -> bool:
    """Whether a subclass that overrides this method alone is refused, or has it called after all."""
    called: set[str] = set()
    parts = completed(kind, value, name, build, called)
    if parts is None or refusal(parts) is not None:
        return True
    called.clear()
    trace(parts)
    return name in called


@pytest.mark.parametrize("name", CASES)
def test_no_override_is_ignored(name):
    assert ignored(*CASES[name], trace_leaping, leaping_refused) == [], "by leaping"
    if CASES[name][0] in ("agent", "belief", "chain", "model"):
        assert ignored(*CASES[name], trace_live, live_refused) == [], "by live use"


def test_no_override_of_a_bandits_model_is_ignored():
    """The environment's side: what its model draws."""
    for model in MODELS.values():
        stepped, leapt = set(), set()
        agent = Thompson(PLAIN, Exact())
        spy = lambda called: Bandit(spied(model, tuple(methods(model)), called), arms=ARMS)  # noqa: B023, E731
        trace_stepping(Parts(agent=agent, env=spy(stepped)))
        if hasattr(model, "sample_summary"):
            with jax.enable_x64(True):
                key, theta = _random.as_key(0), jnp.zeros((ARMS, model.dim))
                jax.eval_shape(lambda: engine.draw_rewards(spy(leapt).model, key, theta, jnp.ones(ARMS, int), empty_of(model)))  # noqa: B023
                jax.eval_shape(lambda: spy(leapt).reset(key))  # noqa: B023
        for name in (stepped - leapt) & set(methods(model)):
            assert not hasattr(spied(model, (name,), set()), "sample_summary"), (model, name)


def empty_of(model: Any) -> Any:
    return jax.vmap(lambda single: single.empty())(stack(model, ARMS))


def test_the_contract_notices_an_ignored_override():
    """A belief whose closed laws are declared to rest on nothing."""
    plain = {
        name: getattr(Exact, name) for name in ("check_model", "init", "_held", "empty", "remember", "refresh", "draw", "laws")
    }
    Undeclared = module(
        type("Undeclared", (Belief,), plain | {"plain_memory": True, "starts_from_prior": True, "__annotations__": {}})
    )
    build = functools.partial(lambda b: Parts(model=PLAIN, belief=b))
    assert ignored("belief", Undeclared(), build, trace_leaping, leaping_refused) == ["draw", "remember"]
    assert ignored("belief", Exact(), build, trace_leaping, leaping_refused) == []


# What a user would write


class TopTwo(Thompson):
    """Plays the runner-up of a draw half of the time (Russo 2016)."""

    def act(self, key, state, obs, played):
        first, second, coin = _random.split(key, 3)
        best = super().act(first, state, obs, played)
        values = self.mean_rewards(self.belief.draw(second, self.model, state), obs)
        challenger = jnp.argmax(jnp.where(jnp.arange(self.actions) == best, -jnp.inf, values))
        return jnp.where(_random.uniform(coin) < 0.5, best, challenger)


class Shifted(Bandit):
    """Pays less for the better arms, which its means do not say."""

    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=step.reward - 2.0 * action)


class Clipped(Exact):
    """Remembers no reward above 1."""

    def remember(self, model, history, row, live):
        return super().remember(model, history, row._replace(reward=jnp.minimum(row.reward, 1.0)), live)


class Wide(Perturb):
    def spread(self, model, state):
        return 10.0 * super().spread(model, state)


class Robust(Gaussian):
    """A Gaussian location with the likelihood of a Laplace law."""

    def log_likelihood(self, theta, row):
        return -jnp.abs(row.reward - theta[0])


class Hasty(DoublingCounts):
    """Closes a batch after every round."""

    def step(self, state, obs, action):
        state, _ = super().step(state, obs, action)
        return state, jnp.ones((), bool)


WORLD = Bandit.with_means(PLAIN, [0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("env", "agent", "batching", "why"),
    [
        (WORLD, TopTwo(PLAIN, Exact()), DoublingCounts(), "TopTwo overrides act"),
        (Shifted(WORLD.model, WORLD.theta), Thompson(PLAIN, Exact()), DoublingCounts(), "Shifted overrides step"),
        (WORLD, Thompson(PLAIN, Clipped()), DoublingCounts(), "remembers rewards in a way of its own"),
        (WORLD, Thompson(PLAIN, Exact()), Hasty(), "Hasty overrides step"),
    ],
)
def test_an_override_steps_and_says_why_it_does_not_leap(env, agent, batching, why):
    settings = {"horizon": 10**7, "points": 100, "keep_actions": False}
    assert leap.choose("auto", env, agent, batching, **settings) == "step"
    with pytest.raises(ConfigError, match=why):
        leap.choose("leap", env, agent, batching, **settings)


def test_changed_densities_lose_the_exact_posterior_and_ask_for_what_rests_on_them():
    with pytest.raises(ConfigError, match=r"Robust overrides log_likelihood, .* The same holds for information"):
        Thompson(Robust(prior_mean=[0.0, 1.0]), Perturb(sgld()))

    class Complete(Robust):
        def mean_reward(self, theta, obs, action):
            return theta[0]

        def information(self, theta):
            return jnp.ones(1)

    model = Complete(prior_mean=[0.0, 1.0])
    assert "outside the paper's theory: " in str(model)
    with pytest.raises(ConfigError, match="overrides log_likelihood"):
        Thompson(model, Exact())
    with pytest.raises(ConfigError, match="cannot draw rewards; Robust overrides log_likelihood"):
        Bandit(model)
    assert ula().needs_log(model)  # the Gaussian's sums no longer give this likelihood
    assert Thompson(model, Perturb(ula())).actions == 2


def test_a_belief_of_ones_own_stays_what_it_is():
    """Perturb and Pool were built anew for a model, as the plain classes."""
    agent = Thompson(PLAIN, Wide(sgld("theorem", 5, "theorem")))
    assert type(agent.belief) is Wide
    assert type(Thompson(PLAIN, type("MyPool", (Pool,), {})(mala(), 8)).belief).__name__ == "MyPool"


def test_an_override_of_the_mean_reward_is_drawn_and_not_read_off_the_marginal():
    class Priced(Bernoulli):
        def mean_reward(self, theta, obs, action):
            return jnp.asarray([10.0, 1.0])[action] * jax.nn.sigmoid(theta[0])

    agent = Thompson(Priced(), Exact(), 2)
    state = agent.init(_random.as_key(0))
    p = np.asarray(agent.propensities(state))
    assert agent.laws(state) is None
    assert p[0] == pytest.approx(0.95, abs=0.02)  # P(10 U > V) = 1 - 1/20
    with pytest.raises(ConfigError, match="has no closed one"):
        BayesUCB(Priced(), 100, arms=2)


def test_a_scheme_that_closes_more_batches_keeps_all_their_ends():
    trace = simulate(0, WORLD, UCB1(3), Hasty(), horizon=30, replications=2)
    assert (trace.ends == np.arange(1, 31)).all()

    class Wrong(Hasty):
        def most(self, horizon, actions):
            return 5

    with pytest.raises(ConfigError, match=r"Wrong closed 30 batches, and its most\(\) says at most 5"):
        simulate(0, WORLD, UCB1(3), Wrong(), horizon=30, replications=2)


def test_randomised_indices_have_no_propensities_of_zero_and_one():
    class Jittered(UCB1):
        def act(self, key, state, obs, played):
            return (_random.uniform(key) * self.actions).astype(int)

    with pytest.raises(ConfigError, match="Jittered overrides act"):
        policy.check_agent(Jittered(3), "jittered")
    policy.check_agent(UCB1(3), "ucb1")


def test_a_live_refresh_remembers_as_the_belief_does():
    class Halved(Perturb):
        def remember(self, model, history, row, live):
            return super().remember(model, history, row._replace(reward=0.5 * row.reward), live)

    agent = Thompson(PLAIN, Halved(sgld()))
    data = learning.Data(np.array([0, 1, 2]), np.array([2.0, 4.0, 6.0]))
    assert np.asarray(learning.load(agent, data).rows.reward)[:3].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("method", ["init", "empty", "remember", "refresh", "draw"])
def test_a_changed_belief_is_not_reported_as_the_posterior(method):
    for belief in BELIEFS.values():
        assert Thompson(PLAIN, belief).holds_posterior
        assert not Thompson(PLAIN, spied(belief, (method,), set())).holds_posterior


def test_the_number_of_replications_does_not_change_a_replication():
    """The engine was chosen by how many replications there were."""
    agent, batching = Thompson(PLAIN, Exact()), DoublingCounts()
    settings = {"horizon": 10**6, "times": 3}
    few, many = (simulate(0, WORLD, agent, batching, replications=n, **settings) for n in (2, 70))
    assert few.engine == many.engine == "leap"
    assert np.array_equal(few.regret, many.regret[:2])
    assert simulate(0, WORLD, agent, batching, replications=2, horizon=500).engine == "step"


class Hopeful(Exact):
    """Starts as if the first arm were far better."""

    def init(self, key, model):
        law = super().init(key, model)
        return dataclasses.replace(law, mean=law.mean + jnp.asarray([100.0, 0.0, 0.0]))


class Sure(Gaussian):
    """Says another law of its mean reward than it draws."""

    def marginal(self, summary, obs, action):
        law = super().marginal(summary, obs, action)
        return dataclasses.replace(law, sd=30.0 * law.sd)


class Narrow(Perturb):
    def moments(self, model, state, obs):
        mean, sd = super().moments(model, state, obs)
        return mean, 0.01 * sd


class Elsewhere(Gaussian):
    def prior_mean_reward(self, obs, action):
        return self.prior_mean + 50.0, self.prior_sd


class OtherMembers(Pool):
    def members(self, state):
        return state.thetas + jnp.asarray([100.0, 0.0, 0.0])[:, None, None]


class OtherValues(Pool):
    def values(self, model, thetas, obs):
        return -super().values(model, thetas, obs)


@pytest.mark.parametrize("agent", [Thompson(PLAIN, Hopeful()), type("Bold", (Thompson,), {"init": Thompson.init})(PLAIN, Exact())])
def test_leaping_does_not_drop_a_beginning_of_ones_own(agent):
    """A leap learned from nothing first, and so forgot what `init` gave."""
    with pytest.raises(ConfigError, match="overrides init"):
        leap.choose("leap", WORLD, agent, Fixed(100), horizon=10**6, points=3, keep_actions=False)


def test_a_law_that_is_not_that_of_the_draws_is_not_used():
    with pytest.raises(ConfigError, match=r"Sure overrides marginal, on which Gaussian\.draw rests"):
        Thompson(Sure(prior_mean=[0.0, 1.0]), Exact())
    state = Thompson(PLAIN, Perturb(ula())).init(_random.as_key(0))
    assert Thompson(PLAIN, Narrow(ula())).laws(state) is None
    assert Thompson(Elsewhere(prior_mean=[0.0, 0.5, 1.0]), Perturb(ula())).laws(state) is None
    pool = Thompson(PLAIN, Pool(mala(), 64))
    state = pool.init(_random.as_key(0))._replace(n=jnp.full(3, 5))
    exact = np.asarray(pool.propensities(state))
    for belief in (OtherMembers(mala(), 64), OtherValues(mala(), 64)):
        agent = Thompson(PLAIN, belief)
        assert not agent.propensities_are_exact(state)
        assert np.asarray(agent.propensities(state)) == pytest.approx(exact, abs=0.04)  # of what is really drawn


@pytest.mark.parametrize("model", [Gaussian, Bernoulli, Poisson, GaussianUnknownVariance])
def test_exact_draws_are_lost_with_the_likelihood_of_a_summary(model):
    """Chains draw from what it says, and exact draws would not."""

    class Half(model):
        def log_likelihood_of(self, theta, summary):
            return 0.5 * super().log_likelihood_of(theta, summary)

    assert provides(model(), Conjugate)
    assert not provides(Half(), Conjugate)
    assert not provides(Half(), "marginal")
    with pytest.raises(ConfigError, match=r"Half overrides log_likelihood_of, on which \w+\.draw rests"):
        Thompson(Half(), Exact(), 2)


def test_a_dimension_that_init_does_not_draw_is_refused():
    class Two(Gaussian):
        dim = 2

    with pytest.raises(ConfigError, match=r"Two has dim = 2, and its init draws θ of shape \(1,\); override both or neither"):
        posterior(Two(), [1.0, 2.0])
    with pytest.raises(ConfigError, match="Thompson: Two has dim = 2"):
        Thompson(Two(), arms=2)


def test_what_was_written_for_one_method_is_lost_with_the_next():
    """A wrapper in between, or a mixin in front, does not hide that the likelihood was changed below it."""

    class Logged(Gaussian):
        def draw(self, key, summary):
            return super().draw(key, summary)

        def log_likelihood_of(self, theta, summary):
            return super().log_likelihood_of(theta, summary)

    class Mixin:
        def draw(self, key, summary):
            return super().draw(key, summary)

    body = {"log_likelihood": lambda self, theta, row: -0.5 * (2 * row.reward - theta[0]) ** 2}
    body |= {"mean_reward": lambda self, theta, obs, action: theta[0] / 2, "information": lambda self, theta: jnp.ones(1)}
    assert provides(Logged(), Conjugate)
    assert provides(type("Mixed", (Mixin, Gaussian), {})(), Conjugate)
    for half in (type("Half", (Logged,), body), type("Half", (Mixin, Gaussian), body)):
        assert not provides(half(), Conjugate)
        with pytest.raises(ConfigError, match="overrides log_likelihood"):
            Thompson(half(prior_mean=[0.0, 1.0]), Exact())
        assert not isinstance(Thompson(half(prior_mean=[0.0, 1.0])).belief, Exact)

    class Restated(Exact):
        plain_memory = True

    class Forgetful(Restated):
        def remember(self, model, history, row, live):
            return history

    assert Restated().plain_memory
    assert not Forgetful().plain_memory


def test_hooks_of_doubling_are_seen():
    class Ten(DoublingCounts):
        def _after(self, state, counts):
            return super()._after(state, counts)

    assert "Ten overrides _after" in (leap.obstacle(WORLD, Thompson(PLAIN, Exact()), Ten(), HORIZON, False) or "")


def test_numbers_that_are_not_finite_are_told_by_exact_agents():
    class Broken(Bandit):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(reward=jnp.where(_random.uniform(key) < 0.05, jnp.nan, step.reward))

    broken = Broken(WORLD.model, WORLD.theta)
    for agent in (Thompson(PLAIN, Exact()), BayesUCB(PLAIN, HORIZON)):
        assert any(
            "not finite" in warning for warning in simulate(0, broken, agent, Fixed(10), horizon=200, replications=5).warnings
        )
        assert simulate(0, WORLD, agent, Fixed(10), horizon=200, replications=5).warnings == []


def test_classes_of_one_name_are_two_in_json():
    from blts import from_json, to_json

    def one():
        class Mine(Exact):
            pass

        return Mine()

    def other():
        class Mine(Exact):
            pass

        return Mine()

    first, second = one(), other()
    assert type(from_json(to_json(first))) is type(first)
    assert type(from_json(to_json(second))) is type(second)


def test_a_plain_number_of_a_subclass_is_one_for_each_arm():
    class Bonus(Gaussian):
        bonus: float = 0.5

        def mean_reward(self, theta, obs, action):
            return theta[0] + self.bonus

    agent = Thompson(Bonus(prior_mean=[0.0, 1.0], bonus=2.0), Perturb(sgld()))
    assert np.asarray(agent.model.bonus).tolist() == [2.0, 2.0]


# Declarations themselves


def test_what_is_lost_says_by_which_override():
    class Base:
        def a(self):
            return 1

        @rests_on("a")
        def b(self):
            return 2

        sure = fact("a")

    class Changed(Base):
        def a(self):
            return 3

    class Both(Changed):
        def b(self):
            return super().b() + 10

    assert (Base().b(), Base().sure, why_lost(Base(), "b")) == (2, True, None)
    assert not hasattr(Changed(), "b")
    assert not Changed().sure
    with pytest.raises(Lost, match=r"Changed overrides a, on which Base\.b rests; override b too"):
        Changed().b()
    assert Both().b() == 12


def test_a_plain_subclass_is_a_pytree_and_goes_through_json():
    from blts import from_json, to_json

    agent = TopTwo(PLAIN, Exact())
    leaves, structure = jax.tree.flatten(agent)
    assert type(jax.tree.unflatten(structure, leaves)) is TopTwo
    assert type(from_json(to_json(agent))) is TopTwo
    assert "TopTwo, changed from Thompson sampling" in str(agent)


def test_rows_and_played_are_what_agents_are_given():
    """A subclass written for one round sees the same arguments everywhere."""
    seen = []

    class Curious(Thompson):
        def act(self, key, state, obs, played):
            seen.append(played)
            return super().act(key, state, obs, played)

        def remember(self, history, row, live):
            seen.append(row)
            return super().remember(history, row, live)

    trace_stepping(Parts(model=PLAIN, agent=Curious(PLAIN, Exact())))
    kinds = {type(x) for x in seen}
    assert kinds == {Played, Row}
    assert list(itertools.islice((x.t.shape for x in seen if isinstance(x, Played)), 1)) == [()]
