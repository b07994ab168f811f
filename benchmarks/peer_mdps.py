"""Run by `psrl.py` in the peers' own environment: prints what StatisticalRL's agents take and earn on RiverSwim, as JSON."""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

PACKAGE = "statisticalrl-learners"


def riverswim(states: int) -> tuple[np.ndarray, np.ndarray]:
    P, s = np.zeros((states, 2, states)), np.arange(states)
    P[s, 0, np.maximum(s - 1, 0)] = 1.0
    P[0, 1, :2], P[-1, 1, -2:] = (0.4, 0.6), (0.4, 0.6)
    for i in range(1, states - 1):
        P[i, 1, i - 1 : i + 2] = (0.05, 0.6, 0.35)
    r = np.zeros((states, 2))
    r[0, 0], r[-1, 1] = 0.005, 1.0
    return P, r


def run(name: str, states: int, horizon: int, seed: int) -> tuple[float, float]:
    """Seconds, and the mean reward."""
    learner = getattr(importlib.import_module(f"statisticalrl_learners.MDPs_discrete.{name}"), name)(states, 2, 0.05)
    P, r = riverswim(states)
    below = np.cumsum(P, -1)
    np.random.seed(seed)
    uniforms = np.random.default_rng(seed).random(horizon)
    state, total = 0, 0.0
    start = time.perf_counter()
    learner.reset(state)
    for u in uniforms:
        action = learner.play(state)
        following = int((u >= below[state, action]).sum())
        learner.update(state, action, r[state, action], following)
        total += r[state, action]
        state = following
    return time.perf_counter() - start, total / horizon


def main() -> None:
    warnings.simplefilter("ignore")
    rounds, states, horizon = map(int, sys.argv[1:])
    rows = []
    for name in ("PSRL", "UCRL2"):
        runs = [run(name, states, horizon, seed) for seed in range(rounds)]
        rows.append(
            {
                "name": f"StatisticalRL {version(PACKAGE)} {name}",
                "ms_a_replication": 1000 * statistics.median(seconds for seconds, _ in runs),
                "reward": statistics.mean(reward for _, reward in runs),
            }
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
