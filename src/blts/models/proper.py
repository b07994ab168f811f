"""Refuse a model of one's own whose prior is not finite numbers: no chain would notice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax
import numpy as np

from .. import freshness
from .._module import short
from .._random import as_key
from .._typing import Array, Thetas
from ..errors import ConfigError
from .custom import Custom
from .drawing import prior_draws


def check_prior(model: Any) -> None:
    """Refuse a model from outside of blts whose `init` or `log_prior` is not finite at a prior draw of each arm.

    Models that were made of functions were looked at when they were made.

    Args:
        model: stacked.

    Raises:
        ConfigError: which method returned what.
    """
    if isinstance(model, Custom) or not freshness.from_elsewhere(model):
        return
    found = None
    with suppress(Exception):  # what a method raises is said where it is called
        found = [np.asarray(x) for x in _at_prior_draws(model)]
    if found is None:
        return
    name, (thetas, densities) = type(model).__name__, found
    for theta, density in zip(thetas, densities, strict=True):
        if not np.isfinite(theta).all():
            raise ConfigError(f"init of {name} draws θ = {short(theta)}; it must draw finite numbers.")
        if not np.isfinite(density):
            raise ConfigError(
                f"log_prior of {name} is {density} at a prior draw, θ = {short(theta)}; it must be a finite number wherever init "
                "draws."
            )


@jax.jit
def _at_prior_draws(model: Any) -> tuple[Thetas, Array]:
    """A prior draw of every arm, and its log-density."""
    thetas = prior_draws(as_key(0), model)
    return thetas, jax.vmap(lambda single, theta: single.log_prior(theta))(model, thetas)
