"""MDPs whose transitions have a parameter vector θ, which is given or drawn from the prior."""

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
"""Methods of a dynamics that only agents need."""


class Where(NamedTuple):
    """The state of `ParametricMDP`."""

    obs: Tree
    theta: Theta
    gain: Scalar
    policy: Tree
    """The optimal policy, to tell whether an action was optimal."""


@module
class ParametricMDP(Env):
    """The environment of a `Dynamics` with a true θ.

    The regret of a round is the optimal average reward less the reward. A dynamics whose optimum is unknown is refused: a subclass
    that overrides the transitions without the planner, and one whose truncation cuts off the optimal policy.

    Args:
        dynamics: transitions, rewards and planner.
        theta: the true θ; by default `dynamics.true`.
        drawn: whether each replication draws θ from the prior instead.

    >>> from blts import ParametricMDP
    >>> from blts.dynamics import Inventory
    >>> ParametricMDP(Inventory()).truth.shape
    (1,)
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
        """How many actions there are; 0 where they are continuous."""
        return self.dynamics.actions

    states: ClassVar[None] = None
    """Visits of states are not counted."""

    @rests_on("reset", "step")
    @property
    def truth(self) -> Any:
        """The true θ; None if each replication draws its own."""
        return None if self.drawn else self.dynamics.true if self.theta is None else self.theta

    def reset(self, key):
        theta = self.dynamics.init(key) if self.drawn else jnp.asarray(self.truth, float)
        obs = self.dynamics.start()
        return Where(obs, theta, self.dynamics.gain(theta), self.dynamics.plan(theta)), obs

    def step(self, key, state, action):
        obs, reward = self.dynamics.sample(key, state.theta, state.obs, action)
        best = jnp.all(action == self.dynamics.act(state.policy, state.obs))
        return state._replace(obs=obs), Step(obs, reward, state.gain - reward, best)
