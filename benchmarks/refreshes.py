"""The table of `gradients.py` by simulation, on targets that are not Gaussian: regressions with logistic and Laplace likelihoods.

θ ∈ R²⁰ has the prior N(0, I), and rewards have the location x'θ with contexts x whose sds are log-spaced between 1 and √κ, so the
posterior has about the condition number κ. Chains start at N(mean + 1 sd along each axis of the posterior, 2Σ). The error is that
of `gradients.py`, with means and sds of 1,000 chains, less what chance adds; it must stay within the tolerance until the end
of a longer run. Step size and friction are the best of a grid. The reference is a long run of MALA. "Preconditioned" is in units of
the posterior covariance, as with `scale="mode"`; elsewhere all coordinates have the step of the narrowest.

A minibatch has a control variate at the posterior mean, or (SVRG) at the chain's own place at the last of every m steps, where it
passes over all rows. Costs are gradients of single rows a chain: a control variate takes two a row. The pass at the common anchor
is shared by all chains of a pool and not counted; those of SVRG are each chain's own.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from rich import box
from rich.table import Table

from blts import module, random
from blts.samplers import BAOAB as Splitting
from blts.samplers import MALA, ExponentialIntegrator, Langevin, Potential

from .gradients import BAOAB, DIM, EXPONENTIAL, OVERDAMPED, TOTAL, columns, growth_table, slope_of

CHAINS, ROWS, SIZE, TOLERANCE, CONDITION = 1000, 512, 32, 0.1, 100
ADJUSTED = "MALA"
LIKELIHOODS = ("logistic", "Laplace")
SVRG_ROWS, SVRG_SIZES, SVRG_PERIODS = (128, 2048), (8, 32), (4, 16)
PRODUCT_CHAINS, PRODUCT_DIMS = 100_000, (20, 80, 320, 1280)


class Grid(NamedTuple):
    """Settings that are tried: step sizes, in units of the narrowest coordinate, and frictions, in units of the widest."""

    steps: tuple[float, ...]
    frictions: tuple[float, ...] = (1.0,)
    longest: int = 60
    """Steps of a chain, at most."""

    def kernels(self, name: str, condition: float = 1.0) -> list[Any]:
        if name == OVERDAMPED:
            return [Langevin(h) for h in self.steps]
        if name == ADJUSTED:
            return [MALA(h) for h in self.steps]
        make = Splitting if name == BAOAB else ExponentialIntegrator
        return [make(h, γ / condition**0.5) for h in self.steps for γ in self.frictions]


PRECONDITIONED = {
    OVERDAMPED: Grid((0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)),
    EXPONENTIAL: Grid((0.2, 0.3, 0.4, 0.5, 0.7), (1.0, 1.4, 2.0, 2.8)),
    BAOAB: Grid((0.6, 0.8, 1.0, 1.2, 1.4), (1.0, 1.4, 2.0, 2.8), 20),
    ADJUSTED: Grid((0.2, 0.3, 0.4, 0.5, 0.7)),
}
NOISY = {
    OVERDAMPED: Grid((0.02, 0.03, 0.05, 0.08, 0.12, 0.2), longest=250),
    EXPONENTIAL: Grid((0.1, 0.2, 0.4, 0.7), (2.0, 4.0, 8.0), 250),
    BAOAB: Grid((0.2, 0.4, 0.6, 0.9), (2.0, 4.0, 8.0), 250),
}
"""For minibatches, whose noise a shorter step or a larger friction averages."""
ILL_CONDITIONED = {
    OVERDAMPED: Grid((0.45, 0.6, 0.8), longest=500),
    EXPONENTIAL: Grid((0.9, 1.6), (10.0, 20.0), 500),
    BAOAB: Grid((1.0, 1.4, 1.7), (1.4, 2.0, 2.8), 80),
    ADJUSTED: Grid((0.5, 0.8), longest=800),
}
ANCHORS = {OVERDAMPED: Grid((0.05, 0.1, 0.2, 0.3), longest=40), BAOAB: Grid((0.4, 0.7, 1.0), (1.4, 4.0), 40)}
PRODUCT = {
    OVERDAMPED: Grid((0.02, 0.03, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.3), longest=250),
    EXPONENTIAL: Grid((0.04, 0.07, 0.12, 0.2, 0.35), (1.4, 2.0), 250),
    BAOAB: Grid((0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2), (1.0, 1.4, 2.0), 40),
}


@module
class Regression:
    """A posterior, and its mean and covariance."""

    laplace: bool
    X: Any
    y: Any
    mean: Any
    root: Any
    """Of the covariance, a column for each of its axes."""

    def scores(self, at: Any, y: Any) -> Any:
        """The derivative of a row's -log p by x'θ."""
        return jnp.sign(at - y) if self.laplace else jax.nn.sigmoid(at) - y

    def value(self, θ: Any) -> Any:
        at = θ @ self.X.T
        rows = jnp.abs(at - self.y) if self.laplace else jax.nn.softplus(at) - self.y * at
        return rows.sum(-1) + 0.5 * jnp.sum(θ**2, -1)

    def slope(self, θ: Any) -> Any:
        return self.scores(θ @ self.X.T, self.y) @ self.X + θ

    def minibatch(self, key: Any, θ: Any, anchor: Any, at_anchor: Any, size: int) -> Any:
        """The gradient from `size` rows a chain, drawn with replacement, and the whole one at the anchor."""
        picked = jax.random.randint(key, (len(θ), size), 0, len(self.X))
        X, y = self.X[picked], self.y[picked]
        change = self.scores(jnp.einsum("cbd,cd->cb", X, θ), y) - self.scores(jnp.einsum("cbd,cd->cb", X, anchor), y)
        return at_anchor + (θ - anchor) + len(self.X) / size * jnp.einsum("cb,cbd->cd", change, X)


def regression(likelihood: str, rows: int, condition: float) -> Regression:
    """Draw the data; mean and covariance by MALA, in units that three earlier runs found."""
    rng = np.random.default_rng(0)
    sds, laplace = np.geomspace(1.0, condition**0.5, DIM), likelihood == "Laplace"
    X = rng.normal(size=(rows, DIM)) * sds
    θ = 2 * rng.normal(size=DIM) / sds / DIM**0.5
    y = X @ θ + (rng.laplace(size=rows) if laplace else rng.logistic(size=rows))
    mean, covariance = θ, np.linalg.inv(np.eye(DIM) + (1.0 if laplace else 0.2) * X.T @ X)  # about the information of a row
    target = Regression(laplace, *(jnp.asarray(x, float) for x in (X, y if laplace else y > 0, mean, covariance)))
    for turn in range(4):
        target = dataclasses.replace(target, mean=jnp.asarray(mean, float), root=_axes(covariance))
        first, second = (np.asarray(x, float) for x in _mala(random.key(turn), target))
        root = np.asarray(target.root, float)
        mean, covariance = mean + root @ first, root @ (second - np.outer(first, first)) @ root.T
    return dataclasses.replace(target, mean=jnp.asarray(mean, float), root=_axes(covariance))


def _axes(covariance: np.ndarray) -> Any:
    w, V = np.linalg.eigh(covariance)
    return jnp.asarray(V * np.sqrt(w), float)


@jax.jit
def _mala(key: Any, target: Regression) -> tuple[Any, Any]:
    """Mean of z and of zz', where θ = mean + root z, over the last 300 of 500 steps."""
    kernel = MALA(0.2)
    at = lambda z: target.mean + z @ target.root.T  # noqa: E731
    both = lambda z: (target.value(at(z)), target.slope(at(z)) @ target.root)  # noqa: E731
    U = Potential(lambda z: both(z)[0], lambda key, z: both(z)[1], jnp.ones(DIM), both)

    def body(i, carry):
        state, first, second = carry
        state, _ = kernel.step(random.fold_in(key, i), state, U)
        z, weight = state.position, jnp.where(i < 200, 0.0, 1 / 300)
        return state, first + weight * z.mean(0), second + weight * z.T @ z / CHAINS

    start = kernel.start(random.normal(random.fold_in(key, 1000), (CHAINS, DIM)), U)
    return lax.fori_loop(0, 500, body, (start, jnp.zeros(DIM), jnp.zeros((DIM, DIM))))[1:]


@partial(jax.jit, static_argnames=("steps", "size", "preconditioned"))
def errors(kernel: Any, target: Regression, steps: int, size: int | None, preconditioned: bool, period: Any = None) -> Any:
    """The error after each step. `size` is the minibatch; SVRG's anchor is renewed every `period` steps."""
    widths = jnp.sqrt(jnp.sum(target.root**2, 0))
    units = jnp.ones(DIM) if preconditioned else widths / widths.min()
    axes = target.root / units  # θ = mean + axes u, and u has the sds `units`
    at = lambda u: target.mean + u @ axes.T  # noqa: E731
    key = random.key(1)

    def body(carry, i):
        state, anchor, at_anchor = carry
        if period is not None:
            anchor, at_anchor = lax.cond(
                i % period == 0, lambda: (at(state.position), target.slope(at(state.position))), lambda: (anchor, at_anchor)
            )
        whole = lambda key, u: target.slope(at(u)) @ axes  # noqa: E731
        part = lambda key, u: target.minibatch(key, at(u), anchor, at_anchor, size) @ axes  # noqa: E731
        U = Potential(lambda u: target.value(at(u)), whole if size is None else part, jnp.ones(DIM))
        state, _ = kernel.step(random.fold_in(key, i), state, U)
        return (state, anchor, at_anchor), error(state.position / units)

    start = units * (1 + jnp.sqrt(2.0) * random.normal(random.key(2), (CHAINS, DIM)))
    anchor = jnp.broadcast_to(target.mean, (CHAINS, DIM))
    return lax.scan(body, (kernel.init(start), anchor, target.slope(anchor)), jnp.arange(steps))[1]


def error(z: Any) -> Any:
    """From chains in units in which the target has mean 0 and sd 1 in each coordinate; chance adds 1/R and 1/(2R) to the square."""
    squares = z.mean(0) ** 2 + (z.std(0) - 1) ** 2 - 1.5 / len(z)
    return jnp.sqrt(jnp.maximum(jnp.mean(squares), 0.0))


@partial(jax.jit, static_argnames="steps")
def product_errors(kernel: Any, steps: int) -> Any:
    """The error after each step on one coordinate of a product of logistic densities of sd 1."""
    width = jnp.pi / 3**0.5
    U = Potential(lambda z: jnp.zeros(PRODUCT_CHAINS), lambda key, z: width * jnp.tanh(width * z / 2), jnp.ones(1))

    def body(state, i):
        state, _ = kernel.step(random.fold_in(random.key(1), i), state, U)
        return state, error(state.position)

    start = 1 + jnp.sqrt(2.0) * random.normal(random.key(2), (PRODUCT_CHAINS, 1))
    return lax.scan(body, kernel.init(start), jnp.arange(steps))[1]


def least(grid: Grid, name: str, run: Any, condition: float = 1.0, tolerances: Any = (TOLERANCE,)) -> list[dict[str, Any]]:
    """The fewest steps of the grid's best setting, for each tolerance; `run(kernel, steps)` are the errors.

    A chain that passes by chance or on its way does not count: the error must stay within the tolerance.
    """
    best: list[dict[str, Any]] = [{"gradients": None} for _ in tolerances]
    for kernel in grid.kernels(name, condition):
        found = np.asarray(run(kernel, grid.longest))
        for k, tolerance in enumerate(tolerances):
            steps = int(np.max(np.flatnonzero(~(found <= tolerance)), initial=-1)) + 2
            if steps <= grid.longest and (best[k]["gradients"] is None or steps < best[k]["gradients"]):
                friction = float(kernel.friction) if hasattr(kernel, "friction") else None
                best[k] = {"gradients": steps, "step_size": float(kernel.step_size), "friction": friction}
    return best


def cheapest(target: Regression, name: str, ways: list[tuple[int | None, int | None]]) -> dict[str, Any] | None:
    """The fewest gradients of rows, among pairs of a minibatch (None: all rows) and a period of anchors (None: the common one)."""
    best = None
    for size, period in ways:
        run = lambda kernel, steps: errors(kernel, target, steps, size, True, period)  # noqa: B023, E731
        found = least(ANCHORS[name], name, run)[0]
        steps = found["gradients"]
        if steps is None:
            continue
        passes = 0 if period is None else -(-steps // period)
        cost = len(target.X) * steps if size is None else 2 * size * steps + len(target.X) * passes
        if best is None or cost < best["rows"]:
            best = {"rows": cost, "minibatch": size, "period": period, **found}
    return best


def measure(say: Any) -> dict[str, Any]:
    cells, anchors, growth = [], [], []
    for likelihood in LIKELIHOODS:
        target = regression(likelihood, ROWS, CONDITION)
        for how, grids, size, condition in (
            ("preconditioned", PRECONDITIONED, None, 1),
            (f"preconditioned, minibatches of {SIZE}", NOISY, SIZE, 1),
            (f"condition number {CONDITION}", ILL_CONDITIONED, None, CONDITION),
        ):
            for name, grid in grids.items():
                say(f"gradients a refresh by simulation: {likelihood}, {how}, {name} …")
                run = lambda kernel, steps: errors(kernel, target, steps, size, condition == 1)  # noqa: B023, E731
                found = least(grid, name, run, condition)[0]
                cells.append({"likelihood": likelihood, "how": how, "kernel": name, "longest": grid.longest, **found})
        for rows in SVRG_ROWS:
            target = regression(likelihood, rows, 1.0)
            for name in ANCHORS:
                say(f"anchors of control variates: {likelihood}, {rows} rows, {name} …")
                ways = {
                    "all rows": [(None, None)],
                    "common anchor": [(size, None) for size in SVRG_SIZES],
                    "SVRG": [(size, period) for size in SVRG_SIZES for period in SVRG_PERIODS],
                }
                found = {way: cheapest(target, name, pairs) for way, pairs in ways.items()}
                anchors.append({"likelihood": likelihood, "n": rows, "kernel": name, **found})
    for name, grid in PRODUCT.items():
        say(f"gradients over d by simulation: {name} …")
        found = least(grid, name, product_errors, tolerances=[TOTAL / dim**0.5 for dim in PRODUCT_DIMS])
        growth += [{"kernel": name, "dim": dim, **cell} for dim, cell in zip(PRODUCT_DIMS, found, strict=True)]
    return {"cells": cells, "anchors": anchors, "growth": growth, "slopes": {name: slope_of(growth, name) for name in PRODUCT}}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"the same by simulation: regressions on {ROWS} rows, d = {DIM}, error ≤ {TOLERANCE} sd a coordinate",
        box=box.SIMPLE,
        pad_edge=False,
    )
    columns(table, "target", *PRECONDITIONED)
    rows: dict[str, list[str]] = {}
    for cell in result["cells"]:
        shown = f"> {cell['longest']}" if cell["gradients"] is None else f"{cell['gradients']:,}"
        rows.setdefault(f"{cell['likelihood']}, {cell['how']}", []).append(shown)
    for name, numbers in rows.items():
        table.add_row(name, *numbers)
    anchors = Table(
        title=f"gradients of rows a chain, preconditioned, d = {DIM}, error ≤ {TOLERANCE} sd: (minibatch; renewed every)",
        box=box.SIMPLE,
        pad_edge=False,
    )
    columns(anchors, "target", "all rows", "common anchor", "SVRG")
    for row in result["anchors"]:
        found = (row["all rows"], row["common anchor"], row["SVRG"])
        anchors.add_row(f"{row['likelihood']}, n = {row['n']}, {row['kernel']}", *(_cost(x) for x in found))
    title = f"gradients over d by simulation, product of logistic densities, W₂ about {TOTAL:.3f}; slope of the last two"
    return [table, anchors, growth_table(title, result, PRODUCT_DIMS)]


def _cost(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not reached"
    setting = [str(found[name]) for name in ("minibatch", "period") if found[name] is not None]
    return f"{found['rows']:,}" + (f" ({'; '.join(setting)})" if setting else "")
