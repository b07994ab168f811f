"""Coefficients of features with a Gaussian prior: what linear and generalised linear models share."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import finite, is_concrete, positive, short
from .._typing import Array, Float, Scalar, Theta, Tree
from ..declared import rests_on
from ..errors import ConfigError
from .arms import arm_count
from .normal import HALF_LOG_2PI

M = TypeVar("M")


class Line(NamedTuple):
    """The linear function offset + slopes · x of features in their own units."""

    offset: Scalar
    slopes: Float[Array, " features"]


class WithFeatures:
    """What models of the features of a round share: their number, and how they are standardised, (x - centre)/scale."""

    centre: Array | None
    scale: Array | None
    width: Any
    """How many features there are."""

    def _check_standardisation(self) -> None:
        name = type(self).__name__
        for part in ("centre", "scale"):
            value = getattr(self, part)
            if value is not None and np.shape(value)[-1] != self.width:
                raise ConfigError(f"{name}: {part} has {np.shape(value)[-1]} numbers for {self.width} features; give as many.")
        if self.centre is not None:
            finite(self, "centre")
        if self.scale is not None:
            positive(self, "scale")

    @property
    def contextual(self) -> bool:
        """Whether the rewards depend on the features of a round."""
        return True

    def _x(self, obs: Tree) -> Float[Array, " width"]:
        x = features_of(type(self).__name__, obs, self.width)
        x = x if self.centre is None else x - self.centre
        return x if self.scale is None else x / self.scale


class Coefficients(WithFeatures):
    """θ weights the features x of a round: x·θ, with the prior N(prior_mean, diag(prior_sd²)).

    With `centre` and `scale`, θ weights the standardised features.
    """

    prior_mean: Array
    prior_sd: Array

    def check(self):
        self._place_sds()
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "prior_sd")
        if self.width < 1:
            name = type(self).__name__
            raise ConfigError(f"{name}: prior_mean must have one number for each coordinate of θ; got none.")
        self._check_standardisation()

    def _place_sds(self) -> None:
        """`prior_sd` as a number, or with one number, or one for each coordinate, on its last axis."""
        if np.ndim(self.prior_mean) == 0:
            return  # refused by `arm_count`
        sd, name, width = self.prior_sd, type(self).__name__, self.width
        if np.ndim(sd) == 2 and np.shape(sd)[1] not in (1, width):
            raise ConfigError(f"{name}: prior_sd has {np.shape(sd)[1]} numbers for {width} coordinates of θ; give one or {width}.")
        if np.ndim(sd) != 1:
            return
        object.__setattr__(self, "prior_sd", np.ones(()))  # what the other numbers say of the arms
        arms, count = arm_count(self), np.shape(sd)[0]
        alike = is_concrete(sd) and bool(np.all(np.asarray(sd) == np.asarray(sd)[:1]))
        if count == width == arms and not alike and width > 1:
            raise ConfigError(
                f"{name}: prior_sd has {count} numbers, and there are as many arms as coordinates of θ; give it the shape "
                f"({arms}, 1) for one number for each arm, or ({arms}, {width})."
            )
        per_coordinate = count == width and (arms != width or alike)
        object.__setattr__(self, "prior_sd", sd if per_coordinate else sd[:, None])

    @property
    def width(self) -> int:  # type: ignore[override]
        """How many features there are."""
        return np.shape(self.prior_mean)[-1]

    @property
    def dim(self) -> int:
        return self.width

    @property
    def _sd(self) -> Float[Array, " 1 or width"]:
        return jnp.reshape(jnp.asarray(self.prior_sd, float), (-1,))

    def coefficients(self, theta: Any) -> Line:
        """What θ says of features in their own units, whatever they were standardised with.

        Args:
            theta: θ, of shape `(…, dim)`; of a model with numbers for each arm `(…, arms, dim)`.

        Returns:
            The offset, and a slope for each feature, with the same axes in front.

        >>> from blts.models import Linear
        >>> line = Linear([0.0, 0.0], centre=[1.0, 0.0], scale=[2.0, 1.0]).coefficients([4.0, 3.0])
        >>> float(line.offset), line.slopes.tolist()
        (-2.0, [2.0, 3.0])
        """
        slopes = jnp.asarray(theta, float)[..., : self.width]
        slopes = slopes if self.scale is None else slopes / jnp.asarray(self.scale, float)
        centre = jnp.zeros(self.width) if self.centre is None else jnp.asarray(self.centre, float)
        return Line(-jnp.sum(slopes * centre, -1), slopes)


class NormalCoefficients(Coefficients):
    """θ are the coefficients alone."""

    @rests_on("log_prior")
    def init(self, key):
        # Not by `init_from`, which a subclass has lost whose own `init` calls this one.
        return self.prior_mean + self._sd * _random.normal(key, (self.dim,))

    @rests_on("init", "log_prior")
    def init_from(self, z):
        return self.prior_mean + self._sd * z

    @rests_on("init", "init_from")
    def log_prior(self, theta):
        z = (theta - self.prior_mean) / self._sd
        return -0.5 * jnp.sum(jnp.square(z)) - self.dim * jnp.mean(jnp.log(self._sd) + HALF_LOG_2PI)

    @rests_on("init", "init_from", "log_prior")
    def prior_precision(self) -> Theta:
        return jnp.broadcast_to(1.0 / jnp.square(self._sd), (self.dim,))


def features_of(name: str, obs: Tree, width: int) -> Float[Array, " width"]:
    """The features of a round, refused where they are not what a model was built for.

    Args:
        name: of the model.
        obs: what the model is shown.
        width: how many features it has.

    Returns:
        The features.

    Raises:
        ConfigError: what the round shows instead.
    """
    if isinstance(obs, tuple) or np.shape(obs) != (width,):
        shape = "no context" if isinstance(obs, tuple) else f"a context of shape {np.shape(obs)}"
        raise ConfigError(f"{name}: a round needs a context of shape ({width},); it has {shape}.")
    return jnp.asarray(obs, float)


def standardised(model: M, table: Any) -> M:
    """A model whose features are centred and scaled by the means and standard deviations of a table.

    Its θ weights (x - centre)/scale, and its prior is a prior of those weights; `model.coefficients(theta)` of a linear or
    generalised linear model gives them in the features' own units. A column that does not vary is left as it is, with a warning: it
    may be the constant of an intercept.

    Args:
        model: of features: `Linear`, `Logistic`, `Network`, …
        table: features seen before, of shape `(rows, features)`; they are read for their means and sds alone.

    Returns:
        The model with `centre` and `scale`.

    Raises:
        ConfigError: a model without features, or a table of the wrong shape, or with entries that are not finite.

    >>> from blts.models import Linear, standardised
    >>> model = standardised(Linear([0.0, 0.0]), [[10.0, 1.0], [30.0, 3.0]])
    >>> model.centre.tolist(), model.scale.tolist()
    ([20.0, 2.0], [10.0, 1.0])
    """
    if not isinstance(model, WithFeatures):
        raise ConfigError(f"standardised: {type(model).__name__} has no features; give a Linear, a Logistic or a Network.")
    if not model.contextual:
        raise ConfigError("standardised: the model's features are its alpha and not those of a round; scale alpha instead.")
    try:
        rows = np.asarray(table, float)
    except (TypeError, ValueError):
        raise ConfigError(f"standardised: the table must be numbers, a row for each round; got {short(table)}.") from None
    if rows.ndim != 2 or rows.shape[1] != model.width or len(rows) < 2:
        shape = f"two rows or more of {model.width} features"
        raise ConfigError(f"standardised: the table must have {shape}; its shape is {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ConfigError("standardised: the table has entries that are not finite; leave those rows out.")
    centre, scale = rows.mean(0), rows.std(0)
    constant = scale <= 1e-7 * np.abs(centre)
    if constant.any():
        named = ", ".join(map(str, np.flatnonzero(constant)))
        does, left = (f"column {named} does", "is") if constant.sum() == 1 else (f"columns {named} do", "are")
        warnings.warn(f"standardised: {does} not vary in the table, and {left} left as given.", stacklevel=2)
    return dataclasses.replace(model, centre=np.where(constant, 0.0, centre), scale=np.where(constant, 1.0, scale))  # type: ignore
