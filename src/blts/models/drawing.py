"""Draws and mean-reward distributions of all arms of a stacked model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .. import _random
from .._typing import Array, Float, PRNGKey, Thetas, Tree
from ..declared import provides
from .base import Model, Normal
from .covariance import along, square_norm
from .marginal import LEAST_SD, Marginal, NormalLaw


def arms_of(model: Model) -> int:
    """How many arms a stacked model has."""
    return jax.tree.leaves(model)[0].shape[0]


def prior_draws(key: PRNGKey, model: Model) -> Thetas:
    """A prior draw of every arm.

    Where the model has `init_from`, the normals of all arms come from one key: a key for each arm would double the cost.

    Args:
        key: for all arms.
        model: stacked.

    Returns:
        θ of every arm.
    """
    arms = arms_of(model)
    if provides(model, "init_from"):
        return jax.vmap(lambda single, z: single.init_from(z))(model, _random.normal(key, (arms, model.dim)))
    return jax.vmap(lambda single, k: single.init(k))(model, _random.split(key, arms))


def posterior_draws(key: PRNGKey, model: Model, held: Tree) -> Thetas:
    """An exact posterior draw of every arm; see `prior_draws`.

    Args:
        key: for all arms.
        model: stacked, with `has_posterior`.
        held: the arms' marginals where `draws_from_marginal`, their summaries elsewhere.

    Returns:
        θ of every arm.
    """
    arms = arms_of(model)
    if draws_from_marginal(model):
        return jax.vmap(lambda single, z, m: single.draw_from(z, m))(model, _random.normal(key, (arms, model.dim)), held)
    return jax.vmap(lambda single, k, s: single.draw(k, s))(model, _random.split(key, arms), held)


def draws_from_marginal(model: Model) -> bool:
    """Whether a posterior draw is a function of normals and of the distribution of the mean reward."""
    return provides(model, "draw_from") and model.has_marginal


def marginals(model: Model, summaries: Tree, obs: Tree) -> Marginal | None:
    """The exact distributions of the arms' mean rewards.

    Args:
        model: stacked.
        summaries: of every arm's rewards.
        obs: the context of every arm, with the arms as first axis; `()` without contexts.

    Returns:
        The distributions, stacked over arms; None where they are not closed.
    """
    if not model.has_marginal:
        return None
    return jax.vmap(lambda single, s, x, a: single.marginal(s, x, a))(model, summaries, obs, jnp.arange(arms_of(model)))


def laws_of_normal(model: Model, normal: Normal, obs: Tree) -> NormalLaw:
    """The distributions of the arms' mean rewards where θ is normal and the mean reward linear in it.

    Args:
        model: stacked.
        normal: the distribution of every arm's θ.
        obs: the context of every arm, with the arms as first axis; `()` without contexts.

    Returns:
        The distributions, stacked over arms.
    """
    mean, slope = mean_and_slope(model, normal.mean, obs)
    variance = jax.vmap(lambda root, x: square_norm(along(root, x)))(normal.root, slope)
    return NormalLaw(mean, jnp.maximum(jnp.sqrt(variance), LEAST_SD))


def mean_and_slope(model: Model, thetas: Thetas, obs: Tree) -> tuple[Float[Array, " arms"], Thetas]:
    """The mean rewards of all arms and their gradients with respect to θ; arguments as of `mean_rewards`."""
    of_arm = lambda single, theta, x, a: jax.value_and_grad(single.mean_reward)(theta, x, a)  # noqa: E731
    return jax.vmap(of_arm)(model, thetas, obs, jnp.arange(arms_of(model)))


def mean_rewards(model: Model, thetas: Thetas, obs: Tree) -> Float[Array, " arms"]:
    """The mean rewards of all arms.

    Args:
        model: stacked.
        thetas: θ of every arm.
        obs: the context of every arm, with the arms as first axis; `()` without contexts.

    Returns:
        One number per arm.
    """
    return jax.vmap(lambda single, theta, x, a: single.mean_reward(theta, x, a))(model, thetas, obs, jnp.arange(arms_of(model)))
