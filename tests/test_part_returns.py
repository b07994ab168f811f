"""What methods of beliefs, kernels and drifts return is looked at: a wrong shape is a sentence that names the method."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from blts import (
    Bandit,
    Belief,
    Bernoulli,
    Chain,
    ConfigError,
    Drift,
    Drifting,
    Fixed,
    Gaussian,
    Info,
    Pool,
    Sampler,
    Thompson,
    samplers,
    simulate,
)

WORLD, MODEL = Bandit.with_means(Gaussian(), [0.0, 1.0]), Gaussian(prior_mean=[0.0, 0.0])


class Sums(Belief):
    """Plays by the sums of rewards."""

    def init(self, key, model):
        return jnp.zeros(2)

    def empty(self, model, row, capacity):
        return jnp.zeros(2)

    def remember(self, model, history, row, live):
        return history.at[row.action].add(jnp.where(live, row.reward, 0.0))

    def refresh(self, keys, model, state, history):
        return history, Info.of(jnp.ones(len(keys), bool))

    def draw(self, key, model, state):
        return state[:, None]


class Still(Sampler):
    """Stays where it is."""

    def init(self, theta):
        return samplers.State(theta, jnp.zeros((), int))

    def step(self, key, state, potential):
        return state, samplers.StepInfo(jnp.ones(()))


class Same(Drift):
    """Means that do not change."""

    def after(self, key, t, base, means):
        return means

    def limits(self, base):
        return base.min(), base.max()


def own(base, **methods):
    return type("Own", (base,), methods)()


def run(belief):
    return simulate(0, WORLD, Thompson(MODEL, belief), Fixed(5), horizon=10, replications=2)


def chained(**methods):
    return lambda: run(Pool(Chain(own(Still, **methods), 3), 4))


def drifting(**methods):
    return lambda: Drifting(Bandit.with_means(Bernoulli(), [0.2, 0.4]), own(Same, **methods))


WRONG = {
    "draw": (
        lambda: run(own(Sums, draw=lambda self, key, model, state: state)),
        r"Own.draw must return θ of every arm, of shape \(2, 1\); it returned float32 of shape \(2,\)",
    ),
    "draw None": (lambda: run(own(Sums, draw=lambda self, key, model, state: None)), "Own.draw must return θ of every arm"),
    "check_model": (
        lambda: run(own(Sums, check_model=lambda self, model: None)),
        "Thompson: what check_model of Own returns must be an object",
    ),
    "kernel state alone": (
        chained(step=lambda self, key, state, potential: state),
        r"Chain: step of Own must return \(state, StepInfo\(acceptance\)\)",
    ),
    "kernel number": (chained(step=lambda self, key, state, potential: (state, 1.0)), "Chain: step of Own must return"),
    "kernel None": (chained(step=lambda self, key, state, potential: None), "Chain: step of Own must return"),
    "kernel init": (chained(init=lambda self, theta: None), "Chain: init of Own must return a state with a position"),
    "first": (drifting(first=lambda self, base: base[:1]), r"first of Own must return the mean of every arm, of the shape \[2\]"),
    "after": (drifting(after=lambda self, key, t, base, means: means[0]), r"it returned an array of the shape \[\]"),
    "after None": (drifting(after=lambda self, key, t, base, means: None), "after of Own must return .*; it returned None"),
    "limits": (drifting(limits=lambda self, base: 1.0), "limits of Own must return the lowest and the highest mean"),
    "beyond": (
        drifting(after=lambda self, key, t, base, means: means + 0.1),
        r"Own promises means from 0.2 to 0.4, and its after returned .* for round 2; keep them inside",
    ),
    "slowly beyond": (
        drifting(after=lambda self, key, t, base, means: means + 1e-3, limits=lambda self, base: (0.0, 0.5)),
        r"returned .* for round 10[23]; keep them inside",
    ),
    "not a number": (drifting(after=lambda self, key, t, base, means: jnp.log(means - 0.3)), r"for round 2; keep them inside"),
    "if": (drifting(after=lambda self, key, t, base, means: means if t > 3 else base), "use jnp.where in place of if"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_return_is_one_sentence(name):
    make, words = WRONG[name]
    with pytest.raises(ConfigError, match=words):
        make()


def test_right_ones_run():
    assert run(own(Sums)).replications == 2
    assert drifting()().actions == 2
