"""What a model is: the log-density of one arm's reward, its prior, and what is known about both.

A model is written for **one** arm. Give any of its numbers one more axis in front and it describes that many
independent arms, each with its own prior; `stack` brings all numbers to that form and the agents map over it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from .._module import short
from .._random import as_key
from .._typing import Array, Float, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..errors import ConfigError
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


@runtime_checkable
class Model(Protocol):
    """Any log-density over θ ∈ R^dim."""

    dim: int

    def init(self, key: PRNGKey) -> Theta:
        """A draw from the prior."""
        ...

    def log_prior(self, theta: Theta) -> Scalar: ...

    def log_likelihood(self, theta: Theta, row: Row) -> Scalar: ...

    def mean_reward(self, theta: Theta, obs: Tree, action: Int[Array, ""]) -> Scalar: ...

    def information(self, theta: Theta) -> Theta:
        """Curvature of one reward at θ, a number per coordinate: the L of Algorithm 1 where it exists."""
        ...

    def prior_precision(self) -> Theta: ...

    def theory(self) -> Theory: ...


@runtime_checkable
class Sufficient(Protocol):
    """A model whose data can be kept as a summary, so that the full potential costs the same for any n."""

    def empty(self) -> Tree: ...

    def add(self, summary: Tree, row: Row) -> Tree: ...

    def log_likelihood_of(self, theta: Theta, summary: Tree) -> Scalar: ...


@runtime_checkable
class Conjugate(Sufficient, Protocol):
    """A model with an exact posterior, which serves as sampler and as oracle."""

    def draw(self, key: PRNGKey, summary: Tree) -> Theta:
        """A draw from the exact posterior."""
        ...

    def marginal(self, summary: Tree, obs: Tree, action: Int[Array, ""]) -> Marginal | None:
        """The exact law of the mean reward, or None where only draws of it can be had."""
        ...


class Described:
    """How models show themselves: a constructor call in `repr`, a sentence in `print` and in a notebook."""

    dim: ClassVar[int] | int = 1
    noun: ClassVar[str] = "rewards"

    def __str__(self) -> str:
        arms = arm_count(self)
        who = "One arm" if arms is None else f"{arms} arms"
        settings = ", ".join(
            f"{field.name.replace('_', ' ')} {short(getattr(self, field.name))}"
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if "ndim" in field.metadata
        )
        theory = self.theory()
        place = "inside" if theory.inside else "outside"
        return f"{who} with {self.noun} ({settings}), {place} the paper's theory: {theory.why}"

    def _repr_html_(self) -> str:
        return f"<p>{self}</p><pre>{self!r}</pre>"

    def theory(self) -> Theory:
        return Theory(False, "its assumptions have not been checked for this model.")


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations (Welford), of the rows with weight 1, and the count of all rows.

    Unlike Σr and Σr², these lose no digits when the mean is far from zero.
    """

    rows: Int[Array, ""]
    n: Int[Array, ""]
    mean: Scalar
    m2: Scalar

    @staticmethod
    def zero() -> Moments:
        return Moments(jnp.zeros((), int), jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()))

    def plus(self, x: Scalar, weight: Any = 1) -> Moments:
        """One more row; a weight of 0 counts the row but not its value."""
        n = self.n + jnp.asarray(weight, int)
        change = jnp.where(weight > 0, x - self.mean, 0.0)
        mean = self.mean + change / jnp.maximum(n, 1)
        return Moments(self.rows + 1, n, mean, self.m2 + change * jnp.where(weight > 0, x - mean, 0.0))


def arm_count(model: Any) -> int | None:
    """How many arms the numbers of a model describe; None where all of them are for one arm."""
    counts = {}
    for field, value in _numbers(model):
        extra = np.ndim(value) - field.metadata["ndim"]
        if extra > 1 or extra < 0:
            raise ConfigError(
                f"{type(model).__name__}: {field.name} has shape {np.shape(value)}; give {_shape_words(field)} or one such for each arm."
            )
        if extra == 1:
            counts[field.name] = np.shape(value)[0]
    if len(set(counts.values())) > 1:
        raise ConfigError(
            f"{type(model).__name__}: the number of arms differs, "
            + " but ".join(f"{name} has {count}" for name, count in counts.items())
            + "; give each one value or one per arm."
        )
    return next(iter(counts.values()), None)


def _numbers(model: Any) -> list[tuple[dataclasses.Field, Any]]:
    """The traced numbers of a model with their fields; hyper-parameters in a dict count as numbers of rank 0."""
    out = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if "ndim" in field.metadata and value is not None:
            out.append((field, value))
    return out


def _shape_words(field: dataclasses.Field) -> str:
    return ("a number", "a vector", "a matrix")[field.metadata["ndim"]]


def stack(model: M, arms: int) -> M:
    """The model with every number repeated to `[arms, …]`, ready to be mapped over its arms."""
    have = arm_count(model)
    if have is not None and have != arms:
        raise ConfigError(f"{type(model).__name__} describes {have} arms where {arms} are needed; give one value or {arms} values.")
    changes = {}
    for field, value in _numbers(model):
        if np.ndim(value) == field.metadata["ndim"]:
            value = np.broadcast_to(np.asarray(value), (arms, *np.shape(value))) if not isinstance(value, jax.Array) else jnp.broadcast_to(value, (arms, *value.shape))
        changes[field.name] = value
    return dataclasses.replace(model, **changes)  # type: ignore[type-var]


def arm(model: M, index: Int[Array, ""]) -> M:
    """One arm of a stacked model."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], model)


def check_density(model: Model, name: str) -> None:
    """Refuse a log-density that is not a finite number at a prior draw."""
    single = arm(model, jnp.asarray(0)) if arm_count(model) is not None else model
    theta = single.init(as_key(0))
    if not bool(jnp.isfinite(theta).all()):
        raise ConfigError(f"{name}: a prior draw is not finite ({short(theta)}); give a proper prior.")
    reward = single.mean_reward(theta, (), jnp.asarray(0))
    for what, value in {
        "the mean reward": reward,
        "log_prior": single.log_prior(theta),
        "log_likelihood": single.log_likelihood(theta, Row((), jnp.asarray(0), jnp.asarray(reward))),
    }.items():
        if jnp.shape(value) != ():
            raise ConfigError(f"{name}: {what} must be one number; at a prior draw it has shape {jnp.shape(value)}.")
        if not bool(jnp.isfinite(value)):
            raise ConfigError(f"{name}: {what} must be finite at a prior draw; at θ = {short(theta)} it is {float(value)}.")


__all__ = [
    "Conjugate",
    "Described",
    "Float",
    "Model",
    "Moments",
    "Sufficient",
    "Theory",
    "arm",
    "arm_count",
    "check_density",
    "stack",
]
