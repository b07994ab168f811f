"""What an environment is. The instance is drawn once, in `reset`."""

from __future__ import annotations

from typing import NamedTuple

from .._module import Contract
from .._typing import Array, Bool, Int, PRNGKey, Scalar, Tree
from ..declared import attribute, default, required


class Step(NamedTuple):
    """What one round gives: returned by `Env.step`, beside the environment's new state."""

    obs: Tree
    """What the agent sees before its next action; `()` for a bandit without contexts."""
    reward: Scalar
    """What the action earned: one number. The agent learns it when the batch closes."""
    regret: Scalar
    """What the action loses in expectation against the best one (pseudo-regret): 0 for the best action of a bandit. In an
    MDP, the optimal average reward less this round's: only its sum over rounds means something."""
    best: Bool[Array, ""] | None = None
    """Whether a best action was played; None means where the regret is 0."""


class Env(Contract):
    """What decisions are made about: inherit from this to write an environment.

    Methods are written for one replication, in JAX: `simulate` compiles them and maps them over replications. A subclass is a
    frozen dataclass whose annotated fields are its arguments (see `module`); it must define `actions`, `reset` and `step`.

    >>> import jax.numpy as jnp
    >>> from blts import Env, Step, array, random
    >>> class Coins(Env):
    ...     chances: list = array(ndim=1)
    ...
    ...     @property
    ...     def actions(self):
    ...         return len(self.chances)
    ...
    ...     def reset(self, key):
    ...         return (), ()
    ...
    ...     def step(self, key, state, action):
    ...         p = jnp.asarray(self.chances)
    ...         reward = jnp.where(random.uniform(key) < p[action], 1.0, 0.0)
    ...         return state, Step((), reward, regret=p.max() - p[action])
    >>> Coins([0.2, 0.7]).actions
    2
    """

    actions = attribute("How many actions there are, a whole number; 0 where they are continuous. A field or a property.")

    @required
    def reset(self, key: PRNGKey) -> tuple[Tree, Tree]:
        """Begin a replication.

        Args:
            key: for whatever is drawn once, such as the arms' parameters.

        Returns:
            The environment's state, any pytree of arrays, and the first observation: `()` where there is nothing to see.
        """
        raise NotImplementedError

    @required
    def step(self, key: PRNGKey, state: Tree, action: Int[Array, ""]) -> tuple[Tree, Step]:
        """Play one round.

        Args:
            key: this round's own.
            state: as `reset` or the last `step` returned it.
            action: from 0 to `actions - 1`, a number of shape `()`.

        Returns:
            The new state, of the same structure, shapes and types, and a `Step`.
        """
        raise NotImplementedError

    states = default(1)
    """How many states the observation `obs` of an MDP counts, 0 … states - 1; 1 for a bandit, None where they have no number."""
    support = default(None)
    """Which rewards can occur: "binary", "count", "positive", "nonnegative" or "real"; None where that is not known, and then some
    rewards are tried before a simulation."""
    pays_as_model = default(False)
    """Whether each play pays an independent draw of `model.sample` at the arm's θ, which `reset` fixed: then whole batches can be
    drawn at once."""
    model = default(None)
    """The model that rewards are drawn from, where `pays_as_model`."""
    dynamics = default(None)
    """The dynamics that it moves as, where that is known."""
    truth = default(None)
    """What the optimal policy plans with: θ of the dynamics, or a table; None where it is unknown or drawn for each replication."""
    gain = default(None)
    """The optimal average reward a round; None where it is not known or drawn for each replication."""
