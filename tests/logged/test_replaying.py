"""Replay gives what playing gives, and learning from a log gives the posterior of its rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import Bandit, Bernoulli, DoublingCounts, Fixed, Info, Linear, Thompson, Uniform, logged, random, simulate
from blts.errors import ConfigError
from blts.logged.replaying import _replay
from laws import LEVEL
from logs import simulated

RATES = np.array([0.2, 0.5, 0.7])
ROUNDS, LOGS = 60, 400


def bandit_log(rng, n: int, p=(1 / 3, 1 / 3, 1 / 3)) -> logged.Log:
    actions = rng.choice(3, n, p=p)
    rewards = (rng.random(n) < RATES[actions]).astype(float)
    return logged.Log(np.zeros((n, 0)), actions, rewards, np.asarray(p)[actions], ("a", "b", "c"))


AGENT, BATCHING = Thompson(Bernoulli(), arms=3), DoublingCounts()


@jax.jit
def many(keys, actions, rewards):
    one = lambda key, a, r: _replay(key, AGENT, BATCHING, jnp.zeros((a.shape[0], 0)), a, r)[:2]  # noqa: E731
    return jax.vmap(one)(keys, actions, rewards)


def first_rewards(p) -> np.ndarray:
    """The mean reward of the first rounds that count, in many logs."""
    logs = [bandit_log(np.random.default_rng([1, i]), 400, p) for i in range(LOGS)]
    actions, rewards = (np.stack([getattr(log, name) for log in logs]) for name in ("actions", "rewards"))
    counts = np.asarray(many(random.split(random.key(0), LOGS), actions, rewards)[0])
    assert counts.sum(1).min() >= ROUNDS
    return np.array([r[c][:ROUNDS].mean() for r, c in zip(rewards, counts, strict=True)])


def test_replay_earns_what_playing_earns():
    env = Bandit.with_means(Bernoulli(), RATES)
    played = simulate(1, env, AGENT, BATCHING, horizon=ROUNDS, replications=2000).summary()

    def z(p) -> float:
        found = first_rewards(p)
        error = np.hypot(found.std(ddof=1) / np.sqrt(LOGS), played["reward_se"])
        return abs(found.mean() - played["reward_mean"]) / error

    limit = stats.norm.isf(LEVEL / 2)
    assert z((1 / 3, 1 / 3, 1 / 3)) < limit
    assert z((0.2, 0.2, 0.6)) > limit  # the mutant: a log of another policy, which `replay` refuses


def test_rows_that_count_are_those_that_were_chosen():
    log = bandit_log(np.random.default_rng(2), 600)
    found = logged.replay(log, Uniform(3), Fixed(10), seed=3)
    assert 150 < len(found.rows) < 250
    assert (found.rewards == log.rewards[found.rows]).all()
    assert found.batches == len(found.rows) // 10
    assert np.asarray(found.state.seen.n).sum() == found.batches * 10  # what is in the last batch is not seen yet
    seen = found.rows[: found.batches * 10]
    assert np.asarray(found.state.seen.n).tolist() == np.bincount(log.actions[seen], minlength=3).tolist()
    assert found.value.value == pytest.approx(found.rewards.mean())
    again = logged.replay(log, Uniform(3), Fixed(10), seed=3)
    assert (again.rows == found.rows).all()
    assert len(logged.replay(log, Uniform(3), Fixed(10), seed=4).rows) != len(found.rows)


def linear(sd: float = 0.5) -> Thompson:
    return Thompson(Linear(prior_mean=[0.0, 0.0], prior_sd=1.0, sd=sd), arms=3)


def posterior(log, a: int, sd: float = 0.5):
    mine = log.actions == a
    x, r = log.contexts[mine], log.rewards[mine]
    V = np.eye(2) + x.T @ x / sd**2
    return np.linalg.solve(V, x.T @ r / sd**2), np.linalg.inv(V)


def test_learning_gives_the_posterior_of_all_rows():
    log = simulated(np.random.default_rng(3), 500)
    agent = linear()
    state, info = logged.learn(agent, log)
    x = np.array([0.3, -1.2])
    laws = agent.laws(state, jnp.asarray(x))
    assert laws is not None
    assert bool(info.sound)
    for a in range(3):
        mean, covariance = posterior(log, a)
        assert float(laws.mean[a]) == pytest.approx(x @ mean, abs=1e-4)
        assert float(laws.sd[a]) == pytest.approx(np.sqrt(x @ covariance @ x), rel=1e-3)
    wrong = posterior(logged.Log(log.contexts[1:], log.actions[:-1], log.rewards[:-1], log.propensities[1:], log.labels), 0)[0]
    assert float(laws.mean[0]) != pytest.approx(x @ wrong, abs=1e-2)  # the mutant: contexts of other rows


def test_the_policy_of_an_agent_is_its_propensities():
    log = simulated(np.random.default_rng(3), 500)
    agent = linear(3.0)
    state, _ = logged.learn(agent, log)
    pi = logged.policy_of(agent, state)(log.contexts[:20])
    each = np.stack([np.asarray(agent.propensities(state, jnp.asarray(x, float))) for x in log.contexts[:3]])
    np.testing.assert_allclose(pi[:3], each, atol=1e-5)
    assert np.ptp(pi[:, 0]) > 0.1  # it depends on the context
    found = logged.evaluate(log, logged.policy_of(agent, state))
    assert found.dr.low > logged.logged_value(log).value


def test_a_replay_with_contexts():
    rng = np.random.default_rng(5)
    log = simulated(rng, 600)
    actions = rng.integers(0, 3, 600)
    from logs import means

    rewards = means(log.contexts)[np.arange(600), actions] + 0.5 * rng.normal(size=600)
    uniform = logged.Log(log.contexts, actions, rewards, np.full(600, 1 / 3), log.labels)
    found = logged.replay(uniform, linear(), DoublingCounts())
    assert found.value.low > rewards.mean()


class Broken(Uniform):
    """Its refreshes fail."""

    def observe(self, keys, states, histories):
        return states, Info.of(jnp.zeros(keys.shape, bool))


LINEAR = Thompson(Linear([0.0]), arms=3)


def test_what_cannot_be_replayed_is_refused():
    log = bandit_log(np.random.default_rng(2), 50)
    reals = logged.Log(log.contexts, log.actions, np.full(50, 0.5), log.propensities, log.labels)
    huge = logged.Log(np.full((50, 1), 1e30), log.actions, log.rewards, log.propensities, log.labels)
    narrow = logged.Log(np.ones((50, 1)), log.actions, log.rewards, log.propensities, log.labels)
    for wrong, words in (
        (lambda: logged.replay(bandit_log(np.random.default_rng(2), 50, (0.2, 0.3, 0.5)), Uniform(3), Fixed(10)), "uniform play"),
        (lambda: logged.replay(log, Uniform(4), Fixed(10)), "the agent plays 4 actions, and the log has 3"),
        (lambda: logged.replay(log, Uniform(3), 10), "batching must be a scheme"),  # type: ignore[arg-type]
        (lambda: logged.replay(log, "uniform", Fixed(10)), "takes an agent"),  # type: ignore[arg-type]
        (lambda: logged.learn(Uniform(2), log), "the agent plays 2 actions"),
        (lambda: logged.learn(AGENT, reals), "rewards of Bernoulli are 0 or 1; the log has 0.5"),
        (lambda: logged.policy_of(Uniform, ()), "takes an agent"),  # type: ignore[arg-type]
        (lambda: logged.policy_of(AGENT, Thompson(Bernoulli(), arms=2).init(random.key(0))), "the state is of another agent"),
        (lambda: logged.evaluate(log, AGENT), r"give policy_of\(agent, state\)"),
        (lambda: logged.replay(reals, Broken(3), Fixed(10)), "the state after a refresh is not finite"),
        (lambda: logged.learn(LINEAR, huge), r"contexts up to 1e\+30 overflow"),
        (lambda: logged.replay(huge, LINEAR, Fixed(10)), r"contexts up to 1e\+30 overflow"),
        (
            lambda: logged.learn(Thompson(Linear([0.0, 0.0]), arms=3), narrow),
            r"a context of shape \(2,\); it has a context of shape \(1,\)",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            wrong()
    from blts import UCB1

    with pytest.raises(ConfigError, match="no propensities"):
        logged.policy_of(UCB1(3), ())


# Rows that were learned from


def noise(n=60, contexts=5):
    """Rewards that no context or action says anything of."""
    rng = np.random.default_rng(3)
    return logged.Log(rng.normal(size=(n, contexts)), rng.integers(0, 3, n), rng.normal(size=n), np.full(n, 1 / 3), ("a", "b", "c"))


def learned(log):
    agent = Thompson(Linear(np.zeros(log.contexts.shape[1]), sd=1.0), arms=3)
    return logged.policy_of(agent, logged.learn(agent, log)[0])


def test_rows_that_were_learned_from_are_noticed():
    """All of them, in another order, or half; of other rows nothing is said."""
    log = noise()
    train, test = log.split(0.5, seed=1)
    policy = learned(train)
    said = lambda log: logged.evaluate(log, policy).warnings  # noqa: E731
    assert "learned from 30 of these 30 rows, so its estimated value tends to be too high" in said(train)[0]
    assert "learned from 30 of these 30 rows" in said(train._rows(np.arange(30)[::-1]))[0]
    assert "learned from 30 of these 60 rows" in said(log)[0]
    assert not any("learned from" in warning for warning in said(test))
    assert "learned from 30" in logged.compare(train, "a", policy).warnings[0]
    assert not any("learned from" in warning for warning in logged.compare(test, "a", policy).warnings)


def test_the_value_on_rows_that_were_learned_from_is_too_high():
    """No policy earns more than 0 here: by 4 standard errors of 40 logs it seems to on its own rows, and not on others."""
    own, others = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        log = logged.Log(rng.normal(size=(80, 5)), rng.integers(0, 3, 80), rng.normal(size=80), np.full(80, 1 / 3), ("a", "b", "c"))
        train, test = log.split()
        policy = learned(train)
        own.append(logged.evaluate(train, policy).ipw.value)
        others.append(logged.evaluate(test, policy).ipw.value)
    standard_error = lambda x: np.std(x, ddof=1) / np.sqrt(len(x))  # noqa: E731
    assert np.mean(own) > 4 * standard_error(own)
    assert abs(np.mean(others)) < 4 * standard_error(others)


def test_rows_that_are_alike_by_chance_are_not_the_same_rows():
    """Of two actions and two rewards there are four rows only; the log itself is still known."""
    rng = np.random.default_rng(0)
    log = logged.read_log({"action": rng.integers(0, 3, 400), "reward": rng.integers(0, 2, 400)}, propensity=1 / 3)
    train, test = log.split()
    policy = logged.policy_of(AGENT, logged.learn(AGENT, train)[0])
    assert logged.evaluate(test, policy).warnings == ()
    assert "learned from 200 of these 200 rows" in logged.evaluate(train, policy).warnings[0]


def test_parts_of_a_log_have_all_rows_once():
    log = noise()
    for fraction, size in ((0.5, 30), (0.001, 1), (0.999, 59)):
        first, second = log.split(fraction)
        assert (len(first), len(second)) == (size, 60 - size)
        assert sorted([*first.rewards, *second.rewards]) == sorted(log.rewards)
    assert (log.split(seed=1)[0].rewards != log.split(seed=2)[0].rewards).any()
    for fraction in (0, 1, -0.5, np.nan, "half", True):
        with pytest.raises(ConfigError, match="split: fraction must be between 0 and 1"):
            log.split(fraction)
    with pytest.raises(ConfigError, match="a log of one row has no two parts"):
        log.split()[0]._rows(np.array([0])).split()
