"""The Gaussian and Laplace studies: which conditions they have, and running them one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

from ..catalogue import condition
from ..simulation import simulate
from ..trace import Trace

SCHEMES = ("sequential", "static", "dynamic")
AGENTS = {
    "gaussian": ("blts", "exact-ts", "ucb1", "bayes-ucb", "eps-greedy"),
    "laplace": ("blts", "ucb1", "eps-greedy"),
}
PRIORS = {"gaussian": ("informative", "uninformative"), "laplace": ("informative",)}
BAYESIAN = ("blts", "exact-ts", "bayes-ucb")
HORIZON = 650


class Cell(NamedTuple):
    """One condition of a study."""

    study: str
    prior: str
    agent: str
    batching: str


class Result(NamedTuple):
    cell: Cell
    summary: dict[str, Any]
    printed: tuple[float, float] | None
    """The paper's mean and sd of the regret, where it prints them."""
    printed_batches: tuple[float, float] | None


def cells(study: str) -> list[Cell]:
    """All conditions of a study; agents that have no prior appear under the first one only."""
    return [
        Cell(study, prior, agent, scheme)
        for prior in PRIORS[study]
        for agent in AGENTS[study]
        if agent in BAYESIAN or prior == PRIORS[study][0]
        for scheme in SCHEMES
    ]


def run(cell: Cell, *, seed: int, replications: int) -> Trace:
    chosen = condition(cell.study, cell.agent, cell.batching, cell.prior, HORIZON)
    return simulate(seed, chosen.env, chosen.agent, chosen.batching, horizon=HORIZON, replications=replications, times=200)


def run_study(study: str, *, seed: int, replications: int) -> Iterator[Result]:
    """Every condition in turn, all on the same seeds."""
    printed = printed_numbers()
    for cell in cells(study):
        row = printed.get(cell.study, {}).get(cell.prior, {}).get(cell.batching, {})
        yield Result(
            cell,
            run(cell, seed=seed, replications=replications).summary(),
            row.get(cell.agent),
            row.get("batches") if cell.agent == "blts" else None,
        )


def printed_numbers() -> dict[str, Any]:
    return json.loads(resources.files("blts.paper").joinpath("printed.json").read_text())
