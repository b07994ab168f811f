"""What a model is: the log-density of one arm's reward, its prior, and what is known about both.

A model is written for **one** arm. Give any of its numbers one more axis in front and it describes that many
independent arms, each with its own prior; `stack` brings all numbers to that form and the agents map over it.
"""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from .._module import Contract, require_part
from .._typing import Array, Float, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..declared import attribute, default, fact, missing, optional, provides, required, why_lost
from ..errors import ConfigError
from .marginal import Marginal
from .printing import sentence
from .returned import check_returns


class Theory(NamedTuple):
    """Where a model stands in the paper's theory: its constants of Assumptions 1–4, or why they do not exist.

    >>> from blts import Gaussian, Laplace
    >>> Gaussian(sd=2.0).theory().inside, Laplace().theory().inside
    (True, False)
    """

    inside: bool
    why: str
    m: Any = np.nan
    """Strong concavity of log p(r|θ) in θ."""
    L: Any = np.nan
    """Smoothness of log p(r|θ) in θ and r."""
    nu: Any = np.nan
    """Strong log-concavity of the true reward density in r."""


class Normal(NamedTuple):
    """The distribution of θ where it is normal: θ = mean + root z for standard normal z."""

    mean: Theta
    root: Float[Array, "dim dim"]


class Model(Contract):
    """The log-density of one arm's reward given θ ∈ R^dim, and the prior of θ: inherit from this to write a model.

    It is written for **one** arm, in JAX. Its numbers are `array()` fields: given with one more axis in front, they describe that
    many arms, and agents map over them. A subclass must define `dim`, `init`, `log_prior`, `log_likelihood`, `mean_reward`,
    `information` and `prior_precision`; with `sample` a `Bandit` can pay its rewards. Further methods are optional and used where
    they are defined: a summary of the data (`has_summary`), the exact posterior (`has_posterior`) and the exact distribution of the
    mean reward (`has_marginal`). `from_functions` makes a model of two log-densities, without a class.

    >>> import jax.numpy as jnp
    >>> from blts import Model, array, random
    >>> class Cauchy(Model):
    ...     scale: float = array(default=1.0)
    ...     dim = 1
    ...
    ...     def init(self, key):
    ...         return random.normal(key, (1,))
    ...
    ...     def log_prior(self, theta):
    ...         return -0.5 * theta[0] ** 2
    ...
    ...     def log_likelihood(self, theta, row):
    ...         return -jnp.log1p(((row.reward - theta[0]) / self.scale) ** 2)
    ...
    ...     def mean_reward(self, theta, obs, action):
    ...         return theta[0]  # the median: a Cauchy distribution has no mean
    ...
    ...     def information(self, theta):
    ...         return jnp.full(1, 0.5) / self.scale**2
    ...
    ...     def prior_precision(self):
    ...         return jnp.ones(1)
    >>> print(Cauchy([1.0, 2.0]))
    2 arms with rewards (scale [1, 2]), outside the paper's theory: its assumptions have not been checked for this model.
    """

    dim = attribute("How many numbers θ has. A class attribute, a field or a property.")

    @required
    def init(self, key: PRNGKey) -> Theta:
        """A draw from the prior.

        Args:
            key: of this arm.

        Returns:
            θ, of shape `(dim,)`.
        """
        raise NotImplementedError

    @required
    def log_prior(self, theta: Theta) -> Scalar:
        """The log-density of the prior, up to a constant; differentiable.

        Args:
            theta: of shape `(dim,)`.

        Returns:
            A number.
        """
        raise NotImplementedError

    @required
    def log_likelihood(self, theta: Theta, row: Row) -> Scalar:
        """The log-density of one reward, up to what does not depend on θ; differentiable in θ.

        Args:
            theta: of shape `(dim,)`.
            row: the round, with `row.reward`, and `row.obs` where there are contexts.

        Returns:
            A number.
        """
        raise NotImplementedError

    @required
    def mean_reward(self, theta: Theta, obs: Tree, action: Int[Array, ""]) -> Scalar:
        """The expected reward, by which arms are compared.

        Args:
            theta: of shape `(dim,)`.
            obs: the context; `()` without one.
            action: the number of the arm.

        Returns:
            A number.
        """
        raise NotImplementedError

    @required
    def information(self, theta: Theta) -> Theta:
        """Curvature of one reward at θ, which sets the units of step sizes: the L of Algorithm 1 where it exists.

        Args:
            theta: of shape `(dim,)`.

        Returns:
            About -∂² log p/∂θᵢ² of a typical reward, a number > 0 for each coordinate, of shape `(dim,)`.
        """
        raise NotImplementedError

    @required
    def prior_precision(self) -> Theta:
        """Curvature of -log prior.

        Returns:
            A number ≥ 0 for each coordinate, of shape `(dim,)`: 1/variance of a Gaussian prior.
        """
        raise NotImplementedError

    @optional
    def sample(self, key: PRNGKey, theta: Theta, obs: Tree, action: Int[Array, ""]) -> Scalar:
        """A reward of an arm with parameter θ, for environments.

        Args:
            key: of this round.
            theta: of shape `(dim,)`.
            obs: the context; `()` without one.
            action: the number of the arm.

        Returns:
            A number.
        """
        raise NotImplementedError

    @optional
    def theta_of_mean(self, mean: Scalar) -> Theta:
        """The θ of an arm with this mean reward, for `Bandit.with_means`.

        Args:
            mean: a number.

        Returns:
            θ, of shape `(dim,)`; not finite where no θ has this mean.
        """
        raise NotImplementedError

    # Optional: the data of an arm as a summary, so that a full gradient costs the same for any number of rewards

    @optional
    def empty(self) -> Tree:
        """The summary of no rewards.

        Returns:
            Any pytree of arrays with a count `rows`.
        """
        raise NotImplementedError

    @optional
    def add(self, summary: Tree, row: Row) -> Tree:
        """Add one reward to a summary.

        Args:
            summary: as `empty` or the last `add` returned it.
            row: the round, with its reward.

        Returns:
            The new summary, of the same structure, shapes and types.
        """
        raise NotImplementedError

    @optional
    def log_likelihood_of(self, theta: Theta, summary: Tree) -> Scalar:
        """The sum of `log_likelihood` over the rewards of a summary.

        Args:
            theta: of shape `(dim,)`.
            summary: of any number of rewards.

        Returns:
            A number.
        """
        raise NotImplementedError

    @optional
    def sample_summary(self, key: PRNGKey, theta: Theta, n: Int[Array, ""]) -> Tree:
        """The summary of n rewards of an arm with parameter θ, drawn at once: with it, whole batches can be simulated at once.

        Args:
            key: for all of them.
            theta: of shape `(dim,)`.
            n: how many rewards.

        Returns:
            A summary with the methods `join(other)` and `total`, distributed as that of n calls of `sample`. What does not depend
            on θ in their likelihood may be left out.
        """
        raise NotImplementedError

    # Optional: the exact posterior, given a summary

    @optional
    def draw(self, key: PRNGKey, summary: Tree) -> Theta:
        """A draw from the exact posterior.

        Args:
            key: of this draw.
            summary: of the rewards seen.

        Returns:
            θ, of shape `(dim,)`.
        """
        raise NotImplementedError

    @optional
    def marginal(self, summary: Tree, obs: Tree, action: Int[Array, ""]) -> Marginal | None:
        """The exact posterior distribution of the mean reward.

        Args:
            summary: of the rewards seen.
            obs: the context; `()` without one.
            action: the number of the arm.

        Returns:
            The distribution; None where only draws of it can be had.
        """
        raise NotImplementedError

    @optional
    def normal(self, summary: Tree) -> Normal:
        """The exact posterior of θ, where it is normal.

        Args:
            summary: of the rewards seen.

        Returns:
            Its mean and a root of its covariance.
        """
        raise NotImplementedError

    @optional
    def normal_after(self, normal: Normal, row: Row) -> Normal:
        """The posterior of θ after one more row, where `normal` is the one before it: in O(dim²), without factorising a matrix.

        Args:
            normal: mean and a root of the covariance.
            row: the round; `row.obs` are its features.

        Returns:
            The new mean and root.
        """
        raise NotImplementedError

    @optional
    def prior_mean_reward(self, obs: Tree, action: Int[Array, ""]) -> tuple[Scalar, Scalar]:
        """Mean and sd of the mean reward under the prior, where `gaussian_prior_and_linear_mean`.

        Args:
            obs: the context; `()` without one.
            action: the number of the arm.

        Returns:
            The mean and the sd.
        """
        raise NotImplementedError

    @optional
    def row_information(self, theta: Theta, obs: Tree) -> Theta:
        """Curvature of one reward of these features at θ: `information` of a model whose curvature depends on them.

        Args:
            theta: of shape `(dim,)`.
            obs: the features of the round.

        Returns:
            A number ≥ 0 for each coordinate, of shape `(dim,)`. Their diagonal matrix is at least the expected -∂² log p/∂θ∂θᵀ.
        """
        raise NotImplementedError

    @optional
    def row_weight(self) -> Scalar:
        """A bound w on the curvature of one reward, where θ weights the features x of a round: -∂² log p ≤ w · x xᵀ for every θ.

        Returns:
            A number > 0: 1/sd² for linear rewards, 1/4 for logistic ones.
        """
        raise NotImplementedError

    # Optional: draws as functions of standard normals

    @optional
    def init_from(self, z: Theta) -> Theta:
        """`init` as a function of standard normals: those of all arms then come from one key, at half the cost.

        Args:
            z: of shape `(dim,)`.

        Returns:
            θ, of shape `(dim,)`.
        """
        raise NotImplementedError

    @optional
    def draw_from(self, z: Theta, marginal: Marginal) -> Theta:
        """`draw` as a function of standard normals and of what `marginal` returns; see `init_from`.

        Args:
            z: of shape `(dim,)`.
            marginal: the posterior distribution of the mean reward.

        Returns:
            θ, of shape `(dim,)`.
        """
        raise NotImplementedError

    @property
    def has_summary(self) -> bool:
        """Whether an arm's data can be kept as a summary: `empty`, `add` and `log_likelihood_of` are defined."""
        return provides(self, "empty", "add", "log_likelihood_of")

    @property
    def has_posterior(self) -> bool:
        """Whether the exact posterior can be drawn from (a conjugate model): `draw` is defined too."""
        return self.has_summary and provides(self, "draw")

    @property
    def has_marginal(self) -> bool:
        """Whether the exact distribution of the mean reward can be asked for: `marginal` is defined too."""
        return self.has_posterior and provides(self, "marginal")

    noun = default("rewards")
    """What it gives, in the sentence that `print` shows."""
    hidden = default(())
    """Numbers that are not settings, and are left out of that sentence."""
    support = default("real")
    """The rewards that can occur: "binary", "count", "positive", "nonnegative" or "real"."""
    samples_within_support = fact("sample")
    mean_of_samples = fact("sample", "mean_reward")
    """Whether `mean_reward` is the mean of `sample`. Where that is lost, simulations compare the two."""
    likelihood_within_support = fact("log_likelihood")
    contextual = default(False)
    """Whether `obs` is a context that it needs."""
    gaussian_prior_and_linear_mean = default(False)
    """Whether the prior is Gaussian, with `prior_mean_reward`, and the mean reward linear in θ."""
    log_concave = default(False)
    """Whether prior and likelihood are log-concave in θ for all rewards. Chains of contextual models then look for one mode."""
    identifiable = default(True)
    """Whether different θ predict differently. The units of a hidden layer can be swapped, so those of a network do not: set this
    to False in such a model, and chains are compared by the mean rewards that they predict, and not by θ (see `diagnosis`)."""
    information_sets_step = default(False)
    """Whether steps of 0.1 to 0.5 times 1/(prior precision + n · information) are short enough wherever a chain may be. Where that
    is not known, chains look for the mode and take the curvature of the rewards there (`Chain.scale`)."""

    def theory(self) -> Theory:
        """Where it stands in the paper's theory.

        Returns:
            By default outside: nobody has checked its assumptions.
        """
        return Theory(False, why_lost(self, "theory") or "its assumptions have not been checked for this model.")

    def __str__(self) -> str:
        return sentence(self)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p><pre>{html.escape(repr(self))}</pre>"


def require_model(owner: str, model: Any) -> None:
    """Refuse what is not a model, saying what it lacks or has lost.

    Args:
        owner: who asks, for the message.
        model: what was given.

    Raises:
        ConfigError: it is no model.

    >>> from blts import ConfigError
    >>> from blts.models import require_model
    >>> try:
    ...     require_model("Thompson", "gaussian")
    ... except ConfigError as error:
    ...     print(error)
    Thompson: model must be an object such as Gaussian(prior_mean=[0.0, 1.0]); got the text 'gaussian'.
    """
    lost = [name for name in missing(model, Model) if why_lost(model, name)]
    if lost:
        others = f" The same holds for {', '.join(lost[1:])}." if lost[1:] else ""
        raise ConfigError(f"{owner}: {why_lost(model, lost[0])}{others}")
    require_part(f"{owner}: model", model, Model, "Gaussian(prior_mean=[0.0, 1.0])")
    check_returns(owner, model)
