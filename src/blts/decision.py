"""One decision, the first half of a round: shared by simulations, live experiments and their verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ._typing import Array, Bool, Int, Played, Tree
from .arrays import count, where

T = TypeVar("T")


class Clock(NamedTuple):
    """State that advances with decisions and does not depend on rewards."""

    t: Int[Array, ""]
    """Decisions so far."""
    plays: Int[Array, " actions"]
    """How often each action was chosen."""
    batching: Tree
    """The state of the batching scheme."""
    due: Bool[Array, ""]
    """Whether the last decision ended its batch."""


def decide(
    choose: Callable[[Played], tuple[Array, T]], batching: Any, clock: Clock, t: Int[Array, ""], obs: Tree, live: Bool[Array, ""]
) -> tuple[Clock, Array, T]:
    """Decision number t: choose an action, count it, and let the batching scheme decide whether the batch ends.

    Args:
        choose: maps the round and the play counts to the action and anything else to keep, such as its probability.
        batching: the batching scheme.
        clock: after decision t - 1.
        t: the number of the decision, from 1.
        obs: the observation before it.
        live: a mask: where False, the clock does not change and no batch ends.

    Returns:
        The clock after the decision, the action, and what else `choose` returned.
    """
    action, kept = choose(Played(t, clock.plays))
    state, closes = batching.step(clock.batching, obs, action)
    after = Clock(where(live, t, clock.t), count(clock.plays, action, live), where(live, state, clock.batching), closes & live)
    return after, action, kept
