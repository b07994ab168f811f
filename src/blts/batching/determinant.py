"""Batches for contexts: a batch ends when the determinant of the precision of θ has grown by a factor."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import contexts, theory
from .._module import array, at_least, is_concrete, module, positive, require, short, static
from .._typing import Array, Float, Numbers
from ..arrays import pick
from ..declared import provides, rests_on, why_lost
from ..errors import ConfigError
from ..models import Model, arm_count, stack
from ..models.covariance import rank_one
from .base import Batching


class Precision(NamedTuple):
    """The state of `Determinant`."""

    root: Float[Array, "blocks dim dim"]
    """S with V⁻¹ = S Sᵀ, of every arm; of one θ where it is shared."""
    growth: Float[Array, "*blocks"]
    """log det V less its value when the batch began: the sum over arms, or that of each arm."""


@module
class Determinant(Batching):
    """A batch ends when det V has grown by more than `factor` since it began (rarely switching: Abbasi-Yadkori et al. 2011).

    V = prior precision + Σ w φφᵀ is the precision of θ after the rounds played, with the features φ of the arms played and the
    weight w of one reward: it is known before the rewards. Arms with a θ of their own have a matrix each: log det V is a sum over
    arms, or with `per_arm` some arm's own determinant ends the batch. `Determinant.of(agent)` takes all numbers from an agent.

    For models whose curvature depends on θ, w is an upper bound (`Model.row_weight`), so V is at most too large.

    Args:
        dim: how many features there are.
        factor: by how much the determinant grows within a batch.
        per_arm: whether some arm's own determinant ends a batch, and not that of all arms together.
        shared: whether all arms have one θ.
        prior_precision: of the coordinates of θ: a number, one for each coordinate, or one row for each arm.
        weight: w, the curvature of one reward: a number, or one for each arm.
        features: the features of an arm; None for `contexts.features`.
        max_norm: the largest |φ|, where there is one. It bounds the number of batches, and so the memory that a simulation needs.
        limits: to be left out; computed from the others where `max_norm` is given.
        centre: what is subtracted from the features, as a model does that standardises them: one number for each of them, or one
            row for each arm; None for nothing.
        scale: what they are then divided by; None for 1. `max_norm` is of what results.

    >>> from blts import Determinant, Linear, Thompson
    >>> agent = Thompson(Linear(prior_mean=[0.0, 0.0], sd=0.5), arms=3)
    >>> print(Determinant.of(agent))
    Rewards are seen when the determinant of the precision of θ has grown by more than a factor of 2.
    >>> Determinant.of(agent, max_norm=1.0).max_batches(10**6, 3)
    118
    """

    dim: int = static()
    factor: Numbers = array(default=2.0)
    per_arm: bool = static(default=False)
    shared: bool = static(default=False)
    prior_precision: Numbers = array(default=1.0)
    weight: Numbers = array(default=1.0)
    features: contexts.Features | None = static(default=None)
    max_norm: float | None = static(default=None)
    limits: tuple[float, float] | None = static(default=None)
    """The factor, and the most that a round adds: numbers that size arrays, so they are not traced."""
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)

    def check(self):
        at_least(self, "dim", 1)
        positive(self, "prior_precision", "weight")
        ok = (self.factor > 1) & (self.factor < np.inf) if is_concrete(self.factor) else True
        require(self, ok, f"factor must be above 1 and finite; got {short(self.factor)}.")
        for name in ("per_arm", "shared"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"Determinant: {name} must be True or False; got {getattr(self, name)!r}.")
        if self.per_arm and self.shared:
            raise ConfigError("Determinant: with shared=True there is one matrix for all arms; leave per_arm out.")
        norm = self.max_norm
        if norm is not None and not (isinstance(norm, int | float) and not isinstance(norm, bool) and 0 < norm < math.inf):
            raise ConfigError(f"Determinant: max_norm must be a number > 0, or None where features have no bound; got {norm!r}.")
        if self.scale is not None:
            positive(self, "scale")
        for name in ("prior_precision", "centre", "scale"):
            shape = np.shape(getattr(self, name)) if getattr(self, name) is not None else ()
            if shape and shape[-1] != self.dim:
                raise ConfigError(f"Determinant: {name} has shape {shape}; give one number for each of {self.dim} coordinates.")
        numbers = (self.factor, self.weight, self.prior_precision)
        if norm is not None and all(map(is_concrete, numbers)):
            added = float(np.max(self.weight) / np.min(self.prior_precision)) * norm**2
            object.__setattr__(self, "limits", (float(np.min(self.factor)), added))

    @classmethod
    def of(cls, agent: Any, factor: float = 2.0, per_arm: bool = False, *, max_norm: float | None = None) -> Determinant:
        """The scheme for the model and the features of an agent.

        Args:
            agent: a `Thompson`, or anything else with a contextual `model`, `shared` and `features`.
            factor: by how much the determinant grows within a batch.
            per_arm: whether some arm's own determinant ends a batch.
            max_norm: the largest norm of the features, where there is one.

        Returns:
            The scheme.

        Raises:
            ConfigError: the agent has no model whose precision is known before the rewards.
        """
        model, name = agent.model, type(agent).__name__
        if model is None:
            raise ConfigError(f"Determinant: {name} has no contextual model; give dim, prior_precision and weight.")
        contextual = isinstance(model, Model) and model.contextual
        if not (contextual and provides(model, "row_weight")):
            why = "bound on the curvature of a reward (row_weight)" if contextual else "contexts"
            lost = f" ({lost.rstrip('.')})" if (lost := why_lost(model, "row_weight")) else ""
            raise ConfigError(
                f"Determinant: {type(model).__name__} has no {why}{lost}; use DoublingCounts (dynamic), which counts plays."
            )
        if not getattr(agent, "sees_features", True):
            raise ConfigError(
                f"Determinant: {name} overrides seen, and learns from other features than those of a round; give dim, "
                "prior_precision, weight, and the features that it learns from."
            )
        arms = arm_count(model)
        one = model if arms is None else stack(model, arms)
        numbers = lambda model: (model.prior_precision(), model.row_weight())  # noqa: E731
        precision, weight = numbers(one) if arms is None else jax.vmap(numbers)(one)
        centre, scale = (None if v is None else np.asarray(v) for v in (getattr(model, n, None) for n in ("centre", "scale")))
        return cls(
            model.dim,
            factor,
            per_arm,
            agent.shared,
            np.asarray(precision),
            np.asarray(weight),
            agent.features,
            max_norm=max_norm,
            centre=centre,
            scale=scale,
        )

    def __str__(self) -> str:
        whose = "some arm's precision of θ" if self.per_arm else "the precision of θ"
        return f"Rewards are seen when the determinant of {whose} has grown by more than a factor of {short(self.factor)}."

    def _by_block(self, name: str, shape: tuple[int, ...]) -> Array:
        value = getattr(self, name)
        try:
            return jnp.broadcast_to(jnp.asarray(value, float), shape)
        except ValueError:
            raise ConfigError(
                f"Determinant: {name} has shape {np.shape(value)}; give a number, or values of shape {shape}."
            ) from None

    def init(self, key, actions):
        blocks = 1 if self.shared else actions
        sd = 1.0 / jnp.sqrt(self._by_block("prior_precision", (blocks, self.dim)))
        return Precision(sd[:, :, None] * jnp.eye(self.dim), jnp.zeros(blocks if self.per_arm else ()))

    def step(self, state, obs, action):
        x = (self.features or contexts.features)(obs, action)
        if isinstance(x, tuple) or jnp.shape(x) != (self.dim,):
            shape = "no features" if isinstance(x, tuple) else f"features of shape {jnp.shape(x)}"
            raise ConfigError(f"Determinant: a round needs features of shape ({self.dim},); it has {shape}.")
        blocks = state.root.shape[0]
        block = jnp.zeros_like(action) if self.shared else action
        mine = jnp.arange(blocks) == block
        weight = pick(self._by_block("weight", (blocks,)), block)
        x = jnp.asarray(x, float)
        x = x if self.centre is None else x - pick(self._by_block("centre", (blocks, self.dim)), block)
        x = x if self.scale is None else x / pick(self._by_block("scale", (blocks, self.dim)), block)
        root, ratio, _ = rank_one(pick(state.root, block), x, weight)
        growth = state.growth + jnp.where(mine if self.per_arm else True, jnp.log(ratio), 0.0)
        due = jnp.any(growth > jnp.log(self.factor))
        return Precision(jnp.where(mine[:, None, None], root, state.root), jnp.where(due, 0.0, growth)), due

    @rests_on("init", "step")
    def max_batches(self, horizon, actions):
        """By the elliptical potential lemma where features are bounded (`theory.determinant_batches`); else one batch per round."""
        if self.limits is None:
            return horizon
        dim = self.dim * (1 if self.shared else actions)
        # 1 % more, because log det V is summed in float32.
        return min(horizon, theory.determinant_batches(dim, horizon, *self.limits) * 101 // 100 + 1)
