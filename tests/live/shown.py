"""Live experiments with contexts that several files use."""

from __future__ import annotations

import warnings

import numpy as np

from blts.live import Experiment, SharedSeed

LABELS = ("A", "B", "C")
FEATURES = {"age": [18, 90], "country": ["DE", "FR", "US"], "returning": "boolean"}
LINEAR = {"name": "linear", "sd": 1.0}


def contexts(n: int, seed: int = 0) -> list[dict]:
    """Contexts of n units."""
    rng = np.random.default_rng(seed)
    ages, countries, again = rng.uniform(18, 90, n), rng.choice(FEATURES["country"], n), rng.random(n) < 0.5
    return [{"age": float(a), "country": str(c), "returning": bool(r)} for a, c, r in zip(ages, countries, again, strict=True)]


def encoded(context: dict) -> list[float]:
    """The numbers of a context, written down again."""
    country = context["country"]
    return [1.0, (context["age"] - 54) / 36, country == "FR", country == "US", context["returning"]]


def created(url, name="people", **options) -> Experiment:
    defaults = {"arms": LABELS, "model": LINEAR, "sampler": "exact", "batching": {"name": "fixed", "size": 50}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedSeed)
        return Experiment.create(url, name, **defaults | {"features": FEATURES, "seed": 0} | options)


def reward(decision, context: dict, noise: float = 0.0) -> float:
    """B is better for those who return, C in the US."""
    return float((decision.arm == "B") * context["returning"] + (decision.arm == "C") * (context["country"] == "US")) + noise


def played(experiment: Experiment, n: int, seed: int = 0) -> None:
    """A batch: asked for, rewarded, learned from."""
    rng, shown = np.random.default_rng(seed), contexts(n, seed)
    decisions = experiment.ask(contexts=shown).decisions
    experiment.tell([(d.id, reward(d, x, e)) for d, x, e in zip(decisions, shown, rng.normal(size=n), strict=True)])
    assert experiment.refresh(force=True).in_use
