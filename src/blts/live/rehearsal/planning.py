"""What is rehearsed, checked: how many units come when, and what would happen to each."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import ConfigError, whole
from ..durations import in_words, seconds_of
from ..metrics.stopping import date_of, moment_of
from ..policy import Built
from ..spec import Spec
from .assumptions import AssumedArm, AssumedDelay, arms_of, delay_of, metrics_of

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
    """Seconds from the last unit to the last look: the longest window, or of rewards without one the longest of 10,000 delays."""
    metrics: dict[str, list[AssumedArm]]
    """By metric, what each arm has."""
    start: float
    """When the experiment begins, in seconds since 1970; 0 where nothing depends on it."""

    @property
    def bins(self) -> int:
        return min(BINS, self.units)

    def steps(self) -> list[tuple[float, int]]:
        """Each step's end, in seconds, and how many units had arrived by then. The last is when all rewards are in."""
        rate, count = self.per_day / DAY, max(1, math.ceil(self.units / self.per_day * DAY / self.step - 1e-9))
        ends = [self.step * (k + 1) for k in range(count)]
        arrivals = [(now, math.floor(now * rate + 1e-9)) for now in ends[:-1]] + [(ends[-1], self.units)]
        return [*arrivals, (ends[-1] + self.patience, self.units)]

    def in_words(self) -> list[str]:
        """What is assumed beside the arms, in sentences."""
        spec, often = self.spec, self.spec.refresh_seconds
        silent = "" if spec.default_reward is None else f", and units that earn {spec.default_reward:g} are silent"
        last = f", and {in_words(self.patience)} after the last unit" if self.patience else ""
        lasts, reads = self.units / self.per_day * DAY, f"a report is read every {in_words(self.report)}{last}"
        if lasts < self.report:
            reads = f"all units come within {in_words(lasts)}, before a report is read after {in_words(self.report)}: "
            reads += "only one is read, at the end"
        out = [
            f"{self.units} units, {self.per_day:g} a day; rewards come {self.delay.words}{silent}",
            f"in steps of {in_words(self.step)}; {reads}",
        ]
        if self.start:
            out.append(f"it begins at {date_of(self.start)}")
        if spec.exposure == "explicit":
            out.append(f"{self.exposed:.0%} of the decisions are carried out")
        if often is not None and often < self.step:
            out.append(f"refreshes are stated every {in_words(often)} and rehearsed every step; give a shorter step")
        if spec.objective is not None:
            out.append("rewards are assumed as stated, although the specification makes them from metrics")
        return out


class World(NamedTuple):
    """What would happen to each unit of a replication."""

    seed: int
    """Of the experiment."""
    rewards: np.ndarray
    """Of every unit under every arm."""
    delays: np.ndarray
    exposed: np.ndarray
    metrics: dict[str, np.ndarray]
    """By metric, the value of every unit under every arm."""


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
    metrics: Mapping[str, object] | None = None,
    start: str | float | None = None,
) -> Plan:
    """The checked assumptions of a rehearsal; the arguments are those of `rehearse`."""
    if spec.features:
        raise ConfigError("A rehearsal assumes arms without contexts; leave out features, or simulate contexts with blts.simulate.")
    whole("units", units, 1, MOST_UNITS)
    whole("seed", seed, 0, 2**32 - 1)
    if not (isinstance(per_day, int | float) and math.isfinite(per_day) and per_day > 0):
        raise ConfigError(f"per_day must be a number of units above 0; got {per_day!r}.")
    if not (isinstance(exposed, int | float) and 0 < exposed <= 1):
        raise ConfigError(f"exposed must be a share of decisions above 0 and up to 1; got {exposed!r}.")
    if exposed < 1 and spec.exposure != "explicit":
        raise ConfigError('This specification assumes that every decision is carried out; give it exposure="explicit" too.')
    built = spec.build(tuple(range(len(spec.arms))), spec.arms)
    labels = [arm.label for arm in spec.arms]
    arms, measured = arms_of(truth, labels, built.model), metrics_of(metrics or {}, spec.metrics, labels)
    lasts = units / per_day * DAY
    seconds = max(SHORTEST, lasts / STEPS) if step is None else seconds_of("step", step)
    if seconds < SHORTEST or lasts / seconds > 100_000:
        raise ConfigError(f"step must be at least {max(SHORTEST, lasts / 100_000):.0f} seconds here; got {step!r}.")
    often, delays = max(seconds, seconds_of("report_every", report)), delay_of(delay)
    longest = float(delays.draw(np.random.default_rng(seed), 10_000).max())
    windows = [longest if window is None else window for window in (spec.window, *(metric.window for metric in spec.metrics))]
    numbers = units, float(per_day), seed, float(exposed), seconds, often, max(windows)
    return Plan(spec, built, arms, delays, *numbers, measured, _start(spec, start))


def _start(spec: Spec, given: str | float | None) -> float:
    """When the experiment begins; 0 where no date says when it ends."""
    if spec.stop is None or spec.stop.until is None:
        if given is not None:
            raise ConfigError("This specification has no date to stop at (stop: until), so leave out when it starts.")
        return 0.0
    begins, ends = time.time() if given is None else moment_of("start", given), moment_of("until", spec.stop.until)
    if ends <= begins:
        raise ConfigError(f"The stopping rule's until, {date_of(ends)}, is not after the start, {date_of(begins)}; state a start.")
    return begins


def world(plan: Plan, replication: int) -> World:
    """What happens to the units of one replication, whichever others there are."""
    rng = np.random.default_rng([plan.seed, replication])
    seed = int(rng.integers(2**32))
    rewards = np.stack([arm.draw(rng, plan.units) for arm in plan.arms], axis=1)
    delays, exposed = plan.delay.draw(rng, plan.units), rng.random(plan.units) < plan.exposed
    metrics = {name: np.stack([arm.draw(rng, plan.units) for arm in arms], axis=1) for name, arms in plan.metrics.items()}
    return World(seed, rewards, delays, exposed, metrics)
