"""Models from NumPyro distributions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, static
from .._typing import Array, Numbers, PRNGKey, Scalar, Theta, Tree
from ..declared import rests_on
from ..errors import ConfigError
from .arms import arm_count, first_arm, stack
from .base import Model
from .custom import Custom, check_call, check_features, check_identifiable, finished, numbers_only, reserved, traceable

SCORES = 32  # draws for the information of a reward: it sets a step size, for which 25 % is near enough
LEAST_SHARE = 1e-3  # of the prior precision: draws that all miss a parameter must not make its perturbation infinite


def _numpyro() -> Any:
    try:
        import numpyro.distributions as distributions
    except ImportError:
        raise ConfigError('from_numpyro needs NumPyro; install it with: pip install "blts[numpyro]".') from None
    return distributions


class _Given:
    """A dict of priors as the function that returns it; a class, so that it pickles."""

    __name__ = "prior"

    def __init__(self, priors: Mapping[str, Any]):
        self.priors = dict(priors)

    def __call__(self) -> dict[str, Any]:
        return self.priors


@module
class NumPyro(Custom, Model):
    """A model whose prior and likelihood are NumPyro distributions; build it with `from_numpyro`.

    θ holds all parameters, each mapped to the whole real line by `biject_to` of its support, one after the other.
    """

    likelihood: Callable = static()
    prior: Callable = static()
    mean: Callable | None = static(default=None)
    hyper: dict[str, Array] = dataclasses.field(default_factory=dict)
    precision: Numbers = array(default=(1.0,), ndim=1)
    dim: int = static(default=1)
    support: str = static(default="real")  # type: ignore[assignment]
    features: int | None = static(default=None)
    identifiable: bool = static(default=True)  # type: ignore[assignment]
    maker: ClassVar[str] = "from_numpyro"
    parts: ClassVar[tuple[str, str]] = ("likelihood", "prior")

    def check(self):
        arm_count(self)

    def _parameters(self) -> list[tuple[str, Any, Any]]:
        """Each parameter's name, prior and transform from the real line."""
        biject_to = _numpyro().biject_to
        return [(name, law, biject_to(law.support)) for name, law in self.prior(**self.hyper).items()]

    def _unpack(self, theta: Theta) -> tuple[dict[str, Array], Scalar]:
        """The parameters at θ, and the log-density of their priors with the Jacobians of the transforms."""
        values, total, start = {}, jnp.zeros(()), 0
        for name, law, transform in self._parameters():
            shape = transform.inverse_shape(law.event_shape)
            size = int(np.prod(shape, dtype=int))
            x = theta[start : start + size].reshape(shape)
            values[name], start = transform(x), start + size
            total = total + law.log_prob(values[name]) + jnp.sum(transform.log_abs_det_jacobian(x, values[name]))
        return values, total

    def constrained(self, theta: Any) -> dict[str, Array]:
        """The parameters by name, as the likelihood takes them.

        Args:
            theta: θ, `[…, dim]`; of a model of several arms `[…, arms, dim]`.

        Returns:
            From each parameter's name to its values, with the same axes in front.

        >>> import numpyro.distributions as dist
        >>> from blts.models import from_numpyro
        >>> model = from_numpyro(lambda mu, sd: dist.Normal(mu, sd), {"mu": dist.Normal(0, 1), "sd": dist.LogNormal(0, 1)})
        >>> {name: value.tolist() for name, value in model.constrained([[3.0, 0.0], [5.0, 0.0]]).items()}
        {'mu': [3.0, 5.0], 'sd': [1.0, 1.0]}
        """
        theta, arms = jnp.asarray(theta, float), arm_count(self)
        if arms is None:
            unpack = lambda theta: self._unpack(theta)[0]  # noqa: E731
        else:
            stacked = stack(self, arms)
            unpack = lambda theta: jax.vmap(lambda single, x: single._unpack(x)[0])(stacked, theta)  # noqa: E731
        for _ in range(theta.ndim - (1 if arms is None else 2)):
            unpack = jax.vmap(unpack)
        found = unpack(theta)
        return {name: found[name] for name, _, _ in first_arm(self)._parameters()}  # `vmap` sorts the names

    def _call(self, function: Callable, theta: Theta, obs: Tree) -> Any:
        """function(**parameters), with the context, and those hyper-parameters that it names."""
        values = self._unpack(theta)[0] | dict(zip(("context",), self._context(obs), strict=False))
        named = _named(function)
        return function(**values, **{name: value for name, value in self.hyper.items() if name in named and name not in values})

    def _law(self, theta: Theta, obs: Tree) -> Any:
        return self._call(self.likelihood, theta, obs)

    @rests_on("log_prior")
    def init(self, key: PRNGKey) -> Theta:
        parameters = self._parameters()
        keys = _random.split(_random.hashed(key), len(parameters))
        parts = [transform.inv(_sample(law, k)) for k, (_, law, transform) in zip(keys, parameters, strict=True)]
        return jnp.concatenate([jnp.ravel(part).astype(float) for part in parts])

    @rests_on("init")
    def log_prior(self, theta):
        return self._unpack(theta)[1]

    def log_likelihood(self, theta, row):
        return self._law(theta, row.obs).log_prob(row.reward)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        if self.mean is None:
            return self._law(theta, obs).mean
        return self._call(self.mean, theta, obs)

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return _sample(self._law(theta, obs), _random.hashed(key)).astype(float)

    @rests_on("log_likelihood")
    def information(self, theta):
        """The mean square of each coordinate's score, over the same draws of a reward wherever it is asked for; with features, of a
        round in which each of them is 1."""
        obs = self.example()
        keys = _random.split(_random.as_key(0), SCORES)
        rewards = jax.vmap(lambda key: _sample(self._law(theta, obs), key).astype(float))(keys)
        scores = jax.vmap(lambda reward: jax.grad(lambda x: self._law(x, obs).log_prob(reward))(theta))(rewards)
        return jnp.maximum(jnp.mean(jnp.square(scores), 0), LEAST_SHARE * self.precision)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return 1.0 * jnp.asarray(self.precision)  # an operation, so that mapping over arms gives a JAX array


def _sample(law: Any, key: PRNGKey) -> Array:
    """A draw from a distribution, with a key that is `hashed`, or split from one."""
    try:
        return law.sample(key)
    except NotImplementedError:  # `jax.random.poisson` takes keys of JAX's own generator only
        return law.sample(_random.stock(key))


@functools.cache
def _named(function: Callable) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function. Cached, as threads must not ask `inspect` for a builtin's (see studies/store.py)."""
    return inspect.signature(function).parameters


def from_numpyro(
    likelihood: Callable,
    prior: Callable | Mapping[str, Any],
    *,
    mean: Callable | None = None,
    arms: int | None = None,
    features: int | None = None,
    identifiable: bool = True,
    **hyper: Any,
) -> NumPyro:
    """A model from NumPyro distributions.

    Args:
        likelihood: the parameters, by keyword, to the distribution of a reward.
        prior: a dict from each parameter's name to its distribution, or a function from the hyper-parameters to it.
        mean: the parameters, by keyword, to the mean reward; the likelihood's own mean where it is left out.
        arms: the number of arms, where no hyper-parameter says it.
        features: how many features a round shows, where rewards depend on them: likelihood and mean then get them as `context`.
        identifiable: whether different parameters predict differently (`Model.identifiable`); False for the weights of a network.
        **hyper: hyper-parameters of the prior, each a number or an array with one entry for each arm, under any names but
            `mean`, `arms`, `features`, `identifiable` and `context`. The likelihood and the mean get those that they name.

    Returns:
        The model.

    >>> import numpyro.distributions as dist
    >>> from blts.models import from_numpyro
    >>> from_numpyro(lambda mu: dist.Laplace(mu, 0.5), lambda loc: {"mu": dist.Normal(loc, 1.0)}, loc=[4.0, 7.0, 10.0]).dim
    1
    """
    distributions, maker = _numpyro(), "from_numpyro"
    given = _Given(prior) if isinstance(prior, Mapping) else prior
    if not callable(likelihood) or not callable(given):
        raise ConfigError(
            f"{maker}: likelihood must be a function of the parameters, and prior a dict or a function that returns one."
        )
    if isinstance(prior, Mapping) and hyper:
        raise ConfigError(
            f"{maker}: a dict of priors takes no hyper-parameters, but {', '.join(hyper)} was given; make it a function of them."
        )
    if mean is not None and not callable(mean):
        raise ConfigError(f"{maker}: mean must be a function of the parameters; got {mean!r}. {reserved('mean')}")
    check_features(maker, features)
    check_identifiable(maker, identifiable)
    if "context" in hyper:
        raise ConfigError(f"{maker}: context is what a round shows; a hyper-parameter called context needs another name.")
    check_call(maker, "prior", given, **hyper)
    model = NumPyro(likelihood, given, mean, numbers_only(maker, hyper), features=features, identifiable=identifiable)
    if arms is not None:
        stack(model, arms)  # refuses another number of arms before the work begins
    single = first_arm(model)
    with traceable(maker):
        seen: dict[str, Any] = {}
        jax.eval_shape(lambda single: seen.update(_check_distributions(distributions, single)), single)  # traced, not computed
        return finished(maker, dataclasses.replace(model, **seen), arms)


def _support(support: Any) -> str:
    """The rewards of the likelihood in the words of `Model.support`; "real" where none of them fits."""
    from numpyro.distributions import constraints

    names = {"positive": "positive", "nonnegative": "nonnegative", "nonnegative_integer": "count", "boolean": "binary"}
    return next((ours for theirs, ours in names.items() if support is getattr(constraints, theirs)), "real")


def _check_distributions(distributions: Any, single: NumPyro) -> dict[str, Any]:
    """Refuse priors and likelihoods that are not distributions of one arm's parameters and of one reward.

    Returns:
        The fields `dim` and `support` of the model.
    """
    priors = single.prior(**single.hyper)
    if not isinstance(priors, Mapping) or not priors:
        raise ConfigError(f"from_numpyro: prior must give a dict from names to NumPyro distributions; got {type(priors).__name__}.")
    for name, law in priors.items():
        if not isinstance(law, distributions.Distribution):
            raise ConfigError(f"from_numpyro: the prior of {name} must be a NumPyro distribution; got {type(law).__name__}.")
        if law.batch_shape != ():
            raise ConfigError(
                f"from_numpyro: the prior of {name} has batch shape {law.batch_shape}; write it for one arm, with numbers per arm "
                "as hyper-parameters, or call .to_event() where it is a vector."
            )
        if law.support.is_discrete:
            raise ConfigError(f"from_numpyro: the prior of {name} is discrete; Langevin sampling needs a density.")
    given = dict(priors) | ({} if single.features is None else {"context": None})
    for part, function in (("likelihood", single.likelihood), ("mean", single.mean)):
        if function is not None:
            _check_names(part, function, given, single.hyper)
    theta = single.init(_random.as_key(0))
    law = single._law(theta, single.example())
    if not isinstance(law, distributions.Distribution):
        raise ConfigError(f"from_numpyro: likelihood must return a NumPyro distribution; got {type(law).__name__}.")
    if law.batch_shape + law.event_shape != ():
        raise ConfigError(
            f"from_numpyro: likelihood must be the law of one number; its shape is {law.batch_shape + law.event_shape}."
        )
    return {"dim": theta.shape[0], "support": _support(law.support)}


def _check_names(part: str, function: Callable, priors: Mapping[str, Any], hyper: Mapping[str, Any]) -> None:
    """Refuse a likelihood or a mean whose parameters are not those that have a prior."""
    named = _named(function).values()
    free = any(p.kind is p.VAR_KEYWORD for p in named)
    taken = [p.name for p in named if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    needed = [p.name for p in named if p.name in taken and p.default is p.empty]
    unknown = [name for name in priors if name not in taken and not free]
    without = [name for name in needed if name not in priors and name not in hyper]
    if "context" in without:
        raise ConfigError(f"from_numpyro: {part} takes a context; give features=…, how many numbers a round shows.")
    if "context" in unknown:
        raise ConfigError(f"from_numpyro: with features, {part} must take what a round shows as context.")
    if unknown or without or len(taken) + free < len(named):
        raise ConfigError(
            f"from_numpyro: {part} takes {', '.join(taken) or 'nothing'} by name, and the prior has {', '.join(priors)}; "
            "give both the same names."
        )
