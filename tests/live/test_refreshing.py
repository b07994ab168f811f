"""Refreshes of live experiments, arms that come and go, floors and burn-in."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from blts.agents import Exact, Pool
from blts.errors import BltsError, ConfigError
from blts.live import Experiment
from blts.live.figures import draw
from blts.models import (
    Gaussian,
)
from blts.samplers import mala
from experiments import LABELS, PRIOR, SGLD, made, rewarded

# Refreshing


def test_a_refresh_waits_for_its_batch(tmp_path):
    experiment = made(tmp_path)
    assert experiment.refresh().why == "batch 1 is still open after 0 decisions"
    answer = experiment.ask(6)
    assert experiment.refresh().why == "batch 1 awaits 6 rewards"
    experiment.tell(rewarded(answer))
    done = experiment.refresh()
    assert done[:4] == (True, 2, True, 2)
    entry = experiment.policy(2)
    assert entry["watermark"] == 2 + 1 + 6 + 1
    assert entry["seed"] == 0
    assert sum(entry["n"].values()) == 6
    assert {"blts", "jax", "numpy"} <= entry["versions"].keys()
    with pytest.raises(ConfigError, match="no policy version 9"):
        experiment.policy(9)


def test_a_refresh_that_fails_is_kept_out_of_use(tmp_path):
    experiment = made(tmp_path, model={"name": "gaussian-unknown-variance"}, batching={"name": "fixed", "size": 8})
    answer = experiment.ask(8)
    experiment.tell([(d.id, (-1) ** i * 1e30) for i, d in enumerate(answer.decisions)])  # squares overflow
    done = experiment.refresh()
    assert done.refreshed
    assert not done.in_use
    assert "version 2 is kept out of use: the posterior is not finite" in done.why
    assert experiment.status()["policy"] == 1
    assert experiment.status()["last_refresh_failed"] == ["the posterior is not finite"]
    after = experiment.ask(8)  # the old policy goes on
    assert {d.policy for d in after.decisions} == {1}
    assert {d.batch for d in after.decisions} == {2}
    for decision in answer.decisions:
        experiment.correct(decision.id, 1.0)
    experiment.tell(rewarded(after))
    assert experiment.refresh().in_use
    assert experiment.status()["policy"] == 3
    assert experiment.verify() == []


def test_chains_that_disagree_are_kept_out_of_use(tmp_path):
    """R-hat is looked at where there is one: two steps from a wide prior do not mix."""
    wide = {"model": Gaussian(prior_sd=100.0), "sampler": Pool(mala(0.01, 4), 8)}
    experiment = made(tmp_path, **wide)
    experiment.tell(rewarded(experiment.ask(6)))
    done = experiment.refresh()
    assert not done.in_use
    assert "R-hat" in done.why
    lenient = made(tmp_path, "lenient", rhat=1e30, **wide)
    lenient.tell(rewarded(lenient.ask(6)))
    assert lenient.refresh().in_use


def test_external_batches_refresh_where_there_is_something_new(tmp_path):
    experiment = made(tmp_path, batching="external")
    answer = experiment.ask(20)
    assert len(answer.decisions) == 20
    assert not answer.feedback_due
    assert experiment.refresh().why == "there is nothing new to learn from"
    experiment.tell(rewarded(answer)[:5])
    assert experiment.status()["policy"] == 1  # telling is not refreshing
    assert experiment.refresh().version == 2
    experiment.tell(rewarded(answer)[:5])  # nothing new
    assert not experiment.refresh().refreshed
    experiment.correct(answer.decisions[0].id, 3.0)
    assert experiment.refresh().version == 3
    assert experiment.ask(1).decisions[0].policy == 3
    assert "these are external" in experiment.report()["outside_theory"]
    assert experiment.verify() == []


def test_refreshes_at_one_decision_have_keys_of_their_own(tmp_path):
    experiment = made(tmp_path, sampler=SGLD, model=PRIOR)
    experiment.tell(rewarded(experiment.ask(6)))
    thetas = []
    for _ in range(3):
        experiment.refresh(force=True)
        thetas.append(json.dumps(experiment.policy()["theta"]))
    assert len(set(thetas)) == 3
    assert experiment.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["exact", "blts"])
def test_revenue_from_the_first_decision_to_the_report(tmp_path, sampler):
    """Zero-inflated log-normal rewards: zeros, a heavy tail whose posterior mean may be infinite, and no closed law."""
    experiment = made(tmp_path, model="zero-inflated-log-normal", sampler=sampler, batching={"name": "fixed", "size": 40}, cap=50.0)
    rng, pays = np.random.default_rng(2), {"A": 0.2, "B": 0.8, "C": 0.2}
    for batch in range(3):
        decisions = experiment.ask(40).decisions
        assert sum(decisions[0].propensities.values()) == pytest.approx(1, abs=1e-5)
        amounts = np.where(rng.random(40) < [pays[d.arm] for d in decisions], rng.lognormal(1.0, 0.5, 40), 0.0)
        told = experiment.tell([(d.id, float(x)) for d, x in zip(decisions, amounts, strict=True)])
        assert told.accepted == 40
        assert experiment.tell([(decisions[0].id, -1.0)]).invalid == 1
        assert experiment.refresh().in_use, batch
    report = experiment.report()
    arms = {arm["arm"]: arm for arm in report["arms"]}
    assert max(arms, key=lambda label: arms[label]["p_best"]) == "B"
    for arm in arms.values():  # a mean of exp(1 + 0.5²/2) where somebody pays
        assert 0 < arm["posterior_low"] < arm["posterior_high"]
    mean = 0.8 * math.exp(1.125)
    assert arms["B"]["posterior_low"] < mean < arms["B"]["posterior_high"]
    assert arms["B"]["aipw"]["low"] < mean < arms["B"]["aipw"]["high"]
    assert not report["sample_ratio"]["alarm"]
    assert [path.name for path in draw(experiment, tmp_path)] == ["allocation.svg", "posterior.svg", "rewards.svg"]
    assert experiment.export(tmp_path / "x.csv") == 120
    assert experiment.verify() == []
    assert Experiment.open(tmp_path / "blts.db", "mail").verify() == []


# Arms, floors, burn-in


@pytest.mark.parametrize("sampler", [Exact(), pytest.param(SGLD, marks=pytest.mark.slow)], ids=["exact", "sgld"])
def test_arms_come_and_go(tmp_path, sampler):
    experiment = made(tmp_path, sampler=sampler, batching="dynamic", model=Gaussian(sd=0.5))
    for _ in range(4):
        experiment.tell(rewarded(experiment.ask(20)))
        experiment.refresh()
    theta = experiment.policy()["theta"]
    assert experiment.add_arm("D", {"colour": "red"}, prior_mean=3.0) == experiment.status()["policy"]
    if theta is not None:
        assert {k: v for k, v in experiment.policy()["theta"].items() if k != "D"} == theta
    answer = experiment.ask(20)
    assert answer.decisions[0].propensities["D"] > 0.5  # its prior is far above the others
    experiment.tell(rewarded(answer))
    experiment.refresh()
    experiment.retire_arm("B", "broken")
    for _ in range(3):
        answer = experiment.ask(20)
        assert all(d.arm != "B" and d.propensities["B"] == 0 for d in answer.decisions)
        experiment.tell(rewarded(answer))
        experiment.refresh()
    assert experiment.status()["active"] == ["A", "C", "D"]
    assert experiment.verify() == []
    again = Experiment.open(tmp_path / "blts.db", "mail")
    assert again.verify() == []
    for wrong in (
        lambda: experiment.add_arm("A"),
        lambda: experiment.retire_arm("B"),
        lambda: experiment.add_arm("E", nothing=3.0),
    ):
        with pytest.raises(BltsError):
            wrong()
    experiment.retire_arm("A")
    experiment.retire_arm("C")
    with pytest.raises(ConfigError, match="last active arm"):
        experiment.retire_arm("D")


def test_an_arm_of_a_model_with_numbers_for_each_needs_its_own(tmp_path):
    experiment = made(tmp_path, model=PRIOR)
    with pytest.raises(ConfigError, match="The model has a prior_mean for each arm; give prior_mean for the arm 'D' too"):
        experiment.add_arm("D")
    experiment.add_arm("D", prior_mean=0.3)
    assert len(experiment.ask(3).decisions) == 3


def test_index_agents_have_propensities_of_0_and_1(tmp_path):
    experiment = made(tmp_path, sampler="ucb1")
    answer = experiment.ask(6)
    for decision in answer.decisions:
        assert decision.propensities[decision.arm] == 1
        assert sorted(decision.propensities.values()) == [0, 0, 1]
    experiment.tell(rewarded(answer))
    experiment.refresh()
    experiment.add_arm("D")
    assert experiment.ask(1).decisions[0].arm == "D"  # never played
    report = experiment.report()
    assert report["arms"][0]["ipw"]["value"] is None
    assert not report["sample_ratio"]["alarm"]
    assert experiment.verify() == []


def test_floors_and_control_share_are_added(tmp_path):
    floored = made(tmp_path, "floored", floor=0.05, control="B", control_share=0.2)
    plain = made(tmp_path, "plain")
    p = plain.ask(1).decisions[0].propensities
    q = floored.ask(1).decisions[0].propensities
    for label in LABELS:
        assert q[label] == pytest.approx(0.05 + 0.2 * (label == "B") + 0.65 * p[label], abs=1e-6)


def test_burn_in_gives_every_arm_its_units(tmp_path):
    experiment = made(tmp_path, model=Gaussian(prior_mean=[0.0, 5.0, 0.0]), burn_in=5, batching="external")
    decisions = experiment.ask(60).decisions
    counts = dict.fromkeys(LABELS, 0)
    for decision in decisions:
        lacking = [label for label in LABELS if counts[label] < 5]
        for label in lacking:
            assert decision.propensities[label] >= 1 / 3 - 1e-6
        counts[decision.arm] += 1
    assert min(counts.values()) >= 5
    assert decisions[-1].propensities["B"] > 0.99
    assert experiment.verify() == []


def test_pause_and_resume(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(2)
    experiment.pause("holiday")
    experiment.pause()
    assert experiment.ask(2)[0] == ()
    assert experiment.ask(2).why == "the experiment is paused"
    assert experiment.tell(rewarded(answer)).accepted == 2
    assert experiment.verify() == []
    experiment.resume()
    assert len(experiment.ask(2).decisions) == 2
    assert [e["what"] for e in experiment.audit()] == ["create", "ask", "pause", "tell", "resume", "ask"]
    assert experiment.verify() == []
