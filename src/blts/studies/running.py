"""Running studies: what is stored is not computed again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import ConfigError
from .engines import engine_named
from .provenance import version_for
from .spec import Cell, Study, canonical
from .store import Heading, Store


class Shard(NamedTuple):
    """Part `number` of `parts`, from 1: for array jobs that share the work."""

    number: int = 1
    parts: int = 1

    @staticmethod
    def of(text: str) -> Shard:
        number, slash, parts = text.partition("/")
        if not (slash and number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
            raise ConfigError(f"--shard takes i/n with 1 ≤ i ≤ n, such as 2/8; got {text!r}.")
        return Shard(int(number), int(parts))


ALL = Shard()
UNTITLED = Heading()


TOGETHER = 40
"""Conditions whose blocks are computed before those of others: a process can hold the programs of so many (`make_room`)."""


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Cells in the order in which they are computed: of some conditions the first blocks, then the later ones, which find what the
    first compiled; then of the next conditions.

    Args:
        cells: distinct ones.

    Returns:
        The same, in order.
    """
    place: dict[str, int] = {}
    for cell in cells:
        place.setdefault(canonical([cell.task, cell.condition]), len(place))
    return sorted(cells, key=lambda cell: (place[canonical([cell.task, cell.condition])] // TOGETHER, cell.first))


class Progress(NamedTuple):
    """What a run has to tell while it goes on."""

    total: int
    """Cells of this run."""
    stored: int
    """Of which were there before it began."""
    damaged: tuple[str, ...] = ()


def run(
    studies: Sequence[Study],
    store: Store,
    *,
    engine: str = "in-process",
    workers: int | None = None,
    address: str | None = None,
    shard: Shard = ALL,
    heading: Heading = UNTITLED,
    began: Callable[[Progress], None] = lambda progress: None,
    finished: Callable[[Cell], None] = lambda cell: None,
) -> bool:
    """Compute the cells of planned studies that are not stored. True when all cells of all shards are there at the end."""
    compute_all = engine_named(engine, workers, address)
    studies = [dataclasses.replace(study, version=version_for(study)) for study in studies]
    store.begin(studies, heading)
    cells = in_order(list({store.path(cell): cell for study in studies for cell in study.cells()}.values()))
    mine = cells[shard.number - 1 :: shard.parts]
    missing, damaged = store.sweep(mine)
    began(Progress(len(mine), len(mine) - len(missing), tuple(damaged)))
    if missing:
        for cell, content in compute_all(missing, workers, address):
            store.put(cell, content)
            finished(cell)
    return shard.parts == 1 or not store.sweep(cells)[0]
