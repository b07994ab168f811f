"""The sentence at the top of an experiment: it says what the report says, in every state."""

from __future__ import annotations

import copy

import pytest

from blts.service.dashboard import numbers
from blts.service.dashboard.facts import Facts
from blts.service.dashboard.verdict import verdict
from blts.service.dashboard.views import health, overview
from houses import facts_of


def changed(status=None, report=None) -> Facts:
    """The pricing experiment with something else in its status or report."""
    facts = facts_of("pricing")
    facts.status |= status or {}
    assert facts.report is not None
    facts.report |= report or {}
    return facts


WINS = {"winner": "11.99", "recommendation": "Consider '11.99' for all units: it is best."}


@pytest.mark.parametrize(
    ("facts", "label", "words", "action"),
    [
        (changed({"decisions": 0}), "Ready", "first decision", "connect"),
        (changed(report=WINS), "Winner", "11.99\u2069 wins, +0.027", "stop"),
        (changed({"paused": True}, WINS), "Paused", "11.99\u2069 wins so far", "resume"),
        (changed({"stopped": True, "promoted": "11.99"}, WINS), "Promoted", "everybody new gets \u206811.99", None),
        (changed({"stopped": True, "promoted": None}), "Stopped", "no more decisions", None),
        (changed(report={"recommendation": "Look into the assignment first: …"}), "Needs you", "the assignment", "health"),
        (changed(report={"recommendation": "Look into the model first: …"}), "Needs you", "the model", "health"),
        (changed(report={"recommendation": "Look at the guardrails first: …"}), "Needs you", "guardrail", "retire-arm"),
        (changed(report={"rewards": 0, "open": 450, "evidence": None}), "Collecting", "450 rewards wait", None),
        (changed(), "Undecided", "No arm is clearly ahead", None),
        (changed({"waits": "Batch 1 is closed and awaits 10 rewards"}), "Waiting", "rewards that may never come", "refresh"),
        (facts_of("recommendations"), "By context", "depends on the context", None),
    ],
)
def test_every_state_has_its_sentence(facts, label, words, action):
    found = verdict(facts)
    assert found.label == label
    assert words in found.headline
    assert (found.action or (None,))[0] == action
    if facts.report is not None and facts.status["decisions"] and not facts.status["waits"]:
        assert found.why == facts.report["recommendation"]


def test_without_a_report_nothing_is_claimed():
    facts = changed()
    none = Facts(facts.status, None, "number", facts.now)
    assert verdict(none).headline == "No report yet"
    assert overview.overview(none).charts == ()
    assert {check.name for check in health.checks(none)} == {"Last refresh", "Sampler"}


@pytest.mark.parametrize(
    ("report", "status", "name", "tone"),
    [
        ({"misfit": ["The spread is wrong."]}, {}, "Model fit", "bad"),
        ({"sample_ratio": {"p_value": 1e-9, "alarm": True, "expected": {}, "observed": {}}}, {}, "Sample ratio", "bad"),
        ({}, {"last_refresh_failed": ["R-hat is 2"]}, "Last refresh", "bad"),
        ({"posterior_failings": ["stuck"]}, {}, "Posterior", "bad"),
        ({}, {"refreshed_at": 0.0}, "Last refresh", "warn"),
    ],
)
def test_what_is_wrong_is_said(report, status, name, tone):
    facts = changed(status, report)
    assert facts.report is not None
    facts.report["as_of"]["later_entries"] = 5
    found = {check.name: check.tone for check in health.checks(facts)}
    assert found[name] == tone
    good = {check.name: check.tone for check in health.checks(facts_of("pricing"))}
    assert "bad" not in good.values()


def test_small_propensities_and_uneven_weights_are_warned_of():
    facts = facts_of("pricing")
    assert facts.report is not None
    tones = {check.name: check.tone for check in health.checks(facts)}
    assert tones["Smallest propensity"] == tones["Effective sample size"] == "good"
    arm = facts.report["arms"][0]
    arm["smallest_propensity"], arm["effective_rewards"] = 1e-4, 0.05 * arm["rewards"]
    tones = {check.name: check.tone for check in health.checks(facts)}
    assert tones["Smallest propensity"] == tones["Effective sample size"] == "warn"


def test_views_change_nothing_they_are_given():
    facts = facts_of("pricing")
    before = copy.deepcopy((facts.status, facts.report))
    overview.overview(facts)
    health.health(facts)
    assert (facts.status, facts.report) == before


def test_an_arm_that_was_retired_since_the_report_has_not_won():
    facts = changed(report=WINS)
    left = [label for label in facts.status["active"] if label != "11.99"]
    facts.status |= {"active": left, "allocation": dict.fromkeys(left, 1 / len(left))}
    found = verdict(facts)
    assert (found.label, found.action) == ("Collecting", None)
    assert "wins" not in found.headline
    assert "wins" not in verdict(changed(facts.status | {"paused": True}, WINS)).headline
    rows = {row["arm"]: row for row in overview.overview(facts).values["arms"]}
    assert [(rows["11.99"][name]) for name in ("active", "winner", "share")] == [False, False, "–"]
    assert {rows[label]["share"] for label in left} == {numbers.percent(1 / len(left))}
