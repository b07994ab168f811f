"""A world that moves as a dynamics says, with its true θ given or drawn from the prior."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._module import array, module, short, static
from .._typing import Numbers, Scalar, Theta, Tree
from ..errors import ConfigError, require_object
from .base import Step


class Where(NamedTuple):
    obs: Tree
    theta: Theta
    gain: Scalar
    policy: Tree
    """The optimal one, for telling whether an action was best."""


@module
class ParametricMDP:
    """A dynamics with a true θ: the one of the named problem, the one given, or one drawn from the prior (`drawn`).

    The regret of a round is the optimal average reward less the reward, so that its sum is T times the gain less what
    was earned.
    """

    dynamics: Any
    theta: Numbers = array(default=None, ndim=1)
    drawn: bool = static(default=False)

    def check(self):
        members = ("actions", "dim", "init", "plan", "gain", "sample")
        require_object("ParametricMDP: dynamics", self.dynamics, members, "blts.dynamics.Inventory()")
        if self.theta is not None and np.shape(self.theta) != (self.dynamics.dim,):
            raise ConfigError(f"ParametricMDP: theta must have {self.dynamics.dim} numbers; got shape {np.shape(self.theta)}.")
        if self.theta is not None and self.drawn:
            raise ConfigError("ParametricMDP: theta is given or drawn, not both; leave one out.")

    def __str__(self) -> str:
        theta = "drawn from the prior for each replication" if self.drawn else f"θ = {short(np.asarray(self.truth))}"
        return f"{self.dynamics} The true parameter is {theta}."

    @property
    def actions(self) -> int:
        return self.dynamics.actions

    states: ClassVar[None] = None
    """There is no table of states to count visits in."""

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
