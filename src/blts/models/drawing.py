"""Draws and mean-reward distributions of all arms of a stacked model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .. import _random
from .._typing import PRNGKey, Thetas, Tree
from ..declared import provides
from .base import Model
from .marginal import Marginal


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
        obs: the context; `()` without one.

    Returns:
        The distributions, stacked over arms; None where they are not closed.
    """
    if not model.has_marginal:
        return None
    return jax.vmap(lambda single, s, a: single.marginal(s, obs, a))(model, summaries, jnp.arange(arms_of(model)))
