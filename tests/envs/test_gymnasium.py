"""Gymnasium's tabular environments as MDPs: with a class of the same shape always, with the package where it is installed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from blts import from_json, planning, to_json
from blts.envs.gymnasium import from_gymnasium, states_of
from blts.errors import ConfigError


class Corridor:
    """States 0 … n - 1 in a row and a cave n that nothing leads to. Left and right slip with 0.1; the right end pays 1 and ends
    the episode. Starts are state 0 with 0.25 and state 1 with 0.75."""

    def __init__(self, n: int = 5, slip: float = 0.1):
        self.n, self.slip = n, slip
        self.initial_state_distrib = np.zeros(n + 1)
        self.initial_state_distrib[:2] = 0.25, 0.75
        self.P = {s: {a: self.outcomes(s, a) for a in (0, 1)} for s in range(n + 1)}

    def outcomes(self, s: int, a: int) -> list[tuple[float, int, float, bool]]:
        if s in (self.n - 1, self.n):  # the end is over, and the cave is for itself
            return [(1.0, s, 0.0, s == self.n - 1)]
        found = []
        for p, step in ((1 - self.slip, 2 * a - 1), (self.slip, 1 - 2 * a)):
            after = min(max(s + step, 0), self.n - 1)
            found.append((p, after, float(after == self.n - 1), after == self.n - 1))
        return found


class Wrapped:
    """As Gymnasium's wrappers: what is inside is at `unwrapped`."""

    def __init__(self, env):
        self.unwrapped = env


def test_done_starts_again_and_rewards_are_expected():
    env = from_gymnasium(Wrapped(Corridor()))
    np.testing.assert_array_equal(states_of(Corridor()), [0, 1, 2, 3])  # neither the end nor the cave
    assert (env.states, env.actions, env.start) == (4, 2, 1)
    P = env.dense
    np.testing.assert_allclose(P[3, 1], [0.9 * 0.25, 0.9 * 0.75, 0.1, 0])
    np.testing.assert_allclose(P[3, 0], [0.1 * 0.25, 0.1 * 0.75, 0.9, 0])
    np.testing.assert_allclose(P[0, 0], [0.9, 0.1, 0, 0])
    np.testing.assert_allclose(env.rewards, [[0, 0], [0, 0], [0, 0], [0.1, 0.9]])
    assert planning.structure(P).communicating


def test_the_gain_is_one_over_the_length_of_an_episode():
    """Renewal: a reward of 1 an episode, and m(s) = 1 + Σ p m(s') rounds to its end."""
    corridor = Corridor()
    gain = from_gymnasium(corridor).gain
    A = np.eye(4)
    for s in range(4):
        for p, after, _, done in corridor.P[s][1]:
            if not done:
                A[s, after] -= p
    lengths = np.linalg.solve(A, np.ones(4))
    assert float(gain) == pytest.approx(1 / (0.25 * lengths[0] + 0.75 * lengths[1]), rel=1e-9)
    assert float(gain) != pytest.approx(1 / lengths[0], rel=1e-2)  # the mutant: always from state 0
    assert float(gain) != pytest.approx(1 / (1 + 0.25 * lengths[0] + 0.75 * lengths[1]), rel=1e-2)  # a round spent at the end


def test_outcomes_that_lead_to_one_state_are_added():
    both = {0: {0: [(0.5, 1, 1.0, False), (0.25, 1, 3.0, False), (0.25, 0, 0.0, False), (0.0, 2, 9.0, False)]}}
    rest = {s: {0: [(1.0, 0, 0.0, False)]} for s in (1, 2)}
    env = from_gymnasium(SimpleNamespace(P=both | rest, initial_state_distrib=[1.0, 0.0, 0.0]))
    assert env.states == 2  # state 2 has probability 0
    np.testing.assert_allclose(env.dense[0, 0], [0.25, 0.75])
    np.testing.assert_allclose(env.rewards, [[1.25], [0.0]])


def test_it_is_an_mdp_like_any_other():
    env = from_gymnasium(Corridor())
    copy = from_json(to_json(env))
    np.testing.assert_array_equal(copy.dense, env.dense)
    assert float(copy.gain) == float(env.gain)
    assert copy.start == env.start


def changed(**parts) -> SimpleNamespace:
    corridor = Corridor()
    return SimpleNamespace(**({"P": corridor.P, "initial_state_distrib": corridor.initial_state_distrib} | parts))


STAY = {s: {0: [(1.0, s, 0.0, False)]} for s in range(2)}


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (object(), r"one with env\.unwrapped\.P; object has none\."),
        (Wrapped(SimpleNamespace(initial_state_distrib=[1.0])), r"env\.unwrapped\.P; SimpleNamespace has none\."),
        (SimpleNamespace(P=STAY), r"needs env\.unwrapped\.initial_state_distrib, where episodes start"),
        (changed(P=3), r"P must be P\[state\]\[action\] = \["),
        (changed(P={1: {}, 2: {}}), r"P must be P\[state\]\[action\] = \["),
        (changed(P=[[[(1.0, 0)]]]), r"P must be P\[state\]\[action\] = \["),
        (changed(P=[[[(1.0, 0, "much", False)]]]), r"P must be P\[state\]\[action\] = \["),
        (changed(P={}), r"the same actions in every state; got \[\] of them\."),
        (changed(P=[[], []]), r"the same actions in every state; got \[0\] of them\."),
        (changed(P=[STAY[0], {}]), r"the same actions in every state; got \[0, 1\] of them\."),
        (changed(P=[[[(1.0, 2, 0.0, False)]], STAY[1]]), r"from 0 to 1; P\[0\]\[0\] has another\."),
        (changed(P=[STAY[0], [[(0.9, 0, 0.0, True)]]]), r"probabilities of P\[1\]\[0\] must be ≥ 0 and add up to 1\."),
        (changed(P=[STAY[0], [[(1.5, 0, 0.0, True), (-0.5, 0, 0.0, True)]]]), r"P\[1\]\[0\] must be ≥ 0"),
        (changed(P=[STAY[0], [[(float("nan"), 0, 0.0, True)]]]), r"P\[1\]\[0\] must be ≥ 0"),
        (changed(initial_state_distrib=[1.0]), "initial_state_distrib must have 6 probabilities that add up to 1"),
        (changed(initial_state_distrib=[0.5] * 6), "initial_state_distrib must have 6 probabilities"),
        (changed(initial_state_distrib="start"), r"P must be|initial_state_distrib must have"),
        (SimpleNamespace(P=STAY, initial_state_distrib=[0.5, 0.5]), "not weakly communicating"),
    ],
)
def test_what_is_not_a_table_is_refused(env, sentence):
    with pytest.raises(ConfigError, match=sentence):
        from_gymnasium(env)


# With the package itself


def made(name: str, **options):
    return pytest.importorskip("gymnasium").make(name, **options)


def test_frozen_lake_on_dry_ground_takes_six_steps():
    env = from_gymnasium(made("FrozenLake-v1", is_slippery=False))
    assert (env.states, env.actions, env.start) == (11, 4, 0)
    assert float(env.gain) == pytest.approx(1 / 6, rel=1e-9)


def test_frozen_lake_slips():
    """The gain is the chance of success over the length of an episode, both of the policy that is found, from P itself."""
    lake = made("FrozenLake-v1")
    env, kept = from_gymnasium(lake), states_of(lake)
    policy = dict(zip(kept.tolist(), np.asarray(env.solve().policy).tolist(), strict=True))
    holes = sorted(set(range(16)) - set(kept.tolist()))
    assert holes == [5, 7, 11, 12, 15]
    A, success = np.eye(16), np.zeros(16)
    for s, a in policy.items():
        for p, after, reward, done in lake.unwrapped.P[s][a]:
            success[s] += p * reward
            A[s, after] -= 0 if done else p
    lengths, wins = np.linalg.solve(A, np.isin(np.arange(16), kept).astype(float)), np.linalg.solve(A, success)
    assert float(env.gain) == pytest.approx(wins[0] / lengths[0], rel=1e-9)


def test_cliff_walking_costs_one_a_step():
    env = from_gymnasium(made("CliffWalking-v1"))
    assert (env.states, env.actions, env.start) == (37, 4, 36)  # neither the cliff nor the goal
    assert float(env.gain) == pytest.approx(-1, rel=1e-9)
    assert env.rewards.min() == -100


def test_taxi_starts_anywhere():
    """Every passenger is brought by the shortest way: 20 for the ride less 1 for each other step, over its length."""
    taxi = made("Taxi-v4")
    env = from_gymnasium(taxi)
    assert (env.states, env.actions) == (400, 6)
    start, P = taxi.unwrapped.initial_state_distrib, taxi.unwrapped.P
    steps = np.full(500, np.inf)
    for _ in range(60):  # shortest ways to the end of the episode
        for s in range(500):
            steps[s] = min(1 if P[s][a][0][3] else 1 + steps[P[s][a][0][1]] for a in range(6))
    mean = start[start > 0] @ steps[start > 0]
    assert float(env.gain) == pytest.approx((21 - mean) / mean, rel=1e-9)


def test_the_policy_plays_in_gymnasium():
    """4,000 rounds of the optimal policy in the environment itself earn the gain; those of another policy do not."""
    lake = made("FrozenLake-v1", is_slippery=True)
    env, kept = from_gymnasium(lake), states_of(lake)

    def earned(policy) -> np.ndarray:
        number = {int(s): i for i, s in enumerate(kept)}
        rewards, obs = [], lake.reset(seed=0)[0]
        for _ in range(4000):
            obs, reward, done, _, _ = lake.unwrapped.step(int(policy[number[int(obs)]]))
            rewards.append(reward)
            if done:
                obs = lake.reset()[0]
        return np.asarray(rewards, float)

    best = np.asarray(env.solve().policy)
    error = np.sqrt(float(env.gain) / 4000)  # wins are rare and all but independent
    assert abs(earned(best).mean() - float(env.gain)) < 4 * error
    assert abs(earned((best + 1) % 4).mean() - float(env.gain)) > 4 * error
