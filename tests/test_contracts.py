"""What every registered environment, agent and batching scheme must do, whatever it is."""

from __future__ import annotations

import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import condition, from_json, loop, random, registry, simulate, simulation, to_json
from blts.errors import ConfigError
from blts.models.base import Conjugate, arm
from blts.problems import PRIORS

HORIZON, REPLICATIONS = 30, 2
ENVIRONMENTS, AGENTS, SCHEMES = (list(registry.entries(kind)) for kind in ("environment", "agent", "batching"))
LIGHT = ("exact-ts", "ucb1", "bayes-ucb", "eps-greedy", "base", "uniform")
"""Agents that compile quickly. The others, and every environment with an agent that learns, are in the slow run."""
QUICK = {"blts": {"steps": 3, "minibatch": 4}, "ula-ts": {"steps": 3}, "mala-ts": {"steps": 3, "pool": 4}}
# A number of each agent, and another value than its default.
NUMBERS = {
    "blts": ("step_size", 0.2),
    "ula-ts": ("step_size", 0.2),
    "mala-ts": ("step_size", 0.4),
    "ucb1": ("scale", 2.0),
    "bayes-ucb": ("c", 5.0),
    "eps-greedy": ("c", 2.0),
    "base": ("width", 0.1),
}


def chosen(env="gaussian", agent="exact-ts", batching="dynamic", prior="informative", **options):
    return condition(env, agent, batching, prior, HORIZON, options=QUICK.get(agent, {}) | options)


def run(parts):
    return simulate(0, parts.env, parts.agent, parts.batching, horizon=HORIZON, replications=REPLICATIONS)


def healthy(trace) -> None:
    for name in ("regret", "mean_reward", "best_share"):
        assert np.isfinite(getattr(trace, name)).all(), name
    assert (np.diff(trace.regret, axis=1) >= -1e-4).all()
    assert (trace.plays.sum(1) == HORIZON).all()
    assert trace.diagnostics.finite.all()


def learner(env: str, prior: str) -> str:
    """An agent that learns with this environment's model: exact draws where it has them, SGLD otherwise."""
    try:
        chosen(env, "exact-ts", prior=prior)
    except ConfigError:
        return "blts"
    return "exact-ts"


# Everything runs


@pytest.mark.parametrize("agent", [*LIGHT, *(pytest.param(name, marks=pytest.mark.slow) for name in QUICK)])
def test_an_agent_runs_once_compiled_pickled_and_written_down(agent):
    """Runs, compiles once for two numbers, and gives the same trace after a pickle and a JSON round trip."""
    parts = chosen(agent=agent)
    trace = run(parts)
    healthy(trace)
    before = simulation._run._cache_size()
    if agent in NUMBERS:
        name, second = NUMBERS[agent]
        healthy(run(chosen(agent=agent, **{name: second})))
        assert simulation._run._cache_size() == before, f"a new {name} compiled again"
    written = {part: from_json(to_json(getattr(parts, part))) for part in ("env", "agent", "batching")}
    for copy in (pickle.loads(pickle.dumps(parts)), parts._replace(**written)):
        again = run(copy)
        assert simulation._run._cache_size() == before
        assert np.array_equal(again.regret, trace.regret)
        assert np.array_equal(again.mean_reward, trace.mean_reward)
    assert set(AGENTS) == {*LIGHT, *QUICK}


def test_a_static_count_does_compile_again():
    """The mutant of the test above: a number that shapes the program is seen by the count of compilations."""
    run(chosen(agent="uniform", batching="fixed"))
    before = simulation._run._cache_size()
    parts = condition("gaussian", "uniform", "fixed", horizon=HORIZON, batch_size=3)
    run(parts)
    assert simulation._run._cache_size() == before + 1


@pytest.mark.parametrize("batching", SCHEMES)
def test_a_batching_scheme_runs(batching):
    parts = chosen(agent="uniform", batching=batching)
    trace = run(parts)
    healthy(trace)
    assert (trace.batches >= 1).all()
    assert (trace.batches <= parts.batching.most(HORIZON, parts.env.actions)).all()
    copy = from_json(to_json(parts.batching))
    assert repr(copy) == repr(parts.batching) == repr(pickle.loads(pickle.dumps(parts.batching)))


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_pays(env):
    """Finite rewards, no negative regret, zero regret for a best arm, the same numbers from a copy; without the loop."""
    parts = chosen(env, "uniform")

    reset = jax.jit(jax.vmap(lambda env, key: env.reset(key)[0], (None, 0)))
    step_all = lambda env, key, state: jax.vmap(lambda a: env.step(key, state, a)[1])(jnp.arange(env.actions))  # noqa: E731
    step_all = jax.jit(jax.vmap(step_all, (None, 0, 0)))
    keys = random.split(random.key(0), 8)
    step = step_all(parts.env, keys, reset(parts.env, keys))
    assert step.reward.shape == step.regret.shape == (8, parts.env.actions)
    assert np.isfinite(step.reward).all()
    assert (step.regret >= 0).all()
    assert (np.min(step.regret, 1) == 0).all()
    assert np.max(step.regret) > 0
    for copy in (pickle.loads(pickle.dumps(parts.env)), from_json(to_json(parts.env))):
        again = step_all(copy, keys, reset(copy, keys))
        assert np.array_equal(again.reward, step.reward)


def shapes(parts):
    """The shapes of a whole run, from tracing it without compiling it."""
    times = jnp.asarray(simulation.recorded_times(None, HORIZON))
    whole = lambda key, env, agent, batching: loop.run(  # noqa: E731
        key, env, agent, batching, times, jnp.int32(0), horizon=HORIZON, replications=REPLICATIONS, keep_actions=False
    )
    return jax.eval_shape(whole, random.key(0), parts.env, parts.agent, parts.batching)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_can_be_learned(env, prior):
    """Traced with an agent that learns; run in the slow tests."""
    record = shapes(chosen(env, learner(env, prior), prior=prior))
    assert record.regret.shape == (REPLICATIONS, HORIZON)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["blts", "exact-ts"])
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_is_learned(env, agent):
    """Both priors, on one compilation."""
    if agent == "exact-ts" and learner(env, "informative") != agent:
        return
    healthy(run(chosen(env, agent)))
    before = simulation._run._cache_size()
    healthy(run(chosen(env, agent, prior="uninformative")))
    assert simulation._run._cache_size() == before


# Precision


@pytest.mark.parametrize(
    "agent", ["exact-ts", pytest.param("blts", marks=pytest.mark.slow), pytest.param("mala-ts", marks=pytest.mark.slow)]
)
def test_double_precision(agent):
    with jax.enable_x64(True):
        trace = run(chosen(agent=agent))
    healthy(trace)
    assert trace.regret.dtype == np.float64
    assert run(chosen(agent=agent)).regret.dtype == np.float32


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_double_precision_shapes(env):
    """The loop's carry keeps its types in double precision too (traced, not compiled)."""
    with jax.enable_x64(True):
        assert shapes(chosen(env, learner(env, "informative"))).regret.dtype == jnp.float64


# Models under vmap


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_a_model_maps_over_its_numbers(env, prior):
    model = registry.find("environment", env).build().model(prior)
    stacked = condition(env, "blts", "dynamic", prior).agent.model
    single = arm(stacked, 0)
    theta = single.init(random.key(0))
    one = single.log_prior(theta)
    two = jax.tree.map(lambda x: jnp.stack([x, 1.1 * x + 0.01]), single)
    both = jax.vmap(lambda m: m.log_prior(theta))(two)
    assert np.isclose(both[0], one, rtol=1e-5, atol=1e-5)
    assert both[1] != both[0]
    assert str(model).endswith(".")


def test_a_simulation_maps_over_a_number():
    """Three prior widths in one program, each as if run alone."""
    parts = chosen()
    times = jnp.asarray(simulation.recorded_times(None, HORIZON))

    def regret(width):
        model = parts.agent.model
        agent = type(parts.agent)(type(model)(model.prior_mean, width, model.sd), parts.agent.belief, 15)
        settings = {"horizon": HORIZON, "replications": REPLICATIONS, "keep_actions": False}
        return loop.run(random.key(0), parts.env, agent, parts.batching, times, jnp.int32(0), **settings).regret

    widths = jnp.array([0.1, 1.6, 5.0])
    mapped = jax.jit(jax.vmap(regret))(widths)
    alone = jax.jit(regret)
    for i, width in enumerate(widths):
        assert np.allclose(mapped[i], alone(width), rtol=1e-5)
    assert len({float(x) for x in mapped[:, 0, -1]}) == 3


# How things print

SENTENCE = re.compile(r"[A-Z0-9].*\.", re.DOTALL)
CALL = re.compile(r"\w+\(.*\)")


@pytest.mark.parametrize("kind", ["environment", "agent", "batching"])
def test_everything_prints(kind):
    for name in registry.entries(kind):
        built = {
            "environment": lambda name: chosen(name, "ucb1").env,
            "agent": lambda name: chosen(agent=name).agent,
            "batching": lambda name: chosen(batching=name).batching,
        }
        thing = built[kind](name)
        assert SENTENCE.fullmatch(str(thing)), str(thing)
        assert CALL.fullmatch(repr(thing)), repr(thing)
        assert len(repr(thing)) < 500


def test_models_print():
    for env in ENVIRONMENTS:
        for prior in PRIORS:
            model = registry.find("environment", env).build().model(prior)
            assert SENTENCE.fullmatch(str(model)), str(model)
            assert CALL.fullmatch(repr(model)), repr(model)
            assert "theory" in str(model)
            assert "<p>" in model._repr_html_()


def test_conjugate_models_are_those_with_exact_draws():
    """`learner` above finds exact draws where the model is conjugate, and nowhere else."""
    for env in ENVIRONMENTS:
        model = registry.find("environment", env).build().model("informative")
        assert (learner(env, "informative") == "exact-ts") == isinstance(model, Conjugate)
