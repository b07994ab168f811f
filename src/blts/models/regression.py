"""Generalised linear models: the features of a round act on the reward through one number, η = x·θ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, ndtr

from .. import _draws, _random
from .._module import array, module, static
from .._typing import Numbers
from ..declared import fact, rests_on
from ..errors import ConfigError
from .base import Model, Theory
from .coefficients import NormalCoefficients
from .custom import check_call
from .support import SUPPORTS

LEAST_WEIGHT = 1e-6  # of a reward's curvature at η = 0: `information` must be above zero


def log_softplus(eta):
    """log log(1 + exp(η)); below -15 by its series, for a square of exp(η), in its second derivative, would be zero in float32.

    Args:
        eta: any number.

    Returns:
        Its value.
    """
    low = jnp.minimum(eta, -15.0)
    return jnp.where(eta < -15.0, low - 0.5 * jnp.exp(low), jnp.log(jax.nn.softplus(jnp.maximum(eta, -15.0))))


MEANS: dict[str, Callable] = {
    "identity": lambda eta: eta,
    "logit": jax.nn.sigmoid,
    "probit": ndtr,
    "log": jnp.exp,
    "softplus": jax.nn.softplus,
}
"""The mean of a reward as a function of η, by the name of the link."""


class GeneralisedLinear(NormalCoefficients):
    """What the models below share. Each says `log_density(reward, eta)` and `mean_of(eta)`."""

    log_density: Callable
    mean_of: Callable

    def log_likelihood(self, theta, row):
        return self.log_density(row.reward, self._x(row.obs) @ theta)

    @rests_on("log_likelihood", "log_density", "mean_of")
    def mean_reward(self, theta, obs, action):
        return self.mean_of(self._x(obs) @ theta)

    @rests_on("log_likelihood", "log_density", "mean_of")
    def information(self, theta):
        """Of the mean reward of a feature vector with η = 0, for coordinates of mean square 1."""
        reward = self.mean_of(jnp.zeros(()))
        bend = -jax.grad(jax.grad(lambda eta: self.log_density(reward, eta)))(jnp.zeros(()))
        return jnp.maximum(bend, LEAST_WEIGHT) + 0.0 * theta

    def theory(self):
        return Theory(False, "a reward bends log p along its context only, and contexts have no bounds, so no m and L.")


@module
class Logistic(GeneralisedLinear, Model):
    """Rewards 0 or 1, of which P(1) = 1/(1 + exp(-x·θ)) for the features x of a round.

    Args:
        prior_mean: of θ, `[dim]` or one row for each arm.
        prior_sd: of the coordinates of θ: a number, one for each coordinate, or one row of either for each arm.
        centre: what is subtracted from the features of a round; None for nothing (see `standardised`).
        scale: what they are then divided by; None for 1.

    >>> from blts.models import Logistic
    >>> Logistic(prior_mean=[0.0, 0.0], prior_sd=[10.0, 1.0])
    Logistic(prior_mean=0 (×2), prior_sd=[10, 1], centre=None, scale=None)
    """

    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0, ndim=1, or_number=True)
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "rewards by logistic regression"
    support: ClassVar[str] = "binary"
    log_concave = fact("log_likelihood", "log_density", "log_prior")

    def log_density(self, reward, eta):
        return reward * eta - jax.nn.softplus(eta)

    @rests_on("log_likelihood", "log_density")
    def mean_of(self, eta):
        return jax.nn.sigmoid(eta)

    @rests_on("log_likelihood", "log_density", "_x")
    def row_weight(self):
        return jnp.asarray(0.25)

    @rests_on("log_likelihood", "log_density", "mean_of")
    def sample(self, key, theta, obs, action):
        return (_random.uniform(key) < self.mean_reward(theta, obs, action)).astype(float)


@module
class PoissonRegression(GeneralisedLinear, Model):
    """Rewards that count, Poisson(λ) with log λ = x·θ, or λ = log(1 + exp(x·θ)), for the features x of a round.

    With the link "log" features multiply the rate, and a wide prior believes in rates beyond all bounds; with "softplus" they add
    to it wherever it is large.

    Args:
        prior_mean: of θ, `[dim]` or one row for each arm.
        prior_sd: of the coordinates of θ: a number, one for each coordinate, or one row of either for each arm.
        link: "log" or "softplus".
        centre: what is subtracted from the features of a round; None for nothing (see `standardised`).
        scale: what they are then divided by; None for 1.

    >>> import jax.numpy as jnp
    >>> from blts.models import PoissonRegression
    >>> float(PoissonRegression([0.0, 1.0]).mean_reward(jnp.zeros(2), jnp.array([1.0, 2.0]), 0))
    1.0
    """

    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0, ndim=1, or_number=True)
    link: str = static(default="log")
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "rewards by Poisson regression"
    support: ClassVar[str] = "count"
    log_concave = fact("log_likelihood", "log_density", "log_prior")

    def check(self):
        super().check()
        if self.link not in ("log", "softplus"):
            raise ConfigError(f'PoissonRegression: link must be "log" or "softplus"; got {self.link!r}.')

    def log_density(self, reward, eta):
        log_mean = eta if self.link == "log" else log_softplus(eta)
        return reward * log_mean - self.mean_of(eta) - gammaln(reward + 1.0)

    @rests_on("log_likelihood", "log_density")
    def mean_of(self, eta):
        return MEANS[self.link](eta)

    @rests_on("log_likelihood", "log_density", "mean_of")
    def sample(self, key, theta, obs, action):
        return _draws.poisson(key, self.mean_reward(theta, obs, action)).astype(float)


@module
class Regression(GeneralisedLinear, Model):
    """A generalised linear model of a density and a link; build it with `from_link`."""

    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0, ndim=1, or_number=True)
    density: Callable = static(default=None)
    link: Any = static(default="identity")
    reward: Callable | None = static(default=None)
    support: str = static(default="real")  # type: ignore[assignment]
    log_concave: bool = static(default=False)  # type: ignore[assignment]
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "rewards by regression"

    @property
    def likelihood_within_support(self) -> bool:  # type: ignore[override]
        """ "real" is what is taken where nobody says which rewards there are."""
        return self.support != "real"

    def log_density(self, reward, eta):
        return self.density(reward, self.mean_of(eta))

    def mean_of(self, eta):
        return MEANS[self.link](eta) if isinstance(self.link, str) else self.link(eta)


@module
class SampledRegression(Regression):
    """`Regression` with a function that draws rewards."""

    @rests_on("log_likelihood", "log_density", "mean_of")
    def sample(self, key, theta, obs, action):
        assert self.reward is not None
        return jnp.asarray(self.reward(key, self.mean_reward(theta, obs, action)), float)


def from_link(
    log_density: Callable,
    link: str | Callable,
    *,
    prior_mean: Any,
    prior_sd: Any = 1.0,
    sample: Callable | None = None,
    support: str = "real",
    log_concave: bool = False,
) -> Regression:
    """A generalised linear model from the density of a reward given its mean, and the link of that mean to x·θ.

    Args:
        log_density: `log_density(reward, mean)`, in JAX, which may leave out what does not depend on the mean.
        link: "identity", "log", "logit", "probit" or "softplus", or a function: from η = x·θ to the mean, the inverse link.
        prior_mean: of θ, `[dim]` or one row for each arm.
        prior_sd: of the coordinates of θ: a number, one for each coordinate, or one row of either for each arm.
        sample: `sample(key, mean)`, a reward; only simulated bandits need it.
        support: the rewards that can occur, "real", "positive", "nonnegative", "count" or "binary".
        log_concave: whether log_density(reward, mean(η)) is concave in η for all rewards: a refresh then looks for one mode only.

    Returns:
        A contextual model.

    Raises:
        ConfigError: what is not a function, or a link that has no such name.

    >>> import jax.numpy as jnp
    >>> from blts.models import from_link
    >>> waiting = lambda reward, mean: -jnp.log(mean) - reward / mean
    >>> from_link(waiting, "log", prior_mean=[0.0, 0.0], support="positive").dim
    2
    """
    maker = "from_link"
    if not callable(log_density) or not (sample is None or callable(sample)):
        raise ConfigError(f"{maker}: log_density must be a function of a reward and its mean, and sample of a key and the mean.")
    if not callable(link) and link not in MEANS:
        raise ConfigError(f"{maker}: link must be a function of η, or one of {', '.join(MEANS)}; got {link!r}.")
    if support not in SUPPORTS:
        raise ConfigError(f"{maker}: support must be one of {', '.join(SUPPORTS)}; got {support!r}.")
    check_call(maker, "log_density", log_density, "reward", "mean")
    if sample is not None:
        check_call(maker, "sample", sample, "key", "mean")
    kind = Regression if sample is None else SampledRegression
    return kind(prior_mean, prior_sd, log_density, link, sample, support, log_concave)
