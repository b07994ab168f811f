"""Trees of arrays as text, without losing a bit."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import PRNGKey, Tree
from ..batching import Batching
from ..errors import StoreError, type_and_message
from .damage import Damaged
from .policy import Clock, start_clock


def encode(tree: Tree) -> str:
    """The arrays of a tree as JSON, bit for bit."""

    def one(leaf):
        if jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        x = np.asarray(leaf)
        return [x.dtype.str, list(x.shape), base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()]

    return json.dumps([one(leaf) for leaf in jax.tree.leaves(tree)])


def decode(text: str, like: Tree) -> Tree:
    """The tree that `encode` wrote, in the structure of `like` (`Damaged` where the text is none that it writes)."""
    leaves, structure = jax.tree.flatten(like)

    def one(item, like):
        dtype, shape, data = item
        x = np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape)
        if jnp.issubdtype(getattr(like, "dtype", np.float32), jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.asarray(x), impl=jax.random.key_impl(like))
        return jnp.asarray(x)

    items = _read(json.loads, text)
    if len(items) != len(leaves):
        raise StoreError("What is stored was made with another model, sampler or batching than is there now; put that back.")
    return jax.tree.unflatten(structure, [_read(one, item, like) for item, like in zip(items, leaves, strict=True)])


def _read(how: Callable[..., Any], *stored: Any) -> Any:
    """What a function makes of stored text (`Damaged` where it cannot)."""
    try:
        return how(*stored)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Damaged(f"a stored state cannot be read ({type_and_message(error)})") from None


def clock_text(ticks: Clock) -> str:
    return json.dumps([np.asarray(ticks.plays).tolist(), json.loads(encode(ticks.batching))])


def clock_from(text: str, t: int, due: bool, key: PRNGKey, batching: Batching, arms: int) -> Clock:
    """The clock that an experiment's row holds."""
    plays, state = _read(_plays_and_state, text)
    like = start_clock(key, batching, arms)
    # A type for t: without one it is weak, and everything that a clock enters would be compiled a second time after the first step.
    return Clock(jnp.asarray(t, like.t.dtype), plays, decode(json.dumps(state), like.batching), jnp.asarray(due))


def _plays_and_state(text: str) -> tuple[jax.Array, Any]:
    plays, state = json.loads(text)
    return jnp.asarray(plays, int), state
