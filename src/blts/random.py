"""Random keys and numbers for parts of your own: `jax.random`'s names, with a generator that XLA can fuse.

There are `key`, `split`, `fold_in`, `normal` and `uniform`. For other distributions use `jax.random`: its functions take these
keys too, all but `poisson`.

>>> import jax
>>> from blts import random
>>> int(jax.random.randint(random.key(0), (), 0, 5))
4
>>> first, second = random.split(random.key(0))  # two keys for two uses
>>> bool(first == second), bool(random.fold_in(first, 3) == random.fold_in(first, 3))
(False, True)
"""

from __future__ import annotations

from . import _random
from ._random import as_key as key
from ._random import normal as normal
from ._random import uniform as uniform
from ._typing import Array, Int, PRNGKey

__all__ = ["fold_in", "key", "normal", "split", "uniform"]


def split(key: PRNGKey, num: int | tuple[int, ...] = 2) -> PRNGKey:
    """Several keys from one: `jax.random.split`. A key is used once, so that numbers do not depend on each other.

    Args:
        key: the key, which is then used up.
        num: how many, or the shape of an array of keys.

    Returns:
        The keys.

    >>> from blts import random
    >>> first, second = random.split(random.key(0))
    >>> bool((random.normal(first) == random.normal(second)).all())
    False
    >>> random.split(random.key(0), 5).shape
    (5,)
    """
    return _random.split(key, num)


def fold_in(key: PRNGKey, data: int | Int[Array, ""]) -> PRNGKey:
    """A key for one of many uses, by its number: `jax.random.fold_in`.

    Args:
        key: the key.
        data: the number, such as that of a round or an arm.

    Returns:
        The same key for the same number, and another one for any other.

    >>> from blts import random
    >>> key = random.key(0)
    >>> third = random.fold_in(key, 3)
    >>> bool(third == random.fold_in(key, 3)), bool(third == random.fold_in(key, 4))
    (True, False)
    """
    return _random.fold_in(key, data)
