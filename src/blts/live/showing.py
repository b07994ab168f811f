"""What a request shows its decisions: contexts and masks, checked, as they are stored, and as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..errors import ConfigError, UnknownName, shown
from .checks import check_text
from .features import Observed

if TYPE_CHECKING:
    from .session import Policy
    from .spec import Spec

Stored: TypeAlias = tuple[str, str | None]
"""A context, and the numbers of the arms that its decision could be (None for all active ones), as they are stored."""


class Shown(NamedTuple):
    """What the decisions of a request are shown."""

    contexts: tuple[str, ...]
    """As they are stored."""
    available: tuple[tuple[str, ...] | None, ...]
    """The labels of the arms that each can be; None for all active ones."""

    def stored(self, current: Policy) -> list[Stored]:
        """What is stored of each decision (`ConfigError` where it could be no active arm)."""
        number = {arm.label: i for i, arm in enumerate(current.arms)}
        masks: dict[tuple[str, ...] | None, str | None] = {None: None}
        for labels in self.available:
            if labels in masks:
                continue
            for label in labels or ():
                if label not in number:
                    raise UnknownName("arm", label, number)
            mine = sorted({number[label] for label in labels or ()} & set(current.active))
            if not mine:
                raise ConfigError(f"available has {shown(list(labels or ()))}, which no active arm is in; name at least one.")
            masks[labels] = None if mine == sorted(current.active) else json.dumps(mine)
        return [(text, masks[labels]) for text, labels in zip(self.contexts, self.available, strict=True)]


def shown_of(spec: Spec, contexts: Sequence[Mapping[str, Any]] | None, available: Sequence[Any] | None, count: int) -> Shown | None:
    """Check what a request shows its decisions.

    Args:
        spec: of the experiment.
        contexts: one for each decision.
        available: labels of the arms that all of them can be, or for each decision such a list, or None for all arms.
        count: how many decisions there are.

    Returns:
        What is shown; None in an experiment without contexts.

    Raises:
        ConfigError: a context is missing, or none of the declared features; or contexts are given where none are declared.
    """
    encoding = spec.encoding
    if encoding is None:
        if contexts is not None or available is not None:
            raise ConfigError("This experiment declares no features; leave out contexts and available.")
        return None
    names = ", ".join(feature.name for feature in encoding.features)
    if contexts is None:
        raise ConfigError(f"This experiment decides by {names}; give contexts=[…], one for each decision.")
    if isinstance(contexts, Mapping | str) or not isinstance(contexts, Sequence):
        raise ConfigError(f"contexts must be a list of tables, one for each decision; got {shown(contexts)}.")
    if len(contexts) != count:
        raise ConfigError(f"There are {len(contexts)} contexts for {count} decisions; give one for each.")
    texts = tuple(json.dumps(encoding.checked(one, f"Context {i + 1}")) for i, one in enumerate(contexts))
    return Shown(texts, _masks(available, count))


def _masks(available: Any, count: int) -> tuple[tuple[str, ...] | None, ...]:
    if available is None:
        return (None,) * count
    if isinstance(available, str) or not isinstance(available, Sequence):
        raise ConfigError(f"available must be a list of labels, or one for each decision; got {shown(available)}.")
    if not available:
        raise ConfigError("available names no arm; name at least one, or leave it out for all arms.")
    if all(isinstance(one, str) for one in available):
        available = [available] * count
    if len(available) != count:
        raise ConfigError(f"available has {len(available)} lists for {count} decisions; give one for each.")
    return tuple(None if one is None else _labels(one, i) for i, one in enumerate(available))


def _labels(given: Any, place: int) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ConfigError(f"available of decision {place + 1} must be a list with at least one label; got {shown(given)}.")
    for label in given:
        check_text("A label in available", label)
    return tuple(given)


def observed(spec: Spec, current: Policy, stored: Sequence[Stored]) -> Observed | None:
    """What decisions were shown, as arrays.

    Args:
        spec: of the experiment.
        current: the policy in use, with the active arms.
        stored: what is stored of each decision.

    Returns:
        The arrays; None in an experiment without contexts.
    """
    if spec.encoding is None:
        return None
    available = np.ones((len(stored), len(current.active)), bool)
    for i, (_, text) in enumerate(stored):
        if text is not None:
            available[i] = np.isin(current.active, json.loads(text))
    return Observed(spec.encoding.of_texts([text for text, _ in stored]), available)
