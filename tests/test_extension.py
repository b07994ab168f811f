"""Parts of one's own, written with nothing but `from blts import …`, run like those of the package; mistakes are one sentence."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import blts
from blts import (
    Agent,
    Bandit,
    Batching,
    Belief,
    ConfigError,
    DoublingCounts,
    Dynamics,
    Env,
    Exact,
    Fixed,
    Gaussian,
    Info,
    Model,
    Played,
    Row,
    Sampler,
    Step,
    Thompson,
    array,
    from_json,
    module,
    random,
    simulate,
    static,
    to_json,
)

MEANS = [0.0, 0.3, 1.0]
WORLD = Bandit.with_means(Gaussian(sd=0.5), MEANS)


class TopTwo(Agent):
    """Top-two Thompson sampling (Russo 2016) for Gaussian rewards of known sd: the best of a draw, or the best of another arm."""

    actions: int
    share: float = array(default=0.5)
    sd: float = array(default=0.5)

    def init(self, key):
        return jnp.zeros(self.actions), jnp.ones(self.actions)  # mean and sd of every arm

    def act(self, key, state, obs, played: Played):
        first, second, coin = random.split(key, 3)
        mean, sd = state
        best = jnp.argmax(mean + sd * random.normal(first, mean.shape))
        again = mean + sd * random.normal(second, mean.shape)
        challenger = jnp.argmax(jnp.where(jnp.arange(self.actions) == best, -jnp.inf, again))
        return jnp.where(random.uniform(coin) < self.share, best, challenger)

    def empty(self, row: Row, capacity: int):
        return jnp.zeros((2, self.actions))

    def remember(self, history, row: Row, live):
        return history.at[:, row.action].add(jnp.where(live, jnp.stack([row.reward, 1.0]), 0.0))

    def observe(self, keys, states, histories):
        sums, counts = histories[:, 0], histories[:, 1]
        variance = 1 / (1 + counts / self.sd**2)
        mean = variance * sums / self.sd**2
        return (mean, jnp.sqrt(variance)), Info.of(jnp.isfinite(mean).all(1))


class Growing(Batching):
    """Batches that are each `factor` times as long as the one before, rounded up."""

    factor: float = array(default=1.5)

    def init(self, key, actions):
        return jnp.zeros((), int), jnp.ones((), int)  # rounds of this batch so far, and its length

    def step(self, state, obs, action):
        rounds, length = state[0] + 1, state[1]
        due = rounds == length
        longer = jnp.ceil(self.factor * length).astype(int)
        return (jnp.where(due, 0, rounds), jnp.where(due, longer, length)), due


class Drifting(Env):
    """Arms whose means move like random walks."""

    means: list = array(ndim=1)
    sd: float = array(default=0.1)

    @property
    def actions(self):
        return len(self.means)

    def reset(self, key):
        return jnp.asarray(self.means, float), ()

    def step(self, key, state, action):
        key_noise, key_move = random.split(key)
        step = Step((), state[action] + random.normal(key_noise), jnp.max(state) - state[action])
        return state + self.sd * random.normal(key_move, state.shape), step


class Bootstrapped(Belief):
    """The posterior mean and sd of the arms' means, by their rewards alone."""

    floor: float = array(default=0.1)

    def init(self, key, model):
        arms = jax.tree.leaves(model)[0].shape[0]
        return jnp.zeros(arms), jnp.ones(arms)

    def empty(self, model, row, capacity):
        return jnp.zeros((2, jax.tree.leaves(model)[0].shape[0]))

    def remember(self, model, history, row, live):
        return history.at[:, row.action].add(jnp.where(live, jnp.stack([row.reward, 1.0]), 0.0))

    def refresh(self, keys, model, state, history):
        n = jnp.maximum(history[:, 1], 1.0)
        return (history[:, 0] / n, 1 / jnp.sqrt(n) + self.floor), Info.of(jnp.ones(keys.shape, bool))

    def draw(self, key, model, state):
        mean, sd = state
        return (mean + sd * random.normal(key, mean.shape))[:, None]


class Logistic(Model):
    """Rewards around θ with the logistic density."""

    scale: float = array(default=0.3)
    dim = 1

    def init(self, key):
        return random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * theta[0] ** 2

    def log_likelihood(self, theta, row):
        z = (row.reward - theta[0]) / self.scale
        return -jnp.logaddexp(0.0, z) - jnp.logaddexp(0.0, -z) - jnp.log(self.scale)

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def information(self, theta):
        return jnp.full(1, 1 / 3) / self.scale**2

    def prior_precision(self):
        return jnp.ones(1)

    def sample(self, key, theta, obs, action):
        u = jnp.clip(random.uniform(key), 1e-6, 1 - 1e-6)
        return theta[0] + self.scale * jnp.log(u / (1 - u))


def run(env: Any = WORLD, agent: Any = None, batching: Any = None, horizon: int = 300, **options: Any):
    agent = TopTwo(3) if agent is None else agent
    return simulate(0, env, agent, DoublingCounts() if batching is None else batching, horizon=horizon, replications=4, **options)


def test_an_agent_of_ones_own_learns():
    trace = run()
    assert trace.diagnostics.finite.all()
    assert (trace.plays[:, 2] > 100).all()  # half of the rounds are the best arm's, once it is known
    assert (run(agent=TopTwo(3, share=1.0)).plays[:, 2] > 200).all()


def test_a_batching_of_ones_own_closes_when_it_says():
    ends, length = [], 1
    while sum(ends[-1:]) + length <= 100:
        ends.append(sum(ends[-1:]) + length)
        length = int(np.ceil(1.5 * length))
    trace = run(batching=Growing(), horizon=100)
    assert (trace.batches == len(ends)).all()
    assert trace.ends[0, : len(ends)].tolist() == ends
    with pytest.raises(ConfigError, match="Growing does not say when a batch ends before it does"):
        run(agent=Thompson(Gaussian(), Exact(), 3), batching=Growing(), engine="leap")


def test_an_environment_of_ones_own_drifts():
    still, moving = (run(Drifting(MEANS, sd=sd), horizon=400) for sd in (0.0, 1.0))
    assert still.final_regret.mean() < moving.final_regret.mean()
    assert np.allclose(still.final_regret, still.plays @ (1.0 - np.array(MEANS)), rtol=1e-4)


def test_a_belief_of_ones_own_serves_thompson():
    agent = Thompson(Gaussian(), Bootstrapped(), 3)
    assert not agent.incremental
    assert not agent.holds_posterior
    assert agent.laws(agent.init(random.key(0))) is None
    assert (run(agent=agent).plays[:, 2] > 200).all()


def test_a_model_of_ones_own_is_learned_and_played():
    model = Logistic()
    env = Bandit(model, theta=np.array(MEANS)[:, None])
    assert (run(env, Thompson(model, arms=3)).plays[:, 2] > 200).all()
    assert str(Logistic([0.1, 0.2])).startswith("2 arms with rewards (scale [0.1, 0.2]), outside the paper's theory")


def test_parts_of_ones_own_are_pytrees_that_pickle_and_are_written():
    for part in (TopTwo(3, 0.7), Growing(2.0), Drifting(MEANS), Bootstrapped(0.2), Logistic(0.2)):
        for copy in (pickle.loads(pickle.dumps(part)), from_json(to_json(part)), jax.tree.map(lambda x: x, part)):
            assert repr(copy) == repr(part)
    assert jax.tree.leaves(TopTwo(3, 0.7)) == [0.7, 0.5]  # the number of actions is part of what is compiled


def test_the_signature_of_ones_own_is_that_of_the_fields():
    assert list(inspect.signature(TopTwo).parameters) == ["actions", "share", "sd"]


def test_the_decorator_changes_nothing():
    @module
    class Decorated(Growing):
        more: int = static(default=2)

    assert Decorated(1.5).more == 2
    assert np.array_equal(run(batching=Decorated()).ends, run(batching=Growing()).ends)


class Bounded(Gaussian):
    """Looks at a number of its own, one for each arm or one for all."""

    p: float = array(default=3.0)

    def check(self):
        super().check()
        if not np.all(self.p >= 2):
            raise ConfigError("p must be at least 2.")


def test_a_check_of_ones_own_may_branch_on_numbers():
    model = Bounded(prior_mean=[0.0, 0.0, 0.0], p=[3.0, 4.0, 5.0])
    trace = simulate(0, Bandit(model), Thompson(model), Fixed(5), horizon=10, replications=2)
    assert trace.plays.sum() == 20
    assert Thompson(Bounded(prior_mean=[0.0, 0.0, 0.0])).model.p.tolist() == [3.0, 3.0, 3.0]
    for wrong, words in ({"p": [3.0, 1.0]}, "p must be at least 2"), ({"sd": -1.0}, "sd must be > 0"):
        with pytest.raises(ConfigError, match=words):
            Bounded(**wrong)  # type: ignore[arg-type]


class Chooser(Thompson):
    def check(self):
        super().check()
        if not np.all(self.model.sd > 0.1):
            raise ConfigError("sd must be above 0.1.")


def test_a_part_that_is_built_while_jax_traces_has_its_defaults():
    assert jax.jit(lambda sd: Chooser(Gaussian(sd=sd), arms=2).model.sd)(2.0).tolist() == [2.0, 2.0]
    with pytest.raises(ConfigError, match="above"):
        Chooser(Gaussian(sd=0.05), arms=2)


class Curious(blts.UCB1):
    draws: int = 8
    most: int = static(default=None)  # type: ignore[assignment]
    bonus: float = 1.0
    kind: float = "auto"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"draws": 2.5}, r"Curious: draws must be a whole number; got 2\.5\."),
        ({"draws": True}, "draws must be a whole number; got True"),
        ({"draws": None}, "draws must be a whole number; got None"),
        ({"draws": "a"}, "draws must be a whole number; got 'a'"),
        ({"most": 0.5}, "most must be a whole number"),
        ({"bonus": "a"}, r"Curious: bonus must be a number or an array of numbers; got 'a'\."),
    ],
)
def test_a_plain_number_of_ones_own_is_looked_at(given, words):
    assert Curious(3, draws=np.int64(-2), most=4, kind="all").draws == -2  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=words):
        Curious(3, **given)
    with pytest.raises(ConfigError, match=words.replace("Curious", "More")):
        type("More", (Curious,), {})(3, **given)


class Bare(Agent):
    actions: int = 3

    def act(self, key, state, obs, played):
        return 0


class Duck:
    """Has the methods, and is no subclass."""

    actions, init, act, empty, remember, observe = 3, TopTwo.init, TopTwo.act, TopTwo.empty, TopTwo.remember, TopTwo.observe


class Nothing:
    pass


def changed(base: type, **methods: Any) -> Any:
    return type("Mine", (base,), methods)


def other_history(self, history, row, live):
    return history[0]


def branching(self, key, state, obs, played):
    return jnp.asarray(1 if played.t > 3 else 0)


def numpy_act(self, key, state, obs, played):
    return jnp.asarray(int(np.argmax(np.asarray(played.counts))))


def keeping(self, key, state, obs, played):
    self.count = 1
    return jnp.asarray(0)


WRONG = {
    "required methods": (lambda: run(agent=Bare()), "Bare must define init, empty, remember, observe, as every Agent does"),
    "all but the base class": (lambda: run(agent=Duck()), r"write class Duck\(blts\.Agent\)"),
    "nothing at all": (
        lambda: run(agent=Nothing()),
        "an object of type Nothing has no actions, init, act, empty, remember, observe",
    ),
    "a scheme without step": (
        lambda: run(batching=changed(Batching, init=Growing.init)()),
        "Mine must define step, as every Batching",
    ),
    "an environment without reset": (lambda: run(env=changed(Env, actions=3)()), "Mine must define reset, step, as every Env does"),
    "a belief without draw": (
        lambda: Thompson(Gaussian(), changed(Belief, init=Bootstrapped.init)(), 3),
        "Mine must define empty, remember, refresh, draw, as every Belief does",
    ),
    "a model without a prior": (lambda: Thompson(changed(Model, dim=1)(), arms=3), "Mine must define init, log_prior"),
    "a kernel without step": (lambda: blts.Chain(changed(Sampler)()), "Mine must define init, step, as every Sampler does"),
    "a dynamics without a plan": (lambda: blts.ParametricMDP(changed(Dynamics)()), "Mine has no"),
    "an action that is a fraction": (
        lambda: run(agent=changed(TopTwo, act=lambda *_: jnp.asarray(0.5))(3)),
        r"Mine\.act must return a whole number, of shape \(\); it returned float32 of shape \(\)",
    ),
    "actions for all arms": (lambda: run(agent=changed(TopTwo, act=lambda *_: jnp.zeros(3, int))(3)), r"Mine\.act .* shape \(3,\)"),
    "another memory": (
        lambda: run(agent=changed(TopTwo, remember=other_history)(3)),
        r"Mine\.remember must return a memory as empty",
    ),
    "no Info": (lambda: run(agent=changed(TopTwo, observe=lambda self, keys, states, _: states)(3)), r"Mine\.observe must return"),
    "a reward alone": (lambda: run(env=changed(Drifting, step=lambda *_: 1.0)(MEANS)), r"Mine\.step must return \(state, Step"),
    "rewards for all arms": (
        lambda: run(env=changed(Drifting, step=lambda self, key, state, action: (state, Step((), state, 0.0)))(MEANS)),
        r"Mine\.step must return a reward that is a number, of shape \(\); it returned float32 of shape \(3,\)",
    ),
    "a state that grows": (
        lambda: run(batching=changed(Growing, step=lambda self, state, obs, action: ((*state, 1), True))()),
        r"Mine\.step must return a state as init returned it",
    ),
    "a bound that is a fraction": (
        lambda: run(
            agent=Thompson(Gaussian(), arms=3),
            env=blts.Bandit.with_means(Gaussian(), MEANS),
            batching=changed(blts.Sequential, max_batches=lambda self, horizon, actions: 1.5 * horizon)(),
        ),
        r"Mine\.max_batches must return a whole number from 0; it returned \d+\.\d",
    ),
    "a bound below zero": (
        lambda: run(batching=changed(Growing, max_batches=lambda self, horizon, actions: -2)()),
        r"Mine\.max_batches must return a whole number from 0; it returned -2",
    ),
    "best for all arms": (
        lambda: run(env=changed(Drifting, step=lambda self, key, state, a: (state, Step((), 1.0, 0.0, state > 0)))(MEANS)),
        r"Mine\.step must return best as a flag of shape \(\), or None; it returned bool of shape \(3,\)",
    ),
    "a branch": (lambda: run(agent=changed(TopTwo, act=branching)(3)), r"Mine\.branching is traced by JAX, so it cannot branch"),
    "NumPy": (lambda: run(agent=changed(TopTwo, act=numpy_act)(3)), r"Mine\.numpy_act is traced by JAX and must not call NumPy"),
    "a number kept": (lambda: run(agent=changed(TopTwo, act=keeping)(3)), r"Mine\.keeping must not set attributes, for parts are"),
}


def test_leaping_goes_on_after_a_mistake():
    """The look for what was wrong had left single-precision copies of the parts' numbers behind, which leaping ran into."""
    env, agent = blts.Bandit.with_means(Gaussian(), MEANS), Thompson(Gaussian(), arms=3)
    scheme = changed(blts.Sequential, max_batches=lambda self, horizon, actions: 1.5 * horizon)()
    with pytest.raises(ConfigError, match="max_batches must return"):
        run(env, agent, scheme)
    assert blts.simulate(0, env, agent, blts.DoublingCounts(), horizon=30, replications=2, engine="leap").engine == "leap"


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_sentence(name):
    call, words = WRONG[name]
    with pytest.raises(ConfigError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


def test_an_error_of_ones_own_is_left_as_it_is():
    def act(self, key, state, obs, played):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run(agent=changed(TopTwo, act=act)(3))


def test_fixed_is_the_same_as_one_of_ones_own():
    class Every(Batching):
        size: int = 10

        def init(self, key, actions):
            return jnp.zeros((), int)

        def step(self, state, obs, action):
            return state + 1, (state + 1) % self.size == 0

    assert np.array_equal(run(batching=Every(7)).regret, run(batching=Fixed(7)).regret)
