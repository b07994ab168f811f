"""The belief that is right for any model."""

from __future__ import annotations

from typing import Any, TypeVar

from ...declared import why_lost
from ...errors import ConfigError
from ...samplers.chain import mala
from .base import Belief
from .exact import Exact
from .pool import Pool

B = TypeVar("B", bound=Belief)
DEFAULT_STEPS = 40
"""Of a pool by default: on the five models of tests/grids.py its regret is then within 1.1 times that of the exact posterior, up to
the standard errors that tests/test_diagnosis.py states (`make slow`)."""


def default_belief(model: Any, size: int = 256, steps: int = DEFAULT_STEPS) -> Exact | Pool:
    """The belief that is right for any model: exact draws where the posterior is known, elsewhere a pool of adjusted chains.

    Args:
        model: any model; a stacked one too.
        size: chains an arm, where there are chains.
        steps: their number at each refresh.

    Returns:
        A belief for `Thompson`.

    >>> from blts.agents.beliefs import default_belief
    >>> from blts.models import Gaussian, StudentT
    >>> default_belief(Gaussian()), default_belief(StudentT()).chain.scale
    (Exact(), 'mode')
    """
    return exact_or(Pool(mala(steps=steps, scale="mode"), size), model)


def exact_or(other: B, model: Any) -> Exact | B:
    """Exact draws where the posterior is known.

    Args:
        other: what is used elsewhere, which does not call `marginal`.
        model: any model; a stacked one too.

    Returns:
        A belief.

    Raises:
        ConfigError: the model overrides `marginal` alone, which nothing would call.
    """
    unused = why_lost(model, "draw", "marginal")
    if unused is not None:
        raise ConfigError(unused)
    return Exact() if model.has_posterior else other
