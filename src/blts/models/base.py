"""What a model is: the log-density of one arm's reward, its prior, and what is known about both.

A model is written for **one** arm. Give any of its numbers one more axis in front and it describes that many
independent arms, each with its own prior; `stack` brings all numbers to that form and the agents map over it.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import Contract, is_concrete, require_part, short
from .._random import as_key
from .._typing import Array, Float, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..declared import attribute, default, fact, missing, optional, provides, required, why_lost
from ..errors import ConfigError, require_object, whole
from ..history import pick
from .marginal import Marginal

M = TypeVar("M")


class Theory(NamedTuple):
    """Where a model stands in the paper's theory: its constants of Assumptions 1–4, or why they do not exist."""

    inside: bool
    why: str
    m: Any = np.nan
    """Strong concavity of log p(r|θ) in θ."""
    L: Any = np.nan
    """Smoothness of log p(r|θ) in θ and r."""
    nu: Any = np.nan
    """Strong log-concavity of the true reward density in r."""


class Model(Contract):
    """The log-density of one arm's reward given θ ∈ R^dim, and the prior of θ: inherit from this to write a model.

    It is written for **one** arm, in JAX. Its numbers are `array()` fields: given with one more axis in front, they describe that
    many arms, and agents map over them. A subclass must define `dim`, `init`, `log_prior`, `log_likelihood`, `mean_reward`,
    `information` and `prior_precision`; with `sample` it can also be the law of a `Bandit`. What is optional besides comes in
    groups, which `provides(model, …)` looks for: `Sufficient`, `Summarised`, `Conjugate` and `Closed`. `from_functions` makes a
    model of two log-densities, without a class.

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
    ...         return theta[0]  # the median, which stands in for the mean that this law does not have
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
    def draw_from(self, z: Theta, law: Marginal) -> Theta:
        """`draw` as a function of standard normals and of what `marginal` returns; see `init_from`.

        Args:
            z: of shape `(dim,)`.
            law: of the mean reward.

        Returns:
            θ, of shape `(dim,)`.
        """
        raise NotImplementedError

    noun = default("rewards")
    """What it gives, in the sentence that `print` shows."""
    hidden = default(())
    """Numbers that are not settings, and are left out of that sentence."""
    support = default("real")
    """The rewards that can occur: "binary", "count", "positive", "nonnegative" or "real"."""
    samples_within_support = fact("sample")
    likelihood_within_support = fact("log_likelihood")
    mean_of_samples = fact("sample")
    """Whether `mean_reward` is the mean of `sample`. Where that is lost, simulations compare the two."""
    contextual = default(False)
    """Whether `obs` is a context that it needs."""
    gaussian_prior_and_linear_mean = default(False)
    """Whether the prior is Gaussian, with `prior_mean_reward`, and the mean reward linear in θ."""
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
        arms = arm_count(self)
        who = "One arm" if arms is None else f"{arms} arms"
        settings = ", ".join(f"{n.name.replace('_', ' ')} {short(n.value)}" for n in _numbers(self) if n.name not in self.hidden)
        theory = self.theory()
        place = "inside" if theory.inside else "outside"
        return f"{who} with {self.noun}{f' ({settings})' if settings else ''}, {place} the paper's theory: {theory.why}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p><pre>{html.escape(repr(self))}</pre>"


class Sufficient(Protocol):
    """A model whose data can be kept as a summary, so that the full potential costs the same for any n."""

    def empty(self) -> Tree: ...

    def add(self, summary: Tree, row: Row) -> Tree: ...

    def log_likelihood_of(self, theta: Theta, summary: Tree) -> Scalar: ...


class Summarised(Sufficient, Protocol):
    """A model that can draw the summary of many rewards at once; its summaries have `join(other)` and `total`."""

    def sample_summary(self, key: PRNGKey, theta: Theta, n: Int[Array, ""]) -> Tree:
        """The summary of n rewards of an arm with parameter θ: in law that of n samples, as far as a posterior depends on
        it. What does not depend on θ in their likelihood may be left out."""
        ...


class Conjugate(Sufficient, Protocol):
    """A model with an exact posterior, which serves as sampler and as oracle."""

    def draw(self, key: PRNGKey, summary: Tree) -> Theta:
        """A draw from the exact posterior."""
        ...


class Closed(Conjugate, Protocol):
    """A conjugate model that knows the exact law of its mean reward."""

    def marginal(self, summary: Tree, obs: Tree, action: Int[Array, ""]) -> Marginal | None:
        """That law, or None where only draws of it can be had."""
        ...


def require_model(owner: str, model: Any) -> None:
    """Refuse what is not a model, saying what it lacks or has lost."""
    lost = [name for name in missing(model, Model) if why_lost(model, name)]
    if lost:
        others = f" The same holds for {', '.join(lost[1:])}." if lost[1:] else ""
        raise ConfigError(f"{owner}: {why_lost(model, lost[0])}{others}")
    require_part(f"{owner}: model", model, Model, "Gaussian(prior_mean=[0.0, 1.0])")
    drawn = jax.eval_shape(lambda model: jnp.asarray(first_arm(model).init(as_key(0))), model).shape
    if drawn != (model.dim,):
        shape = f"{type(model).__name__} has dim = {model.dim}, and its init draws θ of shape {drawn}"
        raise ConfigError(f"{owner}: {shape}; override both or neither.")


def has_marginal(model: Any) -> bool:
    """Whether the exact law of the mean reward may be asked for."""
    return provides(model, Closed)


def marginals(model: Any, summaries: Tree, obs: Tree) -> Marginal | None:
    """The exact laws of the arms' mean rewards under a stacked conjugate model; None where only draws of them can be had."""
    if not has_marginal(model):
        return None
    arms = jnp.arange(jax.tree.leaves(model)[0].shape[0])
    return jax.vmap(lambda single, s, a: single.marginal(s, obs, a))(model, summaries, arms)


def draws(key: PRNGKey, model: Any, method: str, *summaries: Tree) -> Float[Array, "arms dim"]:
    """`init` or `draw` of every arm of a stacked model.

    A model whose draws are a function of `dim` standard normals has `init_from(z)` and, for its posterior,
    `draw_from(z, marginal)`: all arms' normals then come from one key, where a key for each arm
    would double the cost.
    """
    arms = jax.tree.leaves(model)[0].shape[0]
    if draws_from_marginal(model) if method == "draw" else provides(model, "init_from"):
        z = _random.normal(key, (arms, model.dim))
        return jax.vmap(lambda single, z, *s: getattr(single, f"{method}_from")(z, *s))(model, z, *summaries)
    keys = _random.split(key, arms)
    return jax.vmap(lambda single, k, *s: getattr(single, method)(k, *s))(model, keys, *summaries)


def draws_from_marginal(model: Any) -> bool:
    """Whether a posterior draw is a function of normals and of the law of the mean reward."""
    return provides(model, "draw_from") and has_marginal(model)


SUPPORTS: dict[str, tuple[Callable[[float], bool], str]] = {
    "binary": (lambda r: r in (0.0, 1.0), "0 or 1"),
    "count": (lambda r: r >= 0 and r == int(r), "0, 1, 2, …"),
    "positive": (lambda r: r > 0, "above zero"),
    "nonnegative": (lambda r: r >= 0, "zero or above"),
    "real": (lambda r: True, "any finite number"),
}
"""Which rewards a model can give, as a test and in words; those within others come first."""
WITHIN = {
    "binary": ("binary", "count", "nonnegative", "real"),
    "count": ("count", "nonnegative", "real"),
    "positive": ("positive", "nonnegative", "real"),
    "nonnegative": ("nonnegative", "real"),
    "real": ("real",),
}
"""The supports that hold all rewards of a support."""


def narrowest_support(rewards: np.ndarray) -> str:
    """The first of SUPPORTS that holds all the rewards."""
    return next(name for name, (holds, _) in SUPPORTS.items() if all(map(holds, np.unique(rewards))))


def support_of_samples(model: Any) -> str | None:
    """Which rewards `sample` draws; None where a subclass draws others than the class that states the support."""
    return model.support if model.samples_within_support else None


def support_of_likelihood(model: Any) -> str | None:
    """For which rewards the likelihood is meant; None where nobody says it."""
    return model.support if model.likelihood_within_support else None


class Sum(NamedTuple):
    """A running sum that keeps what rounding drops (Knuth's two-sum), so that 10⁵ float32 terms lose no digits."""

    high: Array
    low: Array

    @staticmethod
    def zero(shape: tuple[int, ...] = ()) -> Sum:
        return Sum(jnp.zeros(shape), jnp.zeros(shape))

    def plus(self, x: Array) -> Sum:
        y = x + self.low
        high = self.high + y
        part = high - self.high
        return Sum(high, (self.high - (high - part)) + (y - part))

    @property
    def value(self) -> Array:
        return self.high + self.low


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations (Welford), of the rows with weight 1, and the count of all rows.

    Unlike Σr and Σr², these lose no digits when the mean is far from zero. `low` is what rounding dropped of the
    mean: without it a float32 mean stops moving once (r - mean)/n is below half a unit in its last place.
    """

    rows: Int[Array, ""]
    n: Int[Array, ""]
    mean: Scalar
    m2: Scalar
    low: Any = 0.0

    @staticmethod
    def zero() -> Moments:
        return Moments(jnp.zeros((), int), jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def plus(self, x: Scalar, weight: Any = 1) -> Moments:
        """One more row; a weight of 0 counts the row but not its value."""
        n = self.n + jnp.asarray(weight, int)
        change = jnp.where(weight > 0, (x - self.mean) - self.low, 0.0)
        step = change / jnp.maximum(n, 1)
        mean = Sum(self.mean, jnp.asarray(self.low, float)).plus(step)
        return Moments(self.rows + 1, n, mean.high, self.m2 + change * (change - step), mean.low)

    @staticmethod
    def of_mean(n: Int[Array, ""], mean: Scalar) -> Moments:
        """Of n rows of which the mean alone is known; that they are all equal stands in for their spread."""
        return Moments(n, n, jnp.where(n > 0, mean, 0.0), jnp.zeros_like(mean), jnp.zeros_like(mean))

    def join(self, other: Moments) -> Moments:
        """The moments of both (Chan et al. 1979)."""
        n = self.n + other.n
        gap, share = (other.mean - self.mean) + (other.low - self.low), other.n / jnp.maximum(n, 1)
        mean = Sum(self.mean, jnp.asarray(self.low, float)).plus(share * gap)
        return Moments(self.rows + other.rows, n, mean.high, self.m2 + other.m2 + self.n * share * gap * gap, mean.low)

    @property
    def total(self) -> Scalar:
        return self.n * self.mean + self.n * self.low

    def about(self, x: Scalar) -> Scalar:
        """Σ (r - x)² over the rows with weight 1."""
        return self.m2 + self.n * jnp.square((self.mean - x) + self.low)


class _Number(NamedTuple):
    """One traced number of a model: where it lives, its rank for one arm and what it is."""

    name: str
    ndim: int
    value: Any


def _numbers(model: Any) -> list[_Number]:
    """The traced numbers of a model. A hyper-parameter in a dict is a number, or an array with one entry for each arm."""
    out = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if "ndim" in field.metadata and value is not None:
            out.append(_Number(field.name, field.metadata["ndim"], value))
        elif isinstance(value, int | float | np.ndarray | jax.Array) and not isinstance(value, bool):
            if not field.metadata.get("static"):
                out.append(_Number(field.name, 0, value))
        elif isinstance(value, dict):
            out += [_Number(name, max(np.ndim(item) - 1, 0), item) for name, item in value.items()]
    return out


def arm_count(model: Any) -> int | None:
    """How many arms the numbers of a model describe; None where all of them are for one arm."""
    require_object("The model", model, ("__dataclass_fields__",), "Gaussian(prior_mean=[0.0, 1.0]), of a class with @module")
    counts = {}
    for name, ndim, value in _numbers(model):
        if isinstance(value, str | bool) or callable(value):
            raise ConfigError(f"{type(model).__name__}: {name} must be a number or an array of numbers; got {value!r}.")
        extra = np.ndim(value) - ndim
        if extra > 1 or extra < 0:
            word = ("a number", "a vector", "a matrix")[ndim]
            raise ConfigError(f"{type(model).__name__}: {name} has shape {np.shape(value)}; give {word} or one such for each arm.")
        if extra == 1:
            counts[name] = np.shape(value)[0]
    if len(set(counts.values())) > 1:
        raise ConfigError(
            f"{type(model).__name__}: the number of arms differs, "
            + " but ".join(f"{name} has {count}" for name, count in counts.items())
            + "; give each one value or one per arm."
        )
    return next(iter(counts.values()), None)


def stack(model: M, arms: int) -> M:
    """The model with every number repeated to `[arms, …]`, ready to be mapped over its arms."""
    have = arm_count(model)
    whole(f"{type(model).__name__}: arms", arms)
    if have is not None and have != arms:
        raise ConfigError(f"{type(model).__name__} describes {have} arms where {arms} are needed; give one value or {arms} values.")
    repeated = {name: value if np.ndim(value) > ndim else _repeat(value, arms) for name, ndim, value in _numbers(model)}
    changes = {}
    for field in dataclasses.fields(model):  # type: ignore[arg-type]
        value = getattr(model, field.name)
        if isinstance(value, dict):
            changes[field.name] = {name: repeated[name] for name in value}
        elif field.name in repeated:
            changes[field.name] = repeated[field.name]
    return dataclasses.replace(model, **changes)  # type: ignore[type-var]


def _repeat(value: Any, arms: int) -> Any:
    xp = jnp if isinstance(value, jax.Array) else np
    return xp.broadcast_to(xp.asarray(value), (arms, *np.shape(value)))


def low_high(x: Any) -> str:
    """One number, or the smallest and the largest of several, for a sentence."""
    if not is_concrete(x):
        return "traced"
    low, high = float(np.min(x)), float(np.max(x))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def arm(model: M, index: Int[Array, ""]) -> M:
    """One arm of a stacked model."""
    return jax.tree.map(lambda leaf: pick(leaf, index), model)


def first_arm(model: M) -> M:
    """The first arm, or the model itself where its numbers are for one."""
    arms = arm_count(model)
    return model if arms is None else jax.tree.map(lambda leaf: leaf[0], stack(model, arms))


def check_density(model: Any, name: str) -> None:
    """Refuse a model whose log-densities are not one finite number each at a prior draw.

    Shapes are looked at by tracing; then everything is computed by one program.
    """
    action = np.zeros((), np.int32)

    def draw(single) -> tuple[Theta, PRNGKey]:
        key_theta, key_reward = _random.split(as_key(0))
        return jnp.asarray(single.init(key_theta)), key_reward

    def look(single, theta, key_reward) -> dict[str, Scalar]:
        seen = {"the mean reward": single.mean_reward(theta, (), action)}
        if provides(single, "sample"):
            seen["a reward"] = single.sample(key_reward, theta, (), action)
        reward = jnp.asarray(list(seen.values())[-1], float)
        densities = {
            "log_prior": single.log_prior(theta),
            "log_likelihood": single.log_likelihood(theta, Row((), jnp.asarray(action), reward)),
        }
        return seen | densities

    def everything(single):
        theta, key_reward = draw(single)
        slopes = {what: jax.grad(lambda x, what=what: look(single, x, key_reward)[what])(theta) for what in DENSITIES}
        return theta, look(single, theta, key_reward), slopes

    single = first_arm(model)
    start = jax.eval_shape(draw, single)
    if start[0].shape != (single.dim,):
        raise ConfigError(f"{name}: a prior draw must have shape ({single.dim},); it has {start[0].shape}.")
    shapes = jax.eval_shape(look, single, *start)
    for what in LOOKED_AT:
        if what in shapes and shapes[what].shape != ():
            raise ConfigError(f"{name}: {what} must be one number; at a prior draw it has shape {shapes[what].shape}.")
    theta, found, slopes = jax.tree.map(np.asarray, jax.jit(everything)(single))
    if not np.isfinite(theta).all():
        raise ConfigError(f"{name}: a prior draw is not finite ({short(theta)}); give a proper prior.")
    for what in LOOKED_AT:
        if what in found and not np.isfinite(found[what]):
            raise ConfigError(f"{name}: {what} must be finite at a prior draw; at θ = {short(theta)} it is {float(found[what])}.")
    for what, slope in slopes.items():
        if not np.isfinite(slope).all():
            raise ConfigError(f"{name}: the gradient of {what} must be finite at a prior draw; at θ = {short(theta)} it is not.")


DENSITIES = ("log_prior", "log_likelihood")
LOOKED_AT = ("the mean reward", "a reward", *DENSITIES)


__all__ = [
    "Closed",
    "Conjugate",
    "Float",
    "Model",
    "Moments",
    "Sufficient",
    "Sum",
    "Summarised",
    "Theory",
    "arm",
    "arm_count",
    "check_density",
    "draws",
    "first_arm",
    "has_marginal",
    "low_high",
    "marginals",
    "require_model",
    "stack",
]
