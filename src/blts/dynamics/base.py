"""What a dynamics is: how a world moves for one parameter vector θ ∈ R^dim, what is believed of θ, and how it is planned.

The belief has the methods of a reward model, over rows of transitions, so that every sampler of `blts.samplers` runs on it:
`Transitions` presents a dynamics to a chain as one arm that holds all transitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._module import Contract
from .._typing import Array, PRNGKey, Row, Scalar, Theta, Tree
from ..declared import attribute, missing, optional, provides, required, why_lost


class Dynamics(Contract):
    """A parametric transition law p(next_obs | obs, action; θ) with known rewards, its prior and its planner: inherit from this to
    write a world for `ParametricMDP` and `PSRL(…, Parameters(…))`.

    Everything is in JAX, for one replication and one θ ∈ R^dim. With the optional `empty`, `add` and `log_likelihood_of` a full
    gradient costs the same for any number of transitions; with `certify` agents report what a plan may lose. Where there are
    finitely many states, `Finite` plans, and `from_probabilities` makes a dynamics of a function.

    >>> from blts import Dynamics
    >>> from blts.dynamics import Inventory
    >>> isinstance(Inventory(), Dynamics), Inventory().dim, Inventory().actions
    (True, 1, 64)
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

    # Optional: the transitions as a summary, as of `Model`

    @optional
    def empty(self) -> Tree:
        """The summary of no transitions, with a count `rows`."""
        raise NotImplementedError

    @optional
    def add(self, summary: Tree, row: Row) -> Tree:
        """The summary with one more transition."""
        raise NotImplementedError

    @optional
    def log_likelihood_of(self, theta: Theta, summary: Tree) -> Scalar:
        """The sum of `log_likelihood` over the transitions of a summary."""
        raise NotImplementedError

    @optional
    def draw(self, key: PRNGKey, summary: Tree) -> Theta:
        """A draw from the exact posterior."""
        raise NotImplementedError

    @property
    def has_summary(self) -> bool:
        """Whether the transitions can be kept as a summary: `empty`, `add` and `log_likelihood_of` are defined."""
        return provides(self, "empty", "add", "log_likelihood_of")

    # Optional: what is known of plans

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
    """A policy that is best for some θ, and how well that is known.

    >>> from blts.dynamics import Inventory
    >>> shop = Inventory()
    >>> found = shop.certify(shop.true)
    >>> type(found).__name__, int(found.policy), round(float(found.gain), 2)
    ('Certified', 6, -2.98)
    """

    policy: Tree
    gain: Scalar
    residual: Scalar
    """What the policy may lose a round under θ against every policy of the world: rounding, and what a truncation of its
    levels or a box of its parameters cuts off. Infinite where θ is outside what is planned for."""


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
