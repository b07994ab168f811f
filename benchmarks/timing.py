"""Fair timings on a busy machine: contestants take turns in one process, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Outcome(NamedTuple):
    """What a run must agree on, whoever runs it: otherwise the times compare different work."""

    regret: np.ndarray
    """At the horizon, one number a replication."""
    batches: np.ndarray


class Contestant(NamedTuple):
    name: str
    run: Callable[[int], Outcome]
    """A whole simulation from a seed."""
    steps: int
    """Decisions it takes: replications × horizon."""
    compiles: bool = False
    """Whether the first call is slower than the others; it is then timed apart."""


class Timing(NamedTuple):
    name: str
    steps: int
    wall: float
    """Median seconds of a run."""
    cpu: float
    """Median CPU seconds of a run, all threads together: what other users of the machine disturb least."""
    compilation: float | None
    outcome: Outcome

    @property
    def rate(self) -> float:
        """Decision steps per second."""
        return self.steps / self.wall

    def report(self) -> dict[str, float | str | None]:
        regret = self.outcome.regret
        return {
            "name": self.name,
            "steps": self.steps,
            "wall_s": self.wall,
            "cpu_s": self.cpu,
            "compile_s": self.compilation,
            "steps_per_s": self.rate,
            "regret_mean": float(regret.mean()),
            "regret_sd": float(regret.std(ddof=1)),
            "regret_se": float(regret.std(ddof=1) / regret.size**0.5),
            "batches_mean": float(self.outcome.batches.mean()),
        }


class Clock(NamedTuple):
    wall: float
    cpu: float

    @staticmethod
    def now() -> Clock:
        return Clock(time.perf_counter(), time.process_time())

    def passed(self) -> Clock:
        now = Clock.now()
        return Clock(now.wall - self.wall, now.cpu - self.cpu)


def alternate(contestants: Sequence[Contestant], rounds: int) -> list[Timing]:
    """Every contestant once a round, `rounds` times; each round has its own seed, and regrets are pooled over rounds."""
    first = {}
    for who in contestants:
        if who.compiles:
            clock = Clock.now()
            who.run(0)
            first[who.name] = clock.passed().wall
    passed: dict[str, list[Clock]] = {who.name: [] for who in contestants}
    outcomes: dict[str, list[Outcome]] = {who.name: [] for who in contestants}
    for seed in range(1, rounds + 1):
        for who in contestants:
            clock = Clock.now()
            outcome = who.run(seed)
            passed[who.name].append(clock.passed())
            outcomes[who.name].append(outcome)
    timings = []
    for who in contestants:
        wall = statistics.median(clock.wall for clock in passed[who.name])
        cpu = statistics.median(clock.cpu for clock in passed[who.name])
        compilation = first[who.name] - wall if who.compiles else None
        pooled = Outcome(*(np.concatenate(parts) for parts in zip(*outcomes[who.name], strict=True)))
        timings.append(Timing(who.name, who.steps, wall, cpu, compilation, pooled))
    return timings
