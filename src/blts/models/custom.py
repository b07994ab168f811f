"""Your own model: from NumPyro distributions, or from two plain functions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random
from .._module import array, module, positive, short, static
from .._typing import Array, Float, Numbers, PRNGKey, Scalar, Theta
from ..compilation import keep_programs
from ..declared import rests_on
from ..errors import ConfigError, whole
from .base import SUPPORTS, Model, Theory, arm_count, check_density, first_arm, low_high, stack

C = TypeVar("C")
SCORES = 32  # draws for the information of a reward: it sets a step size, for which 25 % is near enough
PRIOR_DRAWS = 256  # for the prior precision, which matters only until the first rewards
LEAST_SHARE = 1e-3  # of the prior precision: draws that all miss a parameter must not make its perturbation infinite


class _Custom:
    """What both kinds share: named hyper-parameters, each a number or one entry for each arm."""

    hyper: dict[str, Array]
    support: Any
    hidden: ClassVar[tuple[str, ...]] = ("precision", "draws", "L")
    maker: ClassVar[str]
    parts: ClassVar[tuple[str, str]]

    def __repr__(self) -> str:
        functions = [short(getattr(self, name)) for name in self.parts]
        return f"{self.maker}({', '.join(functions + [f'{name}={short(value)}' for name, value in self.hyper.items()])})"

    @property
    def likelihood_within_support(self) -> bool:  # type: ignore[override]
        """ "real" is what is taken where nobody says which rewards there are."""
        return self.support != "real"

    @property
    def noun(self) -> str:  # type: ignore[override]
        first, second = (short(getattr(self, name)) for name in self.parts)
        return f"rewards by {self.maker}({first}, {second})"


def _numbers_only(maker: str, hyper: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in hyper.items():
        try:
            out[name] = value if isinstance(value, jax.Array) else np.asarray(value, float)
        except (TypeError, ValueError):
            raise ConfigError(f"{maker}: {name} must be a number or one number for each arm; got {value!r}.") from None
        if not np.isfinite(np.asarray(out[name])).all():
            raise ConfigError(f"{maker}: {name} must be finite; got {short(out[name])}.")
    return out


def _check_call(maker: str, part: str, function: Callable, *names: str, **options: Any) -> None:
    """Refuse a function that cannot be called with these arguments by place and those by name."""
    try:
        inspect.signature(function).bind(*names, **options)
    except TypeError as error:
        call = ", ".join((*names, *(f"{name}=…" for name in options)))
        raise ConfigError(f"{maker}: {part} is called as {part}({call}), and does not take that: {error}.") from None
    except ValueError:  # a builtin that does not say what it takes
        return


@contextlib.contextmanager
def _traceable(maker: str) -> Iterator[None]:
    """What JAX says of functions that cannot be traced, as one sentence."""
    try:
        yield
    except jax.errors.TracerArrayConversionError:
        raise ConfigError(
            f"{maker}: your functions are traced by JAX and must not call NumPy; use jax.numpy in its place."
        ) from None
    except jax.errors.ConcretizationTypeError:
        raise ConfigError(
            f"{maker}: your functions are traced by JAX, so they cannot branch on θ or a reward, nor make Python numbers of them; "
            "use jnp.where in place of if, and jax.numpy in place of math."
        ) from None


def _each_arm(function: Callable, model: Any) -> Any:
    """function(one arm) for each arm that the numbers describe, or once where they are for one."""
    arms = arm_count(model)
    return jax.jit(function)(model) if arms is None else jax.jit(jax.vmap(function))(stack(model, arms))


def _finished(maker: str, model: C, arms: int | None) -> C:
    """The model, its densities checked at a prior draw, with its prior precision from draws, and stacked where asked."""
    keep_programs()
    check_density(model, maker)
    variance, precision = map(np.asarray, _each_arm(_prior_spread, model))
    if not np.all(np.isfinite(variance) & (variance > 0)):
        raise ConfigError(f"{maker}: prior draws must be finite and must vary; their variance is {short(variance)}.")
    model = dataclasses.replace(model, precision=precision)  # type: ignore[type-var]
    return model if arms is None else stack(model, arms)


def _prior_spread(one: Any) -> tuple[Theta, Theta]:
    """The variance of prior draws in each coordinate, and its inverse."""
    drawn = jax.vmap(one.init)(_random.split(_random.as_key(0), PRIOR_DRAWS))
    variance = jnp.var(lax.optimization_barrier(drawn), axis=-2)
    return variance, 1.0 / variance


# From NumPyro


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
class NumPyro(_Custom, Model):
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

    def _law(self, theta: Theta) -> Any:
        return _call(self.likelihood, self._unpack(theta)[0], self.hyper)

    @rests_on("log_prior")
    def init(self, key: PRNGKey) -> Theta:
        parameters = self._parameters()
        keys = _random.split(_random.stock(key), len(parameters))
        parts = [transform.inv(law.sample(k)) for k, (_, law, transform) in zip(keys, parameters, strict=True)]
        return jnp.concatenate([jnp.ravel(part).astype(float) for part in parts])

    @rests_on("init")
    def log_prior(self, theta):
        return self._unpack(theta)[1]

    def log_likelihood(self, theta, row):
        return self._law(theta).log_prob(row.reward)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        if self.mean is None:
            return self._law(theta).mean
        return _call(self.mean, self._unpack(theta)[0], self.hyper)

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return self._law(theta).sample(_random.stock(key)).astype(float)

    @rests_on("log_likelihood")
    def information(self, theta):
        """The mean square of each coordinate's score, over the same draws of a reward wherever it is asked for."""
        keys = _random.split(_random.stock(_random.as_key(0)), SCORES)
        rewards = jax.vmap(lambda key: self._law(theta).sample(key).astype(float))(keys)
        scores = jax.vmap(lambda reward: jax.grad(lambda x: self._law(x).log_prob(reward))(theta))(rewards)
        return jnp.maximum(jnp.mean(jnp.square(scores), 0), LEAST_SHARE * self.precision)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return 1.0 * jnp.asarray(self.precision)  # an operation, so that mapping over arms gives a JAX array


def _call(function: Callable, values: dict[str, Array], hyper: dict[str, Array]) -> Any:
    """function(**values), with those hyper-parameters that it names."""
    named = _named(function)
    return function(**values, **{name: value for name, value in hyper.items() if name in named and name not in values})


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
    **hyper: Any,
) -> NumPyro:
    """A model from NumPyro distributions.

    Args:
        likelihood: the parameters, by keyword, to the distribution of a reward.
        prior: a dict from each parameter's name to its distribution, or a function from the hyper-parameters to it.
        mean: the parameters, by keyword, to the mean reward; the likelihood's own mean where it is left out.
        arms: the number of arms, where no hyper-parameter says it.
        **hyper: hyper-parameters of the prior, each a number or an array with one entry for each arm. The likelihood
            and the mean get those that they name.

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
        raise ConfigError(f"{maker}: mean must be a function of the parameters; got {mean!r}.")
    _check_call(maker, "prior", given, **hyper)
    model = NumPyro(likelihood, given, mean, _numbers_only(maker, hyper))
    if arms is not None:
        stack(model, arms)  # refuses another number of arms before the work begins
    single = first_arm(model)
    with _traceable(maker):
        seen: dict[str, Any] = {}
        jax.eval_shape(lambda single: seen.update(_check_distributions(distributions, single)), single)  # traced, not computed
        return _finished(maker, dataclasses.replace(model, **seen), arms)


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
    for part, function in (("likelihood", single.likelihood), ("mean", single.mean)):
        if function is not None:
            _check_names(part, function, priors, single.hyper)
    theta = single.init(_random.as_key(0))
    law = single._law(theta)
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
    if unknown or without or len(taken) + free < len(named):
        raise ConfigError(
            f"from_numpyro: {part} takes {', '.join(taken) or 'nothing'} by name, and the prior has {', '.join(priors)}; "
            "give both the same names."
        )


# From two functions


@module
class Functions(_Custom, Model):
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
        return self.likelihood(theta, row.reward, **self.hyper)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return theta[0] if self.mean is None else self.mean(theta, **self.hyper)

    @rests_on("log_likelihood")
    @property
    def sample(self):  # type: ignore[override]
        if self.reward is None:
            raise AttributeError("from_functions was given no sample; a model learns without one, a simulated bandit needs one.")
        reward = self.reward
        return lambda key, theta, obs, action: jnp.asarray(reward(key, theta, **self.hyper), float)

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
    **hyper: Any,
) -> Functions:
    """A model from two log-densities, which may leave out constants. Both must be finite for every θ ∈ R^dim.

    Args:
        log_prior: `log_prior(theta, **hyper)`.
        log_likelihood: `log_likelihood(theta, reward, **hyper)`.
        L: the curvature of one reward in θ, an input of Algorithm 1: a number, or one for each coordinate.
        dim: the length of θ.
        mean_reward: `mean_reward(theta, **hyper)`; θ[0] where it is left out.
        init: `init(key, **hyper)`, a draw from the prior. Where it is left out, 1024 Metropolis-adjusted Langevin
            chains draw from log_prior now, and the model keeps their ends.
        sample: `sample(key, theta, **hyper)`, a reward; only simulated bandits need it.
        support: the rewards that can occur, "real", "positive", "nonnegative", "count" or "binary": what a live
            experiment takes.
        arms: the number of arms, where no hyper-parameter says it.
        **hyper: hyper-parameters, each a number or an array with one entry for each arm.

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
            raise ConfigError(f"{maker}: {name} must be a function; got {part!r}.")
    whole(f"{maker}: dim", dim)
    curvature: Any = _numbers_only(maker, {"L": L})["L"]
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
        (("theta",), ("theta", "reward"), ("theta",), ("key",), ("key", "theta")),
        strict=True,
    ):
        if function is not None:
            _check_call(maker, part, function, *names, **hyper)
    model = Functions(*densities, _numbers_only(maker, hyper), curvature, dim=dim, support=support)
    if arms is not None:
        stack(model, arms)  # refuses another number of arms before the work begins
    with _traceable(maker):
        _check_at_zero(model)
        if init is None:
            draws, healthy = _each_arm(lambda one: _draw_prior(one.log_prior, dim), model)
            if not np.all(healthy):
                raise ConfigError(
                    f"{maker}: log_prior could not be sampled, perhaps because it is not a proper density; give init=…."
                )
            model = dataclasses.replace(model, draws=np.asarray(draws))
        return _finished(maker, model, arms)


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


CHAINS = 1024  # ends that are kept for an arm
ADAPT, SETTLE = 300, 300  # steps with a preconditioner that follows the chains, then steps of plain MALA
CLIMB = 400


def _draw_prior(log_prior: Callable, dim: int) -> tuple[Float[Array, "chains dim"], Array]:
    """Ends of MALA chains on log_prior, and whether they look settled.

    The chains start around a mode. While they adapt, their own covariance preconditions them and the step size is led
    to an acceptance of 0.6; then both are frozen, so that the last steps leave the prior invariant.
    """
    key_start, key_steps = _random.split(_random.as_key(0))
    slope = jax.grad(log_prior)
    mode = _climb(slope, jnp.zeros(dim))

    # In each coordinate the first power of two that lowers log_prior by a half: an sd, for a Gaussian.
    powers = 2.0 ** jnp.arange(-30, 31)
    fall = jax.vmap(lambda e: jax.vmap(lambda s: log_prior(mode) - log_prior(mode + s * e))(powers))(jnp.eye(dim))
    fallen = ~(fall < 0.5)
    spread = powers[jnp.argmax(fallen, axis=-1)]
    x = mode + spread * _random.normal(key_start, (CHAINS, dim))

    density, slopes = jax.vmap(log_prior), jax.vmap(slope)

    def step(i, carry):
        x, log_h, factor, middle = carry
        key_noise, key_accept = _random.split(_random.fold_in(key_steps, i))
        adapting = i < ADAPT
        factor = jnp.where(adapting, _factor(x), factor)
        middle = jnp.where(i == ADAPT, x, middle)
        h = jnp.exp(log_h)
        # x' = x + h C ∇log λ(x) + √(2h) C^½ ξ, in the coordinates y = C^-½ x.
        xi = _random.normal(key_noise, x.shape)
        drift = slopes(x) @ factor
        proposal = x + (h * drift + jnp.sqrt(2 * h) * xi) @ factor.T
        back = -xi - jnp.sqrt(0.5 * h) * (drift + slopes(proposal) @ factor)
        log_ratio = density(proposal) - density(x) + 0.5 * jnp.sum(jnp.square(xi) - jnp.square(back), -1)
        chance = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        x = jnp.where((_random.uniform(key_accept, (CHAINS,)) < chance)[:, None], proposal, x)
        return x, log_h + jnp.where(adapting, 0.1 * (jnp.mean(chance) - 0.6), 0.0), factor, middle

    x, _, _, middle = lax.fori_loop(0, ADAPT + SETTLE, step, (x, jnp.log(0.5), jnp.eye(dim), x))

    # An improper prior keeps spreading: its quartiles then differ between the middle and the end of the run.
    early, late = (jnp.quantile(ends, 0.75, axis=0) - jnp.quantile(ends, 0.25, axis=0) for ends in (middle, x))
    steady = (late < 1.25 * early) & (early < 1.25 * late)  # the sampling error of this ratio is 5 %
    return x, jnp.all(steady) & jnp.all(jnp.isfinite(x)) & jnp.all(jnp.any(fallen, -1))


def _climb(slope: Callable, x: Theta) -> Theta:
    """A mode by Rprop: steps grow while the sign of the slope stays and halve when it turns, whatever its size."""

    def move(_, carry):
        x, size, last = carry
        sign = jnp.sign(slope(x))
        size = jnp.where(sign * last > 0, 1.5 * size, jnp.where(sign * last < 0, 0.5 * size, size))
        return x + size * sign, size, sign

    return lax.fori_loop(0, CLIMB, move, (x, jnp.ones_like(x), jnp.zeros_like(x)))[0]


def _factor(x: Float[Array, "chains dim"]) -> Float[Array, "dim dim"]:
    """The Cholesky factor of the chains' covariance, in units of each coordinate's sd so that float32 can take it."""
    sd = jnp.maximum(jnp.std(x, axis=0), 1e-30)
    z = (x - jnp.mean(x, axis=0)) / sd
    correlation = z.T @ z / x.shape[0] + 1e-4 * jnp.eye(x.shape[1])
    return sd[:, None] * jnp.linalg.cholesky(correlation)
