"""A small neural network of the features of a round."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, positive, static
from .._typing import Float, Numbers, Scalar, Theta
from ..declared import fact, rests_on
from ..errors import ConfigError, whole
from .arms import arm_count
from .base import Model, Theory
from .coefficients import WithFeatures
from .normal import HALF_LOG_2PI


@module
class Network(WithFeatures, Model):
    """Rewards N(f(x; θ), sd²), where f is a network of tanh layers with one output, of the features x of a round.

    θ holds all weights and biases, in units of their prior sds: prior_sd/√(inputs of the layer) of a weight, prior_sd of a bias. So
    its prior is N(0, I). With `Thompson(…, shared=True, features=WithOffsets(arms))` one network serves all arms.

    Args:
        inputs: how many features there are.
        hidden: the width of each hidden layer.
        prior_sd: of weights and biases, before they are divided by the root of their layer's inputs.
        sd: of the rewards, known.
        centre: what is subtracted from the features of a round; None for nothing (see `standardised`).
        scale: what they are then divided by; None for 1.

    >>> from blts.models import Network
    >>> Network(inputs=3, hidden=(8,)).dim
    41
    """

    inputs: int = static()
    hidden: tuple[int, ...] = static(default=(16,))
    prior_sd: Numbers = array(default=1.0)
    sd: Numbers = array(default=1.0)
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "rewards by a neural network"
    identifiable: ClassVar[bool] = False
    """Hidden units can be swapped, and their signs changed, without a change of f."""
    gaussian_last_layer = fact("init", "init_from", "log_prior", "log_likelihood", "mean_reward", "_output")
    """Whether rewards are normal with a mean that is linear in the last layer, whose prior is normal."""

    def check(self):
        whole("Network: inputs", self.inputs)
        if not isinstance(self.hidden, tuple | list) or not self.hidden:
            raise ConfigError(f"Network: hidden must be the width of each hidden layer, such as (16,); got {self.hidden!r}.")
        object.__setattr__(self, "hidden", tuple(whole("Network: a width of hidden", width) for width in self.hidden))
        arm_count(self)
        positive(self, "prior_sd", "sd")
        self._check_standardisation()

    @property
    def width(self) -> int:  # type: ignore[override]
        """How many features there are."""
        return self.inputs

    @property
    def _layers(self) -> list[tuple[int, int]]:
        return list(pairwise((self.inputs, *self.hidden, 1)))

    @property
    def dim(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in self._layers)

    @property
    def last(self) -> int:
        """How many numbers of θ, the last ones, are the weights and the bias of the last layer; f is linear in them."""
        return self.hidden[-1] + 1

    def _output(self, theta: Theta, x: Float) -> Scalar:
        start = 0
        for inputs, outputs in self._layers:
            weights = theta[start : start + inputs * outputs].reshape(inputs, outputs) / np.sqrt(inputs)
            start += inputs * outputs
            # A sum of products, and not `@`: with chains as the last axis it is vector code.
            x = self.prior_sd * (jnp.sum(x[:, None] * weights, 0) + theta[start : start + outputs])
            start += outputs
            x = jnp.tanh(x) if start < self.dim else x
        return x[0]

    @rests_on("log_prior")
    def init(self, key):
        # Not by `init_from`, which a subclass has lost whose own `init` calls this one.
        return _random.normal(key, (self.dim,)) + 0.0 * self.sd

    @rests_on("init", "log_prior")
    def init_from(self, z):
        return z + 0.0 * self.sd  # with an arm axis, as all that depends on the model's numbers

    @rests_on("init", "init_from")
    def log_prior(self, theta):
        return -0.5 * jnp.sum(jnp.square(theta)) - self.dim * HALF_LOG_2PI

    def log_likelihood(self, theta, row):
        error = row.reward - self._output(theta, self._x(row.obs))
        return -0.5 * jnp.square(error / self.sd) - jnp.log(self.sd) - HALF_LOG_2PI

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return self._output(theta, self._x(obs))

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return self.mean_reward(theta, obs, action) + self.sd * _random.normal(key)

    @rests_on("log_likelihood")
    def information(self, theta):
        """|∂f/∂θ|²/sd² for features of 1, the largest curvature there, for every coordinate."""
        slope = jax.grad(self._output)(theta, jnp.ones(self.inputs))
        return jnp.full(self.dim, jnp.sum(jnp.square(slope)) / jnp.square(self.sd))

    @rests_on("log_likelihood")
    def row_information(self, theta, obs):
        """|gᵢ| Σⱼ|gⱼ|/sd² for the slope g = ∂f/∂θ at these features: a diagonal matrix above the expected curvature ggᵀ/sd²."""
        slope = jnp.abs(jax.grad(self._output)(theta, self._x(obs)))
        return slope * jnp.sum(slope) / jnp.square(self.sd)

    @rests_on("init", "init_from", "log_prior")
    def prior_precision(self):
        return jnp.ones(self.dim) + 0.0 * self.sd

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p is not concave in the weights of a network, so m does not exist.")
