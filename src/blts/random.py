"""Keys for `simulate` and for samplers: `random.key(seed)` as in `jax.random`, with a generator that XLA can fuse."""

from ._random import as_key as key
from ._random import fold_in as fold_in
from ._random import normal as normal
from ._random import split as split
from ._random import uniform as uniform

__all__ = ["fold_in", "key", "normal", "split", "uniform"]
