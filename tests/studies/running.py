"""Running one condition of a task."""

from __future__ import annotations

from blts import registry

CHAINS = 60 * 512


def run(task: str, condition: dict, replications: int, *, first: int = 0, seed: int = 0):
    made = registry.build("task", task)
    return made.run(made.normal(condition), seed=seed, first=first, replications=replications)
