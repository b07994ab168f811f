"""Leases: which worker looks after an experiment. They save work; that nothing happens twice is up to the transactions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from ..errors import BltsError
from . import schema
from .database import Database

LEASE = 120.0  # seconds for which others leave an experiment to a worker


def take(database: Database, experiment: int, holder: str, now: float) -> bool:
    """Take or renew the lease of an experiment; False where another worker has it."""
    table = schema.leases
    with database.write() as c:
        c.execute(sa.select(schema.experiments.c.id).where(schema.experiments.c.id == experiment).with_for_update())
        held = c.execute(sa.select(table).where(table.c.experiment == experiment)).first()
        others = held is not None and held.holder != holder and isinstance(held.until, float)
        if held is not None and others and now < held.until <= now + LEASE:
            return False
        mine = {"holder": holder, "until": now + LEASE}
        if held is None:
            c.execute(sa.insert(table).values(experiment=experiment, **mine))
        else:
            c.execute(sa.update(table).where(table.c.experiment == experiment).values(**mine))
    return True


def of_another(holder: str, now: float) -> Any:
    """The condition that a row of the leases is another worker's, and not over; one that ends in the far future is none."""
    table = schema.leases.c
    return sa.and_(table.holder != holder, table.until > now, table.until <= now + LEASE)


def give_back(database: Database, holder: str) -> None:
    """End a worker's leases, so that the next one need not wait for their ends."""
    table = schema.leases
    with database.write() as c:
        c.execute(sa.delete(table).where(table.c.holder == holder))


@contextlib.contextmanager
def renewed(renew: Callable[[], object], every: float = LEASE / 4) -> Iterator[None]:
    """Renew a lease again and again while something takes long.

    Args:
        renew: takes the lease once more; what keeps it from that is for the work itself to say.
        every: seconds between two times.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every):
            with contextlib.suppress(BltsError):
                renew()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
