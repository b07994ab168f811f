"""Langevin Thompson sampling with contexts: regret beside that of the exact posterior, whatever the scales of the features."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from blts import Chain, DoublingCounts, Exact, Fixed, Langevin, Linear, Logistic, Perturb, Pool, Thompson, mala, simulate
from blts.samplers import ula
from context_worlds import Disjoint, Shared

SCALES = [1.9, 0.6, 0.19, 0.06]
"""The sds of features in the worlds of unequal scale."""
HALVES = Perturb(Chain(Langevin(0.1, 0.5), 50), 2.0)
"""Half of the posterior's covariance is the chain's, the other half that of the rounds around its end: together they are 1. With
temperature 1 and γ = 1 they are 2, whose regret is about 1.3 times that of the exact posterior."""


class Unpreconditioned(Perturb):
    """The mutant: chains and perturbations in units of features of mean square 1."""

    def check_model(self, model):
        return self


def regret(env, belief, horizon, replications, batching, **options):
    """Of every replication, and whether all refreshes were finite."""
    agent = Thompson(env.model, belief, arms=env.actions, **options)
    trace = simulate(0, env, agent, batching, horizon=horizon, replications=replications)
    return np.asarray(trace.final_regret, float), bool(np.asarray(trace.diagnostics.finite).all())


def unequal(belief, horizon, replications):
    world = Disjoint(Linear(np.zeros(4), 1.0, 0.5), SCALES)
    return regret(world, belief, horizon, replications, DoublingCounts())


def test_features_of_unequal_scale_do_no_harm():
    exact, _ = unequal(Exact(), 300, 100)
    chains, finite = unequal(HALVES, 300, 100)
    assert finite
    assert chains.mean() < 1.1 * exact.mean()
    wrong, finite = unequal(Unpreconditioned(ula(steps=50)), 300, 100)
    assert not (finite and wrong.mean() < 1.1 * exact.mean())


@pytest.mark.slow
@pytest.mark.parametrize("belief", [HALVES, Pool(mala(steps=20), 64)], ids=["perturb", "pool"])
def test_unequal_scales_at_length(belief):
    """47 ± 1 is what exact posteriors lose in independent NumPy code."""
    exact, _ = unequal(Exact(), 2000, 200)
    assert abs(exact.mean() - 46.9) < 3 * 0.66 * 2**0.5
    chains, finite = unequal(belief, 2000, 200)
    assert finite
    assert chains.mean() < 1.1 * exact.mean()


def shared(model, belief, replications=100):
    return regret(Shared(model, np.ones(model.dim), 10), belief, 500, replications, Fixed(20), shared=True)


MODELS = {"linear": Linear(np.zeros(5), 0.5, 0.5), "logistic": Logistic(np.zeros(4))}


@cache
def right(name):
    """The regret of exact draws, or of a pool of long chains."""
    return shared(MODELS[name], Exact() if name == "linear" else Pool(mala(steps=100), 128))[0].mean()


@pytest.mark.slow
@pytest.mark.parametrize("belief", [HALVES, Pool(mala(steps=20), 64)], ids=["perturb", "pool"])
@pytest.mark.parametrize("name", MODELS)
def test_shared_parameters(name, belief):
    """Beside exact draws, and for logistic rewards a pool of long chains."""
    chains, finite = shared(MODELS[name], belief)
    assert finite
    assert chains.mean() < 1.05 * right(name)
    if name == "linear" and isinstance(belief, Perturb):  # the mutant draws twice the covariance
        wide, _ = shared(MODELS[name], Perturb(ula(steps=50)))
        assert not wide.mean() < 1.05 * right(name)
