"""How things print."""

from __future__ import annotations

import re

import numpy as np
import pytest

from blts import registry
from blts.models import Tabular
from blts.trace import RegretBand
from registered import BANDITS, ENVIRONMENTS, MDPS, PLAYED, chosen, learner, priors, problem, worlds

# How things print

SENTENCE = re.compile(r"[A-Z0-9].*\.", re.DOTALL)
CALL = re.compile(r"\w+\(.*\)")


@pytest.mark.parametrize("kind", ["environment", "agent", "batching"])
def test_everything_prints(kind):
    for name in ENVIRONMENTS if kind == "environment" else registry.entries(kind):
        built = {
            "environment": lambda name: problem(name).env,
            "agent": lambda name: chosen(PLAYED[worlds(name)[0]], name).agent,
            "batching": lambda name: chosen("linear-20d" if name == "determinant" else "gaussian", batching=name).batching,
        }
        thing = built[kind](name)
        assert SENTENCE.fullmatch(str(thing)), str(thing)
        assert CALL.fullmatch(repr(thing)), repr(thing)
        assert len(repr(thing)) < 500


def test_a_band_prints_its_last_round():
    numbers = np.arange(1.0, 201.0)
    band = RegretBand(np.arange(1, 201), numbers, numbers - 1, numbers + 1)
    assert repr(band) == ("Mean regret and its band at 200 rounds from 1 to 200; at round 200 200.00, band from 199.00 to 201.00.")


def test_models_print():
    for env, prior in priors(ENVIRONMENTS):
        model = problem(env).model(prior)
        assert SENTENCE.fullmatch(str(model)), str(model)
        assert CALL.fullmatch(repr(model)), repr(model)
        if env in BANDITS:
            assert "theory" in str(model)
            assert "<p>" in model._repr_html_()


def test_conjugate_models_are_those_with_exact_draws():
    """`learner` above finds exact draws where the model is conjugate, and nowhere else."""
    for env in BANDITS:
        assert (learner(env) == "exact-ts") == problem(env).model().has_posterior
    for env in MDPS:
        assert (learner(env) == "ds-psrl") == isinstance(problem(env).model(), Tabular)
