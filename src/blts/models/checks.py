"""Refuse a model whose densities are not finite numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, freshness
from .._module import short
from .._random import as_key
from .._typing import PRNGKey, Row, Scalar, Theta
from ..declared import provides
from ..errors import ConfigError
from ..steadiness import UNSTEADY, steady
from .arms import first_arm


def check_density(model: Any, name: str) -> None:
    """Refuse a model whose log-densities are not one finite number each at a prior draw.

    Shapes are looked at by tracing; then everything is computed by one program.
    """
    action, obs = np.zeros((), np.int32), model.example()

    def draw(single) -> tuple[Theta, PRNGKey]:
        key_theta, key_reward = _random.split(as_key(0))
        return jnp.asarray(single.init(key_theta)), key_reward

    def look(single, theta, key_reward) -> dict[str, Scalar]:
        seen = {"the mean reward": single.mean_reward(theta, obs, action)}
        if provides(single, "sample"):
            seen["a reward"] = single.sample(key_reward, theta, obs, action)
        reward = jnp.asarray(list(seen.values())[-1], float)
        densities = {
            "log_prior": single.log_prior(theta),
            "log_likelihood": single.log_likelihood(theta, Row(obs, jnp.asarray(action), reward)),
        }
        return seen | densities

    def everything(single):
        theta, key_reward = draw(single)
        slopes = {what: jax.grad(lambda x, what=what: look(single, x, key_reward)[what])(theta) for what in DENSITIES}
        return theta, look(single, theta, key_reward), slopes

    single = first_arm(model)
    start = jax.eval_shape(draw, single)
    if start[0].shape != (single.dim,):
        raise ConfigError(f"{name}: a prior draw must have shape ({single.dim},); it has {start[0].shape}.")
    generators = freshness.generators(model)
    same, shapes = steady(look, single, *start, generators=generators)
    if not same:
        theta, key_reward = start
        calls = {"sample": (key_reward, theta, obs, action), "mean_reward": (theta, obs, action)}
        steadily = lambda what: steady(getattr(single, what), *calls[what], generators=generators)[0]  # noqa: E731
        own = [what for what in calls if provides(single, what) and not steadily(what)]
        raise ConfigError(f"{name}: {own[0] if own else 'a log-density'} {UNSTEADY}")
    for what in LOOKED_AT:
        if what in shapes and shapes[what].shape != ():
            raise ConfigError(f"{name}: {what} must be one number; at a prior draw it has shape {shapes[what].shape}.")
    theta, found, slopes = jax.tree.map(np.asarray, jax.jit(everything)(single))
    if not np.isfinite(theta).all():
        raise ConfigError(f"{name}: a prior draw is not finite ({short(theta)}); give a proper prior.")
    for what in LOOKED_AT:
        if what in found and not np.isfinite(found[what]):
            raise ConfigError(f"{name}: {what} must be finite at a prior draw; at θ = {short(theta)} it is {float(found[what])}.")
    for what, slope in slopes.items():
        if not np.isfinite(slope).all():
            raise ConfigError(f"{name}: the gradient of {what} must be finite at a prior draw; at θ = {short(theta)} it is not.")


DENSITIES = ("log_prior", "log_likelihood")
LOOKED_AT = ("the mean reward", "a reward", *DENSITIES)
