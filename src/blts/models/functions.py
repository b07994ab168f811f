"""Models from two plain functions: a log-prior and a log-likelihood."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, positive, short, static
from .._typing import Array, Numbers, Row
from ..declared import rests_on
from ..errors import ConfigError, whole
from .arms import arm_count, first_arm, stack
from .base import Model, Theory
from .custom import Custom, check_call, check_features, check_identifiable, each_arm, finished, numbers_only, reserved, traceable
from .printing import low_high
from .prior_chains import draw_prior
from .support import SUPPORTS


@module
class Functions(Custom, Model):
    """A model whose log-densities are two plain functions; build it with `from_functions`."""

    prior: Callable = static()
    likelihood: Callable = static()
    mean: Callable | None = static(default=None)
    start: Callable | None = static(default=None)
    reward: Callable | None = static(default=None)
    hyper: dict[str, Array] = dataclasses.field(default_factory=dict)
    L: Numbers = array(default=(1.0,), ndim=1)
    precision: Numbers = array(default=(1.0,), ndim=1)
    draws: Numbers = array(default=None, ndim=2)
    dim: int = static(default=1)
    support: str = static(default="real")  # type: ignore[assignment]
    features: int | None = static(default=None)
    identifiable: bool = static(default=True)  # type: ignore[assignment]
    maker: ClassVar[str] = "from_functions"
    parts: ClassVar[tuple[str, str]] = ("prior", "likelihood")

    def check(self):
        arm_count(self)
        positive(self, "L")

    @rests_on("log_prior")
    def init(self, key):
        if self.start is not None:
            return jnp.asarray(self.start(key, **self.hyper), float)
        draws = jnp.asarray(self.draws)
        return draws[(_random.uniform(key) * draws.shape[0]).astype(int)]

    @rests_on("init")
    def log_prior(self, theta):
        return self.prior(theta, **self.hyper)

    def log_likelihood(self, theta, row):
        return self.likelihood(theta, row.reward, *self._context(row.obs), **self.hyper)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return theta[0] if self.mean is None else self.mean(theta, *self._context(obs), **self.hyper)

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.asarray(self.L) + 0.0 * theta

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return 1.0 * jnp.asarray(self.precision)  # an operation, so that mapping over arms gives a JAX array

    def theory(self):
        return Theory(
            False,
            f"L = {low_high(self.L)} is given; whether m and ν exist for these functions is not known.",
            L=jnp.max(self.L, -1),
        )


@module
class SampledFunctions(Functions):
    """`Functions` with a function that draws rewards."""

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        assert self.reward is not None
        return jnp.asarray(self.reward(key, theta, *self._context(obs), **self.hyper), float)


def from_functions(
    log_prior: Callable,
    log_likelihood: Callable,
    *,
    L: Any,
    dim: int = 1,
    mean_reward: Callable | None = None,
    init: Callable | None = None,
    sample: Callable | None = None,
    support: str = "real",
    arms: int | None = None,
    features: int | None = None,
    identifiable: bool = True,
    **hyper: Any,
) -> Functions:
    """A model from two log-densities, which may leave out constants. Both must be finite for every θ ∈ R^dim.

    Args:
        log_prior: `log_prior(theta, **hyper)`.
        log_likelihood: `log_likelihood(theta, reward, **hyper)`.
        L: the curvature of one reward in θ, about -∂² log p/∂θ² of a typical reward: a number, or one for each coordinate. Where
            a density has kinks, as Laplace's, take 1/scale². Steps use the curvature at the mode, so it need not be exact.
        dim: the length of θ.
        mean_reward: `mean_reward(theta, **hyper)`; θ[0] where it is left out, which is refused if `sample` has another mean.
        init: `init(key, **hyper)`, a draw from the prior. Where it is left out, 1024 Metropolis-adjusted Langevin
            chains draw from log_prior now, and the model keeps their ends.
        sample: `sample(key, theta, **hyper)`, a reward; only simulated bandits need it.
        support: the rewards that can occur, "real", "positive", "nonnegative", "count" or "binary": what a live
            experiment takes.
        arms: the number of arms, where no hyper-parameter says it.
        features: how many features a round shows, where rewards depend on them: log_likelihood is then called as
            `log_likelihood(theta, reward, context, **hyper)`, mean_reward, which must be given, as
            `mean_reward(theta, context, **hyper)`, and sample as `sample(key, theta, context, **hyper)`.
        identifiable: whether different θ predict differently. False for the weights of a network, whose hidden units can be
            swapped: chains are then compared by the mean rewards that they predict (`Model.identifiable`).
        **hyper: hyper-parameters, each a number or an array with one entry for each arm, under any names but those above.

    Returns:
        The model.

    >>> import jax.numpy as jnp
    >>> from blts.models import from_functions
    >>> model = from_functions(
    ...     lambda theta, mu: -0.5 * (theta[0] - mu) ** 2,
    ...     lambda theta, reward, mu: -abs(reward - theta[0]) / 0.5,
    ...     L=4.0,
    ...     mu=[4.0, 7.0, 10.0],
    ... )
    >>> print(model)
    3 arms with rewards by from_functions(<lambda>, <lambda>) (mu [4, 7, 10]), outside the paper's theory:
    L = 4 is given; whether m and ν exist for these functions is not known.
    >>> steep = from_functions(
    ...     lambda theta: -0.5 * theta @ theta,
    ...     lambda theta, reward, context: -abs(reward - context @ theta),
    ...     mean_reward=lambda theta, context: context @ theta,
    ...     L=1.0,
    ...     dim=2,
    ...     features=2,
    ... )
    >>> float(steep.mean_reward(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]), 0))
    11.0
    """
    maker = "from_functions"
    for name, part, needed in (
        ("log_prior", log_prior, True),
        ("log_likelihood", log_likelihood, True),
        ("mean_reward", mean_reward, False),
        ("init", init, False),
        ("sample", sample, False),
    ):
        if not callable(part) and (needed or part is not None):
            raise ConfigError(f"{maker}: {name} must be a function; got {part!r}.{'' if needed else ' ' + reserved(name)}")
    whole(f"{maker}: dim", dim)
    check_features(maker, features)
    check_identifiable(maker, identifiable)
    if features is not None and mean_reward is None:
        raise ConfigError(f"{maker}: with features, arms are compared by mean_reward(theta, context); give mean_reward=….")
    context = () if features is None else ("context",)
    curvature: Any = numbers_only(maker, {"L": L})["L"]
    if np.ndim(curvature) == 0:
        curvature = np.broadcast_to(curvature, (dim,))
    if np.shape(curvature)[-1] != dim:
        raise ConfigError(f"{maker}: L must be a number or one for each of the {dim} coordinates of θ; got shape {np.shape(L)}.")
    if support not in SUPPORTS:
        raise ConfigError(f"{maker}: support must be one of {', '.join(SUPPORTS)}; got {support!r}.")
    densities = (log_prior, log_likelihood, mean_reward, init, sample)
    for part, function, names in zip(
        ("log_prior", "log_likelihood", "mean_reward", "init", "sample"),
        densities,
        (("theta",), ("theta", "reward", *context), ("theta", *context), ("key",), ("key", "theta", *context)),
        strict=True,
    ):
        if function is not None:
            check_call(maker, part, function, *names, **hyper)
    kind = Functions if sample is None else SampledFunctions
    model = kind(
        *densities, numbers_only(maker, hyper), curvature, dim=dim, support=support, features=features, identifiable=identifiable
    )
    if arms is not None:
        stack(model, arms)  # refuses another number of arms before the work begins
    with traceable(maker):
        _check_at_zero(model)
        if init is None:
            draws, healthy = each_arm(lambda one: draw_prior(one.log_prior, dim), model)
            if not np.all(healthy):
                raise ConfigError(
                    f"{maker}: log_prior could not be sampled, perhaps because it is not a proper density; give init=…."
                )
            model = dataclasses.replace(model, draws=np.asarray(draws))
        made = finished(maker, model, arms)
    _check_indices(made)
    if mean_reward is None and isinstance(made, SampledFunctions):
        _check_mean(made)
    return made


SAMPLED = 4096
"""Rewards that are drawn to see whether their mean is θ[0]."""
FAR = 10.0
"""Standard errors that their average may be from it. A wrong mean would make regrets wrong, and nothing else would say so."""


def _check_mean(model: SampledFunctions) -> None:
    """Refuse a model without mean_reward whose rewards do not have the mean θ[0], at a prior draw."""
    key_theta, key_rewards = _random.split(_random.as_key(0))

    @jax.jit
    def drawn(single):
        theta = jnp.asarray(single.init(key_theta))
        draw = lambda key: single.sample(key, theta, (), jnp.asarray(0))  # noqa: E731
        return theta, jax.vmap(draw)(_random.split(key_rewards, SAMPLED))

    theta, rewards = (np.asarray(x, float) for x in drawn(first_arm(model)))
    mean, error = rewards.mean(), rewards.std() / SAMPLED**0.5
    if abs(mean - theta[0]) > FAR * error + 1e-3 * (1.0 + abs(theta[0])):
        raise ConfigError(
            f"from_functions: without mean_reward, the mean reward is θ[0]; at θ = {short(theta)} sample draws rewards with the "
            f"mean {mean:.4g} ± {error:.2g}. Give mean_reward=…."
        )


def _check_indices(model: Functions) -> None:
    """Refuse functions that read θ beyond its end, for which JAX gives the last coordinate: NumPy says so."""
    single, obs = first_arm(model), model.example()
    theta: Any = np.zeros(model.dim)
    nothing: Any = np.zeros((), np.int32)
    one: Any = np.ones(())
    calls = {
        "log_prior": lambda: single.log_prior(theta),
        "log_likelihood": lambda: single.log_likelihood(theta, Row(obs, nothing, one)),
        "mean_reward": lambda: single.mean_reward(theta, obs, nothing),
    }
    for name, call in calls.items():
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except IndexError as error:
            raise ConfigError(
                f"from_functions: {name} reads what does not exist ({error}); θ has dim = {model.dim} coordinate(s), give dim=…."
            ) from None
        except Exception:  # NumPy can do less than JAX, which has run the function
            pass


def _check_at_zero(model: Functions) -> None:
    """Refuse a log_prior that is not one finite number at θ = 0, from where its mode is looked for."""
    if model.start is not None:
        return
    single = first_arm(model)
    value = jnp.asarray(single.log_prior(jnp.zeros(model.dim)))
    if value.shape != ():
        raise ConfigError(f"from_functions: log_prior must be one number; at θ = 0 it has shape {value.shape}.")
    if not bool(jnp.isfinite(value)):
        raise ConfigError(
            f"from_functions: log_prior must be finite for every θ; at θ = 0 it is {float(value)}. Transform θ, or give init=…."
        )
