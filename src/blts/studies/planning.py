"""From a study as written to its conditions: names resolved, defaults filled in, repetitions dropped. This needs JAX."""

from __future__ import annotations

import dataclasses

from .. import registry
from ..errors import BltsError, ConfigError
from .spec import Condition, Study, canonical


class BadCondition(ConfigError):
    """A condition that cannot be run, and which one it is."""

    def __init__(self, number: int, error: BltsError):
        self.number = number
        super().__init__(str(error))


def plan(study: Study) -> Study:
    """The same study with its conditions in their normal form, every combination written out, each one once."""
    task = registry.build("task", study.task)
    found: dict[str, Condition] = {}
    for number, table in enumerate(study.conditions):
        for condition in dataclasses.replace(study, conditions=(table,)).expanded():
            try:
                normal = task.normal(condition)
            except BltsError as error:
                raise BadCondition(number, error) from None
            found.setdefault(canonical(normal), normal)
    return dataclasses.replace(study, conditions=tuple(found.values()))
