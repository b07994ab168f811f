"""Bad input gets one sentence, before any work."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import blts
from blts import catalogue, errors, registry, simulation

ENV = blts.Bandit.with_means(blts.Gaussian(sd=0.5), [0.0, 1.0, 2.0])
AGENT = blts.UCB1(3)
MODEL = blts.Gaussian(prior_mean=[0.0, 1.0, 2.0])


def simulate(key=0, env=ENV, agent=AGENT, batching=None, **settings):
    settings = {"horizon": 10, "replications": 2} | settings
    return blts.simulate(key, env, agent, batching or blts.Sequential(), **settings)


THEOREM = blts.Perturb(blts.ula(), "theorem")


def normal(theta):
    return -0.5 * jnp.sum(theta**2)


def reward(theta, reward):
    return -jnp.abs(reward - theta[0])


BAD = {
    # Scales and shapes
    "a negative scale": (lambda: blts.Gaussian(sd=-1.0), "sd must be > 0"),
    "a NaN scale": (lambda: blts.Gaussian(sd=float("nan")), "NaN"),
    "an infinite scale": (lambda: blts.Laplace(scale=np.inf), "scale must be > 0 and finite"),
    "a negative scale of one arm": (lambda: blts.Gaussian(sd=[1.0, -1.0]), "sd must be > 0"),
    "text for a number": (lambda: blts.Gaussian(sd="wide"), "must be a number"),
    "a NaN prior mean": (lambda: blts.Gaussian(prior_mean=[0.0, np.nan]), "NaN"),
    "priors of two sizes": (lambda: blts.Gaussian(prior_mean=[0.0, 1.0], prior_sd=[1.0, 1.0, 1.0]), "arms differs"),
    "a matrix for a number": (lambda: blts.Gaussian(sd=np.ones((2, 2))), "shape"),
    "a prior of the wrong size": (lambda: blts.Thompson(MODEL, blts.Exact(), 4), "describes 3 arms where 4"),
    "an unknown field": (lambda: blts.Gaussian(variance=1.0), "variance"),
    "no number of arms": (lambda: blts.Thompson(blts.Gaussian(), blts.Exact()), "how many arms"),
    "theta of the wrong shape": (lambda: blts.Bandit(blts.Gaussian(), np.zeros(3)), "shape"),
    "means that cannot be": (lambda: blts.Bandit.with_means(blts.Bernoulli(), [0.5, 1.5]), "outside"),
    "an agent for other arms": (lambda: simulate(agent=blts.UCB1(4)), "3 actions and the agent 4"),
    "recorded rewards that are missing": (lambda: blts.Bootstrap.of({"a": [1.0], "b": []}), "at least one reward"),
    "recorded rewards that are NaN": (lambda: blts.Bootstrap.of({"a": [float("nan")]}), "NaN|finite"),
    # Numbers of things
    "horizon 0": (lambda: simulate(horizon=0), "horizon must be a whole number ≥ 1; got 0"),
    "horizon 1.5": (lambda: simulate(horizon=1.5), "horizon must be a whole number"),
    "replications 0": (lambda: simulate(replications=0), "replications must be a whole number ≥ 1; got 0"),
    "replications True": (lambda: simulate(replications=True), "replications must be a whole number"),
    "chunk 0": (lambda: simulate(chunk=0), "chunk must be a whole number ≥ 1"),
    "first -1": (lambda: simulate(first=-1), "first must be a whole number ≥ 0"),
    "no times": (lambda: simulate(times=0), "times must be at least 1"),
    "times beyond the horizon": (lambda: simulate(times=[5, 11]), "between 1 and the horizon 10"),
    "a negative seed": (lambda: simulate(-1), "seed must be a whole number from 0"),
    "a seed that is text": (lambda: simulate("one"), "key must be a whole number"),
    "an old key of the wrong shape": (lambda: simulate(jnp.zeros(3, jnp.uint32)), "key must be"),
    "a fixed batch of 0": (lambda: blts.Fixed(0), "size must be a whole number ≥ 1"),
    "a grid that goes back": (lambda: blts.Grid((3, 2)), "increasing order"),
    "more batches than rounds": (lambda: blts.Grid.minimax(5, 6), "between 1 and the horizon"),
    "UCB1 without arms": (lambda: blts.UCB1(0), "actions must be a whole number ≥ 1"),
    "ε-greedy that never explores": (lambda: blts.EpsilonGreedy(3, c=0.0), "c must be > 0"),
    # Samplers
    "a negative step": (lambda: blts.sgld(step_size=-0.1), "step_size must be > 0"),
    "no steps": (lambda: blts.sgld(steps=0), "steps must be a whole number ≥ 1"),
    "an empty minibatch": (lambda: blts.sgld(minibatch=0), "minibatch must be a whole number ≥ 1"),
    "a word for a step": (lambda: blts.sgld(step_size="large"), "theorem"),
    "a word for γ": (lambda: blts.Perturb(blts.ula(), "small"), "gamma"),
    "a control variate of nothing": (lambda: blts.Chain(blts.Langevin(), control_variate=True), "minibatch"),
    "MALA on a minibatch": (lambda: blts.Chain(blts.MALA(), minibatch=8), "full gradient"),
    "a pool of one": (lambda: blts.Pool(blts.mala(), 1), "size must be a whole number ≥ 2"),
    "exact draws of what has none": (lambda: blts.Thompson(blts.Laplace(), blts.Exact(), 3), "no closed posterior"),
    "Bayes-UCB without a posterior": (lambda: blts.BayesUCB(blts.Laplace(), 10, arms=3), "exact posterior"),
    "the theorem outside the theory": (
        lambda: blts.Thompson(blts.Laplace(), blts.Perturb(blts.ula(), "theorem"), 3),
        "inside the theory",
    ),
    # Names
    "an unknown environment": (lambda: blts.condition("gausian", "blts", "dynamic"), "Did you mean 'gaussian'"),
    "an unknown agent": (lambda: blts.condition("gaussian", "blt", "dynamic"), "Did you mean 'blts'"),
    "an unknown batching": (lambda: blts.condition("gaussian", "blts", "dinamic"), "Did you mean 'dynamic'"),
    "an unknown prior": (lambda: blts.condition("gaussian", "blts", "dynamic", "informativ"), "Did you mean 'informative'"),
    "an unknown option": (lambda: blts.condition("gaussian", "blts", "dynamic", options={"step": 5}), "Did you mean 'steps?"),
    "a size for another batching": (lambda: blts.condition("gaussian", "blts", "dynamic", batch_size=5), '"fixed"'),
    "an unknown type in JSON": (lambda: blts.from_json('{"type": "Gausian"}'), "Did you mean 'Gaussian'"),
    "text that is not JSON": (lambda: blts.from_json("{"), "not JSON"),
    # Somebody's own log-density
    "a log-density that is a vector": (
        lambda: blts.from_functions(lambda x: -0.5 * x**2, lambda x, r: -abs(r - x[0]), L=1.0, dim=2),
        "one number",
    ),
    "a log-density that is not finite": (
        lambda: blts.from_functions(normal, lambda x, r: jnp.log(-jnp.abs(x[0]) - 1), L=1.0),
        "finite",
    ),
    "an improper prior": (lambda: blts.from_functions(lambda x: 0.0 * x[0], reward, L=1.0), "prior"),
    "no function at all": (lambda: blts.from_functions(None, normal, L=1.0), "must be a function"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name, monkeypatch):
    def work(*args, **kwargs):
        raise AssertionError("work was done before the input was checked")

    monkeypatch.setattr(simulation, "_stepping", lambda: work)
    call, words = BAD[name]
    with pytest.raises(errors.BltsError, match=words) as refused:
        call()
    message = str(refused.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert "Traceback" not in message


def test_good_input_is_not_refused():
    """The calls above differ from these in one thing each."""
    assert simulate().replications == 2
    assert simulate(jax.random.key(0), times=[5, 10], chunk=1, first=3).replications == 2
    blts.from_functions(normal, reward, L=1.0)
    blts.condition("gaussian", "blts", "fixed", batch_size=5, options={"steps": 5})


def test_numpyro_models_are_checked():
    dist = pytest.importorskip("numpyro.distributions")
    with pytest.raises(blts.ConfigError, match="discrete"):
        blts.from_numpyro(lambda p: dist.Normal(p, 1.0), {"p": dist.Bernoulli(0.5)})
    with pytest.raises(blts.ConfigError, match="NumPyro distribution"):
        blts.from_numpyro(lambda p: p, {"p": dist.Normal(0.0, 1.0)})


def test_nearest_names():
    assert "Did you mean" not in str(errors.UnknownName("agent", "zzzz", ["blts"]))
    assert "Known: a, b." in str(errors.UnknownName("agent", "zzzz", ["b", "a"]))
    with pytest.raises(errors.UnknownName):
        registry.find("agent", "thompson")


def test_errors_are_also_the_builtin_kinds():
    """So that code which knows nothing of blts can catch them."""
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.UnknownName, LookupError)
    assert issubclass(errors.MemoryNeeded, MemoryError)
    with pytest.raises(ValueError, match="horizon"):
        catalogue.condition("gaussian", "blts", "dynamic", horizon=0)


def test_objects_are_frozen():
    with pytest.raises(AttributeError):
        MODEL.sd = 2.0  # type: ignore[misc]
