"""Neural Thompson sampling: what a linear model cannot learn, exact posteriors of the last layer, exact propensities."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    BAOAB,
    Chain,
    Env,
    Exact,
    Fixed,
    Langevin,
    LastLayer,
    Linear,
    Pool,
    Step,
    Thompson,
    baoab,
    condition,
    mala,
    random,
    simulate,
)
from blts._typing import Row
from blts.contexts import WithOffsets
from blts.errors import ConfigError
from blts.history import Log
from blts.models import Network, from_functions, stack
from laws import LEVEL, counts_p, gaussian_p

HORIZON, RUNS = 300, 16


class Xor(Env):
    """Two arms; which is better is whether the two features of a round have the same sign."""

    sd: float = 0.3
    actions = 2

    def reset(self, key):
        x = random.normal(key, (2,))
        return x, x

    def step(self, key, state, action):
        key_reward, key_context = random.split(key)
        means = 0.5 * jnp.sign(state[0] * state[1]) * jnp.array([1.0, -1.0])
        following = random.normal(key_context, (2,))
        return following, Step(following, means[action] + self.sd * random.normal(key_reward), jnp.max(means) - means[action])


def lost(model, belief, **options) -> np.ndarray:
    """The regret of the last third of the rounds."""
    trace = simulate(0, Xor(), Thompson(model, belief, arms=2, **options), Fixed(20), horizon=HORIZON, replications=RUNS)
    assert np.asarray(trace.diagnostics.finite).all()
    return np.asarray(trace.regret[:, -1] - trace.regret[:, HORIZON - HORIZON // 3], float)


SHARED = {"shared": True, "features": WithOffsets(2)}


BEST_LINE = 37.5
"""What the best linear rule loses in the last third of the rounds.

It plays an arm where u = (x₁ + x₂)/√2 is above some c. Given u > 0, E sign(x₁x₂) = P(|v| < u) - P(|v| > u) = 4Φ(u) - 3, so c has
Φ(c) = 3/4, and E[sign(x₁x₂); u > c] = ∫ (4p - 3) dp from 3/4 to 1 is 1/8. The rule is right with probability 1/2 + 1/8: of 100
rounds it loses 37.5, and uniform play 50. The limits of these tests follow from that, and none from a run.
"""


def test_the_best_linear_rule():
    """Over all directions and thresholds, on a million contexts: E[sign(x₁x₂); w·x > c] is at most 1/8, up to 4 standard errors."""
    x = np.random.default_rng(0).normal(size=(1_000_000, 2))
    sign = np.sign(x[:, 0] * x[:, 1])
    most = []
    for angle in np.linspace(0, np.pi, 12, endpoint=False):
        order = np.argsort(-(x @ [np.cos(angle), np.sin(angle)]))
        most.append(np.abs(np.cumsum(sign[order])).max() / len(x))
    assert abs(max(most) - 1 / 8) < 4e-3
    assert HORIZON // 3 * (1 / 2 - 1 / 8) == BEST_LINE


def beats_lines(losses: np.ndarray) -> bool:
    """Whether the mean loss is four standard errors below that of the best linear rule."""
    return losses.mean() + 4 * losses.std(ddof=1) / np.sqrt(len(losses)) < BEST_LINE


def test_a_network_learns_what_a_linear_model_cannot():
    linear = lost(Linear(np.zeros(4), 1.0, 0.3), Exact(), **SHARED)
    assert linear.mean() > BEST_LINE - 4 * np.sqrt(HORIZON // 3 / 4 / RUNS)  # a wrong arm costs 1: its variance is at most 1/4
    assert not beats_lines(linear)
    assert beats_lines(lost(Network(4, (12,), 2.0, 0.3), LastLayer(), **SHARED))


@pytest.mark.slow
@pytest.mark.parametrize("belief", [LastLayer(), Pool(mala(steps=40), 16)], ids=["last layer", "pool"])
def test_disjoint_networks_learn_it_too(belief):
    """Langevin over the whole network as well as its last layer."""
    assert beats_lines(lost(Network(2, (12,), 2.0, 0.3), belief))


# The last layer

X = np.random.default_rng(0).normal(size=(80, 2))
REWARDS = np.sign(X[:, 0] * X[:, 1]) + 0.3 * np.random.default_rng(1).normal(size=80)
MODEL = stack(Network(2, (6,), 2.0, 0.3), 1)


@jax.jit
def refreshed(belief, key):
    n = len(X)
    rows = Row(jnp.asarray(X, float), jnp.zeros(n, int), jnp.asarray(REWARDS, float))
    log = Log(rows, jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))
    block = jax.tree.map(lambda x: x[None], (belief.init(key, MODEL), log))
    state, _ = belief.refresh(key[None], MODEL, *block)
    return jax.tree.map(lambda x: x[0], state)


def hidden(theta):
    """What the layer below makes of the features, with a constant, in NumPy; as of prior_sd = 2."""
    weights = theta[:12].reshape(2, 6) / np.sqrt(2)
    return np.column_stack([2 * np.tanh(2 * (X @ weights + theta[12:18])) / np.sqrt(6), np.full(len(X), 2.0)])


def test_the_last_layer_has_its_exact_posterior():
    """That of linear regression on the fitted features; of other features, the mutant, it is another."""
    state = refreshed(LastLayer(steps=100), random.key(0))
    mean, root = np.asarray(state.normal.mean[0], float), np.asarray(state.normal.root[0], float)
    assert (root[:18] == 0).all()

    def is_posterior(phi):
        precision = np.eye(7) + phi.T @ phi / 0.09
        right = np.linalg.solve(precision, phi.T @ REWARDS / 0.09)
        return np.allclose(mean[18:], right, atol=0.02) and np.allclose(
            root[18:, 18:] @ root[18:, 18:].T @ precision, np.eye(7), atol=0.02
        )

    assert is_posterior(hidden(mean))
    assert not is_posterior(hidden(mean + 0.1))


def test_refitting_explains_the_rewards():
    """Without it, the mutant of one step, the features are those of the prior, and explain less."""
    error = {}
    for steps in (1, 300):
        theta = np.asarray(refreshed(LastLayer(steps=steps), random.key(0)).normal.mean[0], float)
        error[steps] = np.mean((hidden(theta) @ theta[18:] - REWARDS) ** 2)
    assert error[300] < 0.5 * error[1]


def test_propensities_of_networks():
    """By quadrature for disjoint last layers, exactly for the members of a pool: both are the frequencies of what is played."""
    obs = jnp.array([0.4, -0.3])
    model = Network(2, (6,), [0.3, 1.0, 3.0])
    for agent in (Thompson(model, LastLayer()), Thompson(model, Pool(mala(), 64))):
        state = agent.init(random.key(5))
        if isinstance(agent.belief, Pool):
            state = state._replace(n=jnp.ones(3, int))  # draws are then members
        assert agent.propensities_are_exact(state, obs)
        p = np.asarray(agent.propensities(state, obs), float)
        played = jax.jit(jax.vmap(lambda key, agent=agent, state=state: agent.act(key, state, obs, None)))
        counts = np.bincount(np.asarray(played(random.split(random.key(0), 5000))), minlength=3)
        assert counts_p(counts, p) > LEVEL
        assert counts_p(counts, np.roll(p, 1)) < LEVEL


def test_a_model_without_a_last_layer_is_refused():
    with pytest.raises(ConfigError, match="LastLayer: the model must be a Network; a Linear has no last layer"):
        Thompson(Linear([0.0]), LastLayer(), arms=2)


class Multiplied(Network):
    """Its mean reward is not linear in the last layer."""

    def mean_reward(self, theta, obs, action):
        return jnp.exp(super().mean_reward(theta, obs, action))


def test_a_network_of_another_mean_has_no_last_layer():
    with pytest.raises(ConfigError, match=r"LastLayer: .* Multiplied overrides mean_reward"):
        Thompson(Multiplied(2), LastLayer(), arms=2)


# Step sizes by the curvature of the rows


def test_the_information_of_a_row_bounds_its_curvature():
    """ggᵀ/sd² for the slope g of the mean reward; the squares of g alone, the mutant, do not."""
    model = Network(2, (6,), 2.0, 0.3)
    for seed in range(5):
        theta, x = model.init(random.key(seed)), jnp.asarray(X[seed], float)
        g = np.asarray(jax.grad(model.mean_reward)(theta, x, 0), float)
        expected = np.outer(g, g) / 0.09
        above = lambda bound, expected=expected: np.linalg.eigvalsh(np.diag(bound) - expected).min() > -1e-3  # noqa: E731
        assert above(np.asarray(model.row_information(theta, x), float))
        assert not above(g**2 / 0.09)


class BySlopes(Linear):
    """Linear rewards with the step sizes of networks."""

    def row_information(self, theta, obs):
        return jnp.abs(obs) * jnp.sum(jnp.abs(obs)) / jnp.square(self.sd)


LINEAR = stack(BySlopes([0.0, 0.0], 1.0, 0.5), 1)
UNEQUAL = X * [3.0, 0.3]


@jax.jit
def ends(belief, key):
    n = len(X)
    rows = Row(jnp.asarray(UNEQUAL, float), jnp.zeros(n, int), jnp.asarray(REWARDS, float))
    log = Log(rows, jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))
    block = jax.tree.map(lambda x: x[None], (belief.init(key, LINEAR), log))
    return belief.refresh(key[None], LINEAR, *block)[0].thetas[0, 0]


def test_chains_in_units_of_the_rows_draw_the_posterior():
    """Of a linear model, where it is known; at another temperature, the mutant, they do not."""
    precision = np.eye(2) + UNEQUAL.T @ UNEQUAL / 0.25
    right = np.linalg.solve(precision, UNEQUAL.T @ REWARDS / 0.25)
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision)))

    def p_value(temperature):
        chain = Chain(BAOAB(0.8, 1.0, temperature), 60).resolved(LINEAR)
        assert chain.scale == "rows"
        thetas = ends(Pool(chain, 4000), random.key(1))
        return min(gaussian_p(thetas[:, i], right[i], sd[i]) for i in range(2))

    assert p_value(1.0) > LEVEL
    assert p_value(1.2) < LEVEL


def test_a_model_without_the_curvature_of_a_row_is_refused():
    with pytest.raises(ConfigError, match=r'scale="rows" needs .* Linear has no row_information; leave scale out'):
        Thompson(Linear([0.0]), Pool(baoab(scale="rows")), arms=2)


# What chains of networks are compared by


class ByWeights(Network):
    """The mutant: its chains are compared by their weights."""

    identifiable = True


FITTED = 16


def pools(kind, change, steps, step_size=0.8):
    """A pool of networks after one refresh, and how it went; `change` is made to the fitted networks that it starts from."""
    model, n = stack(kind(2, (6,), 2.0, 0.3), 1), len(X)
    fitted = refreshed(LastLayer(steps=300), random.key(0)).normal.mean[0]
    start = change(fitted + 0.01 * random.normal(random.key(1), (FITTED, len(fitted))))
    belief = Pool(baoab(step_size, steps, 32), FITTED).check_model(model)
    rows = Row(jnp.asarray(X, float), jnp.zeros(n, int), jnp.asarray(REWARDS, float))
    log = Log(rows, jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))
    state = belief.init(random.key(0), model)._replace(thetas=start[None])
    block = jax.tree.map(lambda x: x[None], (state, log))
    new, info = jax.jit(belief.refresh)(random.key(2)[None], model, *block)
    return np.asarray(new.thetas[0, 0]), jax.tree.map(lambda x: float(x[0]), info)


def swapped(theta):
    """The same functions, with the hidden units of the first three networks in another order and of the other sign."""
    order = jnp.array([3, 4, 5, 0, 1, 2])
    first, bias, last = theta[:, :12].reshape(-1, 2, 6), theta[:, 12:18], theta[:, 18:24]
    turned = jnp.concatenate([-first[..., order].reshape(-1, 12), -bias[:, order], -last[:, order], theta[:, 24:]], 1)
    return jnp.where(jnp.arange(FITTED)[:, None] < 3, turned, theta)


def different(thetas) -> int:
    return len(np.unique(thetas, axis=0))


def test_networks_that_predict_alike_are_not_stuck():
    """Three of 16 have their hidden units swapped. By their weights, the mutant, they are stuck and become copies of others."""
    ends, info = pools(Network, swapped, 40)
    assert info.stuck == 0
    assert different(ends) == FITTED
    ends, by_weights = pools(ByWeights, swapped, 40)
    assert by_weights.stuck == 3 / FITTED
    assert different(ends) == FITTED - 3
    assert info.rhat < by_weights.rhat / 2


def test_a_network_that_predicts_otherwise_is_stuck():
    """One of 16 is 60 above all others, and steps are too short to come back; one that is not finite is replaced as well."""

    def spoiled(theta):
        return theta.at[3, 24].add(30.0).at[5, 0].set(jnp.nan)

    ends, info = pools(Network, spoiled, 2, 1e-3)
    assert info.stuck == 2 / FITTED
    assert different(ends) == FITTED - 2
    assert np.isfinite(info.rhat)  # of the others: it was NaN, which no limit finds


def test_a_model_of_functions_says_whether_it_is_identifiable():
    """Only |θ| is seen in the rewards: chains at both signs agree, and do not where nothing is said, the mutant."""
    sides = jnp.where(jnp.arange(64) % 8 == 0, -1.0, 1.0)[:, None]

    def info_of(**options):
        model = from_functions(
            lambda theta: -0.5 * theta[0] ** 2,
            lambda theta, reward: -50 * (reward - jnp.abs(theta[0])) ** 2,
            mean_reward=lambda theta: jnp.abs(theta[0]),
            init=lambda key: random.normal(key, (1,)),
            L=100.0,
            arms=1,
            **options,
        )
        belief = Pool(Chain(Langevin(0.1), 20, scale="data"), 64)
        n = 10
        log = Log(Row((), jnp.zeros(n, int), jnp.full(n, 1.0)), jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))
        state = belief.init(random.key(0), model)._replace(thetas=sides[None])
        return jax.jit(belief.refresh)(random.key(1)[None], model, *jax.tree.map(lambda x: x[None], (state, log)))[1]

    assert info_of(identifiable=False).stuck[0] == 0
    assert info_of().stuck[0] == 1 / 8
    with pytest.raises(ConfigError, match=r"identifiable must be True or False; got 3\.0\. identifiable is an option"):
        info_of(identifiable=3.0)


# Shuttle

RUNS_OF_SHUTTLE = 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neural-ts", "neural-pool", "exact-ts"])
def test_shuttle_takes_few_mistakes_and_batches(name):
    """At most 300 mistakes in 10⁴ rounds and 100 batches, in every run; exact draws of a linear model, the mutant, make more."""
    options = {"sd": 0.1} if name.startswith("neural") else {}
    try:
        chosen = condition("shuttle", name, "dynamic", options=options)
    except ConfigError as error:
        pytest.skip(str(error))
    trace = simulate(0, chosen.env, chosen.agent, chosen.batching, horizon=10_000, replications=RUNS_OF_SHUTTLE, times=1)
    mistakes, batches = trace.final_regret, trace.batches
    print(f"{name}: {mistakes.mean():.0f} mistakes ({mistakes.min():.0f} to {mistakes.max():.0f}), {batches.mean():.1f} batches")
    assert np.asarray(trace.diagnostics.finite).all()
    assert (batches <= 100).all()
    assert (mistakes <= 300).all() == name.startswith("neural")
