"""Contextual bandits: what a round shows comes from a function, a table or a distribution, and a model pays the rewards."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, contexts, models
from .._module import module, short, static
from .._typing import Array, Float, Int, PRNGKey, Tree
from ..arrays import pick
from ..contexts import Context, Features
from ..declared import fact, provides, rests_on
from ..errors import ConfigError, type_and_message
from ..models.custom import cannot_draw
from ..models.drawing import mean_rewards, prior_draws
from ..models.support import support_of_samples
from .base import Env, Step
from .sources import ContextTable, GaussianContexts, check_rows

PROBES = 256  # contexts that are drawn to check a function


class Shown(NamedTuple):
    """The state of a contextual bandit: θ of this replication, the round and what it shows."""

    theta: Float[Array, "thetas dim"]
    t: Int[Array, ""]
    obs: Tree


@module
class Contextual(Env):
    """A contextual bandit: each round shows a context, and arm a pays a draw of `model` at θ_a and the features φ(context, a).

    Regret is counted against the best arm that is available. An agent that plays another arm gets a reward and a regret of NaN.

    Args:
        model: the distribution of rewards given θ and the features of an arm; it needs contexts and `sample`.
        contexts: what rounds show: a function of a key that returns a vector or a `Context`; an array `[rows, dim]`, or a `Context`
            whose parts have one more axis in front, from which rows are drawn with replacement; a `ContextTable`, whose rows may
            also come one after the other; or `GaussianContexts`.
        theta: the arms' parameters `[arms, dim]`, or `[dim]` where they are shared; a function of a key that draws them for each
            replication; None to draw them from the prior.
        arms: how many arms; only needed where theta, the contexts and the model do not say it.
        shared: whether all arms have one θ and differ in their features alone.
        features: what the rewards of an arm depend on, a function of what a round shows and the arm; by default
            `contexts.features`.

    >>> from blts import Contextual, Linear
    >>> print(Contextual(Linear(prior_mean=[0.0, 0.0]), [[1.0, 0.2], [1.0, -0.7]], theta=[[1.0, 0.0], [0.0, 1.0]]))
    A contextual bandit of 2 arms, each with its own θ in 2 dimensions. Contexts: 2 rows, drawn with replacement.
    """

    model: models.Model
    contexts: Any = None
    theta: Any = None
    arms: int | None = static(default=None)
    shared: bool = static(default=False)
    features: Features | None = static(default=None)

    def check(self):
        models.require_model("Contextual", self.model)
        name = type(self.model).__name__
        if not self.model.contextual:
            raise ConfigError(f"Contextual: {name} has no contexts; use Bandit, or a model such as Linear without alpha.")
        if not provides(self.model, "sample"):
            raise ConfigError(f"Contextual: {cannot_draw(self.model)}")
        object.__setattr__(self, "contexts", _source(self.contexts))
        shown = self._shapes()
        self._check_theta()
        arms = self._count(shown)
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "model", models.stack(self.model, 1 if self.shared else arms))
        self._check_features(shown)
        if not isinstance(self.contexts, ContextTable | GaussianContexts):
            check_rows("Contextual: contexts", _as_context(_drawn(self)), all_rows=False)

    def _shapes(self) -> Context:
        """The shapes of what a round shows."""
        try:
            shown = jax.eval_shape(lambda env, key: env._context(key, jnp.zeros((), int)), self, _random.as_key(0))
        except (TypeError, ValueError) as error:
            what = "contexts must be a function of a key, or a table"
            raise ConfigError(f"Contextual: {what}; calling it failed ({type_and_message(error)}).") from None
        shown = _as_context(shown)
        for part, value in shown._asdict().items():
            if not isinstance(value, tuple) and len(getattr(value, "shape", ())) != (2 if part == "arms" else 1):
                shape = getattr(value, "shape", type(value).__name__)
                form = {"x": "(dim,)", "arms": "(arms, dim)", "available": "(arms,)"}[part]
                raise ConfigError(f"Contextual: a round must show {part} of the shape {form}; got {shape}.")
        return shown

    def _check_theta(self) -> None:
        """Make θ an array of one row an arm, or of one row where it is shared."""
        dim = self.model.dim
        form = f"({dim},)" if self.shared else f"(arms, {dim})"
        if self.theta is None:
            return
        if callable(self.theta):
            shape = jax.eval_shape(lambda draw, key: jnp.asarray(draw(key)), self.theta, _random.as_key(0)).shape
        else:
            try:
                object.__setattr__(self, "theta", np.asarray(self.theta, float))
            except (TypeError, ValueError):
                raise ConfigError(f"Contextual: theta must be numbers of the shape {form}; got {short(self.theta)}.") from None
            if not np.isfinite(self.theta).all():
                raise ConfigError(f"Contextual: theta must be finite; got {short(self.theta)}.")
            shape = self.theta.shape
        if shape not in ((dim,), (1, dim)) if self.shared else len(shape) != 2 or shape[1] != dim:
            raise ConfigError(f"Contextual: theta must have the shape {form}; got {shape}.")

    def _count(self, shown: Context) -> int:
        """How many arms there are: all that say it must agree."""
        said = {"arms=": self.arms}
        said |= {f"contexts.{part}": len(v) for part in ("arms", "available") if (v := getattr(shown, part)) != ()}
        if not self.shared:
            said |= {"theta": len(self.theta) if isinstance(self.theta, np.ndarray) else None}
            said |= {"the model": models.arm_count(self.model)}
        elif models.arm_count(self.model) not in (None, 1):
            raise ConfigError(f"Contextual: shared arms have one θ; the model has numbers for {models.arm_count(self.model)} arms.")
        counts = {name: count for name, count in said.items() if count is not None}
        if not counts:
            raise ConfigError("Contextual: nothing says how many arms there are; give arms=….")
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ConfigError(f"Contextual: the number of arms differs: {told}.")
        return next(iter(counts.values()))

    def _check_features(self, shown: Context) -> None:
        name = type(self.model).__name__
        try:
            shape = jax.eval_shape(lambda env, key: env.means(env.parameters(key), env._context(key, 0)), self, _random.as_key(0))
        except ConfigError:
            raise
        except (TypeError, ValueError, IndexError) as error:
            parts = ", ".join(f"{part} {value.shape}" for part, value in shown._asdict().items() if value != ())
            why = type_and_message(error)
            raise ConfigError(f"Contextual: {name} cannot take these contexts, of the shape {parts} ({why}).") from None
        if shape.shape != (self.arms,):
            raise ConfigError(f"Contextual: mean_reward of {name} must return one number an arm.")

    def __str__(self) -> str:
        law = "the prior" if self.theta is None else str(self.theta)
        known = f" drawn from {law} for each replication" if self.theta is None or callable(self.theta) else ""
        has = "with one θ for all" if self.shared else "each with its own θ"
        kind = "A contextual bandit" if type(self) is Contextual else f"{type(self).__name__}, changed from a contextual bandit"
        source = short(self.contexts) if not isinstance(self.contexts, ContextTable | GaussianContexts) else str(self.contexts)
        of = "" if self.features is None else f" Features: {short(self.features)}."
        return f"{kind} of {self.actions} arms, {has} in {self.model.dim} dimensions{known}. Contexts: {source}.{of}"

    @property
    def actions(self) -> int:
        """How many arms there are."""
        assert self.arms is not None
        return self.arms

    @rests_on("reset", "step")
    @property
    def support(self) -> str | None:
        """Which rewards can occur, one of `models.support.SUPPORTS`; None where that is not known."""
        return support_of_samples(self.model)

    regret_fits_rewards = fact("reset", "step", "means")
    """Whether regret is computed from the means that are paid. Where that is lost, simulations compare the two."""

    def parameters(self, key: PRNGKey) -> Float[Array, "thetas dim"]:
        """θ of the arms, as given or drawn from the prior.

        Args:
            key: for the draws.

        Returns:
            θ, one row an arm, or one row where it is shared.
        """
        if self.theta is None:
            return prior_draws(key, self.model)
        theta = jnp.asarray(self.theta(key) if callable(self.theta) else self.theta, float)
        return theta.reshape(-1, self.model.dim)

    def means(self, theta: Float[Array, "thetas dim"], obs: Tree) -> Float[Array, " arms"]:
        """The mean rewards of the arms.

        Args:
            theta: as of `parameters`.
            obs: what the round shows.

        Returns:
            One number per arm.
        """
        seen = contexts.by_arm(self.features or contexts.features, obs, self.actions)
        if not self.shared:
            return mean_rewards(self.model, theta, seen)
        single = models.first_arm(self.model)
        return jax.vmap(lambda x, a: single.mean_reward(theta[0], x, a))(seen, jnp.arange(self.actions))

    def _context(self, key, t) -> Tree:
        return self.contexts.show(key, t) if isinstance(self.contexts, ContextTable) else self.contexts(key)

    def reset(self, key):
        key_arms, key_context = _random.split(key)
        none = jnp.zeros((), int)
        obs = self._context(key_context, none)
        return Shown(self.parameters(key_arms), none, obs), obs

    def step(self, key, state, action):
        key_reward, key_context = _random.two(key)
        theta, t, obs = state
        own = jnp.zeros_like(action) if self.shared else action
        seen = (self.features or contexts.features)(obs, action)
        reward = models.arm(self.model, own).sample(key_reward, pick(theta, own), seen, action)
        regret, reward = against_best(self.means(theta, obs), action, contexts.available(obs), reward)
        following = self._context(key_context, t + 1)
        return Shown(theta, t + 1, following), Step(following, reward, regret)


def against_best(means: Float[Array, " arms"], action, available, reward) -> tuple[Array, Array]:
    """The regret of an action and its reward, both NaN where the arm cannot be played.

    Args:
        means: the mean rewards of all arms.
        action: the arm that was played.
        available: which arms can be; None where all can.
        reward: what it paid.

    Returns:
        The regret against the best arm that can be played, exactly 0 for that arm, and the reward.
    """
    open_means = means if available is None else jnp.where(available, means, -jnp.inf)
    # XLA may round the same formula in two ways; the best arm's regret must be exactly 0.
    regret = jnp.where(action == jnp.argmax(open_means), 0.0, jnp.maximum(jnp.max(open_means) - pick(means, action), 0.0))
    if available is None:
        return regret, reward
    allowed = pick(available, action)
    return jnp.where(allowed, regret, jnp.nan), jnp.where(allowed, reward, jnp.nan)


def _source(given: Any) -> Any:
    if isinstance(given, ContextTable | GaussianContexts):
        return given
    if callable(given):
        return given
    if given is None or isinstance(given, str | bool):
        raise ConfigError(f"Contextual: contexts must be a function of a key, or a table of rows; got {given!r}.")
    return ContextTable.of(given)


def _as_context(shown: Tree) -> Context:
    return shown if isinstance(shown, Context) else Context(x=shown)


@jax.jit
def _drawn(env: Contextual) -> Tree:
    """Some contexts, to check what a function returns."""
    return jax.vmap(lambda key: env._context(key, jnp.zeros((), int)))(_random.split(_random.as_key(0), PROBES))
