"""Gradients that a refresh takes after the data doubled, from exact laws: nothing here is sampled.

The target is N(0, Σ), d = 20, with precisions log-spaced between 1 and the condition number κ. A chain starts at N(one sd in each
coordinate, 2Σ), velocities at N(0, I): about where the posterior of half the data is. Its law after n steps is Gaussian and known
(`blts.samplers.laws`). The error is the root of the mean, over coordinates, of W₂² in units of that coordinate's
variance: √(mean of m² + (s - 1)²), with mean m and sd s in posterior sds. Step size and friction are tuned for each cell, and the
least n with an error of at most the tolerance is printed. A step takes one gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from blts.samplers import laws

DIM, TOLERANCES, CONDITIONS = 20, (0.1, 0.03), (1, 10, 100, 1000)
DIMS, TOTAL, SLOPE_CONDITION = (20, 80, 320, 1280, 5120), 0.1 * 20**0.5, 10
MOST = 100_000
OVERDAMPED, EXPONENTIAL, BAOAB = "ULA", "exponential integrator", "BAOAB"
KERNELS: dict[str, Callable[..., laws.Step]] = {
    OVERDAMPED: lambda precision, h, friction: laws.langevin(precision, h + 0 * friction),
    EXPONENTIAL: laws.exponential,
    BAOAB: laws.baoab,
}


def spectrum(condition: float) -> np.ndarray:
    """Precisions of the coordinates; one stands for all where they are equal."""
    return np.geomspace(1.0, condition, DIM) if condition > 1 else np.ones(1)


def error(kernel: str, precision: np.ndarray, steps: int, h: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """Of each pair of step size and friction."""
    λ = precision[:, None]
    with np.errstate(all="ignore"):  # unstable steps
        mean, variance = KERNELS[kernel](λ, h, friction).after(steps, λ**-0.5, 2 / λ)
        squares = λ * mean**2 + (np.sqrt(λ * variance) - 1) ** 2
        found = np.sqrt(np.mean(squares, 0))
    return np.where(np.isfinite(found), found, np.inf)


def tuned(kernel: str, precision: np.ndarray, steps: int) -> tuple[float, float, float]:
    """The least error, and its step size and friction: on a grid, refined around its three best points."""
    widest = np.log(precision.max())
    if kernel == OVERDAMPED:
        h, γ = np.log(np.geomspace(1e-5, 2.0, 200)) - widest, np.zeros(200)
        apart = np.array([np.log(2e5) / 199, 0.0])
    else:
        grid = np.meshgrid(np.log(np.geomspace(3e-3, 2.0, 36)) - widest / 2, np.log(np.geomspace(0.03, 1e3, 36)))
        h, γ = (part.ravel() for part in grid)
        apart = np.log([2.0 / 3e-3, 1e3 / 0.03]) / 35
    for level in range(6):
        errors = error(kernel, precision, steps, np.exp(h), np.exp(γ))
        best = np.argsort(errors)[: 3 if level < 5 else 1]
        near = np.linspace(-1, 1, 7)
        points = [(h[i] + a * apart[0], γ[i] + b * apart[1]) for i in best for a in near for b in (near if apart[1] else (0.0,))]
        lowest = float(errors[best[0]]), float(np.exp(h[best[0]])), float(np.exp(γ[best[0]]))
        h, γ = np.array(points).T
        apart = apart / 3
    return lowest


def least(kernel: str, precision: np.ndarray, tolerance: float) -> dict[str, Any]:
    """The least number of gradients with which the tuned error is within the tolerance, and the step and friction there."""
    low, high = 0, 1
    while (found := tuned(kernel, precision, high))[0] > tolerance:
        low, high = high, 2 * high
        if high > MOST:
            return {"gradients": None}
    while high - low > 1:
        middle = (low + high) // 2
        at = tuned(kernel, precision, middle)
        low, high, found = (middle, high, found) if at[0] > tolerance else (low, middle, at)
    return {"gradients": high, "step_size": found[1], "friction": None if kernel == OVERDAMPED else found[2]}


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
