"""One decision: what simulations, live experiments and their verification do in a round before any reward is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ._typing import Array, Bool, Int, Played, Tree
from .arrays import count, where

T = TypeVar("T")


class Clock(NamedTuple):
    """What advances with decisions and never with rewards."""

    t: Int[Array, ""]
    """Decisions so far."""
    plays: Int[Array, " actions"]
    """How often each action was chosen."""
    batching: Tree
    """The state of the batching scheme."""
    due: Bool[Array, ""]
    """Whether the last decision closed its batch."""


def decide(
    choose: Callable[[Played], tuple[Array, T]], batching: Any, clock: Clock, t: Int[Array, ""], obs: Tree, live: Bool[Array, ""]
) -> tuple[Clock, Array, T]:
    """Decision number t: an action is chosen and counted, and the batching scheme says whether the batch is closed.

    Args:
        choose: the action, and whatever else is to be kept of the choice, from the number of the round and the play counts.
        batching: the batching scheme.
        clock: after decision t - 1.
        t: the number of the decision, from 1.
        obs: what is observed before it.
        live: where False, nothing is decided: the clock stays as it is, and no batch is closed.

    Returns:
        The clock after it, the action, and what else `choose` returned.
    """
    action, kept = choose(Played(t, clock.plays))
    state, closes = batching.step(clock.batching, obs, action)
    after = Clock(where(live, t, clock.t), count(clock.plays, action, live), where(live, state, clock.batching), closes & live)
    return after, action, kept
