"""Thompson sampling for any model and any way to hold its posterior: BLTS, exact, ULA, MALA are all this agent."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, contexts, models
from .._module import module, require_part, static
from .._typing import Array, Float, Row, Tree
from ..declared import fact, rests_on, why_lost
from ..errors import ConfigError
from ..models import marginal
from ..models.drawing import mean_rewards, prior_draws
from ..samplers.chain import Chain
from . import joint, propensity
from .base import Agent, argmax
from .beliefs import Belief, default_belief

PROPENSITY_DRAWS = 4096  # draws of each arm from which propensities are estimated where they have no closed form


@module
class Thompson(Agent):
    """Draw θ for every arm, play the arm with the largest mean reward (Algorithm 2, lines 3–4).

    Without a belief, a conjugate model is drawn from exactly, and any other by a pool of adjusted chains around its modes. The
    paper's own method is `Thompson(model, Perturb(sgld()))`.

    Args:
        model: what is believed of the arms' rewards.
        belief: how the posterior is held within a batch; None for the model's default.
        arms: how many arms, where the model's numbers do not say it.
        shared: whether all arms have one θ, drawn once a round, and differ in their features alone.
        features: what the rewards of an arm depend on, a function of what a round shows and the arm; by default
            `contexts.features`.

    >>> from blts.agents import Exact, Thompson
    >>> from blts.models import Gaussian
    >>> agent = Thompson(Gaussian(prior_mean=[0.0, 1.0], prior_sd=1.0, sd=0.5), Exact())
    >>> agent.actions
    2
    """

    model: models.Model
    belief: Belief = None  # type: ignore[assignment]
    """How the posterior is held within a batch; None for the model's default (`default_belief`)."""
    arms: int | None = static(default=None)
    """The number of arms, where the model's numbers do not say it."""
    shared: bool = static(default=False)
    """Whether all arms have one θ; the model then has one θ, whose rewards depend on an arm's features."""
    features: contexts.Features | None = static(default=None)
    """What the rewards of an arm depend on: `features(obs, action)` is the context that the model is given; None for
    `contexts.features`."""

    def check(self):
        models.require_model("Thompson", self.model)
        arms = self.arms if self.arms is not None or self.shared else models.arm_count(self.model)
        if self.shared:
            self._check_shared()
        if arms is None:
            raise ConfigError("Thompson: the model does not say how many arms there are; give arms=…, or one number per arm.")
        object.__setattr__(self, "model", models.stack(self.model, 1 if self.shared else arms))
        self._check_overrides()
        belief = default_belief(self.model) if self.belief is None else self.belief
        if isinstance(belief, Chain):
            raise ConfigError(
                "Thompson: belief says how each round draws from the chain's ends; give Perturb(chain) or Pool(chain)."
            )
        require_part("Thompson: belief", belief, Belief, "Exact(), Perturb(sgld()) or Pool(mala())")
        checked = belief.check_model(self.model)
        require_part(f"Thompson: what check_model of {type(belief).__name__} returns", checked, Belief, "the belief itself")
        object.__setattr__(self, "belief", checked)
        object.__setattr__(self, "arms", arms)

    def _check_overrides(self) -> None:
        """Refuse a summary of one's own that nothing would call: without `log_likelihood_of` none is kept."""
        unused = why_lost(self.model, "log_likelihood_of", "empty", "add")
        if unused is not None:
            raise ConfigError(f"{type(self).__name__}: {unused}")

    def _check_shared(self) -> None:
        if not self.model.contextual:
            name = type(self.model).__name__
            raise ConfigError(f"Thompson: with shared=True arms differ in their features alone, and {name} has no contexts.")
        if models.arm_count(self.model) not in (None, 1):
            count = models.arm_count(self.model)
            raise ConfigError(f"Thompson: with shared=True all arms have one θ; the model has numbers for {count} arms.")
        if self.arms is None:
            raise ConfigError("Thompson: with shared=True the model does not say how many arms there are; give arms=….")

    def __str__(self) -> str:
        name = "Thompson sampling" if type(self) is Thompson else f"{type(self).__name__}, changed from Thompson sampling"
        shared = f" with one θ for {self.arms} arms" if self.shared else ""
        return f"{name}{shared}, {self.belief}.\n{self.model}"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{line}</p>" for line in str(self).splitlines())

    @property
    def actions(self) -> int:
        assert self.arms is not None
        return self.arms

    @rests_on("observe")
    @property
    def incremental(self) -> bool:
        return self.belief.incremental(self.model)

    @property
    def plain_memory(self) -> bool:
        return self._remembers_as_belief and self.belief.plain_memory

    _remembers_as_belief = fact("empty", "remember", "seen")

    @property
    def starts_from_prior(self) -> bool:
        return self._starts_as_belief and self.belief.starts_from_prior

    _starts_as_belief = fact("init")

    @property
    def holds_posterior(self) -> bool:
        return self._learns_as_belief and self.belief.draws_posterior

    _learns_as_belief = fact("init", "empty", "remember", "seen", "observe")

    @property
    def privacy(self):
        return self.belief.privacy if self._learns_as_belief and self._acts_on_state else None

    _acts_on_state = fact("act")

    def init(self, key):
        return self.belief.init(key, self.model)

    def act(self, key, state, obs, played):
        return argmax(self._drawn(key, state, obs), contexts.available(obs))

    def _drawn(self, key, state, obs) -> Float[Array, " arms"]:
        """The mean rewards at a draw of θ. Where each is normal, given the features of the round, and independent of the others, it
        is drawn as one normal per arm."""
        laws = self.laws(state, obs) if self.model.contextual else None
        if isinstance(laws, marginal.NormalLaw):
            return laws.mean + laws.sd * _random.normal(key, (self.actions,))
        drawn = self.mean_rewards(self.belief.draw(key, self.model, state), obs)
        if laws is None:
            return drawn
        # `laws` gives arms whose features are all zero a spread too small to see, so that none is preferred; here likewise.
        return drawn + marginal.LEAST_SD * _random.normal(_random.fold_in(key, self.actions), (self.actions,))

    def mean_rewards(self, theta, obs) -> Float[Array, " arms"]:
        """The mean rewards of the arms.

        Args:
            theta: a draw of the belief: θ of every arm, or one θ where it is shared.
            obs: what the round shows.

        Returns:
            One number per arm.
        """
        seen = self._by_arm(obs)
        if not self.shared:
            return mean_rewards(self.model, theta, seen)
        single = models.first_arm(self.model)
        return jax.vmap(lambda x, a: single.mean_reward(theta[0], x, a))(seen, jnp.arange(self.actions))

    def _by_arm(self, obs) -> Tree:
        return contexts.by_arm(self.features or contexts.features, obs, self.actions)

    def seen(self, row):
        """A round as the model sees it: with the features of the action; where θ is shared, as a round of the only arm."""
        action = jnp.zeros_like(row.action) if self.shared else row.action
        of = self.features or contexts.features
        return Row(of(row.obs, row.action), action, row.reward)

    def empty(self, row, capacity):
        seen = self.seen(row)
        if self.shared and jax.tree.leaves(seen.obs):
            self._check_likelihood(seen)
            self._check_arms_differ(row)
        return self.belief.empty(self.model, seen, capacity)

    def _check_likelihood(self, seen: Row) -> None:
        """Refuse a likelihood that reads the action, which is 0 in the rows of a shared θ."""
        single, theta = models.first_arm(self.model), jnp.zeros(self.model.dim)
        density = lambda action: single.log_likelihood(theta, seen._replace(action=action))  # noqa: E731
        program = jax.make_jaxpr(density)(jnp.zeros((), int)).jaxpr
        if any(program.invars[0] is each for eqn in program.eqns for each in eqn.invars):
            raise ConfigError(
                f"Thompson: with shared=True rows have no action, and log_likelihood of {type(self.model).__name__} reads "
                "row.action; put what it needs of the action into the features (contexts.WithOffsets)."
            )

    def _check_arms_differ(self, row: Row) -> None:
        """Refuse features that are the same for all arms, which a shared θ then cannot tell apart."""
        single, theta, of = models.first_arm(self.model), jnp.zeros(self.model.dim), self.features or contexts.features
        value = lambda action: single.mean_reward(theta, of(row.obs, action), action)  # noqa: E731
        program = jax.make_jaxpr(value)(jnp.zeros((), int)).jaxpr
        read = any(program.invars[0] is each for eqn in program.eqns for each in eqn.invars)
        if self.actions > 1 and self.draws_mean_rewards and not read:
            raise ConfigError(
                "Thompson: with shared=True arms differ in their features alone, and a round shows the same for all of them; give "
                "each arm features of its own (Context.arms), or features=contexts.WithOffsets(arms) or contexts.Crossed(arms)."
            )

    def remember(self, history, row, live):
        return self.belief.remember(self.model, history, self.seen(row), live)

    def observe(self, keys, states, histories):
        return self.belief.refresh(keys, self.model, states, histories)

    @rests_on("act")
    def propensities(self, state, obs=(), *, draws: int = PROPENSITY_DRAWS) -> Float[Array, " arms"]:
        """P(a is played) for every arm, the same at every round of the batch that shows `obs`.

        By quadrature where the arms' mean rewards have distributions in closed form, exactly for pools of arms with data;
        otherwise from `draws` draws per arm, with an error below 1/√draws (the draws are fixed, so is the answer for a state).
        """
        available, laws = contexts.available(obs), self.laws(state, obs)
        if laws is not None:
            return propensity.of_laws(laws, available)
        if (values := self._joint_values(state, obs)) is not None:
            return joint.of_joint(*values, propensity.allowed(available))[0]
        of = propensity.of_members if self.shared else propensity.of_values
        if self._draws_members:
            return of(self._member_values(state, obs, draws), available)
        keys = _random.split(_random.as_key(0), draws)
        values = jax.lax.map(lambda k: self.mean_rewards(self.belief.draw(k, self.model, state), obs), keys, batch_size=256)
        return of(values.T, available)

    def laws(self, state, obs=()) -> marginal.Marginal | None:
        """The distributions of the arms' mean rewards that a round draws from; None where they have no closed form, or where θ is
        shared: the draws of the arms then depend on each other."""
        if self.shared or not self.draws_mean_rewards:
            return None
        return self.belief.laws(self.model, state, self._by_arm(obs))

    def _joint_values(self, state, obs) -> tuple[Float[Array, " arms"], Float[Array, "arms dim"]] | None:
        """Mean of the arms' mean rewards and root of their covariance, where a shared θ makes them jointly normal; else None."""
        if not (self.shared and self.draws_mean_rewards and self.model.gaussian_prior_and_linear_mean):
            return None
        if (normal := self.belief.normal(self.model, state)) is None:
            return None
        single = models.first_arm(self.model)
        slope = jax.value_and_grad(lambda theta, x, a: single.mean_reward(theta, x, a))
        mean, along = jax.vmap(lambda x, a: slope(normal.mean[0], x, a))(self._by_arm(obs), jnp.arange(self.actions))
        return mean, along @ normal.root[0]

    @rests_on("propensities", "act")
    def propensities_are_exact(self, state, obs=()) -> bool:
        """Whether `propensities` is exact up to quadrature, of a shared θ within 1e-4, rather than estimated from draws."""
        if self._draws_members:
            return bool(np.all(np.asarray(state.n) > 0))
        if self.shared:
            values = self._joint_values(state, obs)
            return values is not None and bool(joint.of_joint(*values, propensity.allowed(contexts.available(obs)))[1] < 1e-4)
        return finds(self.laws, state, obs)

    sees_features = fact("seen")
    """Whether what the model learns from is `features` of a round."""
    draws_mean_rewards = fact("mean_rewards")
    """Whether the value of a draw is the model's mean reward."""

    @property
    def _draws_members(self) -> bool:
        return self.draws_mean_rewards and self.belief.draws_members

    def _member_values(self, state, obs, draws: int) -> Float[Array, "arms values"]:
        """The mean rewards that each arm's draw is one of: its members, repeated, or `draws` of its prior without data."""
        members = self.belief.members(state)
        if self.shared:
            values = jax.vmap(lambda theta: self.mean_rewards(theta[None], obs), out_axes=1)(members[0])
        else:
            values = self.belief.values(self.model, members, self._by_arm(obs))
        repeats = -(-draws // values.shape[1])
        keys = _random.split(_random.as_key(0), repeats * values.shape[1])
        prior = jax.vmap(lambda k: self.mean_rewards(prior_draws(k, self.model), obs))(keys).T
        return jnp.where((state.n > 0)[:, None], jnp.tile(values, (1, repeats)), prior)


def finds(laws: Any, *arguments: Tree) -> bool:
    """Whether a method of an agent has distributions to say, rather than None.

    Args:
        laws: the method.
        arguments: its own; their numbers do not matter.

    Returns:
        The answer for all agents and arguments of this structure, which is kept: tracing takes longer than the refresh of a small
        experiment.
    """
    key = laws.__func__, jax.tree.structure((laws.__self__, arguments))
    if key not in _FOUND:
        _FOUND[key] = jax.eval_shape(laws, *arguments) is not None
    return _FOUND[key]


_FOUND: dict[Any, bool] = {}
