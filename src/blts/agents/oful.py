"""OFUL: optimism with a confidence radius that grows with the determinant of the precision."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from .._module import array, is_concrete, module, positive, require, short
from .._typing import Array, Float, Numbers
from ..errors import ConfigError
from ..factors import cholesky
from .beliefs import Exact
from .beliefs.exact import holds_normal
from .estimates import Optimistic


@module
class OFUL(Optimistic):
    """Play the largest mean + r · sd of a linear model, with the radius r of Abbasi-Yadkori, Pál & Szepesvári (2011), theorem 2.

    For rewards of sd s and the prior N(m, τ²I), with λ = s²/τ² and V = λI + Σxxᵀ, the posterior sd of x·θ is s·|x| in the norm of
    V⁻¹, and the paper's √β = s √(2 log(det(V)^½ det(λI)^-½ / δ)) + √λ S is s · r:

        r = √(log(det V / det λI) + 2 log(1/δ)) + S/τ.

    All mean rewards are then within r sds with probability 1 - δ, in all rounds, if |θ - m| ≤ S. Arms with a θ of their own have a
    determinant each, and δ is divided by their number. A prior with unequal sds has the smallest as τ. With `Determinant` batches
    this is the paper's rarely switching form, with the ellipsoid of the last refresh.

    Args:
        model: `Linear`, with contexts.
        belief: to be left out: `Exact()`.
        arms: how many arms, where the model's numbers do not say it.
        shared: whether all arms have one θ.
        features: what the rewards of an arm depend on; by default `contexts.features`.
        delta: δ, the probability with which some mean reward is ever outside its interval.
        norm: S, the largest distance of θ from the prior mean; of every arm's θ where they have their own.

    >>> from blts import OFUL, Linear
    >>> print(str(OFUL(Linear(prior_mean=[0.0, 0.0]), arms=3, shared=True)).splitlines()[0])
    OFUL, δ = 0.05, |θ - prior mean| ≤ 1 with one θ for 3 arms, on the exact posterior.
    """

    delta: Numbers = array(default=0.05)
    norm: Numbers = array(default=1.0)

    def check(self):
        super().check()
        exact = isinstance(self.belief, Exact) and self.belief.draws_posterior and holds_normal(self.model)
        if not exact:
            raise ConfigError(
                f"OFUL: its radius is that of linear rewards and their exact posterior, not of {type(self.model).__name__} with "
                f"{type(self.belief).__name__}; use UCB (logistic-ucb), which has a width of your choice."
            )
        positive(self, "norm")
        holds = (self.delta > 0) & (self.delta < 1) if is_concrete(self.delta) else True
        require(self, holds, f"delta must be between 0 and 1; got {short(self.delta)}.")

    def __str__(self) -> str:
        return self._sentence(f"OFUL, δ = {short(self.delta)}, |θ - prior mean| ≤ {short(self.norm)}")

    def widths(self, state):
        return self.radius(state)

    def radius(self, state) -> Float[Array, " arms"]:
        """The confidence radius, in posterior sds.

        Args:
            state: that of the batch.

        Returns:
            One number an arm.
        """
        precision = jax.vmap(lambda single: single.prior_precision())(self.model)
        _, root = self.belief.normal(self.model, state)  # type: ignore[misc]
        factor = jax.vmap(lambda root: cholesky(root @ root.T))(root)  # of V⁻¹
        log_det = -2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), 1)
        growth = log_det - jnp.sum(jnp.log(precision), 1)  # log(det V / det λI)
        thetas = precision.shape[0]
        confident = jnp.sqrt(jnp.maximum(growth, 0.0) + 2.0 * (math.log(thetas) - jnp.log(self.delta)))
        return jnp.broadcast_to(confident + self.norm * jnp.sqrt(jnp.max(precision, 1)), (self.actions,))
