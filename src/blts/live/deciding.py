"""Decisions of the policy in use, computed in chunks for which programs are compiled; nothing is stored here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from .._typing import Tree
from ..compilation import give_back_memory, make_room
from . import policy
from .features import Observed
from .showing import observed

if TYPE_CHECKING:
    from .session import Policy, Session


def decide(
    session: Session, current: Policy, ticks: policy.Clock, n: int, obs: Observed | None = None
) -> tuple[policy.Clock, list[int], np.ndarray, int | None]:
    """Decisions until n, or where the experiment is strict until the end of the batch.

    Args:
        session: the experiment.
        current: the policy in use.
        ticks: the clock before them.
        n: how many are wanted.
        obs: what they are shown; None without contexts.

    Returns:
        The clock after them, the arms among the active ones, their propensities, and which of them, from 1, closed the batch (None
        where none did, or where it was closed before).
    """
    arms, laws, left, closing = [], [], n, None
    open_before = not bool(ticks.due)
    while left > 0:
        size = policy.chunk_size(left)
        seen = () if obs is None else obs.part(n - left, n - left + min(left, size), size)
        ticks, decided = _chunk(session, current, ticks, min(left, size), size, seen)
        ticks, decided = jax.device_get((ticks, decided))
        count = int(decided.live.sum())
        if open_before and closing is None and ticks.due:
            closing = len(arms) + 1 + int(np.argmax(decided.closes[:count]))
        arms += decided.arms[:count].tolist()
        laws.append(decided.propensities[:count])
        left -= count
        if count == 0 or (session.spec.strict and ticks.due):
            break
    return ticks, arms, np.concatenate(laws), closing


def _chunk(
    session: Session, current: Policy, ticks: policy.Clock, limit: int, size: int, obs: Tree
) -> tuple[policy.Clock, policy.Decided]:
    built, strict = current.built, session.spec.strict
    return policy.decide_many(
        session.key, built.agent, built.batching, current.frozen, ticks, built.mixture, limit, obs, size=size, strict=strict
    )


def compile_ahead(session: Session, n: int) -> None:
    """Compile what the next `ask` runs before others have to wait for it."""
    size = policy.chunk_size(n)
    if session.cached is not None and (len(session.cached.active), size) in session.compiled:
        return
    with session.database.read() as c:
        row = session.row(c)
        current = session.policy(c, row.version)
    if (len(current.active), size) not in session.compiled:
        make_room()
        nothing = observed(session.spec, current, [])
        _chunk(session, current, session.ticks(row, current), 0, size, () if nothing is None else nothing.part(0, 0, size))
        session.compiled.add((len(current.active), size))
        give_back_memory()


def compile_all(session: Session) -> None:
    """Compile what every `ask` runs, whatever its number of decisions."""
    for size in policy.SIZES:
        compile_ahead(session, size)
