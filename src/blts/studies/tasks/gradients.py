"""How many gradients a refresh takes, by kernel and condition number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ... import registry
from ...errors import ConfigError, whole
from ...samplers.refreshing import KERNELS, least
from ..spec import Condition
from .base import About, Arrays
from .checks import above_zero, refuse_unknown

KEYS = ("kernel", "condition_number", "dim", "tolerance")


@registry.register("task", "gradients")
class Gradients:
    """Gradients that take a tuned kernel from the posterior of half the data to within `tolerance` posterior sds, by exact laws.

    A replication is a Gaussian target in `dim` dimensions: precisions 1 and `condition_number`, the others log-uniform between. All
    kernels ("ula", "ulmc", "baoab") see the same targets. See `samplers/refreshing.py`.

    >>> from blts import registry
    >>> task = registry.build("task", "gradients")
    >>> condition = task.normal({"kernel": "baoab", "condition_number": 10})
    >>> task.run(condition, seed=0, first=0, replications=3)[0]["gradients"].tolist()
    [5.0, 5.0, 5.0]
    """

    metrics: ClassVar[tuple[str, ...]] = ("gradients",)

    def normal(self, condition: Condition) -> Condition:
        refuse_unknown("gradients", condition, KEYS)
        kernel = condition.get("kernel")
        if kernel not in tuple(KERNELS):
            raise ConfigError(f"kernel must be one of {', '.join(map(repr, KERNELS))}; got {kernel!r}.")
        number = above_zero("condition_number", condition.get("condition_number", 1.0))
        if number < 1:
            raise ConfigError(f"condition_number must be ≥ 1; got {number:g}.")
        tolerance = above_zero("tolerance", condition.get("tolerance", 0.1))
        return {
            "kernel": kernel,
            "condition_number": number,
            "dim": whole("dim", condition.get("dim", 20), 2),
            "tolerance": tolerance,
        }

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        found = []
        for r in range(first, first + replications):
            precision = spectrum(np.random.default_rng([seed, r]), condition["condition_number"], condition["dim"])
            number, _ = least(condition["kernel"], precision, condition["tolerance"])
            found.append(np.nan if number is None else float(number))
        return {"gradients": np.array(found)}, {}


def spectrum(rng: np.random.Generator, condition_number: float, dim: int) -> np.ndarray:
    """Precisions with this condition number; the same quantiles whatever the number is."""
    return condition_number ** np.r_[0.0, np.sort(rng.random(dim - 2)), 1.0]
