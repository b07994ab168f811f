"""What a study can do with a condition."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from ..spec import Condition

Arrays = dict[str, np.ndarray]
About = dict[str, Any]


class Task(Protocol):
    """Registered under a name, which is a study's `task`."""

    metrics: ClassVar[tuple[str, ...]]
    """Arrays that have one number a replication, the chief one first."""

    def normal(self, condition: Condition) -> Condition:
        """The condition with defaults filled in and everything checked; equal for conditions that compute the same."""
        ...

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        """Arrays with the replications in front, and what is the same for all. Replication r does not depend on its block."""
        ...
