"""Live experiments that several files use."""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Iterator

from blts import _random
from blts.agents import Perturb
from blts.live import Experiment, SharedSeed
from blts.models import (
    Gaussian,
)
from blts.samplers import sgld

LABELS = ("A", "B", "C")
PRIOR = Gaussian(prior_mean=[0.0, 0.1, 0.2], prior_sd=1.0, sd=0.5)
STANDARD = {"name": "gaussian", "prior_mean": 0.0, "prior_sd": 1.0, "sd": 1.0}
REFUNDS = {"name": "refunds", "model": "conversions", "better": "lower", "margin": 0.01, "window": 10.0, "default": 0.0}


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def created(url, name="mail", **options) -> Experiment:
    """An experiment of batches of six, with the decisions of a simulation: a stated seed, and none after the end of a batch."""
    defaults = {
        "arms": LABELS,
        "model": STANDARD,
        "sampler": "exact",
        "batching": {"name": "fixed", "size": 6},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedSeed)  # several of them in one database repeat each other
        return Experiment.create(url, name, **defaults | {"seed": 0, "strict": True} | options)


def made(tmp_path, name="mail", **options) -> Experiment:
    return created(tmp_path / "blts.db", name, **options)


def rewarded(answer, value=1.0):
    return [(decision.id, value) for decision in answer.decisions]


SGLD = Perturb(sgld(0.1, 10, 8))


def log_prior(theta):
    return -0.5 * (theta**2).sum()


def log_likelihood(theta, reward):
    return -0.5 * (reward - theta[0]) ** 2


def prior_draw(key):
    return _random.normal(key, (1,))


def written_module(folder: pathlib.Path, text: str) -> Iterator[str]:
    """Write a module into the current folder; its name, which is its own because modules stay imported. For fixtures."""
    name = f"own_{abs(hash(str(folder))) % 10**8}"
    (folder / f"{name}.py").write_text(text)
    yield name
    sys.modules.pop(name, None)
