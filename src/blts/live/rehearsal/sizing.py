"""How many units an experiment needs, how many batches that makes, and what it costs: found by rehearsals of growing size."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ...errors import ConfigError, whole
from ..learning import MOST_DIGITS
from ..parts import part_of
from ..spec import Spec
from .assumptions import AssumedArm, arms_of, with_effect
from .measured import Measured, Share
from .planning import MOST_UNITS
from .results import Rehearsal
from .rules import quantile
from .simulating import rehearse

INSIDE = 0.9
"""The share of experiments whose loss lies in the stated interval."""
SEQUENTIAL = 2.5
"""Units that evidence needs, as a multiple of those of a test that may be looked at once (see `blts.evidence.EFFECTS`)."""
HOPELESS = 20.0
"""How many times the largest experiment the first guess may be: beyond, no rehearsal is begun."""
FAR = 10**12
"""Units beyond which their number is not told."""
GROWTH = 1.25
"""By how much an experiment that turns out too small is enlarged."""


@dataclass(frozen=True)
class Sizing:
    """What an experiment of the size found would give. `print` shows it, `figure` draws, `to_dict` is for JSON.

    >>> from dataclasses import fields
    >>> from blts.live import Sizing
    >>> [field.name for field in fields(Sizing)][:4]
    ['spec', 'base', 'effect', 'power']
    """

    spec: str
    base: str
    effect: float
    power: float
    """The wanted probability that the right winner is named."""
    per_day: float
    reached: bool
    """Whether so many units are enough for it."""
    found: Rehearsal
    """Of the size found, with a seed of its own."""
    equal: Rehearsal
    """Of an equal split of as many units."""

    @property
    def units(self) -> int:
        """How many units it takes; where no number was enough, the largest that was tried."""
        return self.found.units

    @property
    def right(self) -> Share:
        """How often the right winner is named."""
        return right_of(self.found)

    @property
    def loss(self) -> Measured:
        """What the units earn less than the best arm would, on average over experiments."""
        return Measured.of(self.found.loss)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the loss of a single experiment lies in 9 of 10 cases."""
        return interval_of(self.found.loss)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with the two rehearsals in full."""
        low, high = self.interval
        named = self.found.named_at[self.found.winner == self.found.best]
        return {
            "specification": self.spec,
            "base": self.base,
            "effect": self.effect,
            "power": self.power,
            "reached": self.reached,
            "units": self.units,
            "days": self.units / self.per_day,
            "right_winner": self.right.to_dict(),
            "wrong_winner": Share.of_those(self.found.wrong).to_dict(),
            "units_until_named": quantile(named, 0.5).to_dict() if len(named) else None,
            "batches": Measured.of(self.found.refreshes).to_dict(),
            "loss": self.loss.to_dict() | {"low": low, "high": high, "inside": INSIDE},
            "equal_split": {"loss": float(self.equal.loss.mean()), "right_winner": right_of(self.equal).to_dict()},
            "rehearsal": self.found.to_dict(),
        }

    def __str__(self) -> str:
        low, high = self.interval
        count = len(self.found.labels)
        named = self.found.named_at[self.found.winner == self.found.best]
        when = f", half of them by {quantile(named, 0.5)} units" if len(named) else ""
        rows = [
            ("units", f"{self.units:,}, {_days(self.units / self.per_day)} at {self.per_day:g} a day"),
            ("the right winner", f"{self.right} of the time{when}"),
            ("a wrong one", f"{Share.of_those(self.found.wrong)} of the time"),
            ("batches", str(Measured.of(self.found.refreshes))),
            ("loss", f"{self.loss}; of one experiment {_plain(low)} to {_plain(high)} in 9 of 10 cases"),
            ("an equal split", f"loses {_plain(self.equal.loss.mean())}; the right winner {right_of(self.equal)} of the time"),
        ]
        width = max(len(name) for name, _ in rows)
        title = f"{count} arms that earn {self.base}, one of them {self.effect:g} more: {self.spec}"
        short = [] if self.reached else ["", _not_enough(self)]
        if self.reached and self.right.value < self.power:
            short = [
                "",
                f"{self.power:.0%} were wanted: this is below it by less than its standard error. More replications say more.",
            ]
        return "\n".join([title, "", *(f"{name.ljust(width)}  {text}" for name, text in rows), *short])

    def figure(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Write a figure as SVG: winners and losses over units, and the losses of single experiments.

        Args:
            path: of the file.

        Returns:
            The path.

        Raises:
            ConfigError: matplotlib is not installed, or the file cannot be written.
        """
        from .sizing_figure import draw

        return draw(self, path)


def plan(
    spec: Spec,
    base: str | float,
    effect: float,
    *,
    power: float = 0.8,
    per_day: float = 500.0,
    delay: str | None = None,
    most: int = 200_000,
    replications: int = 200,
    seed: int = 0,
) -> Sizing:
    """Find how many units an experiment needs, before it is created.

    All arms but the last earn the base, and the last earns the effect more: the hardest case in which a winner is wanted.
    Rehearsals of growing size say after how many units the right winner is named with the wanted probability; one of that size,
    with other random numbers, says what to expect.

    Args:
        spec: of the experiment, with its arms.
        base: what an arm earns, as in `rehearse`: "0.1", "50±20", "0.1x40±15".
        effect: the smallest difference of means that matters, in units of the reward.
        power: the wanted probability that the right winner is named.
        per_day: how many units arrive a day.
        delay: after which rewards come, as in `rehearse`.
        most: the largest experiment that is tried.
        replications: how many experiments of the size found are simulated; half as many of each size on the way.
        seed: the same gives the same numbers.

    Returns:
        The size and what it gives.

    Raises:
        ConfigError: a number is out of range, or so small an effect cannot be found with `most` units.

    >>> from blts.live import Spec, plan
    >>> try:
    ...     plan(Spec.of(["A", "B"], "bernoulli"), "0.1", effect=0.02, power=1.5)
    ... except ValueError as error:
    ...     print(error)
    power must be a probability from 0.5 to 0.99; got 1.5.
    """
    _check(effect, power, most, replications)
    labels, model = [arm.label for arm in spec.arms], spec.build(tuple(range(len(spec.arms))), spec.arms).model
    truth = dict.fromkeys(labels, str(base)) | {labels[-1]: with_effect(str(base), effect, model)}
    settings: dict[str, Any] = {"per_day": per_day, "delay": delay}
    units, enough = _guess(spec, truth, model, power, effect, most), None
    while True:
        tried = rehearse(spec, truth, units=units, replications=max(2, replications // 2), seed=seed, **settings)
        enough = units_for(tried, power)
        if enough is not None or units == most:
            break
        units = min(most, 2 * units)
    units = most if enough is None else min(most, _rounded(enough))
    attempt = 0
    while True:
        attempt += 1
        found = rehearse(spec, truth, units=units, replications=replications, seed=seed + attempt, **settings)
        short = right_of(found).value < power - right_of(found).se
        if not short or units == most:
            break
        units = min(most, _rounded(GROWTH * units))
    equally = dataclasses.replace(spec, sampler=part_of("agent", "uniform"))
    equal = rehearse(equally, truth, units=units, replications=max(2, replications // 2), seed=seed, **settings)
    words = f"{spec.model.words}, {spec.sampler.words}, {spec.batching.words} batching"
    return Sizing(words, str(base), float(effect), float(power), float(per_day), not short, found, equal)


def _check(effect: float, power: float, most: int, replications: int) -> None:
    if not isinstance(effect, int | float) or isinstance(effect, bool) or not (0 < effect < math.inf):
        raise ConfigError(f"effect must be a number above 0, in units of the reward; got {effect!r}.")
    if not isinstance(power, int | float) or isinstance(power, bool) or not 0.5 <= power <= 0.99:
        raise ConfigError(f"power must be a probability from 0.5 to 0.99; got {power!r}.")
    whole("most", most, 100, MOST_UNITS)
    whole("replications", replications, 20, 100_000)


def _guess(spec: Spec, truth: dict[str, str], model: Any, power: float, effect: float, most: int) -> int:
    """A first number of units: that of a test of two arms that is looked at once, for as many arms, at every day."""
    labels = [arm.label for arm in spec.arms]
    z = float(special.ndtri(0.975) + special.ndtri(power))
    units = SEQUENTIAL * len(labels) * 2 * z**2 * _variance(arms_of(truth, labels, model)[-1]) / effect / effect
    if units > HOPELESS * most:
        many = f"about {_rounded(units):,}" if units < FAR else f"more than {FAR:,}"
        raise ConfigError(
            f"A difference of {effect:g} takes {many} units, and {most:,} is the most that is tried; "
            "take a larger effect, or a larger most."
        )
    units = int(min(most, max(200, _rounded(max(1.0, units)))))
    _check_digits(arms_of(truth, labels, model), units)
    return units


def _check_digits(arms: list[AssumedArm], units: int) -> None:
    """Refuse rewards from which refreshes cannot learn: they are too far from zero."""
    for arm in arms:
        error = math.sqrt(_variance(arm) * len(arms) / units)
        if abs(arm.mean) > MOST_DIGITS * error > 0:
            raise ConfigError(
                f"Rewards around {arm.mean:g} (standard error {error:.2g} after {units} units) are too far from zero for single "
                "precision, and refreshes would be refused; subtract a constant from the rewards and from the base."
            )


def _variance(arm: AssumedArm) -> float:
    """Of the rewards of an arm, from draws. Where none of n differ, the reward may be one that fewer than 1 in n units have: the
    variance is then at least n times the square of how far the mean is from theirs, and 0 for an arm that always earns the same."""
    rewards = arm.draw(np.random.default_rng(0), 10_000)
    if not np.ptp(rewards):
        rewards = arm.draw(np.random.default_rng(0), 1_000_000)
    return float(np.var(rewards)) or len(rewards) * (arm.mean - float(rewards[0])) ** 2


def units_for(found: Rehearsal, power: float) -> int | None:
    """After how many units the right winner is named with probability `power`; None where all of them are too few."""
    at = np.sort(found.named_at[found.winner == found.best])
    place = math.ceil(power * found.replications)
    return int(at[place - 1]) if place <= len(at) else None


def right_of(found: Rehearsal) -> Share:
    """How often the right winner is named."""
    return Share.of_those(found.winner == found.best)


def interval_of(losses: np.ndarray) -> tuple[float, float]:
    """An interval in which the next loss lies with probability `INSIDE`, from the order of those before."""
    ordered, place = np.sort(losses), max(1, math.floor((len(losses) + 1) * (1 - INSIDE) / 2))
    return float(ordered[place - 1]), float(ordered[-place])


def _rounded(units: float) -> int:
    """Two digits, upwards."""
    unit = 10 ** max(0, math.floor(math.log10(units)) - 1)
    return math.ceil(units / unit) * unit


def _days(days: float) -> str:
    """So many days, in words."""
    return "1 day" if f"{days:.3g}" == "1" else f"{days:.3g} days"


def _plain(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{round(value, 2 - math.floor(math.log10(abs(value)))):,.0f}"


def _not_enough(sizing: Sizing) -> str:
    name = sizing.spec.split(", ")[1]
    other = "" if name.startswith("top-two") else "; --sampler top-two finds winners sooner"
    return f"{sizing.units:,} units are not enough for {sizing.power:.0%}: take a larger effect, or a larger --most{other}."
