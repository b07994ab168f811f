"""What the methods of a model return, looked at without computing: shapes and types."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._random import as_key
from .._typing import Row, Tree
from ..errors import ConfigError
from ..untraceable import untraceable
from .arms import first_arm

NUMBER = "one number"


class Wrong(Exception):
    """What a method returned, and what it must return."""


def check_returns(owner: str, model: Any, obs: Tree = ()) -> None:
    """Refuse a model one of whose methods returns something of another shape or type than the base class describes.

    Args:
        owner: who asks, for the message.
        model: of one arm or of several.
        obs: what a round shows. With `()`, what needs a context is not looked at in models that have contexts.

    Raises:
        ConfigError: which method returned what; or that JAX cannot trace it.

    >>> import jax.numpy as jnp
    >>> from blts import ConfigError, Gaussian
    >>> class Doubled(Gaussian):
    ...     def mean_reward(self, theta, obs, action):
    ...         return 2.0 * theta
    >>> try:
    ...     check_returns("Thompson", Doubled())
    ... except ConfigError as error:
    ...     print(error)
    Thompson: mean_reward of Doubled has the shape (1,); it must return one number.
    """
    try:
        _looked.eval_shape(model, obs)
    except Wrong as wrong:
        raise ConfigError(f"{owner}: {wrong}") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        why = None if isinstance(error, ConfigError) else untraceable(error)
        if why is not None:
            raise ConfigError(f"{owner}: {why}") from error
        # A method that raises an error of its own does so where it is called, which says what for.


@jax.jit  # a function of the module: JAX traces it once for all models of one class and shape
def _looked(model: Any, obs: Tree) -> None:
    single: Any = first_arm(model)
    name, dim = type(single).__name__, single.dim
    theta = single.init(as_key(0))
    _is_array(f"init of {name}", theta, "a JAX array of floating point numbers")
    if jnp.shape(theta) != (dim,):
        raise Wrong(f"{name} has dim = {dim}, and its init draws θ of shape {jnp.shape(theta)}; override both or neither.")
    entries = f"{dim} number{'' if dim == 1 else 's'}, one for each entry of θ, of shape ({dim},)"
    _has_shape(f"log_prior of {name}", single.log_prior(theta), NUMBER, ())
    _has_shape(f"prior_precision of {name}", single.prior_precision(), entries, (dim,))
    _has_shape(f"information of {name}", single.information(theta), entries, (dim,), ())
    if single.contextual and not jax.tree.leaves(obs):
        return
    zero = jnp.zeros((), int)
    _has_shape(f"mean_reward of {name}", single.mean_reward(theta, obs, zero), NUMBER, ())
    _has_shape(f"log_likelihood of {name}", single.log_likelihood(theta, Row(obs, zero, jnp.zeros(()))), NUMBER, ())


def _is_array(what: str, found: Any, wanted: str) -> None:
    if not isinstance(found, jax.Array | np.ndarray):
        raise Wrong(f"{what} is {_kind(found)}; it must return {wanted}.")
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise Wrong(f"{what} has the type {found.dtype}; it must return {wanted}.")


def _has_shape(what: str, found: Any, wanted: str, *shapes: tuple[int, ...]) -> None:
    if not isinstance(found, jax.Array | np.ndarray | np.generic | int | float):
        raise Wrong(f"{what} is {_kind(found)}; it must return {wanted}.")
    if jnp.shape(found) not in shapes:
        raise Wrong(f"{what} has the shape {jnp.shape(found)}; it must return {wanted}.")


def _kind(found: Any) -> str:
    return "None" if found is None else f"of the type {type(found).__name__}"
