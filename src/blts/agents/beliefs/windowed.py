"""A sliding window: only the last rounds are known."""

from __future__ import annotations

from ..._module import at_least, module, static
from ...history import Recent, example_row, told_again
from .base import Belief
from .forgetting import Forgetting


@module
class Windowed(Forgetting, Belief):
    """The posterior of the rewards of the last rounds, and of no others.

    At a refresh the other belief is told the rows of the last `rounds` rounds, as if there had been none before. An arm that was
    not played in them has its prior again.

    Args:
        belief: how the posterior is held: any belief.
        rounds: how many rounds are not forgotten.

    >>> from blts import Exact, Windowed
    >>> print(Windowed(Exact(), 200))
    exact posterior draws each round, of the last 200 rounds
    """

    belief: Belief
    rounds: int = static()

    def check(self):
        super().check()
        at_least(self, "rounds", 1)

    def __str__(self) -> str:
        return f"{self.belief}, of the last {self.rounds} rounds"

    def init(self, key, model):
        return self.belief.init(key, model)

    def empty(self, model, row, capacity):
        return Recent.empty(row, max(1, min(self.rounds, capacity)))

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def refresh(self, keys, model, state, history):
        empty = self.belief.empty(model, example_row(history), history.room)
        tell = lambda known, row, age, live: self.belief.remember(model, known, row, live)  # noqa: E731
        return self.belief.refresh(keys, model, state, told_again(history, tell, empty))
