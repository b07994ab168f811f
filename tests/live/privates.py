"""Private experiments that several files use."""

from __future__ import annotations

from blts.live import Experiment
from experiments import Hand

GAUSSIAN = {"name": "gaussian", "sd": 0.5, "prior_mean": 0.3, "prior_sd": 0.3}
PRIVATE = {"window": 10.0, "default_reward": 0.0, "privacy": {"rho": 2.0, "low": 0, "high": 1}}


def private(url="sqlite://", clock=None, **options) -> Experiment:
    """An experiment of batches of twenty, whose noise has an sd of 0.5; silence is 0 after ten seconds."""
    defaults = {"arms": ["A", "B"], "model": GAUSSIAN, "sampler": "exact", "batching": {"name": "fixed", "size": 20}, "seed": 0}
    return Experiment.create(url, "mail", clock=clock or Hand(), **defaults | PRIVATE | options)


def hand_of(experiment: Experiment) -> Hand:
    clock = experiment.session._clock
    assert isinstance(clock, Hand)
    return clock


def batch(experiment: Experiment, rewards=lambda t: t % 3 == 0, n: int = 20) -> list[str]:
    """Decisions, their rewards where these are not silence, and a refresh when all windows are over."""
    ids = [d.id for d in experiment.ask(n).decisions]
    experiment.tell([(id, float(rewards(t))) for t, id in enumerate(ids) if rewards(t)])
    hand_of(experiment).now += 20
    assert experiment.refresh().refreshed
    return ids


def lived(experiment: Experiment) -> Experiment:
    """Everything that can happen: silence, corrections before and after, late rewards, cancellations, arms that come and go."""
    first = batch(experiment)
    experiment.correct(first[0], 0.5, "late")
    asked = [d.id for d in experiment.ask(20).decisions]
    experiment.tell([(id, 1.0) for id in asked[:6]] + [(first[1], 1.0)])
    experiment.correct(asked[0], 0.25, "before its release")
    experiment.cancel([asked[1], first[2]], "never seen")
    experiment.add_arm("C")
    hand_of(experiment).now += 20
    assert experiment.refresh().refreshed
    batch(experiment, lambda t: 0.2)
    batch(experiment, n=30)
    experiment.retire_arm("C", "worse")
    return experiment


def versions(experiment: Experiment) -> list[dict]:
    """All that versions say and decide by, but for the keyed digest of their rows and their place in the ledger."""
    count, without = experiment.status()["policies"], {"data", "watermark", "model"}
    found = [experiment.policy(v) for v in range(1, count + 1)]
    pages = {row["version"]: row["allocation"] for row in experiment.policies(limit=count).rows}
    return [{k: v for k, v in one.items() if k not in without} | {"law": pages[one["version"]]} for one in found]


def arms(experiment: Experiment) -> list[str]:
    """Of all decisions, in their order."""
    return [row["arm"] for row in reversed(experiment.decisions(limit=1000).rows)]
