"""What every registered environment, agent and batching scheme must do, whatever it is."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import agents, condition, from_json, loop, random, registry, simulate, simulation, to_json
from blts.envs import MDP, DrawnMDP, ParametricMDP
from blts.errors import ConfigError
from blts.models.arms import arm
from context_worlds import Disjoint, Shared
from registered import (
    AGENTS,
    BANDITS,
    ENVIRONMENTS,
    HORIZON,
    LEARNERS,
    MDPS,
    PLAYED,
    PLAYED_WITH,
    REGRESSIONS,
    REPLICATIONS,
    SCHEMES,
    chosen,
    learner,
    priors,
    problem,
    regression,
    worlds,
)

LIGHT = (
    *(
        (agent, "bandit")
        for agent in ("exact-ts", "top-two", "ucb1", "bayes-ucb", "eps-greedy", "base", "sequential-halving", "uniform")
    ),
    *((agent, "contextual") for agent in ("lin-ts", "lin-ucb", "greedy", "contextual-eps-greedy", "square-cb", "uniform")),
    *(("ds-psrl", "table"), ("optimal", "parametric")),
)
"""Agents that compile quickly, and two that plan. The others, and every environment with an agent that learns, are in the
slow run."""
# A number of each agent, and another value than its default. Those of a planner's model are the environment's.
NUMBERS = {
    "blts": ("step_size", 0.2),
    "ula-ts": ("step_size", 0.2),
    "mala-ts": ("step_size", 0.4),
    "baoab-ts": ("friction", 2.0),
    "ucb1": ("scale", 2.0),
    "bayes-ucb": ("c", 5.0),
    "eps-greedy": ("c", 2.0),
    "base": ("width", 0.1),
    "top-two": ("leader", 0.7),
    "sgld-psrl": ("step_size", 0.2),
    "mala-psrl": ("step_size", 0.4),
    "ucrl2": ("scale", 0.1),
    "lin-ts": ("temperature", 2.0),
    "laplace-ts": ("temperature", 2.0),
    "lin-ucb": ("width", 2.0),
    "logistic-ucb": ("width", 2.0),
    "oful": ("norm", 3.0),
    "contextual-eps-greedy": ("c", 2.0),
    "square-cb": ("gamma", 1.0),
    "neural-ts": ("rate", 0.1),
    "neural-pool": ("step_size", 0.4),
}
OF_THE_WORLD = {"table": ("right", 20.0), "parametric": ("rate", 5.0)}


PLAYERS = [(agent, world) for agent in AGENTS for world in worlds(agent)]


def cases(every: list, light) -> list:
    """The cases of a test; those that are not light belong in the slow run."""
    return [case if light(case) else pytest.param(*_tuple(case), marks=pytest.mark.slow) for case in every]


def _tuple(case) -> tuple:
    return case if isinstance(case, tuple) else (case,)


def run(parts):
    return simulate(0, parts.env, parts.agent, parts.batching, horizon=HORIZON, replications=REPLICATIONS)


def gain_of(env) -> float | None:
    """The optimal average reward of an MDP, found anew; None for a bandit and where each replication has its own."""
    if isinstance(env, MDP):
        return float(env.solve().gain)
    return float(env.dynamics.gain(jnp.asarray(env.truth))) if isinstance(env, ParametricMDP) and not env.drawn else None


def healthy(trace, env) -> None:
    for name in ("regret", "mean_reward", "best_share"):
        assert np.isfinite(getattr(trace, name)).all(), name
    assert trace.diagnostics.finite.all()
    if env.actions:  # continuous actions are not counted
        assert (trace.plays.sum(1) == HORIZON).all()
    gain = gain_of(env)
    if gain is not None:  # a round may earn more than the gain; the sum is what was lost against it
        lost = HORIZON * (gain - trace.mean_reward)
        assert np.allclose(trace.final_regret, lost, rtol=1e-4, atol=1e-3 * max(1.0, abs(gain)))
    elif not isinstance(env, DrawnMDP | ParametricMDP):
        assert (np.diff(trace.regret, axis=1) >= -1e-4).all()


# Everything runs


@pytest.mark.parametrize(("agent", "world"), cases(PLAYERS, lambda case: case in LIGHT))
def test_an_agent_runs_once_compiled_pickled_and_written_down(agent, world, compiled):
    """Runs, compiles once for two numbers, and gives the same trace after a pickle and a JSON round trip."""
    parts = chosen(PLAYED[world], agent)
    trace = run(parts)
    healthy(trace, parts.env)
    before = compiled.count("jit(run)")
    # Tables take the step of their row sampler, so theirs is no option.
    own = world != "table" or agent == "ucrl2"
    number = NUMBERS.get(agent) if own else None
    if number is not None or world in OF_THE_WORLD:
        name, second = number or OF_THE_WORLD[world]
        other = chosen(PLAYED[world], agent, **{name: second})
        healthy(run(other), other.env)
        assert compiled.count("jit(run)") == before, f"a new {name} compiled again"
    written = {part: from_json(to_json(getattr(parts, part))) for part in ("env", "agent", "batching")}
    for copy in (pickle.loads(pickle.dumps(parts)), parts._replace(**written)):
        again = run(copy)
        assert compiled.count("jit(run)") == before
        assert np.array_equal(again.regret, trace.regret)
        assert np.array_equal(again.mean_reward, trace.mean_reward)


def test_every_agent_and_world_is_played():
    assert {agent for agent, _ in PLAYERS} == set(AGENTS)
    assert {world for _, world in PLAYERS} == {problem(env).world for env in ENVIRONMENTS} == set(PLAYED)
    assert all(problem(env).world == world for world, env in PLAYED.items())
    assert set(LIGHT) <= set(PLAYERS)


def test_an_agent_is_refused_where_it_cannot_play():
    for agent in AGENTS:
        for world, env in PLAYED.items():
            if world not in worlds(agent):
                with pytest.raises(ConfigError, match=f"The agent '{agent}' cannot play '{env}'"):
                    chosen(env, agent)


def test_a_static_count_does_compile_again(compiled):
    """The mutant of the test above: a number that shapes the program is seen by the count of compilations."""
    run(chosen(agent="uniform", batching="fixed"))
    before = compiled.count("jit(run)")
    parts = condition("gaussian", "uniform", "fixed", horizon=HORIZON, batch_size=3)
    run(parts)
    assert compiled.count("jit(run)") == before + 1


def test_a_wrong_gain_is_not_healthy():
    """The mutant of `healthy`: an MDP whose regret is counted against another gain than its own."""
    env = problem("riverswim-paper").env
    for shift in (0.0, 0.01):
        wrong = MDP(env.transitions, env.rewards, successors=env.successors, gain=env.gain + shift, best=env.best)
        parts = chosen(agent="uniform", batching="static")._replace(env=wrong, agent=agents.Uniform(wrong.actions))
        trace = run(parts)
        assert (np.diff(trace.regret, axis=1) < 0).any()  # what a bandit may not have
        if not shift:
            healthy(trace, wrong)
            continue
        with pytest.raises(AssertionError):
            healthy(trace, wrong)


@pytest.mark.parametrize(
    ("batching", "world"),
    cases(
        [(scheme, world) for scheme in SCHEMES for world in ("bandit", "table") if world == "bandit" or scheme not in PLAYED_WITH],
        lambda case: case[1] == "bandit" or case[0] in ("dynamic", "tsde"),
    ),
)
def test_a_batching_scheme_runs(batching, world):
    """With random actions, which compile quickly in any world."""
    options = {"rate": 0.3} if batching == "geometric" else {}  # so that a batch closes
    played = PLAYED_WITH.get(batching, PLAYED[world])
    scheme = chosen(played, {"bandit": "uniform", "table": "optimal"}[world], batching, **options).batching
    env = problem(played).env
    trace = simulate(0, env, agents.Uniform(env.actions), scheme, horizon=HORIZON, replications=REPLICATIONS)
    healthy(trace, env)
    assert (trace.batches >= 1).all()
    assert (trace.batches <= scheme.max_batches(HORIZON, env.actions)).all()
    copy = from_json(to_json(scheme))
    assert repr(copy) == repr(scheme) == repr(pickle.loads(pickle.dumps(scheme)))


COUNTING = ("dynamic", "doubled-since-switch", "tsde", "ucrl2", "aged")


@pytest.mark.parametrize("batching", SCHEMES)
def test_a_scheme_that_counts_visits_needs_states(batching):
    """A parametric world takes every scheme but those that count visits or need contexts; they say so."""
    if batching in COUNTING:
        with pytest.raises(ConfigError, match="no table of states to count visits in"):
            chosen("linear-quadratic", "sgld-psrl", batching)
    elif batching in PLAYED_WITH:
        with pytest.raises(ConfigError, match="has no contexts; use DoublingCounts"):
            chosen("linear-quadratic", "sgld-psrl", batching)
    else:
        assert chosen("linear-quadratic", "sgld-psrl", batching).names["batching"] == batching


@pytest.mark.parametrize("env", BANDITS)
def test_a_bandit_pays(env):
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


TRACED = (*BANDITS, "linear-quadratic")
"""Where the default run traces an agent that learns. A whole table is learned there; the other MDPs are in the slow run."""


@pytest.mark.parametrize(
    "env", cases(MDPS, lambda env: env in TRACED or (problem(env).world == "table" and env != "dirichlet-mdp"))
)
def test_an_mdp_moves(env):
    """Finite rewards and states, a best action at the start, regret against the gain, the same numbers from a copy."""
    world = problem(env).env
    actions = jnp.arange(world.actions) if world.actions else jnp.array([-1.0, 0.0, 1.0])

    @jax.jit
    def tried(env, key):
        state, obs = env.reset(key)
        return obs, jax.vmap(lambda key: jax.vmap(lambda action: env.step(key, state, action)[1])(actions))(random.split(key, 8))

    first, step = tried(world, random.key(0))
    assert step.reward.shape == step.regret.shape == step.best.shape == (8, len(actions))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((first, step)))
    assert step.best[0].any()
    assert (step.best == step.best[0]).all()
    gain = gain_of(world)
    if gain is not None:
        assert np.allclose(step.reward + step.regret, gain, rtol=1e-4)
    for copy in (pickle.loads(pickle.dumps(world)), from_json(to_json(world))):
        again = tried(copy, random.key(0))
        assert jax.tree.all(jax.tree.map(np.array_equal, again, (first, step)))


@jax.jit
def whole(key, env, agent, batching, times):
    settings = {"horizon": HORIZON, "replications": REPLICATIONS, "keep_actions": False}
    return loop.run(key, env, agent, batching, times, jnp.int32(0), **settings)


def shapes(parts):
    """The shapes of a whole run, from tracing it without compiling it; parts that differ in numbers alone are traced once."""
    times = jnp.asarray(simulation.recorded_times(None, HORIZON))
    return whole.eval_shape(random.key(0), parts.env, parts.agent, parts.batching, times)


@pytest.mark.parametrize(("env", "prior"), priors(list(TRACED)))
def test_an_environment_can_be_learned(env, prior):
    """Traced with an agent that learns; run in the slow tests."""
    record = shapes(chosen(env, learner(env, prior), prior=prior))
    assert record.regret.shape == (HORIZON, REPLICATIONS)


@pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_model_of_features_can_be_learned(name, shared):
    """Traced with its own belief and with chains, disjoint and shared; the same agent after a pickle and a JSON round trip."""
    model = regression(name)
    world = (Shared if shared else Disjoint)(model, [1.0, 0.1], 3)
    for belief in (None, agents.Perturb(registry.build("sampler", "sgld", steps=3, minibatch=4))):
        agent = agents.Thompson(model, belief, arms=3, shared=shared)
        parts = SimpleNamespace(env=world, agent=agent, batching=chosen().batching)
        assert shapes(parts).regret.shape == (HORIZON, REPLICATIONS)
        for copy in (pickle.loads(pickle.dumps(agent)), from_json(to_json(agent))):
            assert repr(copy) == repr(agent)
    with jax.enable_x64(True):
        assert shapes(parts).regret.dtype == jnp.float64


def agents_for(env: str) -> list[str]:
    """Agents that learn: where a bandit is conjugate two of them, and one for an MDP."""
    return ["blts", "exact-ts"] if learner(env) == "exact-ts" else [learner(env)]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agent"), [(env, agent) for env in ENVIRONMENTS for agent in agents_for(env)])
def test_an_environment_is_learned(env, agent, compiled):
    """With every prior. Priors that are numbers of one model share its compilation; another model has its own."""
    kinds = set()
    for prior in problem(env).priors:
        parts = chosen(env, agent, prior=prior)
        before, kind = compiled.count("jit(run)"), type(problem(env).model(prior))
        healthy(run(parts), parts.env)
        assert compiled.count("jit(run)") - before <= (kind not in kinds)
        kinds.add(kind)
    # The recorded dollars are also believed to be Gaussian; everywhere else two priors are two sets of numbers.
    assert len(kinds) == (2 if env.startswith("rand-hie") else 1)


@pytest.mark.slow
@pytest.mark.parametrize("env", ["riverswim", "inventory"])
def test_a_world_drawn_from_the_prior_is_learned(env):
    parts = condition(env, LEARNERS[problem(env).world], horizon=HORIZON, drawn=True)
    healthy(run(parts), parts.env)


# Precision


@pytest.mark.parametrize(
    "agent", ["exact-ts", *(pytest.param(name, marks=pytest.mark.slow) for name in ("blts", "mala-ts", "mld-psrl", "mala-psrl"))]
)
def test_double_precision(agent):
    env = PLAYED[worlds(agent)[0]]
    with jax.enable_x64(True):
        parts = chosen(env, agent)
        trace = run(parts)
        healthy(trace, parts.env)
    assert trace.regret.dtype == np.float64
    assert run(chosen(env, agent)).regret.dtype == np.float32


@pytest.mark.parametrize("env", cases(ENVIRONMENTS, lambda env: env in TRACED))
def test_double_precision_shapes(env):
    """The loop's carry keeps its types in double precision too (traced, not compiled)."""
    with jax.enable_x64(True):
        assert shapes(chosen(env, learner(env))).regret.dtype == jnp.float64


# Models under vmap


@pytest.mark.parametrize(("env", "prior"), priors(BANDITS))
def test_a_model_maps_over_its_numbers(env, prior):
    model = problem(env).model(prior)
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
        return whole(random.key(0), parts.env, agent, parts.batching, times).regret

    widths = jnp.array([0.1, 1.6, 5.0])
    mapped = jax.jit(jax.vmap(regret))(widths)
    alone = jax.jit(regret)
    for i, width in enumerate(widths):
        assert np.allclose(mapped[i], alone(width), rtol=1e-5)
    assert len({float(x) for x in mapped[:, 0, -1]}) == 3
