"""A belief that learns from noisy sums alone, released once a batch, so that little can be told of any one reward."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ... import _random
from ..._module import array, at_least, finite, is_concrete, module, parts_within, positive, require, require_part, short, static
from ..._typing import Array, Float, Int, Numbers, PRNGKey, Scalar, Tree
from ...declared import fact, provides, rests_on
from ...errors import ConfigError
from ...history.summaries import keep_arm
from ...models import Gaussian, Linear, marginal
from ...models.arms import arm
from ...models.drawing import arms_of
from ...models.linear import Equations
from ...models.moments import Moments, Sum
from ...privacy import Guarantee
from .base import Belief
from .exact import Exact, holds_normal
from .pool import Pool


class Rewards(NamedTuple):
    """The clipped rewards of every arm: what the server keeps to itself."""

    rows: Int[Array, " arms"]
    total: Sum


class Products(NamedTuple):
    """Σ x xᵀ and Σ x r of the clipped rows of every arm: what the server keeps to itself."""

    gram: Sum
    moment: Sum


class Released(NamedTuple):
    """What was released so far; all that draws depend on."""

    first: Array
    """Of every arm, the number of plays that the sums are worth; with contexts, noisy Σ x xᵀ."""
    second: Array
    """The noisy sums, each multiplied by what a play of its batch is worth; with contexts, noisy Σ x r."""
    plays: Int[Array, " arms"]
    """Plays of every arm, which are public; with contexts not released, and 0."""
    releases: Int[Array, ""]


class PrivateState(NamedTuple):
    belief: Tree
    released: Released
    seen: Tree
    """What the server had when it last released something: its own, and no part of a release."""


def holds_private(part: Any) -> bool:
    """Whether an agent or a belief draws from private releases, however deep it is wrapped.

    Args:
        part: the agent or the belief.

    Returns:
        Whether there is a `Private` in it.
    """
    return any(isinstance(each, Private) for each in parts_within(part))


@module
class Private(Belief):
    """Another belief, on sums that are released at batch ends with Gaussian noise: ρ-zCDP for each row (see `privacy`).

    A row is in the release of its own batch and in no other, so that all batches together cost it ρ once, while each adds noise:
    fewer batches lose less. Rewards are clipped to [low, high].

    Without contexts the sum of the rewards of a batch is released for every arm that was played in it, with noise of sd
    σ = (high - low)/√(2ρ). The plays are public: they depend on what was released before, and on no reward of their batch. The
    noise is part of the posterior. A batch with n plays of an arm has a sum N(nθ, n sd² + σ²), so that it is worth
    n/(1 + σ²/(n sd²)) plays of its mean.

    With contexts, Σ x xᵀ and Σ x r of every arm are released, of rows that are scaled to |x| ≤ `norm`, with noise for all arms, for
    which arm was played tells of the context. Batch ends must not depend on actions either. Where noise makes an eigenvalue of
    Σ x xᵀ negative, nothing is learned in its direction. In the others the posterior is that of the equations
    Σ x r = Σ x xᵀ θ + noise, whose noise includes that of Σ x xᵀ for a θ as large as the prior says. That is an approximation:
    where noise dominates, errors of θ are up to 15 % larger than the posterior says.

    Args:
        belief: what is drawn from: `Exact()`, or a `Pool` of chains on all data for models without contexts.
        rho: ρ, for all releases together.
        low: the least reward; what is below is clipped.
        high: the largest reward.
        norm: the largest |x| with contexts; longer rows are scaled, with their rewards.
        rows: how many rows of one person are covered. They may all be in one batch, so noise has `rows` times the sd.
        contexts: to be left out; taken from the model.

    >>> from blts import Exact, Gaussian, Thompson
    >>> from blts.agents import Private
    >>> agent = Thompson(Gaussian(prior_mean=[0.5, 0.5], prior_sd=0.5, sd=0.5), Private(Exact(), rho=0.5, low=0.0, high=1.0))
    >>> print(agent.privacy)
    Private: the reward of a row replaced by others changes all releases together by ρ = 0.5 (zCDP), which is ε = 5.22 at δ = 1e-06;
    a row is in one release, so batches do not add up. Rewards are clipped to [0, 1]; each release has noise of sd 1 on the sum of
    an arm's rewards.
    """

    belief: Belief
    rho: Numbers = array()
    low: Numbers = array()
    high: Numbers = array()
    norm: Numbers = array(default=1.0)
    rows: int = static(default=1)
    contexts: bool = static(default=False)

    def check(self):
        require_part("Private: belief", self.belief, Belief, "Exact()")
        positive(self, "rho", "norm")
        finite(self, "low", "high")
        at_least(self, "rows", 1)
        ok = self.high > self.low if is_concrete(self.high) and is_concrete(self.low) else True
        require(self, ok, f"high must be above low; got {short(self.low)} and {short(self.high)}.")

    def __str__(self) -> str:
        return f"{self.belief}, of sums with noise for ρ = {short(self.rho)}"

    def check_model(self, model):
        if not (isinstance(model, Gaussian) or (isinstance(model, Linear) and model.contextual)) or not model.has_posterior:
            raise ConfigError(
                f"Private needs sums of bounded rewards whose noise it can count, and {type(model).__name__} has none; use "
                "Gaussian, with sd=0.5 for rewards between 0 and 1, or Linear with contexts."
            )
        belief = self.belief.check_model(model)
        summed = type(belief) is Exact or (type(belief) is Pool and not belief.chain.needs_log(model) and not model.contextual)
        if not summed:
            raise ConfigError(
                "Private releases sums, and draws from them with Exact(), or without contexts with a Pool of chains on all data "
                f"such as Pool(ula()); got {belief}."
            )
        return dataclasses.replace(self, belief=belief, contexts=model.contextual)

    # What the noise is

    def sensitivity(self) -> Scalar:
        """How much the release of a batch changes at most when a row of it is replaced.

        With contexts it is in units of norm² for Σ x xᵀ and of norm · max|r| for Σ x r. For two rows of norm 1 with u the cosine
        between them and rewards ±1, |f - f'|² ≤ 4 - 2u² + 2|u| ≤ 4.5 in one arm, and at most 4 in two; so it is for shorter ones.
        """
        return jnp.sqrt(4.5) if self.contexts else self.high - self.low

    def noise_sd(self) -> Scalar:
        """The sd of the noise of one release, in the units of `sensitivity`: rows · sensitivity / √(2ρ)."""
        return self.rows * self.sensitivity() / jnp.sqrt(2.0 * self.rho)

    @property
    def bound(self) -> Scalar:
        """The largest |r| after clipping."""
        return jnp.maximum(jnp.abs(self.low), jnp.abs(self.high))

    _releases_alone = fact(
        *("check_model", "init", "empty", "remember", "refresh", "release", "sensitivity", "noise_sd", "bound"),
        *("draw", "normal", "laws", "members", "values"),
    )

    @property
    def privacy(self) -> Guarantee | None:
        """The guarantee; None in a subclass that overrides what is clipped, summed, released or drawn from."""
        if not self._releases_alone:
            return None
        sd, clipped = float(self.noise_sd()), f"Rewards are clipped to [{short(self.low)}, {short(self.high)}]"
        if not self.contexts:
            return Guarantee(float(self.rho), self.rows, False, clipped, f"noise of sd {sd:.3g} on the sum of an arm's rewards")
        gram, moment = float(self.norm) ** 2 * sd, float(self.norm * self.bound) * sd
        clipped += f" and features to the norm {short(self.norm)}"
        noise = f"noise of sd {gram:.3g} on Σxxᵀ (off its diagonal that divided by √2) and {moment:.3g} on Σxr, of every arm"
        return Guarantee(float(self.rho), self.rows, True, clipped, noise)

    # What is remembered

    @rests_on("refresh")
    def incremental(self, model):
        return not self.contexts and self.belief.incremental(model)

    @property
    def starts_from_prior(self) -> bool:
        return self._starts_as_belief and self.belief.starts_from_prior

    _starts_as_belief = fact("init", "refresh")

    def init(self, key, model):
        memory, arms = self._nothing(model), arms_of(model)
        d = (model.dim,) if self.contexts else ()
        none = Released(jnp.zeros((arms, *d, *d)), jnp.zeros((arms, *d)), jnp.zeros(arms, int), jnp.zeros((), int))
        return PrivateState(self.belief.init(key, model), none, memory)

    def empty(self, model, row, capacity):
        return self._nothing(model)

    def _nothing(self, model) -> Tree:
        arms, d = arms_of(model), model.dim
        if self.contexts:
            return Products(Sum.zero((arms, d, d)), Sum.zero((arms, d)))
        return Rewards(jnp.zeros(arms, int), Sum.zero((arms,)))

    def remember(self, model, history, row, live):
        reward = jnp.clip(row.reward, self.low, self.high)
        mine = jax.tree.map(lambda x: x[row.action], history)
        if self.contexts:
            single: Any = arm(model, row.action)
            one = single.add(single.empty(), row._replace(reward=reward))
            gram = one.gram.value
            # A row longer than `norm` is scaled with its reward, so that r = x·θ + noise still holds.
            shrink = jnp.minimum(1.0, jnp.square(self.norm) / jnp.maximum(jnp.trace(gram), 1e-30))
            moment = one.moment.value + gram @ jnp.asarray(single.prior_mean)
            added: Any = Products(mine.gram.plus(shrink * gram), mine.moment.plus(shrink * moment))
        else:
            added = Rewards(mine.rows + 1, mine.total.plus(reward))
        return keep_arm(added, history, row.action, live)

    # What is released, and what is made of it

    def release(self, key: PRNGKey, model: Any, released: Released, new: Tree) -> Released:
        """Add the sums of one batch, with noise, to what was released before.

        Args:
            key: of this batch alone.
            model: of all arms.
            released: before this batch.
            new: the sums of the batch.

        Returns:
            What is released after it.
        """
        sd = self.noise_sd()
        if self.contexts:
            key_gram, key_moment = _random.split(key)
            z = _random.normal(key_gram, new.gram.value.shape)
            # A symmetric matrix has d(d + 1)/2 numbers, those off its diagonal twice: noise of variance 1 on it and 1/2 off it
            # is the same in all directions, as Euclidean sensitivity needs.
            gram = new.gram.value + jnp.square(self.norm) * sd * (z + jnp.swapaxes(z, -1, -2)) / 2.0
            moment = new.moment.value + self.norm * self.bound * sd * _random.normal(key_moment, new.moment.value.shape)
            return Released(released.first + gram, released.second + moment, released.plays, released.releases + 1)
        n = new.rows.astype(float)
        noisy = new.total.value + sd * _random.normal(key, n.shape)
        variance = jnp.square(jnp.asarray(model.sd))
        worth = n * variance / (n * variance + jnp.square(sd))  # 0 for an arm that was not played: nothing is released of it
        return Released(
            released.first + worth * n, released.second + worth * noisy, released.plays + new.rows, released.releases + 1
        )

    def summary(self, model: Any, released: Released) -> Tree:
        """The model's summary of every arm that has the same posterior as what was released.

        Args:
            model: of all arms.
            released: all releases so far.

        Returns:
            The summaries.
        """
        if self.contexts:
            return jax.vmap(lambda single, gram, moment: self._equations(single, gram, moment, released.releases))(
                model, released.first, released.second
            )
        worth = released.first
        mean = released.second / jnp.where(worth > 0, worth, 1.0)
        # Chains take their steps from the number of rows; it must not be below what the rows are worth.
        rows = jnp.where(released.plays > 0, jnp.maximum(jnp.ceil(worth), 1), 0).astype(int)
        zero = jnp.zeros_like(mean)
        return Moments(rows, worth, mean, zero, zero)

    def _equations(self, single: Any, gram: Float[Array, "d d"], moment: Float[Array, " d"], releases: Int[Array, ""]) -> Equations:
        d, m0 = single.dim, jnp.asarray(single.prior_mean)
        values, vectors = jnp.linalg.eigh(gram)
        sd = self.noise_sd()
        of_gram, of_moment = jnp.square(sd * jnp.square(self.norm)), jnp.square(sd * self.norm * self.bound)
        # With the noise E of Σ x xᵀ, E θ has the variance sd² (1 + 1/d)/2 |θ|² in a coordinate.
        size = jnp.sum(jnp.square(m0)) + jnp.sum(1.0 / single.prior_precision())
        variance = jnp.square(single.sd)
        noise = releases * (of_moment + 0.5 * (1.0 + 1.0 / d) * of_gram * size)
        known = jnp.maximum(values, 0.0)
        worth = variance * known / (variance * known + jnp.maximum(noise, 1e-30))
        along = vectors.T @ (moment - gram @ m0)
        effective = (vectors * (worth * known)) @ vectors.T
        return Equations(jnp.zeros((), int), Sum.of(effective), Sum.of(vectors @ (worth * along)), Sum.zero())

    def refresh(self, keys, model, state, history):
        split = jax.vmap(_random.split)(keys)
        new = jax.tree.map(lambda now, before: now - before, history, state.seen)
        released = jax.vmap(lambda key, r, n: self.release(key, model, r, n))(split[:, 0], state.released, new)
        summary = jax.vmap(lambda r: self.summary(model, r))(released)
        if holds_normal(model) and provides(model, "normal_after"):  # what Exact remembers then
            summary = jax.vmap(jax.vmap(lambda single, s: single.normal(s)), (None, 0))(model, summary)
        belief, info = self.belief.refresh(split[:, 1], model, state.belief, summary)
        return PrivateState(belief, released, history), info

    # Draws are those of the belief

    @rests_on("normal")
    def draw(self, key, model, state):
        return self.belief.draw(key, model, state.belief)

    @rests_on("draw")
    def normal(self, model, state):
        return self.belief.normal(model, state.belief)

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        return self.belief.laws(model, state.belief, obs)

    @rests_on("draw", "members", "values")
    @property
    def draws_members(self) -> bool:
        """Whether the belief does."""
        return self.belief.draws_members

    def members(self, state):
        return self.belief.members(state.belief)

    def values(self, model, thetas, obs):
        return self.belief.values(model, thetas, obs)
