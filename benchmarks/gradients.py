"""Gradients that a refresh takes after the data doubled, from exact laws: nothing here is sampled (`blts.samplers.refreshing`).

The target is N(0, Σ), d = 20, with precisions log-spaced between 1 and the condition number κ. Step size and friction are tuned for
each cell, and the least n with an error of at most the tolerance is printed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from blts.samplers import refreshing

DIM, TOLERANCES, CONDITIONS = 20, (0.1, 0.03), (1, 10, 100, 1000)
DIMS, TOTAL, SLOPE_CONDITION = (20, 80, 320, 1280, 5120), 0.1 * 20**0.5, 10
OVERDAMPED, EXPONENTIAL, BAOAB = "ULA", "exponential integrator", "BAOAB"
KERNELS = {OVERDAMPED: "ula", EXPONENTIAL: "ulmc", BAOAB: "baoab"}


def spectrum(condition: float) -> np.ndarray:
    """Precisions of the coordinates; one stands for all where they are equal."""
    return np.geomspace(1.0, condition, DIM) if condition > 1 else np.ones(1)


def least(kernel: str, precision: np.ndarray, tolerance: float) -> dict[str, Any]:
    """The least number of gradients with which the tuned error is within the tolerance, and the step and friction there."""
    number, found = refreshing.least(KERNELS[kernel], precision, tolerance)
    if number is None:
        return {"gradients": None}
    return {"gradients": number, "step_size": found.step_size, "friction": None if kernel == OVERDAMPED else found.friction}


def measure(say: Any) -> dict[str, Any]:
    cells = []
    for condition in CONDITIONS:
        for kernel in KERNELS:
            for tolerance in TOLERANCES:
                say(f"gradients a refresh: {kernel}, κ = {condition}, {tolerance} sd …")
                cell = least(kernel, spectrum(condition), tolerance)
                cells.append({"kernel": kernel, "condition": condition, "tolerance": tolerance, **cell})
    growth = []
    for kernel in KERNELS:
        for dim in DIMS:
            say(f"gradients a refresh: {kernel}, d = {dim} …")
            cell = least(kernel, spectrum(SLOPE_CONDITION), TOTAL / dim**0.5)
            growth.append({"kernel": kernel, "dim": dim, **cell})
    return {"cells": cells, "growth": growth, "slopes": {kernel: slope_of(growth, kernel) for kernel in KERNELS}}


def slope_of(growth: list[dict[str, Any]], kernel: str) -> float:
    """Of log gradients over log d, from its two largest d."""
    (d, n), (more_d, more_n) = [(row["dim"], row["gradients"]) for row in growth if row["kernel"] == kernel][-2:]
    return float(np.log(more_n / n) / np.log(more_d / d))


def tables(result: dict[str, Any]) -> list[Table]:
    within = f"error ≤ {TOLERANCES[0]} ({TOLERANCES[1]}) sd a coordinate"
    title = f"gradients a refresh after the data doubled, Gaussian, d = {DIM}, {within}"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    columns(table, "condition number", *KERNELS)
    for condition in CONDITIONS:
        row = []
        for kernel in KERNELS:
            found = [c["gradients"] for c in result["cells"] if (c["kernel"], c["condition"]) == (kernel, condition)]
            row.append(f"{found[0]:,} ({found[1]:,})")
        table.add_row(f"{condition}", *row)
    title = f"gradients over d, κ = {SLOPE_CONDITION}, all coordinates together within W₂ = {TOTAL:.3f}; slope of the last two"
    return [table, growth_table(title, result, DIMS)]


def growth_table(title: str, result: dict[str, Any], dims: tuple[int, ...]) -> Table:
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    columns(table, "kernel", *(f"d = {dim}" for dim in dims), "slope")
    for kernel in KERNELS:
        numbers = [f"{row['gradients']:,}" for row in result["growth"] if row["kernel"] == kernel]
        table.add_row(kernel, *numbers, f"{result['slopes'][kernel]:.2f}")
    return table


def columns(table: Table, first: str, *others: str) -> None:
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
