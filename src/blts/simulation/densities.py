"""What the functions of a user's model compute, as a digest: by it a traced program that calls them can be found again.

Source text would not do: a function can use numbers of its module, of a closure or of a file. So each method of the model is traced
for one arm, with the derivatives that chains take of it, and the equations are digested with all of their constants. Whatever a
program of this package calls is then in the digest: all of its calls see one arm, one θ and one reward, mapped over the rest.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh, Mesh

from .. import _random
from .._typing import Row
from ..declared import provides
from ..models.arms import first_arm
from ..models.custom import Custom

OWN_DERIVATIVES = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Calls with a derivative of their own, which is a function: it is in the equations of the derivatives."""


class Unknown(Exception):
    """An equation that depends on something that cannot be digested, such as a function."""


def digest(single: Any) -> str:
    """What a model of one arm computes.

    Args:
        single: the model, of one arm, whose rounds show nothing.

    Returns:
        A digest of its equations.

    Raises:
        Unknown: it is not determined by equations of JAX's own primitives; or rounds show something, in whatever types.
    """
    if single.features is not None:
        raise Unknown
    key, theta = _random.words_of(_random.as_key(0)), jax.ShapeDtypeStruct((single.dim,), jnp.zeros(()).dtype)
    afresh = lambda *arguments: _everything(*arguments)  # noqa: E731  (JAX keeps what it traced, and would not see a changed number)
    try:
        closed = jax.make_jaxpr(afresh)(single, key, theta, jnp.zeros(()), jnp.zeros((), int))
    except Exception as error:  # it will be said where the functions are used, if they are
        raise Unknown from error
    own, found = _primitives(), hashlib.sha256()
    for text in _program(closed, own):
        found.update(text.encode() + b"\0")
    return found.hexdigest()


def _everything(single: Any, words, theta, reward, action) -> Any:
    key, row = _random.from_words(words), Row((), action, reward)
    densities = (single.log_prior, lambda x: single.log_likelihood(x, row))
    return (
        single.init(key),
        [(f(theta), jax.value_and_grad(f)(theta), jax.hessian(f)(theta)) for f in densities],
        single.log_likelihood(theta, row._replace(reward=action)),  # rewards of counts may be whole numbers
        jax.value_and_grad(lambda x: jnp.asarray(single.mean_reward(x, (), action), float))(theta),
        single.information(theta),
        single.prior_precision(),
        single.sample(key, theta, (), action) if provides(single, "sample") else (),
    )


def _primitives() -> set[int]:
    """JAX's own primitives. One that a user defined may be compiled to anything."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "jax"]
    return {id(value) for module in modules for value in list(vars(module).values()) if isinstance(value, core.Primitive)}


def _program(closed: Any, own: set[int]) -> Iterable[str]:
    yield from (_array(const) for const in closed.consts)
    yield from _equations(closed.jaxpr, own)


def _equations(jaxpr: core.Jaxpr, own: set[int]) -> Iterable[str]:
    numbers = {v: i for i, v in enumerate([*jaxpr.constvars, *jaxpr.invars])}
    yield f"program of {[v.aval.str_short() for v in numbers]}"
    for eqn in jaxpr.eqns:
        if id(eqn.primitive) not in own:
            raise Unknown(eqn.primitive)
        name = eqn.primitive.name
        yield f"{name} {_names(eqn.invars, numbers)}"
        shown = [OWN_DERIVATIVES[name]] if name in OWN_DERIVATIVES else sorted(eqn.params)
        for parameter in shown:
            yield parameter
            yield from _parameter(eqn.params[parameter], own)
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        yield f"{[v.aval.str_short() for v in eqn.outvars]}"
    yield f"results {_names(jaxpr.outvars, numbers)}"


def _names(variables: Iterable[Any], numbers: dict[Any, int]) -> str:
    return " ".join(_array(v.val) if isinstance(v, core.Literal) else str(numbers[v]) for v in variables)


@functools.cache
def _generators() -> list[Any]:
    """Ours and JAX's, as they are in equations."""
    words = _random.words_of(_random.as_key(0))
    wraps = (_random.from_words, lambda words: jax.random.wrap_key_data(words[:2], impl="threefry2x32"))
    equations = [jax.make_jaxpr(wrap)(words).eqns[-1] for wrap in wraps]
    return [eqn.params.get("impl") for eqn in equations]


def _parameter(value: Any, own: set[int]) -> Iterable[str]:
    if isinstance(value, core.ClosedJaxpr):
        yield from _program(value, own)
    elif isinstance(value, core.Jaxpr):
        yield from _equations(value, own)
    elif isinstance(value, np.ndarray | jax.Array):
        yield _array(value)
    elif isinstance(value, tuple) and value in _generators():
        yield f"generator {_generators().index(value)}"
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} of {len(value)}"
        for each in value:
            yield from _parameter(each, own)
    else:
        text, is_function = repr(value), callable(value) and not isinstance(value, type | AbstractMesh | Mesh)
        if is_function or " at 0x" in text or "..." in text:
            raise Unknown(text)
        yield text


def _array(value: Any) -> str:
    """An array or number, all of it."""
    array = _random.numbers(value)
    return f"{jax.typeof(value).str_short()} {getattr(value, 'weak_type', '')} {array.dtype} {array.shape} {array.tobytes().hex()}"


def of_users(parts: Any) -> list[Any]:
    """The models among some parts that hold a user's functions, each once, of one arm."""
    is_users = lambda node: isinstance(node, Custom)  # noqa: E731
    singles = [first_arm(node) for node in jax.tree.leaves(parts, is_leaf=is_users) if is_users(node)]
    shape = lambda single: (jax.tree.structure(single), *map(np.shape, jax.tree.leaves(single)))  # noqa: E731
    return list({shape(single): single for single in singles}.values())
