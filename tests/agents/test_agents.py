"""Agents against plain re-implementations that are fed the same rewards, and what no agent may know."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import (
    UCB1,
    BayesUCB,
    Bootstrap,
    Chain,
    DoublingCounts,
    EpsilonGreedy,
    Exact,
    Fixed,
    Gaussian,
    Langevin,
    Perturb,
    Pool,
    Sequential,
    SuccessiveElimination,
    Thompson,
    Uniform,
    condition,
    mala,
    random,
    sgld,
    simulate,
    ula,
)
from blts._module import array, module
from blts._typing import Array
from blts.envs import Env, Step
from laws import LEVEL, counts_p

ARMS, ROUNDS, REPLICATIONS = 5, 120, 3


@module
class Table(Env):
    """Rewards written down in advance: `rewards[t, a]` is what arm a pays in round t + 1, in every replication."""

    rewards: Array = array(ndim=2)

    @property
    def actions(self) -> int:
        return self.rewards.shape[1]

    def __str__(self) -> str:
        return "Rewards from a table."

    def reset(self, key):
        return jnp.zeros((), int), ()

    def step(self, key, state, action):
        return state + 1, Step((), jnp.asarray(self.rewards, float)[state, action], jnp.zeros(()))


def table(seed: int = 0) -> np.ndarray:
    means = np.linspace(0.0, 1.0, ARMS)
    return np.float32(np.random.default_rng(seed).normal(means, 0.5, (ROUNDS, ARMS)))


def actions_of(agent, batching, rewards=None, *, seed=1) -> np.ndarray:
    env = Table(table() if rewards is None else rewards)
    trace = simulate(seed, env, agent, batching, horizon=ROUNDS, replications=REPLICATIONS, keep_actions=True)
    assert trace.actions is not None
    return trace.actions


def order_of(agent, replication: int, *, seed=1) -> np.ndarray:
    """The agent's own order of the arms, by which it breaks ties."""
    key = random.fold_in(random.fold_in(random.key(seed), replication), 0)
    return np.asarray(agent.init(random.split(key)[1]).order)


def replay(index, closes, rewards: np.ndarray, order: np.ndarray) -> np.ndarray:
    """A batched index policy in plain Python: `index(t, plays, observed rewards of each arm)` gives a value an arm."""
    plays, observed, waiting, out = [0] * ARMS, [[] for _ in range(ARMS)], [], []
    for t in range(1, ROUNDS + 1):
        values = index(t, plays, observed)
        best = max(range(ARMS), key=lambda a: (values[a], order[a]))
        plays[best] += 1
        waiting.append((best, float(rewards[t - 1, best])))
        out.append(best)
        if closes(t, plays, best):
            for arm, reward in waiting:
                observed[arm].append(reward)
            waiting = []
    return np.array(out)


CLOSES = {
    "sequential": (Sequential(), lambda t, plays, last: True),
    "fixed": (Fixed(7), lambda t, plays, last: t % 7 == 0),
    "dynamic": (DoublingCounts(), lambda t, plays, last: plays[last] & (plays[last] - 1) == 0),
}


def ucb1_index(t, plays, observed, *, counted="plays"):
    values = []
    for a in range(ARMS):
        n = plays[a] if counted == "plays" else len(observed[a])
        if n == 0:
            values.append(math.inf)
        elif not observed[a]:
            values.append(-math.inf)
        else:
            values.append(np.mean(observed[a]) + math.sqrt(2 * math.log(t) / n))
    return values


@pytest.mark.parametrize("scheme", CLOSES)
def test_ucb1_is_the_textbook_one(scheme):
    batching, closes = CLOSES[scheme]
    agent = UCB1(ARMS)
    played = actions_of(agent, batching)
    for r in range(REPLICATIONS):
        assert np.array_equal(played[r], replay(ucb1_index, closes, table(), order_of(agent, r)))


def test_ucb1_counts_plays_inside_the_batch():
    """The mutant counts observed rewards alone, and so plays one arm for a whole batch."""
    batching, closes = CLOSES["fixed"]
    agent = UCB1(ARMS)
    mutant = replay(lambda t, p, o: ucb1_index(t, p, o, counted="observed"), closes, table(), order_of(agent, 0))
    assert not np.array_equal(actions_of(agent, batching)[0], mutant)


PRIOR_MEAN, PRIOR_SD, SD = 0.5, 1.0, 0.5


def bayes_ucb_index(t, plays, observed, *, counted="plays", quantile=lambda t: 1 - 1 / t):
    values = []
    for a in range(ARMS):
        seen = observed[a]
        precision = PRIOR_SD**-2 + len(seen) / SD**2
        mean = (PRIOR_MEAN / PRIOR_SD**2 + sum(seen) / SD**2) / precision
        n = plays[a] if counted == "plays" else len(seen)
        sd = (PRIOR_SD**-2 + n / SD**2) ** -0.5
        values.append(round(stats.norm.ppf(max(quantile(t), 0.5), mean, sd), 6))
    return values


@pytest.mark.parametrize("count", ["plays", "observed"])
@pytest.mark.parametrize("scheme", ["sequential", "fixed"])
def test_bayes_ucb_plays_the_quantile(scheme, count):
    batching, closes = CLOSES[scheme]
    agent = BayesUCB(Gaussian(PRIOR_MEAN, PRIOR_SD, SD), ROUNDS, count=count, arms=ARMS)
    played = actions_of(agent, batching)
    right = replay(lambda *now: bayes_ucb_index(*now, counted=count), closes, table(), order_of(agent, 0))
    wrong = replay(lambda *now: bayes_ucb_index(*now, counted=count, quantile=lambda t: 0.7), closes, table(), order_of(agent, 0))
    assert np.array_equal(played[0], right)
    assert not np.array_equal(played[0], wrong)


# ε-greedy


def epsilon_greedy_p(agent, c: float) -> float:
    """The smallest p-value, over some rounds, of how often the best arm is played; rewards have no noise.

    The best arm is played greedily once it was seen, and at random with probability ε/N always.
    """
    env = Bootstrap.of({a: [float(a)] for a in range(4)})
    trace = simulate(2, env, agent, Sequential(), horizon=60, replications=3000, keep_actions=True)
    epsilon = np.minimum(1.0, c * 4 / np.arange(1, 61))
    unseen = np.concatenate([[1.0], np.cumprod(1 - epsilon / 4)[:-1]])
    chance = (1 - unseen) * (1 - epsilon) + epsilon / 4
    hits = (trace.actions == 3).sum(0)
    return min(counts_p([hits[t], 3000 - hits[t]], [chance[t], 1 - chance[t]]) for t in (0, 3, 5, 10, 30, 59))


def test_epsilon_decays_as_it_should():
    assert epsilon_greedy_p(EpsilonGreedy(4, c=1.0), 1.0) > LEVEL
    assert epsilon_greedy_p(EpsilonGreedy(4, c=1.3), 1.0) < LEVEL


def test_uniform_is_uniform():
    env = Bootstrap.of({a: [float(a)] for a in range(4)})
    plays = simulate(2, env, Uniform(4), Sequential(), horizon=60, replications=3000).plays.sum(0)
    assert counts_p(plays, np.full(4, 0.25)) > LEVEL
    assert counts_p(plays, [0.24, 0.25, 0.25, 0.26]) < LEVEL


# Batched elimination


class BaSE:
    """Batched elimination in plain Python: drop an arm when it falls behind by more than the radius."""

    def __init__(self, *, forever: bool = True):
        self.alive, self.known, self.forever = set(range(ARMS)), 0, forever

    def __call__(self, t, plays, observed):
        if sum(map(len, observed)) > self.known and min(len(observed[a]) for a in self.alive) > 0:
            fewest = min(len(observed[a]) for a in self.alive)
            best = max(np.mean(observed[a]) for a in self.alive)
            radius = math.sqrt(0.2 * math.log(ROUNDS * ARMS) / fewest)
            among = self.alive if self.forever else range(ARMS)
            self.alive = {a for a in among if best - np.mean(observed[a]) <= radius}
        self.known = sum(map(len, observed))
        return [-plays[a] if a in self.alive else -math.inf for a in range(ARMS)]


@pytest.mark.parametrize("size", [1, 20])
def test_base_drops_arms_for_good(size):
    """With batches of one, gaps wander across the radius: an arm that is out must stay out all the same."""
    agent = SuccessiveElimination(ARMS, ROUNDS, width=0.2)
    closes = lambda t, plays, last: t % size == 0  # noqa: E731
    differs = False
    for seed in range(4):
        played = actions_of(agent, Fixed(size), table(seed))[0]
        assert np.array_equal(played, replay(BaSE(), closes, table(seed), order_of(agent, 0)))
        assert ARMS - 1 in played[-20:]
        assert len(set(played[-20:].tolist())) < ARMS, "nothing was dropped"
        differs |= not np.array_equal(played, replay(BaSE(forever=False), closes, table(seed), order_of(agent, 0)))
    assert differs or size > 1


def test_base_plays_the_survivors_in_turn():
    played = actions_of(SuccessiveElimination(ARMS, ROUNDS, width=0.2), Fixed(20))
    for row in played:
        before = np.zeros(ARMS, int)
        alive = set(range(ARMS))
        for i in range(0, ROUNDS, 20):
            batch = row[i : i + 20]
            now = set(batch.tolist())
            assert now <= alive, "an eliminated arm came back"
            alive = now
            before += np.bincount(batch, minlength=ARMS)
            counts = before[sorted(now)]
            assert counts.max() - counts.min() <= 1


# What no agent may know


def everyone() -> dict:
    model = Gaussian(prior_mean=np.full(ARMS, PRIOR_MEAN), prior_sd=PRIOR_SD, sd=SD)
    return {
        "blts": Thompson(model, Perturb(sgld(steps=5, minibatch=8))),
        "exact": Thompson(model, Exact()),
        "pool": Thompson(model, Pool(ula(steps=5), 8)),
        "ucb1": UCB1(ARMS),
        "bayes-ucb": BayesUCB(model, ROUNDS),
        "eps-greedy": EpsilonGreedy(ARMS),
        "base": SuccessiveElimination(ARMS, ROUNDS, width=0.2),
    }


@pytest.mark.parametrize("name", everyone())
def test_rewards_of_the_running_batch_decide_nothing(name):
    """Other rewards in rounds 21–40 leave the first 40 actions alone, for they are seen after round 40; then they show."""
    agent = everyone()[name]
    other = table().copy()
    other[20:40] = 3.0 - other[20:40]
    a, b = actions_of(agent, Fixed(20)), actions_of(agent, Fixed(20), other)
    assert np.array_equal(a[:, :40], b[:, :40])
    assert not np.array_equal(a[:, 40:], b[:, 40:])


def test_rewards_seen_early_would_be_noticed():
    """The mutant of the test above: batches of ten let the changed rewards in after round 30."""
    other = table().copy()
    other[20:40] = 3.0 - other[20:40]
    agent = UCB1(ARMS)
    assert not np.array_equal(actions_of(agent, Fixed(10))[:, :40], actions_of(agent, Fixed(10), other)[:, :40])


# Pools and the theorem's γ


@cache
def final_regret(belief: str, replications: int) -> np.ndarray:
    problem = condition("gaussian", "exact-ts", "dynamic")
    beliefs = {
        "exact": Exact(),
        "pool": Pool(mala(), 256),
        "hot pool": Pool(Chain(Langevin(0.1, temperature=9.0)), 256),
        "theorem": Perturb(ula(), "theorem"),
    }
    agent = Thompson(problem.agent.model, beliefs[belief])
    return simulate(5, problem.env, agent, DoublingCounts(), horizon=650, replications=replications, times=1).final_regret


def errors_apart(a: np.ndarray, b: np.ndarray) -> float:
    return abs(a.mean() - b.mean()) / math.hypot(a.std() / math.sqrt(a.size), b.std() / math.sqrt(b.size))


@pytest.mark.slow
def test_a_pool_plays_like_exact_draws():
    exact, pool = final_regret("exact", 1000), final_regret("pool", 400)
    assert errors_apart(pool, exact) < 3
    assert errors_apart(final_regret("hot pool", 400), exact) > 6


@pytest.mark.slow
def test_the_theorem_is_far_too_cautious():
    """γ = 1/640 here: every arm is explored as if it had 640 times fewer rewards."""
    assert final_regret("theorem", 50).mean() > 8 * final_regret("exact", 50).mean()


@pytest.mark.slow
def test_a_state_says_what_it_would_play():
    """Propensities are the frequencies of `act` (a Thompson policy is frozen within a batch)."""
    model = Gaussian(prior_mean=[0.0, 0.3, 0.6], prior_sd=0.5, sd=0.5)
    agent = Thompson(model, Exact())
    state = agent.init(random.key(0))
    keys = random.split(random.key(1), 20_000)
    played = jax.vmap(lambda k: agent.act(k, state, (), None))(keys)
    counts = np.bincount(np.asarray(played), minlength=3)
    assert counts_p(counts, agent.propensities(state)) > LEVEL
    # Mutants: propensities of a state that is a little narrower, and of arms in another order.
    narrow = Thompson(Gaussian(prior_mean=[0.0, 0.3, 0.6], prior_sd=0.45, sd=0.5), Exact())
    assert counts_p(counts, agent.propensities(narrow.init(random.key(0)))) < LEVEL
    assert counts_p(counts, agent.propensities(state)[jnp.array([1, 0, 2])]) < LEVEL
