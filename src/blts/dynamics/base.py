"""What a dynamics is: how a world moves for one parameter vector θ ∈ R^dim, what is believed of θ, and how it is planned.

The belief has the methods of a reward model, over rows of transitions, so that every sampler of `blts.samplers` runs on it:
`Transitions` presents a dynamics to a chain as one arm that holds all transitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import Contract, is_concrete, module
from .._typing import Array, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..declared import attribute, missing, optional, provides, required, why_lost
from ..errors import ConfigError
from ..models.base import Model, Sufficient, Theory


class Dynamics(Contract):
    """A parametric transition law p(next_obs | obs, action; θ) with known rewards, its prior and its planner: inherit from this to
    write a world for `ParametricMDP` and `PSRL(…, Parameters(…))`.

    Everything is in JAX, for one replication and one θ ∈ R^dim. All methods are required but `certify`, `why_cut` and `table`; with
    `empty`, `add` and `log_likelihood_of` (see `Sufficient`) a full gradient costs the same for any number of transitions. Where
    there are finitely many states, `Finite` plans, and `from_probabilities` makes a dynamics of a function.
    """

    dim = attribute("How many numbers θ has. A class attribute, a field or a property.")
    actions = attribute("How many actions there are; 0 where they are continuous.")
    true = attribute("The θ of the named problem, of shape `(dim,)`, for simulations.")

    # The belief

    @required
    def init(self, key: PRNGKey) -> Theta:
        """A draw from the prior, of shape `(dim,)`."""
        raise NotImplementedError

    @required
    def log_prior(self, theta: Theta) -> Scalar:
        """The log-density of the prior, up to a constant; differentiable."""
        raise NotImplementedError

    @required
    def log_likelihood(self, theta: Theta, row: Row) -> Scalar:
        """log p(row.next_obs | row.obs, row.action; θ), up to what does not depend on θ; differentiable in θ."""
        raise NotImplementedError

    @required
    def information(self, theta: Theta) -> Theta:
        """A typical curvature of one transition at θ, a number per coordinate: it sets the units of the step size."""
        raise NotImplementedError

    @required
    def prior_precision(self) -> Theta:
        """Curvature of -log prior, a number per coordinate."""
        raise NotImplementedError

    # The decision

    @required
    def plan(self, theta: Theta) -> Tree:
        """The policy that is best for θ: any arrays, finite for every θ that a sampler can produce."""
        raise NotImplementedError

    @required
    def act(self, policy: Tree, obs: Tree) -> Any:
        """The action of a policy at an observation."""
        raise NotImplementedError

    @required
    def gain(self, theta: Theta) -> Scalar:
        """The best average reward a round under θ; costs are negative rewards."""
        raise NotImplementedError

    @required
    def gain_of(self, theta: Theta, policy: Tree) -> Scalar:
        """The average reward a round of a policy under θ."""
        raise NotImplementedError

    # The world

    @required
    def start(self) -> Tree:
        """The first observation."""
        raise NotImplementedError

    @required
    def sample(self, key: PRNGKey, theta: Theta, obs: Tree, action: Any) -> tuple[Tree, Scalar]:
        """The next observation, of the same shapes and types as `start`, and the reward."""
        raise NotImplementedError

    @optional
    def certify(self, theta: Theta) -> Certified:
        """The policy of `plan(theta)`, its gain, and a bound on what it loses."""
        raise NotImplementedError

    @optional
    def why_cut(self, theta: Theta | None = None) -> str | None:
        """Of a truncated world, what is cut off for θ or, without one, for the prior, as a sentence; None where nothing is."""
        raise NotImplementedError

    @optional
    def table(self, theta: Theta) -> tuple[Array, Array]:
        """The world as a finite MDP: transitions `[states, actions, states]` and rewards `[states, actions]`."""
        raise NotImplementedError


class Certified(NamedTuple):
    """A policy that is best for some θ, and how well that is known."""

    policy: Tree
    gain: Scalar
    residual: Scalar
    """What the policy may lose a round under θ against every policy of the world: rounding, and what a truncation of its
    levels or a box of its parameters cuts off. Infinite where θ is outside what is planned for."""


class Certifying(Protocol):
    """Optional: plans that say what they may lose. Agents report it as `Info.residual`."""

    def certify(self, theta: Theta) -> Certified:
        """The policy of `plan(theta)`, its gain, and a bound on what it loses."""
        ...


class Truncated(Protocol):
    """Optional: a world with infinitely many levels of which finitely many are kept."""

    def why_cut(self, theta: Theta | None = None) -> str | None:
        """The sentence that says what is cut off for θ or, without one, for the prior; None where nothing is."""
        ...


def why_not(dynamics: Any, *without: str) -> str | None:
    """Why an object is not a whole dynamics: which override took a method from it, or what it never had.

    >>> from blts.dynamics import Inventory
    >>> class Taxed(Inventory):
    ...     def sample(self, key, theta, obs, action):
    ...         next_obs, reward = super().sample(key, theta, obs, action)
    ...         return next_obs, reward - 1.0
    >>> why_not(Taxed())
    'Taxed overrides sample, on which Inventory.log_likelihood rests; override log_likelihood too.'
    """
    lost, name = [name for name in missing(dynamics, Dynamics) if name not in without], type(dynamics).__name__
    for one in lost:
        if (why := why_lost(dynamics, one)) is not None:
            return why
    if lost:
        return f"{name} has no {', '.join(lost)}."
    return None if isinstance(dynamics, Dynamics) else f"{name} is no Dynamics; write class {name}(blts.Dynamics)."


class Rollout(NamedTuple):
    """A simulated path: its rows, and where it ended."""

    rows: Row
    obs: Tree


def rollout(key: PRNGKey, dynamics: Any, theta: Theta, policy: Tree, rounds: int, explore: Tree | None = None) -> Rollout:
    """`rounds` transitions of a policy from the start. With `explore`, rounds take turns between the two policies.

    >>> from blts import random
    >>> from blts.dynamics import LogitRiverSwim
    >>> river = LogitRiverSwim()
    >>> path = rollout(random.key(0), river, river.true, river.plan(river.true), 1000)
    >>> bool(abs(path.rows.reward.mean() - 0.857) < 0.1)
    True
    """

    def step(obs, t):
        action = dynamics.act(policy, obs)
        if explore is not None:
            action = jnp.where(t % 2 == 1, dynamics.act(explore, obs), action)
        next_obs, reward = dynamics.sample(_random.fold_in(key, t), theta, obs, action)
        return next_obs, Row(obs, action, reward, next_obs)

    obs, rows = jax.lax.scan(step, dynamics.start(), jnp.arange(rounds))
    return Rollout(rows, obs)


@module
class Transitions(Model):
    """A dynamics as a model of one arm: rows `Row((obs, action), 0, reward, next_obs)`.

    Where the dynamics keeps a summary of its data, so does this, and a full gradient costs the same for any number of rows.

    >>> from blts.dynamics import Inventory
    >>> from blts.samplers import mala, sgld
    >>> arm = Transitions(Inventory())
    >>> mala().needs_log(arm), sgld().needs_log(arm)
    (False, True)
    """

    dynamics: Any

    def __new__(cls, dynamics: Any = None):
        # Chains ask by type whether there is a summary, so the answer has to be a type. A subclass stays what it is.
        return object.__new__(SummarisedTransitions if cls is Transitions and provides(dynamics, Sufficient) else cls)

    @staticmethod
    def row(obs: Tree, action: Any, reward: Scalar, next_obs: Tree) -> Row:
        """The row as the chain's history groups it: all transitions are rows of arm 0."""
        return Row((obs, action), jnp.zeros((), int), reward, next_obs)

    @staticmethod
    def unpacked(row: Row) -> Row:
        """The row as the dynamics reads it."""
        obs, action = row.obs
        return Row(obs, action, row.reward, row.next_obs)

    def stacked(self) -> Transitions:
        """The same with an arm axis of length 1 before every number, as chains want it."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], self)

    @property
    def dim(self) -> int:
        return self.dynamics.dim

    def __str__(self) -> str:
        return f"All transitions as rows of one arm. {self.dynamics}"

    def init(self, key):
        return self.dynamics.init(key)

    def log_prior(self, theta):
        return self.dynamics.log_prior(theta)

    def log_likelihood(self, theta, row):
        return self.dynamics.log_likelihood(theta, self.unpacked(row))

    def information(self, theta):
        return self.dynamics.information(theta)

    def prior_precision(self):
        return self.dynamics.prior_precision()

    def theory(self):
        return Theory(False, "log p of one transition is not strongly concave in every direction of θ, so there is no m.")


@module
class SummarisedTransitions(Transitions):
    """Transitions of a dynamics that keeps a summary."""

    def empty(self):
        return self.dynamics.empty()

    def add(self, summary, row):
        return self.dynamics.add(summary, self.unpacked(row))

    def log_likelihood_of(self, theta, summary):
        return self.dynamics.log_likelihood_of(theta, summary)


class BestOf:
    """Plans of a world whose stationary policies are a short list: `gains(theta)` has the gain of each."""

    gains: Any

    def plan(self, theta: Theta) -> Int[Array, ""]:
        """The number of the best one."""
        return jnp.argmax(self.gains(theta))

    def gain(self, theta: Theta) -> Scalar:
        return jnp.max(self.gains(theta))

    def gain_of(self, theta: Theta, policy: Int[Array, ""]) -> Scalar:
        return self.gains(theta)[policy]

    def certify(self, theta: Theta) -> Certified:
        gains = self.gains(theta)
        return Certified(jnp.argmax(gains), jnp.max(gains), digits(gains))


def summary_of(dynamics: Any, rows: Row) -> Tree:
    """The summary of stacked rows (a row axis before every number)."""
    return jax.lax.scan(lambda summary, row: (dynamics.add(summary, row), None), dynamics.empty(), rows)[0]


def clipped(theta: Theta, low: float, high: float) -> Theta:
    """θ brought into a box, and a NaN to its middle: what a planner can take whatever a sampler did."""
    return jnp.clip(jnp.where(jnp.isnan(theta), 0.5 * (low + high), theta), low, high)


def digits(values: Array) -> Scalar:
    """What rounding may hide in a comparison of numbers of this size."""
    return 8 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))


def within(theta: Theta, low: float, high: float) -> Array:
    """Whether all of θ lies in a box. A NaN does not."""
    return jnp.all((theta >= low) & (theta <= high))


def inside(owner: Any, name: str, holds: Any, sentence: str) -> None:
    """Refuse a number outside its domain; traced ones are let through."""
    value = getattr(owner, name)
    if is_concrete(value) and not np.all(holds(np.asarray(value))):
        raise ConfigError(f"{type(owner).__name__}: {name} must {sentence}; got {np.asarray(value).tolist()}.")
