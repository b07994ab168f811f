"""The distributions of reports are those of `scipy.stats`, which a worker does not import."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

import blts
from blts.live.conclusions.laws import law_of
from blts.live.conclusions.posterior import _from_laws
from blts.models import marginal

A, B, LOC, SCALE = (
    np.array([0.3, 1.0, 2.5, 400.0]),
    np.array([7.0, 1.0, 0.6, 30_000.0]),
    np.arange(4.0),
    np.array([1e-3, 1, 5, 1e3]),
)
LAWS = {
    "normal": (marginal.NormalLaw(LOC, SCALE), stats.norm(LOC, SCALE)),
    "beta": (marginal.BetaLaw(A, B), stats.beta(A, B)),
    "gamma": (marginal.GammaLaw(A, B), stats.gamma(A, scale=1 / B)),
    "inverse gamma": (marginal.InverseGammaLaw(A, B), stats.invgamma(A, scale=B)),
    "student t": (marginal.StudentTLaw(A, LOC, SCALE), stats.t(A, LOC, SCALE)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_are_those_of_scipy(name):
    own, other = law_of(LAWS[name][0]), LAWS[name][1]
    q = special.ndtr(-np.linspace(0, 8, 17))[:, None]
    x = np.concatenate([other.ppf(q), other.isf(q)])
    found = own.ppf(q), own.isf(q), own.cdf(x), own.sf(x), own.mean(), own.draws(np.random.default_rng(0), (50, 4))
    wanted = other.ppf(q), other.isf(q), other.cdf(x), other.sf(x), other.mean(), other.rvs((50, 4), np.random.default_rng(0))
    for one, same in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, same, rtol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e3, -1e6])
def test_losses_are_those_of_arms_that_pay_nothing(shift):
    """Rewards may be far from zero: an error that grows with them rounds losses to 0. Two arms have a closed form."""
    loc, scale, seen = np.array([0.1, 0.0]), np.array([0.1, 0.2]), np.array([True, True])
    found = _from_laws(law_of(marginal.NormalLaw(loc + shift, scale)), seen)
    gap, sd = 0.1, np.hypot(*scale)
    exact = sd * stats.norm.pdf(gap / sd) - gap * stats.norm.sf(gap / sd)
    np.testing.assert_allclose(found.shown.loss, [exact, exact + gap], atol=1e-7)
    assert (found.error.loss < 1e-4).all()
    assert (np.abs(found.shown.loss - [exact, exact + gap]) < found.error.loss).all()


WORKER = """
import sys
from blts.live import Experiment
from blts.live.worker import Worker

for model in ("conversions", "numbers", "revenue"):
    experiment = Experiment.create("blts.db", model, ["A", "B"], model, batching={"name": "fixed", "size": 64})
    experiment.tell([(d.id, float(i % 2)) for i, d in enumerate(experiment.ask(64).decisions)])
assert [done.refreshed.version for done in Worker("blts.db").once()] == [2, 2, 2]
print([name for name in sys.modules if name.startswith("scipy.stats")])
"""


def test_a_worker_does_not_import_scipy_stats(tmp_path):
    """Its import takes 20 to 50 MiB of memory."""
    path = os.pathsep.join([str(pathlib.Path(blts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", WORKER]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "[]"
