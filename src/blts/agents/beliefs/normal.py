"""Normal distributions of θ: how they are drawn from, and who needs one."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ... import _random
from ..._typing import PRNGKey, Thetas
from ...errors import ConfigError
from ...models.base import Model, Normal
from .base import Belief


def draw_normal(key: PRNGKey, normal: Normal) -> Thetas:
    """Draw θ of every arm.

    Args:
        key: for all arms.
        normal: mean and root of the covariance of every arm.

    Returns:
        θ of every arm.
    """
    z = _random.normal(key, normal.mean.shape)
    return normal.mean + jnp.sum(normal.root * z[:, None], -1)


def require_normal(owner: str, belief: Belief, model: Model) -> None:
    """Refuse a belief that does not draw θ from normal distributions.

    Args:
        owner: who needs one, the subject of the sentence.
        belief: what is given, after its `check_model`.
        model: stacked.

    Raises:
        ConfigError: what to give instead.
    """
    of = lambda key, model: belief.normal(model, belief.init(key, model))  # noqa: E731
    if jax.eval_shape(of, _random.as_key(0), model) is None:
        raise ConfigError(
            f"{owner} needs a belief with a normal distribution of θ, and {type(belief).__name__} has none for "
            f"{type(model).__name__}; use Exact() with Linear contexts, or LaplaceApproximation()."
        )
