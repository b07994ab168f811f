"""What is rehearsed, checked: how many units come when, and what would happen to each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import ConfigError, whole
from ..durations import seconds_of
from ..spec import Built, Spec
from .assumptions import AssumedArm, AssumedDelay, arms_of, delay_of

DAY = 86400.0
STEPS = 480  # of a rehearsal, unless stated
SHORTEST = 60.0  # seconds of a step; what a worker waits between refreshes of external batches
MOST_UNITS = 1_000_000
BINS = 50  # of units, for curves


class Plan(NamedTuple):
    """What is rehearsed."""

    spec: Spec
    built: Built
    arms: list[AssumedArm]
    delay: AssumedDelay
    units: int
    per_day: float
    seed: int
    exposed: float
    step: float
    report: float
    patience: float
    """Seconds from the last unit to the last look: the window, or the longest of 10,000 delays."""

    @property
    def bins(self) -> int:
        return min(BINS, self.units)

    def steps(self) -> list[tuple[float, int]]:
        """Each step's end, in seconds, and how many units had arrived by then. The last is when all rewards are in."""
        rate, count = self.per_day / DAY, math.ceil(self.units / self.per_day * DAY / self.step - 1e-9)
        ends = [self.step * (k + 1) for k in range(count)]
        arrivals = [(now, math.floor(now * rate + 1e-9)) for now in ends[:-1]] + [(ends[-1], self.units)]
        return [*arrivals, (ends[-1] + self.patience, self.units)]


class World(NamedTuple):
    """What would happen to each unit of a replication."""

    seed: int
    """Of the experiment."""
    rewards: np.ndarray
    """Of every unit under every arm."""
    delays: np.ndarray
    exposed: np.ndarray


def plan_of(
    spec: Spec,
    truth: Mapping[str, object],
    units: int,
    *,
    per_day: float,
    delay: str | float | Sequence[float] | None,
    seed: int,
    exposed: float,
    step: str | float | None,
    report: str | float,
) -> Plan:
    """The checked assumptions of a rehearsal; the arguments are those of `rehearse`."""
    whole("units", units, 1, MOST_UNITS)
    whole("seed", seed, 0, 2**32 - 1)
    if not (isinstance(per_day, int | float) and math.isfinite(per_day) and per_day > 0):
        raise ConfigError(f"per_day must be a number of units above 0; got {per_day!r}.")
    if not (isinstance(exposed, int | float) and 0 < exposed <= 1):
        raise ConfigError(f"exposed must be a share of decisions above 0 and up to 1; got {exposed!r}.")
    if exposed < 1 and spec.exposure != "explicit":
        raise ConfigError('This specification assumes that every decision is carried out; give it exposure="explicit" too.')
    built = spec.build(tuple(range(len(spec.arms))), spec.arms)
    arms = arms_of(truth, [arm.label for arm in spec.arms], built.model)
    lasts = units / per_day * DAY
    seconds = max(SHORTEST, lasts / STEPS) if step is None else seconds_of("step", step)
    if seconds < SHORTEST or lasts / seconds > 100_000:
        raise ConfigError(f"step must be at least {max(SHORTEST, lasts / 100_000):.0f} seconds here; got {step!r}.")
    often, delays = max(seconds, seconds_of("report_every", report)), delay_of(delay)
    patience = spec.window if spec.window is not None else float(delays.draw(np.random.default_rng(seed), 10_000).max())
    return Plan(spec, built, arms, delays, units, float(per_day), seed, float(exposed), seconds, often, patience)


def world(plan: Plan, replication: int) -> World:
    """What happens to the units of one replication, whichever others there are."""
    rng = np.random.default_rng([plan.seed, replication])
    seed = int(rng.integers(2**32))
    rewards = np.stack([arm.draw(rng, plan.units) for arm in plan.arms], axis=1)
    return World(seed, rewards, plan.delay.draw(rng, plan.units), rng.random(plan.units) < plan.exposed)
