"""Posterior sampling for MDPs (Algorithm 3): every published variant is this agent with a belief and a batching scheme."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import planning
from .._module import is_concrete, module
from .._typing import Array, Float, Info, Int, Tree
from ..declared import fact, provides, why_lost
from ..dynamics.base import why_not
from ..errors import ConfigError
from ..models.tabular import Sampled, Tabular
from .base import Agent
from .transitions import TransitionBelief


class Following(NamedTuple):
    """The sampled model, and the plan that is best for it."""

    theta: Tree
    plan: Tree
    """Of a table that plans as `planning.plan` does, the policy alone: nothing else is read, and every array is compiled for."""


def plans_of(model: Any, thetas: Tree, plans: Tree | None = None) -> tuple[Tree, Float[Array, "*block"]]:
    """The plans of a block of sampled models, and what each may lose a round in its model: NaN where nobody says.

    Tables are planned all at once, starting from the last plans. Where a subclass plans in a way of its own, what its plans
    may lose is computed from what they say.
    """
    if isinstance(model, Tabular):
        found = model.plan(thetas, plans)
        if not model.follows_plans or not isinstance(found, planning.Plan):
            return found, jnp.asarray(jnp.nan)
        return found, found.residual if model.plans_optimally else planning.residual(thetas.rows, thetas.rewards, found)
    if provides(model, "certify"):
        found = jax.vmap(model.certify)(thetas)
        return found.policy, found.residual
    return jax.vmap(model.plan)(thetas), jnp.asarray(jnp.nan)


@module
class PSRL(Agent):
    """Draw a model from the posterior, follow its optimal policy until the batch closes, and draw again.

    The first model is drawn from the prior. `model` is a `Tabular` with the belief `Rows(…)`, or a dynamics with
    `Parameters(…)`; a policy switch is a batch.

    Args:
        model: what is believed and planned with.
        belief: how a model is drawn at each refresh.

    >>> from blts.agents import PSRL, Rows
    >>> from blts.models import Tabular
    >>> from blts.samplers import LogGammaRows
    >>> PSRL(Tabular([[0.0, 0.0], [0.0, 1.0]]), Rows(LogGammaRows())).actions
    2
    """

    model: Any
    belief: TransitionBelief
    observes_first: ClassVar[bool] = True

    def check(self):
        self.belief.check_model(self.model)

    def __str__(self) -> str:
        return f"Posterior sampling, {self.belief}.\n{self.model}"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{line}</p>" for line in str(self).splitlines())

    @property
    def actions(self) -> int:
        return self.model.actions

    def init(self, key):
        # The first plan is made by `observe` on no data; until then any plan of the right shapes will do.
        theta = self.belief.init(key, self.model)
        if self._policy_is_enough():  # to trace the planner for its shapes would take 0.2 s
            return Following(theta, _policy_alone(jnp.zeros(self.model.shape[0], int)))
        plan = jax.eval_shape(self.model.plan, theta)
        return Following(theta, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), plan))

    def act(self, key, state, obs, played):
        del key, played
        return self.model.act(state.plan, obs)

    def empty(self, row, capacity):
        return self.belief.empty(self.model, row, capacity)

    def remember(self, history, row, live):
        return self.belief.remember(self.model, history, row, live)

    def observe(self, keys, states, histories):
        """The first call, before any round, draws the model from the prior."""
        thetas, info = self.belief.refresh(keys, self.model, states.theta, histories)
        plans, residual = plans_of(self.model, thetas, states.plan)
        residual = jnp.broadcast_to(jnp.asarray(residual, float), info.finite.shape)
        if self._policy_is_enough():
            plans = _policy_alone(plans.policy)
        return Following(thetas, plans), info._replace(residual=residual)

    reads_policies = fact("act", "init", "observe")
    """Of a plan, it reads the policy alone; a subclass that overrides one of these has all of the plan."""

    def _policy_is_enough(self) -> bool:
        return isinstance(self.model, Tabular) and self.model.plans_optimally and self.reads_policies


def _policy_alone(policy: Int[Array, "*block states"]) -> planning.Plan:
    none: Any = None  # whoever computes with it is refused: an empty tuple has a sum
    return planning.Plan(policy, *[none] * (len(planning.Plan._fields) - 1))


def _numbers(value: Any) -> Any:
    """An array, also of nested sequences, which is what JSON gives back."""
    return np.asarray(value, float) if is_concrete(value) else value


@module
class Follow(Agent):
    """One policy for ever: that which is best for `theta`. With the true θ it is the optimal policy.

    Args:
        model: what plans: a `Tabular` or a dynamics.
        theta: what the policy is best for: the rows and rewards of a table, or θ of a dynamics.

    >>> from blts import Follow
    >>> from blts.dynamics import Inventory
    >>> shop = Inventory()
    >>> print(Follow(shop, shop.true))
    The best policy for a given model.
    An inventory of up to 63 units with backlog: holding 1, shortage 4, Poisson demand of rate 4 in simulations.
    """

    model: Any
    theta: Any
    """The rows and rewards of a table, or θ of a dynamics."""

    def check(self):
        if not isinstance(self.model, Tabular):
            theta: Any = _numbers(self.theta)
        else:
            theta = Sampled(*map(_numbers, self.theta))
            if np.shape(theta.rewards) != self.model.shape[:2]:
                given, wanted = (" × ".join(map(str, shape)) for shape in (np.shape(theta.rewards), self.model.shape[:2]))
                raise ConfigError(f"Follow: theta has rewards of {given} states and actions, and the model {wanted}.")
        object.__setattr__(self, "theta", theta)

    @classmethod
    def knowing(cls, model: Any, env: Any) -> Follow:
        """The optimal policy of an environment that says its truth.

        Args:
            model: what plans: a `Tabular`, or the dynamics of the environment.

        Raises:
            ConfigError: where each replication has a truth of its own, where the environment is a subclass that moves in some
                other way than its truth says, and where `model` would plan for another world.
        """
        if (why := why_lost(env, "truth")) is not None:
            raise ConfigError(f"The best policy is not known: {why}")
        if isinstance(model, Tabular):
            if not model.plans_optimally:
                raise ConfigError(f"{type(model).__name__} plans in a way of its own, which may not be the best; give a Tabular.")
        elif (why := why_not(model)) is not None:
            raise ConfigError(f"The best policy is not known: {why}")
        elif env.dynamics is not None and type(model) is not type(env.dynamics):
            raise ConfigError(
                f"The environment moves as {type(env.dynamics).__name__} and the model is {type(model).__name__}; "
                "give the environment's dynamics."
            )
        if env.truth is None:
            raise ConfigError("Each replication draws a world of its own, so no one policy is optimal; leave out --drawn.")
        return cls(model if env.dynamics is None else env.dynamics, env.truth)  # with the environment's own numbers

    def __str__(self) -> str:
        return f"The best policy for a given model.\n{self.model}"

    @property
    def actions(self) -> int:
        return self.model.actions

    def init(self, key):
        del key
        return self.model.plan(jax.tree.map(jnp.asarray, self.theta))

    def act(self, key, state, obs, played):
        del key, played
        return self.model.act(state, obs)

    def empty(self, row, capacity):
        return ()

    def remember(self, history, row, live):
        return ()

    def observe(self, keys, states, histories):
        return states, Info.of(jnp.ones(keys.shape, bool))
