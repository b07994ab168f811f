"""Regret and batches of exact contextual Thompson sampling under every batching scheme, against independent NumPy runs."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from blts import Determinant, DoublingCounts, Fixed, Sequential, StaticDoubling, simulate
from contextual_worlds import Disjoint, Shared, disjoint_agent, shared_agent


class Printed(NamedTuple):
    """Means over independent NumPy runs."""

    regret: float
    batches: float


def errors(trace, printed: Printed, runs: int) -> tuple[float, float]:
    """How many standard errors our means are from the printed ones, of which each has an error of its own."""
    regret, batches = trace.final_regret, trace.batches
    both = (1 / regret.size + 1 / runs) ** 0.5
    digits = 0.05  # printed with one digit after the point
    z_regret = (regret.mean() - printed.regret) / (regret.std(ddof=1) * both)
    z_batches = (abs(batches.mean() - printed.batches) - digits) / max(batches.std(ddof=1) * both, 1e-9)
    return abs(z_regret), z_batches


def run(env, agent, scheme, horizon, replications=200):
    return simulate(7, env, agent, scheme, horizon=horizon, replications=replications, times=1)


EQUAL, UNEQUAL = [1.0] * 4, [1.9, 0.6, 0.19, 0.06]
AGENT = disjoint_agent()
LINEAR_20D = {
    "sequential": (Sequential(), Printed(62.7, 10_000)),
    "det 2": (Determinant.of(AGENT, 2.0), Printed(63.2, 173.9)),
    "det 4": (Determinant.of(AGENT, 4.0), Printed(64.1, 99.6)),
    "det 16": (Determinant.of(AGENT, 16.0), Printed(66.5, 54.1)),
    "some arm's det 2": (Determinant.of(AGENT, 2.0, True), Printed(64.3, 80.4)),
    "counts": (DoublingCounts(), Printed(68.0, 55.9)),
    "static": (StaticDoubling(), Printed(86.0, 13)),
    "every 100": (Fixed(100), Printed(240.0, 100)),
    "every 1000": (Fixed(1000), Printed(2210.0, 10)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR_20D)
def test_linear_20d(name):
    """5 arms × 4 coordinates, T = 10⁴."""
    scheme, printed = LINEAR_20D[name]
    trace = run(Disjoint(EQUAL), AGENT, scheme, 10_000, 1000)
    print(
        f"{name}: {trace.final_regret.mean():.1f} ± {trace.final_regret.std() / 1000**0.5:.1f}, {trace.batches.mean():.1f} batches"
    )
    assert max(errors(trace, printed, 200)) < 3


@pytest.mark.slow
def test_another_temperature_is_not_linear_20d():
    """Noise of variance 1 assumed where it is 0.25: what a published LinTS does."""
    trace = run(Disjoint(EQUAL), disjoint_agent(sd=1.0), Sequential(), 10_000, 200)
    assert errors(trace, LINEAR_20D["sequential"][1], 200)[0] > 5


SCALES = {"counts": (DoublingCounts(), Printed(46.9, 41.9)), "det 16": (Determinant.of(AGENT, 16.0), Printed(46.8, 28.9))}


@pytest.mark.parametrize("name", SCALES)
def test_unequal_scales(name):
    """Contexts with sds from 1.9 to 0.06, T = 2000."""
    scheme, printed = SCALES[name]
    trace = run(Disjoint(UNEQUAL), AGENT, scheme, 2000, 400)
    assert trace.diagnostics.finite.all()
    assert max(errors(trace, printed, 400)) < 3


def test_wrong_factors_and_scales_are_noticed():
    _, printed = SCALES["det 16"]
    assert errors(run(Disjoint(UNEQUAL), AGENT, Determinant.of(AGENT, 14.0), 2000, 400), printed, 400)[1] > 3
    assert errors(run(Disjoint(UNEQUAL), AGENT, Fixed(70), 2000, 400), printed, 400)[0] > 3  # about as many batches


ONE = shared_agent()
SHARED = {
    "sequential": (Sequential(), Printed(246.8, 10_000)),
    "det 2": (Determinant.of(ONE, 2.0, max_norm=1.001), Printed(247.6, 125.6)),
    "det 16": (Determinant.of(ONE, 16.0, max_norm=1.001), Printed(263.1, 32.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_shared_theta(name):
    """One θ on the unit sphere of R²⁰, 50 arms with fresh unit features each round, T = 10⁴."""
    scheme, printed = SHARED[name]
    trace = run(Shared(), ONE, scheme, 10_000, 96)
    print(f"{name}: {trace.final_regret.mean():.1f} ± {trace.final_regret.std() / 96**0.5:.1f}, {trace.batches.mean():.1f} batches")
    assert max(errors(trace, printed, 24)) < 3


def test_batches_of_a_shared_theta_stay_within_the_bound():
    scheme = Determinant.of(ONE, max_norm=1.001)
    trace = run(Shared(), ONE, scheme, 300, 8)
    assert (trace.batches > 10).all()
    assert (trace.batches <= scheme.max_batches(300, 50)).all()
    assert scheme.max_batches(300, 50) < 300
