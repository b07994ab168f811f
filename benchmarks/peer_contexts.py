"""Run by `contextual.py` in the peers' own environment: prints the decisions per second of each policy on Linear-20d as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

HORIZON, ARMS, DIM, SD = 1000, 5, 4, 0.5
Play = Callable[[int, int], float]
"""From round and arm to the reward."""


def mabwiser_lin_ts(seed: int, contexts: np.ndarray, play: Play) -> None:
    from mabwiser.mab import MAB, LearningPolicy

    # Its prior precision is l2_lambda and its draws have the covariance alpha² V⁻¹: the posterior of noise sd and prior sd 1.
    mab = MAB(list(range(ARMS)), LearningPolicy.LinTS(alpha=SD, l2_lambda=SD**2), seed=seed)
    mab.fit(list(range(ARMS)), [play(t, t) for t in range(ARMS)], contexts[:ARMS])  # it must be fitted before it plays
    for t in range(ARMS, HORIZON):
        arm = mab.predict(contexts[t : t + 1])
        mab.partial_fit([arm], [play(t, arm)], contexts[t : t + 1])


def river_lin_ucb(seed: int, contexts: np.ndarray, play: Play) -> None:
    from river import bandit

    # alpha is the precision of the prior and beta that of the noise.
    policy = bandit.LinUCBDisjoint(alpha=1.0, beta=SD**-2, seed=seed)
    arms = list(range(ARMS))
    for t in range(HORIZON):
        x = dict(enumerate(contexts[t].tolist()))
        arm = policy.pull(arms, context=x)
        policy.update(arm, x, play(t, arm))


POLICIES = (("mabwiser", "LinTS", mabwiser_lin_ts), ("river", "LinUCB, disjoint", river_lin_ucb))


def measure(run: Callable[[int, np.ndarray, Play], None], rounds: int) -> tuple[float, float]:
    times, regrets = [], []
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        means = (contexts := rng.normal(size=(HORIZON, DIM))) @ rng.normal(size=(DIM, ARMS))
        noise, played = rng.normal(0, SD, HORIZON), np.zeros(HORIZON, int)

        def play(t: int, arm: int, means=means, noise=noise, played=played) -> float:
            played[t] = arm
            return float(means[t, arm] + noise[t])

        start = time.perf_counter()
        run(seed, contexts, play)
        times.append(time.perf_counter() - start)
        regrets.append(float((means.max(1) - means[np.arange(HORIZON), played]).sum()))
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
