"""What a rehearsal assumes: the rewards of each arm and when they come, from what people write."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import ConfigError, UnknownName
from ...models import Model
from ..checks import outside
from ..durations import NUMBER, in_words, seconds_of
from ..metrics.definition import Metric

PLAIN = re.compile(rf"{NUMBER}(%?)\s*")
SPREAD = re.compile(rf"{NUMBER}(?:±|\+-|\+/-){NUMBER}")
BUYERS = re.compile(rf"{NUMBER}(%?)\s*[x×*](.+)", re.DOTALL)
LOG_NORMAL = re.compile(rf"\s*log-?normal\({NUMBER},{NUMBER}\)\s*", re.IGNORECASE)
HOW = {
    "binary": 'a rate from 0 to 1, such as "0.1" or "10 %"',
    "count": 'a mean above 0, such as "2.5"',
    "real": 'a mean and a spread, such as "50±20"',
    "positive": 'a mean and a spread above 0, such as "40±15", or "lognormal(3.2, 0.8)"',
    "nonnegative": 'the share of buyers and what they spend, such as "0.1x40±15" or "0.1*lognormal(3.2, 0.8)"',
}
"""How the rewards of a model are written, by its support."""
UNSTATED = {"binary": "0.1", "count": "1", "real": "0±1", "positive": "1±1", "nonnegative": "0.1x1±1"}
"""What all arms have of a metric of which nothing is assumed, by its model's support."""

Draw = Callable[[np.random.Generator, int], np.ndarray]


class AssumedArm(NamedTuple):
    """The rewards that an arm is assumed to give."""

    mean: float
    draw: Draw
    """So many independent rewards, from a generator."""
    words: str


class AssumedDelay(NamedTuple):
    """How long after its decision a reward comes."""

    draw: Draw
    words: str


def arms_of(truth: Mapping[str, object], labels: Sequence[str], model: Model) -> list[AssumedArm]:
    """What is assumed of each arm.

    Args:
        truth: for each label a text or a number, or an `AssumedArm` for any other distribution.
        labels: of the arms, in order.
        model: that the rewards must be possible under.

    Returns:
        The assumptions in the order of the labels.

    Raises:
        ConfigError: an arm is missing or unknown, or its rewards are impossible.
    """
    _check_labels(truth, labels)
    lacking = [label for label in labels if label not in truth]
    if lacking:
        raise ConfigError(f"Nothing is assumed of the arm {lacking[0]!r}; say what it earns, as {HOW[model.support]}.")
    return [_arm(f"The arm {label!r} cannot earn", truth[label], model) for label in labels]


def with_effect(given: str, effect: float, model: Model) -> str:
    """The rewards of an arm that earns more on average: of conversions and revenue a larger share of units does.

    Args:
        given: what the other arms earn, as in `arms_of`.
        effect: what it earns more a unit.
        model: of the rewards.

    Returns:
        Its rewards, written in the same way.

    Raises:
        ConfigError: no such arm can be.
    """
    base = _arm("An arm cannot earn", given, model)
    text, support = str(given), model.support
    if support == "nonnegative" and (found := BUYERS.fullmatch(text)):
        share = _share(found[1], found[2]) or 0.0
        if not 0 < share * (base.mean + effect) <= base.mean or not base.mean > 0:
            raise ConfigError(f"An effect of {effect:g} a unit needs a share of buyers above 1; take a smaller effect than that.")
        return f"{share * (base.mean + effect) / base.mean:.10g}x{found[3].strip()}"
    if found := LOG_NORMAL.fullmatch(text):
        return f"lognormal({float(found[1]) + math.log1p(effect / base.mean):.10g}, {found[2]})"
    spread = f"±{found[2]}" if (found := SPREAD.fullmatch(text)) else ""
    better = f"{base.mean + effect:.10g}{spread}"
    _arm(f"An arm that earns {effect:g} more cannot earn", better, model)
    return better


def metrics_of(given: Mapping[str, object], metrics: Sequence[Metric], labels: Sequence[str]) -> dict[str, list[AssumedArm]]:
    """What is assumed of each metric.

    Args:
        given: for some metrics what all arms have (a text, a number or an `AssumedArm`), or a mapping with what each arm has.
        metrics: of the specification.
        labels: of the arms, in order.

    Returns:
        By metric, the assumptions in the order of the labels. A metric that is not given is the same for all arms (`UNSTATED`).

    Raises:
        ConfigError: a metric or an arm is missing or unknown, or its values are impossible.
    """
    for name in given:
        if name not in [metric.name for metric in metrics]:
            raise UnknownName("metric", str(name), [metric.name for metric in metrics])
    out = {}
    for metric in metrics:
        model = metric.built
        said = given.get(metric.name, UNSTATED[model.support])
        of_arms = said if isinstance(said, Mapping) else dict.fromkeys(labels, said)
        _check_labels(of_arms, labels)
        lacking = [label for label in labels if label not in of_arms]
        if lacking:
            raise ConfigError(f"Nothing is assumed of {metric.name!r} of the arm {lacking[0]!r}; give {HOW[model.support]}.")
        out[metric.name] = [_arm(f"{metric.name!r} of the arm {label!r} cannot be", of_arms[label], model) for label in labels]
    return out


def _check_labels(given: Mapping[str, object], labels: Sequence[str]) -> None:
    for label in given:
        if label not in labels:
            raise UnknownName("arm", str(label), labels)


def _arm(what: str, given: object, model: Model) -> AssumedArm:
    if isinstance(given, AssumedArm):
        arm = given
    else:
        found = _rewards(str(given), model.support) if isinstance(given, str | int | float) else None
        if found is None or not math.isfinite(found.mean):
            raise ConfigError(f"{what} {given!r} under its model; give {HOW[model.support]}.")
        arm = found
    rewards = np.asarray(arm.draw(np.random.default_rng(0), 200), float)
    why = next((why for why in (outside(model, float(r)) for r in np.unique(rewards)) if why), None)
    if rewards.shape != (200,) or why:
        raise ConfigError(f"{what} what is assumed, as it cannot occur: {why or 'draw(rng, n) must give n numbers'}.")
    return arm


def _rewards(text: str, support: str) -> AssumedArm | None:
    """The rewards that a text stands for; None where it is none of the support's."""
    if support == "nonnegative":
        found = BUYERS.fullmatch(text)
        share = _share(found[1], found[2]) if found else None
        spent = _amounts(found[3]) if found else None
        if share is None or spent is None:
            return None
        mine, amount = share, spent
        bought = lambda rng, n: (rng.random(n) < mine) * amount.draw(rng, n)  # noqa: E731
        return AssumedArm(mine * amount.mean, bought, text.strip())
    if support == "positive":
        return _amounts(text)
    if support == "real":
        found = SPREAD.fullmatch(text)
        if found is None or float(found[2]) < 0:
            return None
        mean, sd = float(found[1]), float(found[2])
        return AssumedArm(mean, lambda rng, n: rng.normal(mean, sd, n), f"{mean:g}±{sd:g}")
    found = PLAIN.fullmatch(text)
    if found is None:
        return None
    if support == "binary":
        rate = _share(found[1], found[2])
        return None if rate is None else AssumedArm(rate, lambda rng, n: (rng.random(n) < rate).astype(float), f"{rate:g}")
    mean = float(found[1])
    if found[2] or not 0 < mean < 1e9:
        return None
    return AssumedArm(mean, lambda rng, n: rng.poisson(mean, n).astype(float), f"{mean:g}")


def _share(number: str, percent: str) -> float | None:
    share = float(number) / (100.0 if percent else 1.0)
    return share if 0 <= share <= 1 else None


def _amounts(text: str) -> AssumedArm | None:
    """Amounts above zero: log-normal ones, by mean and sd or by those of the logarithm."""
    if found := LOG_NORMAL.fullmatch(text):
        mu, sigma = float(found[1]), float(found[2])
    elif found := SPREAD.fullmatch(text):
        mean, sd = float(found[1]), float(found[2])
        if mean <= 0:
            return None
        sigma = math.sqrt(math.log1p((sd / mean) ** 2))
        mu = math.log(mean) - sigma**2 / 2
        sigma = math.copysign(sigma, sd)
    else:
        return None
    if not 0 <= sigma < 10 or abs(mu) > 50:
        return None
    return AssumedArm(math.exp(mu + sigma**2 / 2), lambda rng, n: rng.lognormal(mu, sigma, n), text.strip())


def delay_of(given: str | float | Sequence[float] | None) -> AssumedDelay:
    """When rewards come.

    Args:
        given: "exponential 6h" (with that mean), "fixed 1d", "empirical FILE" (a duration a line), a number of seconds, a list of
            seconds to draw from, or None for at once.

    Returns:
        The delays' distribution.

    Raises:
        ConfigError: it is none of these, or the file cannot be read.
    """
    if given is None or isinstance(given, int | float):
        seconds = seconds_of("delay", given or 0.0)
        return AssumedDelay(lambda rng, n: np.full(n, seconds), f"after {in_words(seconds)}" if seconds else "at once")
    if not isinstance(given, str):
        return _empirical([seconds_of("delay", x) for x in given], "as in the list given")
    kind, _, rest = given.strip().partition(" ")
    if kind == "exponential":
        mean = seconds_of("The mean delay", rest)
        return AssumedDelay(lambda rng, n: rng.exponential(mean, n), f"after an exponential time of mean {in_words(mean)}")
    if kind == "fixed":
        return delay_of(seconds_of("The delay", rest))
    if kind == "empirical" and rest.strip():
        try:
            lines = pathlib.Path(rest.strip()).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The delays in {rest.strip()} cannot be read ({error}).") from None
        return _empirical([seconds_of("A line of delays", x.strip()) for x in lines if x.strip()], f"as in {rest.strip()}")
    raise ConfigError(f'A delay is "exponential 6h", "fixed 1d" or "empirical FILE"; got {given!r}.')


def _empirical(seconds: list[float], words: str) -> AssumedDelay:
    if not seconds:
        raise ConfigError("There are no delays to draw from; give a duration a line.")
    sample = np.array(seconds)
    return AssumedDelay(lambda rng, n: rng.choice(sample, n), f"after delays {words}")
