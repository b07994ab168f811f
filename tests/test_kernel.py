"""The kernel plays what the loop plays: the same keys, the same rounds, the same record."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bernoulli, DoublingCounts, Exact, Gaussian, Sequential, StaticDoubling, Thompson, _kernel, _random, loop
from blts.agents import UCB1, BayesUCB, EpsilonGreedy, SuccessiveElimination
from blts.envs import Bandit

MEANS = [0.1, 0.6, 0.4]
MODEL = Gaussian(prior_mean=[0.0, 0.2, 0.4], prior_sd=2.0, sd=0.5)
ENV = Bandit.with_means(Gaussian(sd=0.5), MEANS)


def run(env, agent, batching, *, horizon: int, replications: int, times=None) -> loop.Record:
    times = jnp.arange(1, horizon + 1) if times is None else jnp.asarray(times)
    settings = {"horizon": horizon, "replications": replications, "keep_actions": True}
    quickly = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None  # compiling is what takes long
    step = jax.jit(partial(loop.run, **settings), compiler_options=quickly)
    return step(_random.as_key(3), env, agent, batching, times, np.int32(5))


@pytest.fixture
def plans(monkeypatch) -> list:
    """The plans that were made; from now on the kernel is used, with tiles of 8 lanes, interpreted on a CPU."""
    made, plan = [], _kernel.plan
    monkeypatch.setattr(_kernel, "pays", lambda rounds: True)
    monkeypatch.setattr(_kernel, "LANES", 8)
    monkeypatch.setattr(_kernel, "plan", lambda *arguments: made.append(plan(*arguments)) or made[-1])
    return made


def assert_same(a: loop.Record, b: loop.Record) -> None:
    for name in ("ends", "actions", "plays", "batches"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), a, b)


@pytest.mark.parametrize(
    ("agent", "batching", "horizon"),
    [
        (Thompson(MODEL, Exact()), DoublingCounts(), 12),
        (Thompson(MODEL, Exact()), StaticDoubling(), 11),
        (EpsilonGreedy(3), Sequential(), 9),
        (UCB1(3), DoublingCounts(), 10),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_record_is_the_same(agent, batching, horizon, request):
    settings = {"horizon": horizon, "replications": 11}
    expected = run(ENV, agent, batching, **settings)
    plans = request.getfixturevalue("plans")
    assert_same(run(ENV, agent, batching, **settings), expected)
    assert plans[0] is not None


def test_each_replication_may_have_its_own_arms(plans, monkeypatch):
    env, agent = Bandit(MODEL), Thompson(MODEL, Exact())
    settings = {"horizon": 6, "replications": 5, "times": [2, 6]}
    found = run(env, agent, DoublingCounts(), **settings)
    assert plans[0] is not None
    monkeypatch.setattr(_kernel, "pays", lambda rounds: False)
    assert_same(run(env, agent, DoublingCounts(), **settings), found)


def test_keys_that_are_split(plans, monkeypatch):
    """Each arm of a Bernoulli model has a key of its own; one proposal a draw keeps the program short."""
    monkeypatch.setattr(_random, "_TRIES", 1)
    env, agent = Bandit.with_means(Bernoulli(), MEANS[:2]), Thompson(Bernoulli(a=[1.0, 2.0]), Exact())
    found = run(env, agent, DoublingCounts(), horizon=6, replications=5)
    assert plans[0] is not None
    monkeypatch.setattr(_kernel, "pays", lambda rounds: False)
    assert_same(run(env, agent, DoublingCounts(), horizon=6, replications=5), found)


def look_at(env, agent, batching) -> None:
    step = partial(loop.run, horizon=20, replications=3, keep_actions=False)
    jax.eval_shape(step, _random.as_key(3), env, agent, batching, jnp.asarray([20]), np.int32(0))


def test_what_always_equals_another_number_is_not_carried(plans):
    look_at(ENV, Thompson(MODEL, Exact()), DoublingCounts())
    # Of each arm: the law's two numbers, mean and rounding of its rewards, and its plays, which stand for four counts; nobody
    # asks for the sum of squares. Of each lane: batches, regret, reward and rounds with the best arm.
    assert len(plans[0].carried) == 3 * 5 + 4


def test_what_a_kernel_cannot_do_is_left_to_xla(plans, monkeypatch):
    look_at(ENV, BayesUCB(MODEL, 20), DoublingCounts())  # its quantile is a loop
    look_at(ENV, SuccessiveElimination(3, 20), DoublingCounts())
    assert plans[0] is None
    assert plans[1] is not None
    for name in ("OPERATIONS", "NUMBERS"):
        with monkeypatch.context() as less:
            less.setattr(_kernel, name, 10)
            look_at(ENV, Thompson(MODEL, Exact()), DoublingCounts())
    assert plans[2:] == [None, None]


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")
@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs an accelerator")
def test_on_the_accelerator(monkeypatch):
    settings = {"horizon": 40, "replications": 1000}
    monkeypatch.setattr(_kernel, "WORTH", 1)
    found = run(ENV, Thompson(MODEL, Exact()), DoublingCounts(), **settings)
    monkeypatch.setattr(_kernel, "pays", lambda rounds: False)
    expected = run(ENV, Thompson(MODEL, Exact()), DoublingCounts(), **settings)
    # A logarithm that is rounded otherwise may change an action, and then all that follows it in that replication.
    assert (np.asarray(found.actions) == np.asarray(expected.actions)).all(0).mean() > 0.98
