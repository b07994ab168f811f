"""Which rewards can occur: the supports that a model or an environment may declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SUPPORTS: dict[str, tuple[Callable[[float], bool], str]] = {
    "binary": (lambda r: r in (0.0, 1.0), "0 or 1"),
    "count": (lambda r: r >= 0 and r == int(r), "0, 1, 2, …"),
    "positive": (lambda r: r > 0, "above zero"),
    "nonnegative": (lambda r: r >= 0, "zero or above"),
    "real": (lambda r: True, "any finite number"),
}
"""Which rewards a model can give, as a test and in words; those within others come first."""
WITHIN = {
    "binary": ("binary", "count", "nonnegative", "real"),
    "count": ("count", "nonnegative", "real"),
    "positive": ("positive", "nonnegative", "real"),
    "nonnegative": ("nonnegative", "real"),
    "real": ("real",),
}
"""The supports that hold all rewards of a support."""


def narrowest_support(rewards: np.ndarray) -> str:
    """The first of SUPPORTS that holds all the rewards."""
    return next(name for name, (holds, _) in SUPPORTS.items() if all(map(holds, np.unique(rewards))))


def support_of_samples(model: Any) -> str | None:
    """Which rewards `sample` draws; None where a subclass draws others than the class that states the support."""
    return model.support if model.samples_within_support else None


def support_of_likelihood(model: Any) -> str | None:
    """For which rewards the likelihood is meant; None where nobody says it."""
    return model.support if model.likelihood_within_support else None
