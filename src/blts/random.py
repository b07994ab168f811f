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

from ._random import as_key as key
from ._random import fold_in as fold_in
from ._random import normal as normal
from ._random import split as split
from ._random import uniform as uniform

__all__ = ["fold_in", "key", "normal", "split", "uniform"]
