"""Running studies: what is stored is not computed again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import ConfigError
from .engines import engine_named
from .provenance import version_for
from .spec import Cell, Study
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
    distinct = {store.path(cell): cell for study in studies for cell in study.cells()}
    cells = sorted(distinct.values(), key=lambda cell: cell.first)  # later blocks find what the first ones compiled
    mine = cells[shard.number - 1 :: shard.parts]
    missing, damaged = store.sweep(mine)
    began(Progress(len(mine), len(mine) - len(missing), tuple(damaged)))
    if missing:
        for cell, content in compute_all(missing, workers, address):
            store.put(cell, content)
            finished(cell)
    return shard.parts == 1 or not store.sweep(cells)[0]
