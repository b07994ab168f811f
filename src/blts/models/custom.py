"""What models of one's own share: named hyper-parameters, checks of functions, and prior precisions from draws."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random, freshness
from .._module import parts_within, short
from .._typing import Array, Theta, Tree
from ..compilation import keep_programs
from ..declared import why_lost
from ..errors import ConfigError, whole
from .arms import arm_count, stack
from .checks import check_density
from .coefficients import features_of

C = TypeVar("C")
PRIOR_DRAWS = 256  # for the prior precision, which matters only until the first rewards


class Custom:
    """What both kinds share: named hyper-parameters, each a number or one entry for each arm."""

    hyper: dict[str, Array]
    support: Any
    features: int | None
    hidden: ClassVar[tuple[str, ...]] = ("precision", "draws", "L")
    maker: ClassVar[str]
    parts: ClassVar[tuple[str, str]]

    def __repr__(self) -> str:
        functions = [short(getattr(self, name)) for name in self.parts]
        return f"{self.maker}({', '.join(functions + [f'{name}={short(value)}' for name, value in self.hyper.items()])})"

    @property
    def contextual(self) -> bool:
        """Whether a round shows features."""
        return self.features is not None

    def _context(self, obs: Tree) -> tuple[Array, ...]:
        """The features of a round, as the last argument of a function; none where rounds show nothing."""
        return () if self.features is None else (features_of(self.maker, obs, self.features),)

    def example(self) -> Tree:
        """What a round may show."""
        return () if self.features is None else jnp.ones(self.features)

    @property
    def likelihood_within_support(self) -> bool:  # type: ignore[override]
        """ "real" is what is taken where nobody says which rewards there are."""
        return self.support != "real"

    @property
    def noun(self) -> str:  # type: ignore[override]
        first, second = (short(getattr(self, name)) for name in self.parts)
        return f"rewards by {self.maker}({first}, {second})"


def described(model: Any) -> str:
    """What a model is called in a message: its class, or how it was made of functions."""
    if not isinstance(model, Custom):
        return type(model).__name__
    return f"{model.maker}({', '.join(short(getattr(model, name)) for name in model.parts)})"


def somebodys(part: Any) -> bool:
    """Whether a part, or one that it holds, is somebody's own. Functions of a `Custom` model were looked at when it was made."""
    return any(not isinstance(each, Custom) and freshness.from_elsewhere(each) for each in parts_within(part))


def cannot_draw(model: Any) -> str:
    """Why a model without `sample` cannot be simulated, and what to do."""
    remedy = "give it a method sample(key, theta, obs, action)."
    if isinstance(model, Custom):
        remedy = f"give {model.maker} a function sample=… that draws one."
    return f"{described(model)} cannot draw rewards; {why_lost(model, 'sample') or remedy}"


def reserved(name: str) -> str:
    """Advice for a hyper-parameter that has the name of an option."""
    return f"{name} is an option; a hyper-parameter called {name} needs another name."


def check_features(maker: str, features: Any) -> None:
    """Refuse what is not a number of features, or None."""
    if features is not None:
        whole(f"{maker}: features", features)


def check_identifiable(maker: str, identifiable: Any) -> None:
    """Refuse what is not a yes or no, such as a hyper-parameter of that name."""
    if not isinstance(identifiable, bool):
        raise ConfigError(f"{maker}: identifiable must be True or False; got {identifiable!r}. {reserved('identifiable')}")


def numbers_only(maker: str, hyper: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in hyper.items():
        try:
            out[name] = value if isinstance(value, jax.Array) else np.asarray(value, float)
        except (TypeError, ValueError):
            raise ConfigError(f"{maker}: {name} must be a number or one number for each arm; got {value!r}.") from None
        if not np.isfinite(np.asarray(out[name])).all():
            raise ConfigError(f"{maker}: {name} must be finite; got {short(out[name])}.")
    return out


def check_call(maker: str, part: str, function: Callable, *names: str, **options: Any) -> None:
    """Refuse a function that cannot be called with these arguments by place and those by name."""
    try:
        inspect.signature(function).bind(*names, **options)
    except TypeError as error:
        call = ", ".join((*names, *(f"{name}=…" for name in options)))
        raise ConfigError(f"{maker}: {part} is called as {part}({call}), and does not take that: {error}.") from None
    except ValueError:  # a builtin that does not say what it takes
        return


@contextlib.contextmanager
def traceable(maker: str) -> Iterator[None]:
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
    except ValueError as error:
        if "distribution got invalid" not in str(error):  # NumPyro's words for a parameter out of range
            raise
        raise ConfigError(f"{maker}: {str(error).rstrip('.')}, at a prior draw.") from None


def each_arm(function: Callable, model: Any) -> Any:
    """function(one arm) for each arm that the numbers describe, or once where they are for one."""
    arms = arm_count(model)
    return jax.jit(function)(model) if arms is None else jax.jit(jax.vmap(function))(stack(model, arms))


def finished(maker: str, model: C, arms: int | None) -> C:
    """The model, its densities checked at a prior draw, with its prior precision from draws, and stacked where asked."""
    keep_programs()
    check_density(model, maker)
    variance, precision = map(np.asarray, each_arm(_prior_spread, model))
    if not np.all(np.isfinite(variance) & (variance > 0)):
        raise ConfigError(f"{maker}: prior draws must be finite and must vary; their variance is {short(variance)}.")
    model = dataclasses.replace(model, precision=precision)  # type: ignore[type-var]
    return model if arms is None else stack(model, arms)


def _prior_spread(one: Any) -> tuple[Theta, Theta]:
    """The variance of prior draws in each coordinate, and its inverse."""
    drawn = jax.vmap(one.init)(_random.split(_random.as_key(0), PRIOR_DRAWS))
    variance = jnp.var(lax.optimization_barrier(drawn), axis=-2)
    return variance, 1.0 / variance
