"""Top-two Thompson sampling: to find the best arm soon, rather than to earn much meanwhile."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, require, short
from .._typing import Array, Float, Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models import marginal
from . import propensity
from .thompson import PROPENSITY_DRAWS, Thompson, finds

MOMENT_DRAWS = 256  # from which mean and sd of an arm's mean reward are taken where they have no closed form


@module
class TopTwo(Thompson):
    """Play the leader of a posterior draw with probability `leader`, otherwise the arm that is most easily mistaken for it.

    Thompson sampling plays the other arms less and less, and so learns slowly that they are worse. Here they have a fixed share of
    the rounds: for the leader b, the challenger has the smallest (m_b - m_a)²/(s_b² + s_a²), where m and s are mean and sd of the
    arms' posterior mean rewards (T3C, Shang et al. 2020). Russo's rule (2016), to draw again until another arm leads, needs
    1/(1 - P(b is best)) draws a round, ever more of them. A challenger takes none, and the propensities of a batch follow from the
    probabilities of leading.

    Args:
        model: what is believed of the arms' rewards; without contexts.
        belief: how the posterior is held within a batch; None for the model's default.
        arms: how many arms, where the model's numbers do not say it.
        shared: False: arms that are told apart by features alone are not compared.
        features: None, as there are no contexts.
        leader: the probability with which the leader is played; 1/2 is close to the best for any arms.

    >>> from blts import Gaussian, TopTwo
    >>> print(TopTwo(Gaussian(prior_mean=[0.0, 0.0, 0.0])))
    Top-two Thompson sampling, the leader with probability 0.5, exact posterior draws each round.
    3 arms with Gaussian rewards (prior mean 0 (×3), prior sd 1 (×3), sd 1 (×3)), inside the paper's theory: m = L = ν = 1.
    """

    leader: Numbers = array(default=0.5)

    def check(self):
        super().check()
        require(self, 0 < self.leader < 1, f"leader must be a probability between 0 and 1; got {short(self.leader)}.")
        if self.actions < 2:
            raise ConfigError("TopTwo needs at least two arms.")
        if self.shared or self.model.contextual:
            raise ConfigError("TopTwo finds the best of arms without contexts; use Thompson with contexts.")

    @rests_on("observe")
    @property
    def incremental(self) -> bool:
        return self._closed and self.belief.incremental(self.model)

    @property
    def _closed(self) -> bool:
        """Whether the distributions of the arms' mean rewards are."""
        return finds(self._laws_without_data)

    def _laws_without_data(self) -> marginal.Marginal | None:
        return super().laws(self.init(_random.as_key(0)))

    def __str__(self) -> str:
        return f"Top-two Thompson sampling, the leader with probability {short(self.leader)}, {self.belief}.\n{self.model}"

    def laws(self, state, obs=()) -> None:
        """None: a round does not always play the largest of draws."""
        return None

    def act(self, key, state, obs, played):
        key_leader, key_coin, key_tie = _random.split(key, 3)
        leader = super().act(key_leader, state, obs, played)
        ends = jnp.cumsum(self.challengers(state)[leader])
        other = jnp.sum(_random.uniform(key_tie) * ends[-1] >= ends)
        return jnp.where(_random.uniform(key_coin) < self.leader, leader, jnp.minimum(other, self.actions - 1))

    def challengers(self, state) -> Float[Array, "arms arms"]:
        """Who is played instead of a leader.

        Args:
            state: that of the batch.

        Returns:
            For every leader, a row, the probability of each arm: 1 for the challenger, and equal ones where several are.
        """
        mean, sd = self._moments(state)
        cost = (mean[:, None] - mean) ** 2 / jnp.maximum(sd[:, None] ** 2 + sd**2, jnp.finfo(sd.dtype).tiny)
        own = jnp.eye(self.actions, dtype=bool)
        cost = jnp.where(own, jnp.inf, jnp.where(jnp.isnan(cost), 0.0, cost))  # a law without a mean may be any
        least = (cost <= jnp.min(cost, axis=1, keepdims=True)) & ~own
        return least / jnp.sum(least, axis=1, keepdims=True)

    def _moments(self, state) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """Mean and sd of the arms' posterior mean rewards."""
        laws = super().laws(state)
        if laws is not None:
            return laws.mean, laws.sd
        values = self._values(state, MOMENT_DRAWS)
        return jnp.mean(values, axis=1), jnp.std(values, axis=1)

    def _values(self, state, draws: int) -> Float[Array, "arms values"]:
        """The mean rewards of an arm's members, or of about so many draws, which are always the same."""
        if self._draws_members:
            return self._member_values(state, (), draws)
        keys = _random.split(_random.as_key(0), draws)
        return jax.lax.map(lambda k: self.mean_rewards(self.belief.draw(k, self.model, state), ()), keys, batch_size=256).T

    @rests_on("act", "challengers")
    def propensities(self, state, obs=(), *, draws: int = PROPENSITY_DRAWS) -> Float[Array, " arms"]:
        """P(a is played), from the probabilities of leading and the challengers; see `Thompson.propensities`."""
        laws = super().laws(state)
        leads = propensity.of_values(self._values(state, draws)) if laws is None else propensity.of_laws(laws)
        return self.leader * leads + (1 - self.leader) * leads @ self.challengers(state)

    @rests_on("propensities", "act")
    def propensities_are_exact(self, state, obs=()) -> bool:
        """Whether they are exact up to quadrature: those of a pool are once every arm has data."""
        return bool(np.all(np.asarray(state.n) > 0)) if self._draws_members else self._closed
