"""Run by `peers.py` in the peers' own environment: prints the steps per second of each policy as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

HORIZON, ARMS, SD = 650, 15, 0.5
MEANS = np.linspace(1, 20, ARMS)
Pull = Callable[[int], float]


def each_arm_once(pull: Pull) -> tuple[list[int], list[float]]:
    """What MABWiser must be fitted to before it plays: it takes an arm without rewards to pay 0, and would never try it."""
    arms = list(range(ARMS))
    return arms, [pull(arm) for arm in arms]


def mabwiser_lin_ts(seed: int, pull: Pull) -> None:
    from mabwiser.mab import MAB, LearningPolicy

    # A linear model of the constant context 1 is a Gaussian model of the mean.
    mab = MAB(list(range(ARMS)), LearningPolicy.LinTS(alpha=SD), seed=seed)
    mab.fit(*each_arm_once(pull), [[1.0]] * ARMS)
    for _ in range(HORIZON - ARMS):
        arm = mab.predict([[1.0]])
        mab.partial_fit([arm], [pull(arm)], [[1.0]])


def mabwiser_ucb1(seed: int, pull: Pull) -> None:
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(ARMS)), LearningPolicy.UCB1(alpha=1.0), seed=seed)
    mab.fit(*each_arm_once(pull))
    for _ in range(HORIZON - ARMS):
        arm = mab.predict()
        mab.partial_fit([arm], [pull(arm)])


def river_thompson(seed: int, pull: Pull) -> None:
    from river import bandit, proba

    # Two plays of each arm first: a Gaussian fitted to fewer rewards has no spread.
    play_river(bandit.ThompsonSampling(proba.Gaussian(), burn_in=2, seed=seed), pull)


def river_ucb(seed: int, pull: Pull) -> None:
    from river import bandit

    play_river(bandit.UCB(delta=1.0, seed=seed), pull)


def play_river(policy, pull: Pull) -> None:
    arms = list(range(ARMS))
    for _ in range(HORIZON):
        arm = policy.pull(arms)
        policy.update(arm, pull(arm))


POLICIES = (
    ("mabwiser", "LinTS (linear Thompson, constant context)", mabwiser_lin_ts),
    ("mabwiser", "UCB1", mabwiser_ucb1),
    ("river", "Thompson, fitted Gaussian of the rewards", river_thompson),
    ("river", "UCB (δ = 1)", river_ucb),
)


def measure(run: Callable[[int, Pull], None], rounds: int) -> tuple[float, float]:
    times, regrets = [], []
    for seed in range(rounds):
        noise = np.random.default_rng(seed).normal(0, SD, HORIZON).tolist()
        played: list[int] = []

        def pull(arm: int, noise: list[float] = noise, played: list[int] = played) -> float:
            played.append(arm)
            return float(MEANS[arm]) + noise[len(played) - 1]

        start = time.perf_counter()
        run(seed, pull)
        times.append(time.perf_counter() - start)
        regrets.append(float((MEANS.max() - MEANS[played]).sum()))
    return HORIZON / statistics.median(times), statistics.mean(regrets)


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for package, policy, run in POLICIES:
        rate, regret = measure(run, int(sys.argv[1]))
        rows.append({"name": f"{package} {version(package)}", "policy": policy, "steps_per_s": rate, "regret": regret})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
