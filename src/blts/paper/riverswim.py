"""The RiverSwim study: the chain as printed, and the chain that fits the printed table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..catalogue import condition
from ..simulation import simulate
from .bandits import Cell, printed_numbers

CHAINS = {
    "riverswim-paper": "RiverSwim as printed",
    "strens-chain": "the Strens chain, a reconstruction that fits the printed table",
}
AGENTS = ("mld-psrl", "ds-psrl", "db-psrl", "tsde", "optimal")
HORIZON = 4095  # not printed; static doubling then has the printed 12 switches


class Result(NamedTuple):
    cell: Cell
    summary: dict[str, Any]
    gain: float
    """The optimal average reward of the chain."""
    printed: dict[str, tuple[float, float]]
    """The paper's reward and switches, mean and sd."""


def cells() -> list[tuple[str, str]]:
    return [(chain, agent) for chain in CHAINS for agent in AGENTS]


def run_study(*, seed: int, replications: int) -> Iterator[Result]:
    """Every method on both chains, all on the same seeds."""
    printed = printed_numbers()["riverswim"]
    for chain, agent in cells():
        chosen = condition(chain, agent, horizon=HORIZON)
        trace = simulate(seed, chosen.env, chosen.agent, chosen.batching, horizon=HORIZON, replications=replications, times=1)
        cell = Cell(chain, chosen.names["prior"], agent, chosen.names["batching"])
        yield Result(cell, trace.summary(), float(chosen.env.gain), printed[agent])
