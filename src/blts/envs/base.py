"""The base class of environments. Random instances are drawn once per replication, in `reset`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .._module import Contract
from .._typing import Array, Bool, Float, Int, PRNGKey, Scalar, Tree
from ..declared import attribute, default, required


class Arrival(NamedTuple):
    """When and as what a late reward is told.

    >>> from blts.envs import Arrival
    >>> Arrival(delay=3, reward=1.0)
    Arrival(delay=3, reward=1.0)
    """

    delay: Int[Array, ""]
    """How many rounds later than its own: 0 is at once. Negative: never."""
    reward: Scalar
    """What is told: the reward, or what stands for it."""


class Step(NamedTuple):
    """The outcome of one round, as `Env.step` returns it beside the new state.

    >>> from blts import Step
    >>> Step(obs=(), reward=1.2, regret=0.3)
    Step(obs=(), reward=1.2, regret=0.3, best=None, arrival=None)
    """

    obs: Tree
    """The observation before the next action; `()` for a bandit without contexts."""
    reward: Scalar
    """The reward, one number. The agent learns it when the batch ends."""
    regret: Scalar
    """The expected loss against the best action (pseudo-regret): 0 for the best action of a bandit. In an MDP, the optimal average
    reward less the expected reward of this round; only its sum over rounds is meaningful."""
    best: Bool[Array, ""] | None = None
    """Whether an optimal action was played; by default, whether the regret is 0."""
    arrival: Arrival | None = None
    """When agents are told of the reward, and as what; None, the default, where they are at once."""


class Env(Contract):
    """An environment. Inherit from this to write one.

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
            key: for what is drawn once per replication, such as the arms' parameters.

        Returns:
            The environment's state, any pytree of arrays, and the first observation: `()` where there is none.
        """
        raise NotImplementedError

    @required
    def step(self, key: PRNGKey, state: Tree, action: Int[Array, ""]) -> tuple[Tree, Step]:
        """Play one round.

        Args:
            key: for this round.
            state: as `reset` or the last `step` returned it.
            action: from 0 to `actions - 1`, an integer of shape `()`.

        Returns:
            The new state, of the same structure, shapes and types, and a `Step`.
        """
        raise NotImplementedError

    states = default(1)
    """The number of states of a tabular MDP, whose observations are 0 … states - 1; 1 for a bandit, None where not finite."""
    support = default(None)
    """Which rewards can occur: "binary", "count", "positive", "nonnegative" or "real"; None if unknown. `simulate` then draws some
    rewards and compares them with the agent's model."""
    pays_as_model = default(False)
    """Whether each play pays an independent draw of `model.sample` at the θ that `reset` drew. Whole batches can then be drawn at
    once (`leap/`)."""
    model = default(None)
    """The model that rewards are drawn from, if `pays_as_model`."""
    shared = default(False)
    """Whether all arms have one θ."""
    features = default(None)
    """The feature map that its rewards use; None for `contexts.features`."""
    dynamics = default(None)
    """The dynamics of its transitions, if known."""
    truth = default(None)
    """The true θ of the dynamics, or the true table; None if unknown or drawn for each replication."""
    gain = default(None)
    """The optimal average reward per round; None if unknown or drawn for each replication."""


def gaps_of(means: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """What a play of each arm loses against the best one.

    XLA may compute the means twice and round them in two ways, so that the largest mean less that of the best arm is not 0. The
    best arm's gap is therefore set to 0: rounds with a best action are counted by it.

    Args:
        means: the mean rewards.

    Returns:
        The largest mean less each, exactly 0 for the first of the best arms and never negative.
    """
    best = jnp.arange(means.shape[0]) == jnp.argmax(means)
    return jnp.where(best, 0.0, jnp.maximum(jnp.max(means) - means, 0.0))
