"""How a model is described in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._module import is_concrete, short
from .arms import Number, arm_count, numbers_of


def sentence(model: Any) -> str:
    """What a model describes, its settings, and where it stands in the paper's theory.

    Args:
        model: a `Model`.

    Returns:
        One sentence, as `print(model)` shows it.
    """
    arms = arm_count(model)
    who = "One arm" if arms is None else f"{arms} arms"
    shown = [number for number in numbers_of(model) if number.name not in model.hidden]
    settings = ", ".join(f"{number.name.replace('_', ' ')} {short(_shown(number))}" for number in shown)
    theory = model.theory()
    place = "inside" if theory.inside else "outside"
    return f"{who} with {model.noun}{f' ({settings})' if settings else ''}, {place} the paper's theory: {theory.why}"


def _shown(number: Number) -> Any:
    """Its value, without the axis that stands for all entries of a vector."""
    one = number.or_number and np.shape(number.value)[-1:] == (1,)
    return number.value[..., 0] if one else number.value


def low_high(x: Any) -> str:
    """One number, or the smallest and the largest of several, for a sentence.

    Args:
        x: a number or an array.

    Returns:
        Text such as "0.5" or "0.5 to 2".
    """
    if not is_concrete(x):
        return "traced"
    low, high = float(np.min(x)), float(np.max(x))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
