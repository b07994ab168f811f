"""Metrics besides the objective: guardrails, which must not get worse, and secondary metrics, which are only shown.

An experiment learns from its rewards alone. Values of its metrics are entries of the ledger as rewards are: told, corrected, and of
each decision the last one counts (`measuring`). A report has each metric's means, differences and alarms (`summary`). A worker
retires an arm that has an alarm on a guardrail with `pause` (`stopping`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ... import registry
from ...errors import ConfigError, UnknownName, did_you_mean
from ...models import Model, arm_count
from ..checks import check_support, check_text, outside
from ..durations import seconds_of
from ..parts import MODELS
from . import guardrails

if TYPE_CHECKING:
    from ..spec import Spec

OBJECTIVE = "reward"


class Metric(NamedTuple):
    """Something measured for each decision besides its reward."""

    name: str
    model: str
    """What its values are: one of `MODELS`, or a registered model."""
    role: str = "guardrail"
    """"guardrail": there is an alarm when an arm is worse than the control. "secondary": only shown."""
    better: str = "higher"
    margin: float | str = 0.0
    """How much worse than the control is tolerated: in the metric's unit, or a share of the control's mean, such as "5%"."""
    window: float | None = None
    """Seconds after which a value is no longer awaited; a value counts only when they are over. Without it every value counts."""
    default: float | None = None
    """What silence was worth when the window is over; without it silent decisions are left out."""
    pause: bool = False
    """Play an arm no more when there is an alarm for it; a worker does it."""

    @property
    def built(self) -> Model:
        """The model, for its support and its prior."""
        return registry.build("model", MODELS.get(self.model, self.model))

    @property
    def question(self) -> guardrails.Question:
        """What worse means."""
        sign, share = 1.0 if self.better == "higher" else -1.0, share_of(self.margin)
        if share is not None:
            return guardrails.Question(sign, 1.0 - sign * share)
        return guardrails.Question(sign, 1.0, float(self.margin))

    def check(self) -> None:
        """Refuse what cannot be measured (`ConfigError`)."""
        check_text("A metric's name", self.name, 100)
        what = f"The metric {self.name!r}"
        if self.name == OBJECTIVE:
            raise ConfigError(f"{OBJECTIVE!r} is what the experiment learns from; give the metric another name.")
        for name, known in (("role", ("guardrail", "secondary")), ("better", ("higher", "lower"))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{what} has the {name} {getattr(self, name)!r}; take {known[0]!r} or {known[1]!r}.")
        if not isinstance(self.model, str):
            raise ConfigError(f"{what} needs the name of a model, such as {', '.join(MODELS)}; got {self.model!r}.")
        try:
            registry.find("model", MODELS.get(self.model, self.model))
        except UnknownName:
            raise UnknownName("model", self.model, {*MODELS, *registry.entries("model")}) from None
        model = self.built
        if arm_count(model) is not None:
            raise ConfigError(f"{what} has a model with numbers for each arm; take one that is the same for all.")
        check_support(model)
        self._check_margin(what, model)
        if self.window is not None and not (_is_number(self.window) and self.window >= 0):
            raise ConfigError(f"{what} has the window {self.window!r}; give a number of seconds ≥ 0.")
        if self.default is not None:
            sentence = outside(model, self.default) if _is_number(self.default) else "it is not a number"
            if sentence:
                raise ConfigError(f"{what} cannot have the default {self.default!r}: {sentence}.")
            if self.window is None:
                raise ConfigError(
                    f'{what} has a default and no window after which silence counts as it; give a window too, such as "1d".'
                )
        if not isinstance(self.pause, bool) or (self.pause and self.role != "guardrail"):
            raise ConfigError(f"{what}: pause is true or false, and only a guardrail can pause an arm.")

    def _check_margin(self, what: str, model: Model) -> None:
        share = share_of(self.margin)
        if share is None and not (_is_number(self.margin) and float(self.margin) >= 0):
            raise ConfigError(f'{what} has the margin {self.margin!r}; give a number ≥ 0, or a share such as "5%".')
        if share is not None and not 0 <= share < 1:
            raise ConfigError(f"{what} has the margin {self.margin!r}; give a share from 0% to below 100%.")
        if share and model.support == "real":
            raise ConfigError(
                f"{what} may be negative, where a share of the control's mean says nothing; give a margin in its unit."
            )


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def share_of(margin: float | str) -> float | None:
    """The share that a margin such as "5%" says; None where it says something else."""
    if not isinstance(margin, str) or not margin.strip().endswith("%"):
        return None
    try:
        return float(margin.strip()[:-1]) / 100
    except ValueError:
        return None


def metrics_of(given: object) -> tuple[Metric, ...]:
    """Metrics as people write them.

    Args:
        given: a list of `Metric`s, or of mappings with their fields.

    Returns:
        The metrics, checked.

    Raises:
        ConfigError: one of them cannot be measured.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ConfigError(f'metrics must be a list of tables with at least "name" and "model"; got {given!r}.')
    metrics = tuple(one if isinstance(one, Metric) else _metric(one) for one in given)
    for metric in metrics:
        metric.check()
    names = [metric.name for metric in metrics]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"Metrics need names of their own; {twice[0]!r} is given twice.")
    return metrics


def _metric(given: object) -> Metric:
    if not isinstance(given, Mapping) or not {"name", "model"} <= set(given):
        raise ConfigError(f'A metric is a table with at least "name" and "model"; got {given!r}.')
    unknown = sorted(set(given) - set(Metric._fields))
    if unknown:
        hint = did_you_mean(unknown[0], Metric._fields)
        raise ConfigError(f"A metric has no setting {unknown[0]!r}.{hint} Its settings: {', '.join(Metric._fields)}.")
    metric = Metric(**given)
    window = metric.window
    return (
        metric._replace(window=seconds_of(f"The window of {metric.name!r}", window))
        if isinstance(window, str | timedelta)
        else metric
    )


def metric_named(spec: Spec, name: str) -> Metric:
    """A metric of an experiment.

    Args:
        spec: the experiment's specification.
        name: of the metric.

    Returns:
        The metric.

    Raises:
        UnknownName: it has none of this name.
        ConfigError: it has none at all.
    """
    for metric in spec.metrics:
        if metric.name == name:
            return metric
    if not spec.metrics:
        raise ConfigError("This experiment has no metrics; they are part of its specification when it is created.")
    raise UnknownName("metric", name, [metric.name for metric in spec.metrics])


def control_of(spec: Spec) -> str:
    """The arm that others are compared with."""
    return spec.control or spec.arms[0].label
