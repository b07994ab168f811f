"""From a study as written to its conditions: names resolved, defaults filled in, repetitions dropped. This needs JAX."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .. import registry
from ..errors import BltsError, ConfigError, UnknownName
from .spec import Condition, Study, canonical

if TYPE_CHECKING:
    from .tasks.base import Task


class BadCondition(ConfigError):
    """A condition that cannot be run, and which one it is."""

    def __init__(self, number: int, error: BltsError):
        self.number = number
        super().__init__(str(error))


def plan(study: Study) -> Study:
    """The same study with its conditions in their normal form, every combination written out, each one once."""
    task: Task = registry.build("task", study.task)
    found: dict[str, Condition] = {}
    for number, table in enumerate(study.conditions):
        for condition in dataclasses.replace(study, conditions=(table,)).expanded():
            try:
                normal = task.normal(condition)
            except BltsError as error:
                raise BadCondition(number, error) from None
            found.setdefault(canonical(normal), normal)
    planned = dataclasses.replace(study, conditions=tuple(found.values()))
    _check_display(planned, task)
    return planned


def _check_display(study: Study, task: Task) -> None:
    """What is to be shown exists, before anything is computed."""
    unsaid = study.score == Study.score and Study.score not in task.metrics  # a task without regret has a score of its own
    for name in (*(() if unsaid else (study.score,)), *study.metrics):
        if name not in task.metrics:
            raise UnknownName("metric", name, task.metrics)
    for finding in study.findings:
        if "metric" in finding and finding["metric"] not in task.metrics:
            raise UnknownName("metric", finding["metric"], task.metrics)
        for side in ("of", "than"):
            names = finding.get(side, {})
            if not any(names.items() <= condition.items() for condition in study.conditions):
                raise ConfigError(f"No condition matches {side} = {names!r} of a finding; name one that is run.")
    if not any(study.reference.items() <= condition.items() for condition in study.conditions):
        raise ConfigError(f"No condition matches the reference {study.reference!r}; name one that is run.")
