"""A world that moves as a dynamics says, with its true θ given or drawn from the prior."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._module import array, is_concrete, module, short, static
from .._typing import Numbers, Scalar, Theta, Tree
from ..declared import provides, rests_on
from ..dynamics.base import Dynamics, why_not
from ..errors import ConfigError, require_object
from .base import Env, Step

BELIEF = ("log_likelihood", "information", "prior_precision", "log_prior", "gain_of")
"""What of a dynamics a world does not need."""


class Where(NamedTuple):
    obs: Tree
    theta: Theta
    gain: Scalar
    policy: Tree
    """The optimal one, for telling whether an action was best."""


@module
class ParametricMDP(Env):
    """A dynamics with a true θ: the one of the named problem, the one given, or one drawn from the prior (`drawn`).

    The regret of a round is the optimal average reward less the reward, so that its sum is T times the gain less what
    was earned. A dynamics whose optimum is not known is refused: one that a subclass moves in another way than it plans, and
    one that cuts off what is best for θ.

    Args:
        dynamics: how it moves.
        theta: the true θ; None for that of the named problem.
        drawn: whether each replication draws θ from the prior.
    """

    dynamics: Dynamics
    theta: Numbers = array(default=None, ndim=1)
    drawn: bool = static(default=False)

    def check(self):
        require_object("ParametricMDP: dynamics", self.dynamics, (), "blts.dynamics.Inventory()")
        if (why := why_not(self.dynamics, *BELIEF)) is not None:
            raise ConfigError(f"ParametricMDP: {why}")
        if self.theta is not None and np.shape(self.theta) != (self.dynamics.dim,):
            raise ConfigError(f"ParametricMDP: theta must have {self.dynamics.dim} numbers; got shape {np.shape(self.theta)}.")
        if self.theta is not None and self.drawn:
            raise ConfigError("ParametricMDP: theta is given or drawn, not both; leave one out.")
        known = self.drawn or (self.theta is not None and is_concrete(self.theta))
        if known and provides(self.dynamics, "why_cut") and (why := self.dynamics.why_cut(self.theta)) is not None:
            raise ConfigError(why)

    def __str__(self) -> str:
        theta = "drawn from the prior for each replication" if self.drawn else f"θ = {short(np.asarray(self.truth))}"
        return f"{self.dynamics} The true parameter is {theta}."

    @property
    def actions(self) -> int:
        return self.dynamics.actions

    states: ClassVar[None] = None
    """There is no table of states to count visits in."""

    @rests_on("reset", "step")
    @property
    def truth(self) -> Any:
        """The true θ; None where each replication draws its own."""
        return None if self.drawn else self.dynamics.true if self.theta is None else self.theta

    def reset(self, key):
        theta = self.dynamics.init(key) if self.drawn else jnp.asarray(self.truth, float)
        obs = self.dynamics.start()
        return Where(obs, theta, self.dynamics.gain(theta), self.dynamics.plan(theta)), obs

    def step(self, key, state, action):
        obs, reward = self.dynamics.sample(key, state.theta, state.obs, action)
        best = jnp.all(action == self.dynamics.act(state.policy, state.obs))
        return state._replace(obs=obs), Step(obs, reward, state.gain - reward, best)
