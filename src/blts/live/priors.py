"""Priors of live experiments: said in the units of rewards, or learned from the rewards of all arms.

A prior says what an arm may earn before it has rewards of its own. `of` reads what people write: "8% to 12%", "40 ± 15", or
"learned". It becomes numbers of the model: `of_interval` and `around` compute them from what was said, `fitted` from the rewards so
far. `with_numbers` puts them into a model, and `in_words` says what a model's prior means. Everything here is a pure function of
its arguments, in double precision; the numbers are rounded to single precision, so that JSON and every program hold the same.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..errors import ConfigError
from ..models import Model
from .prior_families import FAMILIES, Family, Numbers, Said

LEARNED = "learned"
M = TypeVar("M", bound=Model)
PriorGiven: TypeAlias = "str | Mapping[str, Any]"
FORMS = (
    'a prior is "learned", "40 ± 15", "8% to 12%", or a table such as {"mean": 40, "sd": 15} or {"rate": [0.08, 0.12]}, '
    'with "spread" (the sd of single rewards) for numbers, and with "rate" (the share that pays) for revenue'
)


class Prior(NamedTuple):
    """The prior of an experiment, as its specification holds it."""

    said: Any
    """What the user wrote."""
    numbers: Numbers
    """The model's numbers that it stands for; none where it is learned, at every refresh anew."""

    @property
    def learned(self) -> bool:
        return self.said == LEARNED


def of(model: Model, given: object) -> Prior:
    """Read a prior as people write it.

    Args:
        model: for one arm, or with numbers for each arm, of which none may be of the prior.
        given: "learned", a text such as "40 ± 15" or "8% to 12%", a table, or what this function returned.

    Returns:
        The prior, with its numbers for the model.

    Raises:
        ConfigError: it cannot be read, or the model has no such prior.
    """
    if isinstance(given, Prior):
        return given
    family = _family(model)
    for name in family.names:
        if np.ndim(getattr(model, name)):
            raise ConfigError(f"The model has a {name} for each arm, which is a prior already; leave out prior=….")
    if given == LEARNED:
        return Prior(LEARNED, {})
    said = _read_table(given) if isinstance(given, Mapping) else _read_text(given)
    return Prior(dict(given) if isinstance(given, Mapping) else given, _numbers(model, said))


def of_interval(model: Model, low: float, high: float) -> Numbers:
    """The prior under which an arm's mean reward is in an interval with probability 95 %, with 2.5 % on either side.

    Args:
        model: Bernoulli, Poisson, Gaussian (known variance or not), Laplace or Student-t.
        low: the lower end.
        high: the upper end.

    Returns:
        The model's numbers.

    >>> from blts.models import Bernoulli
    >>> of_interval(Bernoulli(), 0.025, 0.975)
    {'a': 1.0, 'b': 1.0}
    """
    return _numbers(model, Said(mean=(low, high)))


def around(model: Model, mean: float, sd: float, *, spread: float | None = None, rate: Any = None) -> Numbers:
    """The prior under which the arms' mean rewards have this mean and this sd.

    Args:
        model: any of those with a name.
        mean: of the arms' mean rewards.
        sd: between arms.
        spread: the sd of single rewards of an arm, for numbers; without it the prior is worth one reward.
        rate: the share of rewards above zero, for revenue: a number or an interval.

    Returns:
        The model's numbers.

    >>> from blts.models import Poisson
    >>> around(Poisson(), 4.0, 2.0)
    {'a': 4.0, 'b': 1.0}
    """
    return _numbers(model, Said(mean, sd, rate, spread))


def fitted(model: Model, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    """The prior that the rewards of all arms suggest for each of them, and for an arm that is new (empirical Bayes).

    Its mean is the mean of the arms, its variance that between the arms by moments, and never so small that it is worth more than a
    quarter of an arm's average number of rewards; see `population`.

    Args:
        model: for one arm.
        arms: of the rewards, as integers.
        rewards: that stand, of all arms there have been, in the order of their decisions.

    Returns:
        The model's numbers; none where there are no rewards: all arms are then equal under the model's own.
    """
    if not len(rewards):
        return {}
    return _rounded(_family(model).fitted(model, np.asarray(arms), np.asarray(rewards, float)))


def with_numbers(model: M, numbers: Mapping[str, float]) -> M:
    """A model with the numbers of another prior.

    Args:
        model: for one arm.
        numbers: as `fitted`, `around` or `of_interval` returned them.

    Returns:
        The model; the same object where there are none.
    """
    return dataclasses.replace(model, **numbers) if numbers else model


def in_words(model: Model) -> str:
    """What the prior of a model says of an arm without rewards, in a sentence.

    Args:
        model: for one arm.

    Returns:
        The sentence; empty for models that this module does not know, and for numbers that differ between arms.

    >>> from blts.models import Bernoulli
    >>> in_words(Bernoulli(a=10.0, b=90.0))
    "an arm's rate is 4.95% to 16.6% (95%), mean 10%, as after 100 rewards"
    """
    family = FAMILIES.get(type(model))
    if family is None or any(np.ndim(getattr(model, name)) for name in family.names):
        return ""
    return family.words(model)


def prior_names(model: Model) -> tuple[str, ...]:
    """The numbers of a model that are its prior's; none for models that this module does not know."""
    family = FAMILIES.get(type(model))
    return () if family is None else family.names


# What people write

_NUMBER = r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(%?)"
_INTERVAL = re.compile(rf"{_NUMBER}\s*(?:to|–)\s*{_NUMBER}(\s+pay)?", re.IGNORECASE)
_AROUND = re.compile(rf"{_NUMBER}\s*(?:±|\+/-|\+-)\s*{_NUMBER}", re.IGNORECASE)
_WORD = re.compile(rf"(spread|rate)\s+{_NUMBER}", re.IGNORECASE)


def _read_text(given: object) -> Said:
    """Clauses with commas between them: "8% to 12%", "40 ± 15", "40 ± 15, spread 20", "40 ± 15, 2% to 4% pay"."""
    if not isinstance(given, str):
        raise ConfigError(f"{given!r} is no prior: {FORMS}.")
    said: dict[str, Any] = {}
    for clause in given.split(","):
        if match := _AROUND.fullmatch(clause.strip()):
            said |= dict(zip(("mean", "sd"), _pair(*match.groups()), strict=True))
        elif match := _INTERVAL.fullmatch(clause.strip()):
            *numbers, pay = match.groups()
            said["rate" if pay else "mean"] = _pair(*numbers)
        elif match := _WORD.fullmatch(clause.strip()):
            word, *number = match.groups()
            said[word.lower()] = _pair(*number, *number)[0]
        else:
            raise ConfigError(f"The prior {given!r} cannot be read: {FORMS}.")
    return Said(**said)


def _pair(first: str, percent: str, second: str, percent_too: str) -> tuple[float, float]:
    """Two numbers; a percent sign behind the second is meant for both."""
    return float(first) / (100 if percent or percent_too else 1), float(second) / (100 if percent_too else 1)


def _read_table(given: Mapping[str, Any]) -> Said:
    said: dict[str, Any] = {}
    for name, value in given.items():
        several = isinstance(value, list | tuple) and name in ("mean", "rate") and len(value) == 2
        values = tuple(value) if several else (value,)
        if name not in Said._fields or not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
            raise ConfigError(f"The prior {dict(given)!r} cannot be read: {FORMS}.")
        said[name] = values if several else value
    return Said(**said)


def _numbers(model: Model, said: Said) -> Numbers:
    """What was said, as numbers of a model that can use all of it."""
    family = _family(model)
    unused = [name for name, value in said._asdict().items() if value is not None and name not in family.takes]
    if unused or (isinstance(said.mean, tuple) and said.sd is not None):
        raise ConfigError(f"The prior of {type(model).__name__} has no use for {unused[0] if unused else 'an sd'}: {FORMS}.")
    return _rounded(family.said(model, said))


def _rounded(numbers: Numbers) -> Numbers:
    """In single precision, and within what it can hold."""
    out = {name: float(np.float32(np.clip(value, -1e37, 1e37))) for name, value in numbers.items()}
    return {name: value if name == "prior_mean" else max(value, float(np.float32(1e-37))) for name, value in out.items()}


def _family(model: Model) -> Family:
    family = FAMILIES.get(type(model))
    if family is None:
        raise ConfigError(f"The prior of {type(model).__name__} is set by its own numbers; leave out prior=….")
    return family
