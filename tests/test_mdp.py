"""Posterior sampling for MDPs: environments, switching rules, agents, and the paper's RiverSwim table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import planning, random, registry
from blts._typing import Row
from blts.agents import PSRL, UCRL2, Follow, Parameters, Rows
from blts.agents.transitions import Visits
from blts.batching import DoubledSinceSwitch, DoublingCounts, Fixed, Geometric, StaticDoubling
from blts.catalogue import condition
from blts.dynamics import Inventory, LinearQuadratic
from blts.envs import MDP, DrawnMDP, ParametricMDP, garnet, riverswim, riverswim_paper, riverswim_strehl, strens_chain
from blts.errors import ConfigError
from blts.models import Gaussian, Tabular
from blts.planning.optimistic import optimistic_values
from blts.samplers import ExactRows, LogGammaRows, MirroredRows, sgld
from blts.simulation import simulate
from laws import LEVEL, counts_p, mean_p

# Environments


def test_the_papers_riverswim_is_as_printed():
    P = riverswim_paper().dense
    np.testing.assert_allclose(P[0, 1], [0.2, 0.8, 0, 0, 0])
    np.testing.assert_allclose(P[2, 1], [0, 0.2, 0, 0.8, 0])
    np.testing.assert_allclose(P[4, 1], [0, 0, 0, 0.2, 0.8])
    np.testing.assert_allclose(P[0, 0], [1, 0, 0, 0, 0])
    np.testing.assert_allclose(P[3, 0], [0, 0, 0.2, 0.8, 0])
    np.testing.assert_array_equal(riverswim_paper().rewards, [[2, 2], [0, 0], [0, 0], [0, 0], [10, 10]])


def test_the_strens_chain_slips():
    P, r = strens_chain().dense, strens_chain().rewards
    np.testing.assert_allclose(P[2, 1], [0.2, 0, 0, 0.8, 0])
    np.testing.assert_allclose(P[4, 0], [0.8, 0, 0, 0, 0.2])
    np.testing.assert_allclose(r, [[1.6, 0.4], [0, 0], [0, 0], [0, 0], [10, 10]])


@pytest.mark.parametrize(
    ("env", "gain"),
    [
        (riverswim_paper(), 7.5132),
        (strens_chain(), 4.1760),
        (riverswim(5, 2.0, 10.0), 4.2893),
        (riverswim(), 0.4286),
    ],
)
def test_optima(env, gain):
    assert float(env.gain) == pytest.approx(gain, abs=5e-5)


def test_every_chain_can_be_of_any_length():
    for build in (riverswim_paper, strens_chain, riverswim, riverswim_strehl):
        for states in (2, 3, 50):
            env = build(states)
            np.testing.assert_allclose(env.dense.sum(-1), 1)
            assert env.states == states
        with pytest.raises(ConfigError, match=r"states must be a whole number ≥ 2; got 1\."):
            build(1)


def test_garnets_can_reach_every_state():
    env = garnet(states=12, actions=2, successors=2, seed=3)
    assert planning.structure(env.transitions).communicating
    assert ((env.transitions > 0).sum(-1) <= 2).all()
    assert repr(garnet(seed=1).transitions) != repr(garnet(seed=2).transitions)


def moves(env, state: int, action: int, n: int = 20_000) -> np.ndarray:
    place, _ = env.reset(random.key(0))
    place = place._replace(state=jnp.asarray(state))
    step = jax.jit(jax.vmap(lambda k: env.step(k, place, jnp.asarray(action))[1].obs))
    return np.bincount(np.asarray(step(random.split(random.key(1), n))), minlength=env.states)


@pytest.mark.parametrize("sparse", [True, False])
def test_transitions_have_their_law(sparse):
    env = riverswim() if sparse else MDP(riverswim().dense, riverswim().rewards)
    for state, action in ((0, 1), (3, 1), (5, 1), (3, 0)):
        assert counts_p(moves(env, state, action), env.dense[state, action]) > LEVEL
        assert counts_p(moves(env, state, action), 0.97 * env.dense[state, action] + 0.03 / 6) < LEVEL


def test_rewards_may_be_drawn():
    rewards = [[0.2, 0.9], [0.5, 0.1]]
    P = np.full((2, 2, 2), 0.5)
    for law, sd in (("gaussian", 2.0), ("bernoulli", np.sqrt(0.09))):
        env = MDP(P, rewards, law=law, sd=2.0)
        place, _ = env.reset(random.key(0))
        step = jax.jit(jax.vmap(lambda k: env.step(k, place, jnp.asarray(1))[1]))(random.split(random.key(1), 20_000))  # noqa: B023
        assert mean_p(step.reward, 0.9, sd) > LEVEL
        assert mean_p(step.reward, 0.8, sd) < LEVEL
        assert np.unique(step.regret).size == 1  # noise is no regret


def test_drawn_mdps_are_dirichlet_and_know_their_optimum():
    env = DrawnMDP(Tabular(np.array([[0.0, 0.5], [1.0, 0.0], [0.2, 0.1]]), alpha=0.5))
    places, _ = jax.jit(jax.vmap(env.reset))(random.split(random.key(0), 4000))
    p = np.asarray(places.world.below[:, 0, 0, 0])
    assert mean_p(p, 1 / 3, np.sqrt(2 / 9 / 2.5)) > LEVEL
    assert mean_p(p, 0.3, np.sqrt(2 / 9 / 2.5)) < LEVEL
    rows = np.diff(np.concatenate([np.zeros((5, 3, 2, 1)), places.world.below[:5, ..., :2], np.ones((5, 3, 2, 1))], -1), axis=-1)
    for i in range(5):
        exact = planning.solve(np.maximum(rows[i], 1e-12) / np.maximum(rows[i], 1e-12).sum(-1, keepdims=True), env.model.rewards)
        assert float(places.world.gain[i]) == pytest.approx(float(exact.gain), abs=1e-3)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: MDP([[[0.5, 0.4], [1, 0]], [[0, 1], [1, 0]]], np.zeros((2, 2))), r"those of \(0, 0\) add up to 0\.9"),
        (lambda: MDP([[[1.5, -0.5]], [[0, 1]]], np.zeros((2, 1))), r"finite and ≥ 0; \(0, 0\) has -0\.5"),
        (lambda: MDP([[[np.nan, 1]], [[0, 1]]], np.zeros((2, 1))), r"must not be NaN"),
        (lambda: MDP([[[1, 0]], [[0, 1]]], np.zeros((2, 2))), r"shape \(2, 1\); got shape \(2, 2\)"),
        (
            lambda: MDP([[[1.0, 0]], [[0, 1.0]]], np.zeros((2, 1))),
            r"not weakly communicating .* depends on the state a run starts in",
        ),
        (lambda: MDP(np.ones((1, 1, 1)), [[1.0]], start=1), "start must be one of the 1 states"),
        (lambda: MDP(np.ones((1, 1, 1)), [[1.0]], law="poisson"), "law must be one of mean, gaussian, bernoulli"),
        (lambda: MDP(np.ones((1, 1, 1)), [[2.0]], law="bernoulli"), "need means between 0 and 1"),
        (lambda: strens_chain(slip=0.7), "slip must be a probability between 0 and 0.5; got 0.7."),
        (lambda: garnet(states=3, successors=4), "successors must be at most the 3 states; got 4."),
        (lambda: Tabular([1.0, 2.0]), r"rewards must be finite numbers \[states, actions\]; got shape \(2,\)"),
        (lambda: Tabular([[1.0, 2.0]], alpha=-1.0), "alpha must be > 0 and finite; got -1."),
        (lambda: Tabular([[1.0, 2.0]], alpha=np.ones(3)), r"alpha must be a number or broadcast to \(1, 2, 1\)"),
        (lambda: Tabular(Gaussian()), "where the rewards are learned, give states"),
        (lambda: PSRL(Tabular([[1.0, 2.0]]), Parameters(sgld())), "Tabular is none; use Rows"),
        (lambda: PSRL(Inventory(), Rows(ExactRows())), "not of Inventory; use Parameters"),
        (lambda: UCRL2(Tabular([[1.0]]), delta=2.0), "delta must be a probability; got 2."),
        (lambda: ParametricMDP(Inventory(), theta=[1.0, 2.0]), r"theta must have 1 numbers; got shape \(2,\)"),
        (lambda: Geometric(0.0), "rate must be a probability above 0; got 0."),
        (lambda: DoubledSinceSwitch(2, -1.0), "pseudo_count must be ≥ 0 and finite; got -1."),
        (lambda: LinearQuadratic(a=1.2, b=0.0), "needs |b| ≥ 0.01 to be stabilised".replace("|", r"\|")),
    ],
)
def test_bad_input_is_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build()


def test_simulate_refuses_what_does_not_fit():
    env = riverswim()
    agent = PSRL(Tabular(env.rewards), Rows(ExactRows()))
    with pytest.raises(ConfigError, match=r"counts visits of 1 states and the environment has 6; give it states=6\."):
        simulate(0, env, agent, DoublingCounts(), horizon=10, replications=2)
    lq = ParametricMDP(LinearQuadratic())
    with pytest.raises(ConfigError, match=r"no table of them; use StaticDoubling, Fixed or Geometric\."):
        simulate(0, lq, PSRL(LinearQuadratic(), Parameters(sgld())), DoublingCounts(), horizon=10, replications=2)
    with pytest.raises(ConfigError, match="'ucb1' cannot play 'riverswim', which is a tabular MDP; use one of mld-psrl"):
        condition("riverswim", "ucb1")
    with pytest.raises(ConfigError, match=r"no option 'stat'\. Did you mean 'states'"):
        condition("riverswim", "ds-psrl", options={"stat": 3})
    with pytest.raises(ConfigError, match="no table of states to count visits in"):
        condition("inventory", "sgld-psrl", "dynamic")


# Switching rules


def run_rule(rule, pairs, states: int, actions: int) -> list[int]:
    state, ends = rule.init(random.key(0), actions), []
    step = jax.jit(rule.step)
    for t, (s, a) in enumerate(pairs, 1):
        state, due = step(state, jnp.asarray(s), jnp.asarray(a))
        if due:
            ends.append(t)
    return ends


def tsde_by_hand(pairs, pseudo: float, linear: bool) -> list[int]:
    """New episode at t if t > t_k + T_{k-1}, or N_t(s,a) + c > 2 (N_{t_k}(s,a) + c); N_t counts visits before t."""
    visits: dict = {}
    mark: dict = {}
    ends, began, previous = [], 0, 0
    for t, pair in enumerate(pairs, 1):
        visits[pair] = visits.get(pair, 0) + 1
        doubled = any(visits[p] + pseudo > 2 * (mark.get(p, 0) + pseudo) for p in visits)
        if doubled or (linear and t - began > previous):
            ends.append(t)
            mark, previous, began = dict(visits), t - began, t
    return ends


RNG = np.random.default_rng(2)
PAIRS = [(0, 0) if RNG.uniform() < 0.7 else (int(RNG.integers(3)), int(RNG.integers(2))) for _ in range(400)]


@pytest.mark.parametrize("pseudo", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("linear", [True, False])
def test_tsde_and_dynamic_doubling_by_hand(pseudo, linear):
    rule = DoubledSinceSwitch(3, pseudo, linear)
    ends = run_rule(rule, PAIRS, 3, 2)
    assert ends == tsde_by_hand(PAIRS, pseudo, linear)
    assert ends != tsde_by_hand(PAIRS, pseudo, not linear)
    assert linear or ends != tsde_by_hand(PAIRS, 4 * pseudo + 2, linear)
    assert len(ends) <= rule.max_batches(len(PAIRS), 2)


def test_ucrl2_closes_when_visits_in_the_batch_reach_those_before():
    assert run_rule(DoubledSinceSwitch.ucrl2(1), [(0, 0)] * 40, 1, 1) == [1, 2, 4, 8, 16, 32]
    assert run_rule(DoubledSinceSwitch(1), [(0, 0)] * 40, 1, 1) == [1, 3, 7, 15, 31]


def test_tsde_alone_grows_by_one():
    """Nothing doubles with a huge pseudo-count: batches last 1, 2, 3, … rounds."""
    ends = run_rule(DoubledSinceSwitch.tsde(1, 1e6), [(0, 0)] * 30, 1, 1)
    assert ends == [1, 3, 6, 10, 15, 21, 28]


def test_geometric_batches_have_their_rate_and_differ_between_replications():
    rule = Geometric(0.2)

    def due(key):
        return jax.lax.scan(lambda s, _: rule.step(s, None, None), rule.init(key, 2), None, length=200)[1]

    hits = np.asarray(jax.jit(jax.vmap(due))(random.split(random.key(0), 200)))
    assert mean_p(hits, 0.2, 0.4) > LEVEL
    assert mean_p(hits, 0.21, 0.4) < LEVEL
    assert len({tuple(row) for row in hits}) == 200


# Agents


def test_history_counts_every_transition():
    for states in (3, 20):  # by comparison, and by scatter
        model = Tabular(np.zeros((states, 2)))
        rng = np.random.default_rng(0)
        rows = rng.integers(0, [states, 2, states], (50, 3))
        history = Visits.none(model)
        plus = jax.jit(lambda h, s, a, n, live: h.plus(model, Row(s, a, 0.0, n), live))  # noqa: B023
        expected = np.zeros((states, 2, states), int)
        for i, (s, a, n) in enumerate(rows):
            history = plus(history, s, a, n, jnp.asarray(i % 5 != 0))
            expected[s, a, n] += i % 5 != 0
        np.testing.assert_array_equal(history.counts.reshape(states, 2, states), expected)


def test_the_first_policy_is_of_a_prior_draw_and_a_policy_holds_through_its_batch():
    env = strens_chain()
    agent = PSRL(Tabular(env.rewards), Rows(ExactRows()))
    keys = random.split(random.key(3), 64)
    states = jax.vmap(agent.init)(keys)
    histories = jax.tree.map(lambda x: jnp.broadcast_to(x, (64, *x.shape)), agent.empty(None, 0))
    first, info = jax.jit(agent.observe)(keys, states, histories)
    assert bool(info.finite.all())
    for i in range(8):
        rows = np.asarray(first.theta.rows[i], float)
        exact = planning.solve(rows / rows.sum(-1, keepdims=True), env.rewards)
        assert float(first.plan.gain[i]) == pytest.approx(float(exact.gain), rel=1e-3)
    assert len({tuple(p) for p in np.asarray(first.plan.policy)}) > 4  # prior draws differ
    trace = simulate(0, env, agent, Fixed(50), horizon=200, replications=4)
    assert (trace.batches == 4).all()
    assert (trace.switches == 4).all()  # the last batch closes with the horizon: no policy follows it


@pytest.mark.parametrize("sampler", [LogGammaRows(), pytest.param(ExactRows(), marks=pytest.mark.slow)])
def test_chunks_are_the_whole_and_samplers_do_not_mix_replications(sampler):
    env = riverswim()
    agent = PSRL(Tabular(env.rewards), Rows(sampler))
    scheme = DoubledSinceSwitch.tsde(6)
    whole = simulate(1, env, agent, scheme, horizon=150, replications=6, keep_actions=True)
    part = simulate(1, env, agent, scheme, horizon=150, replications=2, first=3, keep_actions=True)
    np.testing.assert_array_equal(whole.actions[3:5], part.actions)
    np.testing.assert_allclose(whole.regret[3:5], part.regret, rtol=1e-5)


def test_the_optimal_policy_earns_the_gain():
    env = riverswim_paper()
    trace = simulate(0, env, Follow(Tabular(env.rewards), env.truth), StaticDoubling(), horizon=4000, replications=50)
    error = trace.mean_reward.std(ddof=1) / np.sqrt(50)
    assert abs(trace.mean_reward.mean() - float(env.gain)) < 4 * error + 42.6 / 4000  # the start costs at most the span
    assert (trace.best_share == 1).all()


@pytest.mark.slow
def test_rewards_can_be_learned():
    env = MDP(strens_chain().dense, strens_chain().rewards / 10, law="gaussian", sd=0.1)
    known = Tabular(env.rewards)
    learned = Tabular(Gaussian(prior_mean=0.5, prior_sd=0.5, sd=0.1), states=5, actions=2)
    run = lambda model: simulate(0, env, PSRL(model, Rows(ExactRows())), StaticDoubling(), horizon=2047, replications=100)  # noqa: E731
    a, b = run(known), run(learned)
    assert b.mean_reward.mean() > 0.75 * a.mean_reward.mean()
    uninformed = PSRL(Tabular(np.full((5, 2), 0.5)), Rows(ExactRows()))  # believes that all pairs pay alike, and learns no better
    c = simulate(0, env, uninformed, StaticDoubling(), horizon=2047, replications=100)
    assert c.mean_reward.mean() < 0.6 * b.mean_reward.mean()


def test_a_prior_of_ones_own_is_used():
    """A log-density that all but forbids slipping far makes sampled rows short-sighted, whatever the Dirichlet says."""
    env = riverswim(3)
    push = lambda x: 200.0 * x[0]  # noqa: E731
    agent = PSRL(Tabular(env.rewards, log_prior=push), Rows(LogGammaRows()))
    keys = random.split(random.key(0), 40)
    states = jax.vmap(agent.init)(keys)
    histories = jax.tree.map(lambda x: jnp.broadcast_to(x, (40, *x.shape)), agent.empty(None, 0))
    drawn, _ = jax.jit(agent.observe)(keys, states, histories)
    assert float(drawn.theta.rows[..., 0].mean()) > 0.95
    with pytest.raises(ConfigError, match="ExactRows draws Dirichlet rows only"):
        PSRL(Tabular(env.rewards, log_prior=push), Rows(ExactRows()))


# UCRL2


def test_hope_is_the_best_of_the_ball():
    """Against a linear programme over the L1 ball."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    for _ in range(20):
        S = 4
        p, values, radius = rng.dirichlet(np.ones(S)), rng.normal(size=S), rng.uniform(0, 1.5)
        # maximise q·v, |q - p|_1 ≤ radius with slack variables
        c = np.concatenate([-values, np.zeros(S)])
        A = np.block([[np.eye(S), -np.eye(S)], [-np.eye(S), -np.eye(S)], [np.zeros((1, S)), np.ones((1, S))]])
        b = np.concatenate([p, -p, [radius]])
        found = linprog(c, A, b, np.concatenate([np.ones(S), np.zeros(S)])[None], [1.0], bounds=[(0, None)] * (2 * S))
        got = optimistic_values(jnp.asarray(p[None, None], float), jnp.asarray([[radius]], float), jnp.asarray(values, float))
        assert float(got[0, 0]) == pytest.approx(-found.fun, abs=1e-5)


def test_ucrl2_is_hopeful_and_learns():
    env = riverswim(3)
    model = Tabular(env.rewards)
    agent = UCRL2(model, scale=0.1)
    trace = simulate(0, env, agent, DoubledSinceSwitch.ucrl2(3), horizon=4000, replications=20)
    lazy = simulate(
        0, env, Follow(model, env.truth._replace(rewards=-env.rewards)), StaticDoubling(), horizon=4000, replications=20
    )
    assert trace.mean_reward.mean() > 0.9 * float(env.gain) > 2 * lazy.mean_reward.mean()


# The paper's table


REFERENCE = {"ds-psrl": (12.0, 0.0, 3.70, 0.52), "db-psrl": (15.4, 1.3, 4.02, 0.17), "tsde": (94.0, 4.8, 4.01, 0.15)}
"""Switches and rewards of an independent implementation on the same chain, with their sds over 100 runs."""


@pytest.fixture(scope="module")
def table():
    out = {}
    for name in ("ds-psrl", "mld-psrl", "db-psrl", "tsde"):
        c = condition("strens-chain", name, horizon=4095)
        out[name] = simulate(0, c.env, c.agent, c.batching, horizon=4095, replications=200, times=1)
    return out


def z(values, mean, sd, n=100) -> float:
    values = np.asarray(values, float)
    return abs(values.mean() - mean) / np.sqrt(values.var(ddof=1) / values.size + sd**2 / n + 1e-12)


@pytest.mark.parametrize("name", REFERENCE)
def test_the_strens_chain_table(table, name):
    switches, sd, reward, reward_sd = REFERENCE[name]
    assert z(table[name].switches, switches, sd) < 3
    assert z(table[name].mean_reward, reward, reward_sd) < 3


def test_langevin_rows_play_as_exact_ones(table):
    exact, langevin = table["ds-psrl"].mean_reward, table["mld-psrl"].mean_reward
    assert z(langevin, exact.mean(), exact.std(ddof=1), exact.size) < 3
    assert (table["mld-psrl"].switches == 12).all()


@pytest.mark.slow
def test_another_rule_has_another_table(table):
    """Mutants: without the prior's pseudo-counts there are far more switches; a policy that never learns earns far less."""
    c = condition("strens-chain", "tsde", horizon=4095, options={"pseudo_count": 0})
    bare = simulate(0, c.env, c.agent, c.batching, horizon=4095, replications=100, times=1)
    assert z(bare.switches, 94.0, 4.8) > 10
    assert z(table["ds-psrl"].mean_reward, 4.02, 0.17) > 5  # DS and DB are told apart


# The general parameterisation on the same loop


PARAMETRIC = [e.name for e in registry.entries("environment").values() if e.about.get("mdp") and e.build().world == "parametric"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETRIC)
def test_sgld_learns_parametric_worlds(name):
    """Ten policies, and from round 127 on nearly what the optimal policy earns on the same luck; a prior's policy does not."""
    c = condition(name, "sgld-psrl", horizon=1023)
    run = lambda agent: simulate(0, c.env, agent, c.batching, horizon=1023, replications=64, times=[127, 1023])  # noqa: E731
    late = lambda trace: (trace.regret[:, -1] - trace.regret[:, 0]) / (1023 - 127)  # noqa: E731
    trace, best = run(c.agent), run(Follow.knowing(c.agent.model, c.env))
    assert (trace.switches == 10).all()
    assert bool(trace.diagnostics.finite.all())
    lost = np.median(late(trace)) - np.median(late(best))
    gain = abs(float(c.env.dynamics.gain(c.env.truth)))
    noise = 1.25 * np.sqrt((late(trace).var(ddof=1) + late(best).var(ddof=1)) / 64)
    assert lost < 0.05 * gain + 3 * min(noise, 0.03 * gain)
    stubborn = np.stack([late(run(Follow(c.agent.model, c.agent.model.init(random.key(i))))).mean() for i in range(4)])
    # Mutant: keep the first policy. The recommender's best policy is nearly the same for every φ.
    assert name == "poi-recommender" or (stubborn > 0.05 * gain).any()


# Bayesian regret


@pytest.fixture(scope="module")
def bayesian():
    """Regret at 2^k - 1 rounds over MDPs drawn from the prior, for exact and for Langevin rows, and for one who never learns."""
    times = [2**k - 1 for k in range(7, 15)]
    out = {}
    for name in ("ds-psrl", "mld-psrl"):
        c = condition("dirichlet-mdp", name, horizon=times[-1])
        out[name] = simulate(0, c.env, c.agent, c.batching, horizon=times[-1], replications=400, times=times)
    prior = c.agent.model.weights / c.agent.model.weights.sum(-1, keepdims=True)
    still = Follow(c.agent.model, c.agent.belief.init(None, c.agent.model)._replace(rows=prior, rewards=c.agent.model.rewards))
    out["never learns"] = simulate(0, c.env, still, c.batching, horizon=times[-1], replications=400, times=times)
    return times, out


def exponent(times, trace) -> float:
    """The power of T that fits the mean regret."""
    return float(np.polyfit(np.log(times), np.log(trace.regret.mean(0)), 1)[0])


@pytest.mark.slow
def test_bayesian_regret_grows_like_the_square_root_of_T(bayesian, record_property):
    """√(T log T), the theorem's form, has the exponent 0.57 over these rounds; 400 runs know theirs to 0.04."""
    times, traces = bayesian
    powers = {name: exponent(times, trace) for name, trace in traces.items()}
    record_property("exponents", str(powers))
    print(powers)
    for name in ("ds-psrl", "mld-psrl"):
        assert 0.45 < powers[name] < 0.7
        assert (traces[name].switches == len(times) + 6).all()  # log2(T + 1)
    assert z(traces["mld-psrl"].final_regret, traces["ds-psrl"].final_regret.mean(), traces["ds-psrl"].final_regret.std(), 400) < 3
    assert powers["never learns"] > 0.95  # mutant


def test_mdp_objects_print():
    env = riverswim()
    assert "6 states and 2 actions" in str(env)
    agent = PSRL(Tabular(env.rewards), Rows(MirroredRows()))
    assert str(agent).startswith("Posterior sampling, rows drawn by MirroredRows")
    assert str(DoubledSinceSwitch.tsde(3, 5.0)) == (
        "Rewards are seen when a state–action pair's visits with 5 pseudo-counts exceed twice their value at the last batch, "
        "or when a batch is longer than the one before."
    )
