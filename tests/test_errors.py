"""Bad input gets one sentence, before any work."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import blts
from blts import catalogue, errors, registry
from blts.simulation import programs

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
    "more batches than rounds": (lambda: blts.Grid.minimax(5, 6), "from 1 to 5"),
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
    "NumPy in a log-prior": (lambda: blts.from_functions(lambda x: -np.sum(np.square(x)), reward, L=1.0), "use jax.numpy"),
    "NumPy in a log-likelihood": (lambda: blts.from_functions(normal, lambda x, r: -np.abs(r - x[0]), L=1.0), "use jax.numpy"),
    "math in a log-likelihood": (lambda: blts.from_functions(normal, lambda x, r: -math.exp(x[0]), L=1.0), "place of math"),
    "a branch on θ": (lambda: blts.from_functions(normal, lambda x, r: r if x[0] > 0 else -r, L=1.0), r"jnp\.where"),
    "a log-likelihood without a reward": (lambda: blts.from_functions(normal, normal, L=1.0), r"log_likelihood\(theta, reward\)"),
    "a hyper-parameter that is not taken": (lambda: blts.from_functions(normal, reward, L=1.0, mu=[0.0, 1.0]), "mu=…"),
    "no arms of one's own model": (lambda: blts.from_functions(normal, reward, L=1.0, arms=0), "arms must be a whole number ≥ 1"),
    # Names and classes in place of objects, and objects of another kind
    "a batching by name": (lambda: simulate(batching="dynamic"), r"batching must be an object such as DoublingCounts\(\).*names"),
    "a batching class": (lambda: simulate(batching=blts.DoublingCounts), r"class DoublingCounts; give an object of it, such as Do"),
    "an environment by name": (lambda: simulate(env="gaussian"), "env must be an object such as Bandit"),
    "an environment class": (lambda: simulate(env=blts.Bandit), "env is the class Bandit"),
    "an agent by name": (lambda: simulate(agent="ucb1"), r"agent must be an object such as UCB1\(10\)"),
    "an agent class": (lambda: simulate(agent=blts.UCB1), r"agent is the class UCB1; give an object of it, such as UCB1\("),
    "agent and environment swapped": (lambda: simulate(env=AGENT, agent=ENV), "an object of type UCB1 has no reset, step"),
    "a belief for an agent": (lambda: simulate(agent=blts.Exact()), "an object of type Exact has no actions, act, observe"),
    "a chain for a belief": (lambda: blts.Thompson(MODEL, blts.sgld()), r"give Perturb\(chain\) or Pool\(chain\)"),
    "a belief class": (lambda: blts.Thompson(MODEL, blts.Exact), "belief is the class Exact"),
    "a belief by name": (lambda: blts.Thompson(MODEL, "exact"), r"belief must be an object such as Exact\(\)"),
    "a chain that is not called": (lambda: blts.Thompson(MODEL, blts.sgld), "the function sgld is not called"),
    "a model class": (lambda: blts.Thompson(blts.Gaussian, blts.Exact(), 3), "model is the class Gaussian"),
    "a fraction of an arm": (lambda: blts.Thompson(blts.Gaussian(), blts.Exact(), 3.5), "arms must be a whole number ≥ 1; got 3.5"),
    "a perturbed belief": (lambda: blts.Perturb(blts.Exact()), "Exact draws by itself: give it to Thompson"),
    "a pool of a belief": (lambda: blts.Pool(blts.Exact()), "Exact draws by itself: give it to Thompson"),
    "a pool of kernels": (lambda: blts.Pool(blts.MALA()), r"give Chain\(MALA\(…\)\)"),
    "a perturbed function": (lambda: blts.Perturb(blts.sgld), "the function sgld is not called"),
    "a chain of a class": (lambda: blts.Chain(blts.Langevin), "kernel is the class Langevin"),
    "a chain of a chain": (lambda: blts.Chain(blts.sgld()), "an object of type Chain has no init, step"),
    "rows by name": (lambda: blts.Rows("exact"), "Rows: sampler must be an object such as ExactRows"),
    "parameters by name": (lambda: blts.Parameters("sgld"), r"Parameters: chain must be an object such as sgld\(\)"),
    "a bandit of a class": (lambda: blts.Bandit.with_means(blts.Gaussian, [0.0, 1.0]), "model is the class Gaussian"),
    "a bandit by name": (lambda: blts.Bandit("gaussian", np.zeros((3, 1))), "model must be an object"),
    "means that are text": (lambda: blts.Bandit.with_means(blts.Gaussian(), "abc"), "means must be one finite number for each"),
    "Bayes-UCB of a class": (lambda: blts.BayesUCB(blts.Gaussian, 10, arms=3), "class Gaussian"),
    "a dynamics class": (lambda: blts.ParametricMDP(blts.dynamics.Inventory), "dynamics is the class Inventory"),
    "a drawn MDP by name": (lambda: blts.DrawnMDP("riverswim"), "model must be an object"),
    "recorded rewards in a list": (lambda: blts.Bootstrap.of([[1.0], [2.0]]), "give a dict from each arm to its rewards"),  # type: ignore[arg-type]
    "recorded rewards that are text": (lambda: blts.Bootstrap.of({"a": ["many"]}), "rewards must be numbers"),
    "an object for a name": (lambda: blts.condition(ENV, "blts"), "environment must be a name"),  # type: ignore[arg-type]
    "options in a list": (lambda: blts.condition("gaussian", "blts", options=["steps"]), "options must be a dict"),  # type: ignore[arg-type]
    # Numbers that are too large, or of another kind
    "a horizon beyond 32 bits": (lambda: simulate(horizon=3_000_000_000), "horizon must be at most 2147483647"),
    "a named horizon beyond 32 bits": (lambda: blts.condition("gaussian", "blts", horizon=3_000_000_000), "to 2147483647"),
    "a horizon that is text": (lambda: blts.condition("gaussian", "blts", horizon="10"), "horizon must be a whole number"),  # type: ignore[arg-type]
    "replications beyond 32 bits": (lambda: simulate(first=2**31 - 2), r"first \+ replications must be at most 2147483647"),
    "a batch beyond 32 bits": (lambda: blts.Fixed(2**31), "size must be at most 2147483647"),
    "steps beyond 32 bits": (lambda: blts.sgld(steps=10**20), "steps must be at most 2147483647"),
    "a time that is a fraction": (lambda: simulate(times=2.5), "times must be whole rounds"),
    "times of several kinds": (lambda: simulate(times=[1, "a"]), "times must be whole rounds"),
    "text for a flag": (lambda: simulate(keep_actions="no"), "keep_actions must be True or False"),
    "several keys": (lambda: simulate(jax.random.split(jax.random.key(0), 2)), "key must be"),
    "JSON without a type": (lambda: blts.from_json('{"size": 3}'), 'no "type"'),
    "a dict for JSON": (lambda: blts.from_json({"type": "Fixed"}), "the text that to_json wrote; got a dict"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name, monkeypatch):
    def work(*args, **kwargs):
        raise AssertionError("work was done before the input was checked")

    monkeypatch.setattr(programs, "stepping", lambda threaded: work)
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
    mu, spread = {"mu": dist.Normal(0.0, 1.0)}, {"spread": dist.HalfNormal(1.0)}
    for arguments, options, words in (
        ((lambda m: dist.Normal(m, 1.0), mu), {}, "likelihood takes m by name, and the prior has mu; give both the same names"),
        ((lambda mu: dist.Normal(mu, 1.0), mu | spread), {}, "takes mu by name, and the prior has mu, spread"),
        ((lambda mu, spread: dist.Normal(mu, spread), mu), {}, "takes mu, spread by name, and the prior has mu"),
        ((dist.Normal, mu), {}, "likelihood takes loc, scale"),
        ((lambda mu: dist.Normal(mu, 1.0), mu), {"mean": lambda m: m}, "mean takes m by name, and the prior has mu"),
        ((lambda mu: dist.Normal(mu, 1.0), mu), {"mean": 3.0}, "mean must be a function"),
        ((lambda mu: dist.Normal(mu, 1.0), lambda loc: mu), {"location": [1.0]}, r"prior\(location=…\)"),
        ((lambda mu: dist.Normal(np.tanh(mu), 1.0), mu), {}, "use jax.numpy"),
    ):
        with pytest.raises(blts.ConfigError, match=words):
            blts.from_numpyro(*arguments, **options)
    own = blts.from_numpyro(lambda mu, sd, **rest: dist.Normal(mu, sd), lambda sd: {"mu": dist.Normal(0.0, sd)}, sd=2.0)
    assert own.dim == 1  # hyper-parameters may be named, and anything may be taken


def test_traces_are_compared_by_their_numbers():
    trace = simulate()
    assert trace == simulate()
    assert (trace == simulate(1)) is False
    assert trace != simulate(horizon=11)
    assert trace != simulate(keep_actions=True)
    assert (trace == "a trace") is False
    assert trace != dataclasses.replace(trace, agent="another")
    with pytest.raises(TypeError, match="unhashable"):
        hash(trace)


def test_everything_is_exported_without_the_extras():
    """`from blts import *` needs no SQLAlchemy; `blts.live` says what to install."""
    code = """
import sys
sys.modules["sqlalchemy"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "sqlalchemy" else found(name, *rest)
from blts import *
assert simulate and UCB1 and "live" not in globals()
import blts
try:
    blts.live
except ImportError as error:
    assert 'pip install "blts[live]"' in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"live", "simulate"} <= set(blts.__all__)  # where it is installed


def test_nearest_names():
    assert "Did you mean" not in str(errors.UnknownName("agent", "zzzz", ["blts"]))
    assert "Known: a, b." in str(errors.UnknownName("agent", "zzzz", ["b", "a"]))
    with pytest.raises(errors.UnknownName):
        registry.find("agent", "thomson")


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
