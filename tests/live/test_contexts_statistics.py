"""With contexts: propensities are frequencies within strata, and weighted estimates cover where naive means do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from blts.errors import BltsError
from blts.live import Experiment, deciding
from blts.live.conclusions import by_context, values
from blts.live.conclusions.sample_ratio import sample_ratio
from blts.live.features import Observed
from laws import LEVEL
from shown import FEATURES, contexts, created, encoded, played


def strata(shown: list[dict]) -> list[np.ndarray]:
    """Decisions by country and by whether units return."""
    country, again = np.array([x["country"] for x in shown]), np.array([x["returning"] for x in shown])
    return [(country == level) & (again == value) for level in FEATURES["country"] for value in (False, True)]


def test_frequencies_are_the_propensities_within_strata(tmp_path):
    """20,000 decisions of one version. The mutant has the propensities of the average context."""
    experiment = created(tmp_path / "blts.db", batching="external", floor=0.02)
    for seed in range(3):
        played(experiment, 60, seed)
    shown = contexts(20_000, seed=9)
    decisions = experiment.ask(contexts=shown).decisions
    assert len({d.policy for d in decisions}) == 1
    arms = np.array(["ABC".index(d.arm) for d in decisions])
    p = np.array([list(d.propensities.values()) for d in decisions])
    session = experiment.session
    with experiment.database.read() as c:
        row = session.row(c)
        current, ticks = session.policy(c, row.version), session.ticks(row, session.policy(c, row.version))
    average = Observed(np.mean([encoded(x) for x in shown], axis=0)[None], np.ones((1, 3), bool))
    one = deciding.decide(session, current, ticks, 1, average)[2]
    mutant = np.broadcast_to(one, p.shape)
    found = [[sample_ratio(arms[s], q[s]).p_value for s in strata(shown)] for q in (p, mutant)]
    assert min(found[0]) > LEVEL
    assert min(found[1]) < LEVEL
    assert sample_ratio(arms, p).p_value > LEVEL


# Estimates


def test_predictions_see_only_earlier_decisions():
    rng = np.random.default_rng(0)
    T, x = 200, np.column_stack([np.ones(200), rng.normal(size=200)])
    arms, rewards = rng.integers(0, 2, T), rng.normal(size=T)
    m = values.predictions(x, arms, rewards, 2)
    for t in (0, 1, 2, 7, 50, 199):
        changed = rewards.copy()
        changed[t:] += 1000.0
        assert (values.predictions(x, arms, changed, 2)[: t + 1] == m[: t + 1]).all()
    changed = rewards.copy()
    changed[50] += 1000.0
    assert (values.predictions(x, arms, changed, 2)[70:] != m[70:]).any()
    good = values.predictions(x, arms, 3.0 + x[:, 1] * (1 + arms), 2)
    assert np.abs(good[150:, 1] - (3.0 + 2 * x[150:, 1])).max() < 0.2


def test_scores_by_hand():
    arms, rewards = np.array([0, 1]), np.array([3.0, 5.0])
    p, m = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[1.0, 2.0], [1.0, 2.0]])
    found = values.scores(arms, rewards, p, m)
    assert found[0].tolist() == [1 + (3 - 1) / 0.5, 2.0]
    assert np.isnan(found[1, 0])
    assert found[1, 1] == 5.0
    pi = np.array([[0.25, 0.75], [0.0, 1.0]])
    terms = [0.25 * 5 + 0.75 * 2, 5.0]
    assert values.of_policy(np.repeat(pi, 20, 0), *(np.repeat(z, 20, 0) for z in (arms, rewards, p, m))).value == [np.mean(terms)]


def season(folder, runs: int, batches: int = 4, size: int = 100) -> list[dict]:
    """Reports of experiments in which A is better for x > 0 and B for x < 0, and a season moves all rewards from -1 to 1. Over all
    contexts and the season, both arms earn 0."""
    found = []
    for i in range(runs):
        rng = np.random.default_rng(i)
        settings = {"batching": {"name": "fixed", "size": size}, "seed": i, "floor": 0.1, "features": {"x": [-1, 1]}}
        model = {"name": "linear", "sd": 1.0}
        with Experiment.create(folder / "blts.db", f"run {i}", ["A", "B"], model, "exact", **settings) as experiment:
            for level in np.linspace(-1, 1, batches):
                x = rng.uniform(-1, 1, size)
                decisions = experiment.ask(contexts=[{"x": float(one)} for one in x]).decisions
                means = level + x * np.array([1 if d.arm == "A" else -1 for d in decisions])
                experiment.tell([(d.id, float(r)) for d, r in zip(decisions, rng.normal(means), strict=True)])
                experiment.refresh()
            found.append(experiment.report())
    return found


@pytest.mark.parametrize("runs", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_the_intervals_of_reports_cover_where_those_of_naive_means_do_not(tmp_path, runs):
    """An arm that is played where it is good, or in good times, looks better than it is. The mutant is the naive mean."""
    arms = [arm for report in season(tmp_path, runs) for arm in report["arms"]]
    inside = {kind: [arm[kind]["low"] < 0 < arm[kind]["high"] for arm in arms] for kind in ("naive", "ipw", "aipw")}
    shares = {kind: np.mean(np.reshape(hits, (runs, 2)), 1) for kind, hits in inside.items()}
    print("\ncovered", {kind: f"{100 * x.mean():.1f} %" for kind, x in shares.items()})
    for kind in ("ipw", "aipw"):
        if runs >= 400:
            assert 0.93 <= shares[kind].mean() <= 0.97
        else:
            assert stats.binom.cdf(sum(inside[kind]), 2 * runs, 0.95) > LEVEL
    assert shares["naive"].mean() < 0.7


# The value of any policy


def truth(context: dict, arm: str) -> float:
    return float((arm == "B") * context["returning"] + (arm == "C") * (context["country"] == "US"))


def test_values_of_policies(tmp_path):
    """Those of functions of contexts, of single arms, and of another experiment; a wrong policy has another value."""
    experiment = created(tmp_path / "blts.db", batching="external", floor=0.1)
    other = created(tmp_path / "blts.db", "other", batching="external", seed=1, floor=0.05)
    for seed in range(4):
        played(experiment, 250, seed)
    played(other, 250, seed=9)
    shown = contexts(50_000, seed=20)

    def clever(context):
        return "B" if context["returning"] else "C" if context["country"] == "US" else "A"

    mean = {arm: np.mean([truth(x, arm) for x in shown]) for arm in "ABC"}
    policies = {"B": mean["B"], "C": mean["C"]} | {clever: np.mean([truth(x, clever(x)) for x in shown])}
    policies |= {lambda context: {"A": 0.5, "B": 0.5}: 0.5 * mean["B"]}
    z = []
    for policy, expected in policies.items():
        found = experiment.value(policy)
        z.append((found["value"] - expected) / found["se"])
        assert found["low"] < found["value"] < found["high"]
    assert 2 * stats.norm.sf(np.max(np.abs(z))) > LEVEL
    found = experiment.value(clever)
    assert 2 * stats.norm.sf((found["value"] - mean["C"]) / found["se"]) < LEVEL  # the mutant: the value of another policy
    assert experiment.value("B")["value"] == pytest.approx(experiment.report()["values"][2]["value"])
    learned = experiment.value(other)
    assert learned["value"] > experiment.value("A")["value"]
    refused: dict[str, Any] = {"these very": experiment, "Z": "Z", "sum 1": lambda x: {"A": 0.5}, "arm's label": 3}
    for words, wrong in refused.items():
        with pytest.raises(BltsError, match=words):
            experiment.value(wrong)
    masked = created(tmp_path / "blts.db", "masked", batching="external")
    masked.tell([(d.id, 1.0) for d in masked.ask(contexts=contexts(40), available=["A", "B"]).decisions])
    with pytest.raises(BltsError, match="in 40 contexts where this experiment could not"):
        masked.value("C")


def test_an_arm_that_some_contexts_could_not_have_is_not_compared(tmp_path):
    """All arms earn the same, and more where x is larger. C is only there where x > 0.5; the mutant is its mean there."""
    linear: dict[str, Any] = {"model": {"name": "linear", "sd": 1.0}, "features": {"x": [0, 1], "late": "boolean"}}
    shop = Experiment.create(f"sqlite:///{tmp_path / 'blts.db'}", "shop", ["A", "B", "C"], batching="external", floor=0.1, **linear)
    rng = np.random.default_rng(0)

    def day(which: range) -> None:
        shown = [{"x": float(rng.random()), "late": i >= 2} for i in which for _ in range(200)]
        answer = shop.ask(contexts=shown, available=[None if x["x"] > 0.5 else ["A", "B"] for x in shown])
        shop.tell([(d.id, 5 * x["x"] + rng.normal()) for d, x in zip(answer.decisions, shown, strict=True)])
        shop.refresh()

    day(range(2))
    report = shop.report()
    named = {one["policy"]: one for one in report["values"]}
    without = named["always C"]["beyond"]
    assert 150 < without < 250
    assert named["always C"]["value"] is named["always C"]["difference"]["value"] is None
    assert all(named[f"always {arm}"]["low"] < 2.5 < named[f"always {arm}"]["high"] for arm in "AB")
    arms = {arm["arm"]: arm for arm in report["arms"]}
    assert arms["C"]["ipw"]["value"] is arms["C"]["aipw"]["value"] is None
    assert arms["C"]["naive"]["value"] > 3.3  # the mutant names it as the largest
    assert "'always C'" not in report["recommendation"]
    assert "of the single arms that every decision could have been" in report["recommendation"]
    for text in (report["values_hold"], report["why_estimates_differ"]):
        assert f"could not play 'C' in {without} of the 400 contexts" in text
    with pytest.raises(BltsError, match=f"in {without} contexts where this experiment could not"):
        shop.value("C")
    thirds = {one["segment"]: one["arms"][2]["value"] for one in report["segments"] if one["feature"] == "x"}
    assert [value is None for value in thirds.values()] == [True, True, False]  # above 2/3 every decision could have been C

    shop.add_arm("D")
    day(range(2, 4))
    report = shop.report()
    beyond = {one["policy"]: one["beyond"] for one in report["values"]}
    assert [beyond[f"always {arm}"] > 0 for arm in "ABCD"] == [False, False, True, True]
    assert beyond["always D"] >= 400
    assert [arm["aipw"]["value"] is None for arm in report["arms"]] == [False, False, True, True]
    late = next(one for one in report["segments"] if one["segment"] == "yes")
    assert late["arms"][2]["value"] is None


def test_reports_name_few_of_many_arms_without_a_value():
    p = np.full((3, 6), 0.2)
    p[0, 1:] = 0.0
    assert values.unplayable(p).tolist() == [0, 1, 1, 1, 1, 1]
    found = values.constant_arms(np.zeros(3, int), p, np.ones((3, 6)))
    assert found.why[1] == values.BEYOND
    said = by_context.without_value(list("ABCDEF"), values.unplayable(p), 3)
    assert "could not play 'B' in 1, 'C' in 1, 'D' in 1, 'E' in 1 and 1 more arm in some of the 3 contexts" in said
    assert by_context.without_value(["A"], np.zeros(1, int), 3) == ""


# The model


@pytest.mark.parametrize(("shift", "sd", "found"), [(0.0, 1.0, False), (0.0, 3.0, True), (0.0, 0.2, True), (100.0, 1.0, True)])
def test_a_spread_that_is_not_the_stated_one_warns(tmp_path, shift, sd, found):
    """Rewards spread by 1; the mutant of the warning is the stated sd of 1, at rewards that the prior allows."""
    experiment = created(tmp_path / "blts.db", batching="external", model={"name": "linear", "sd": sd})
    shown, rng = contexts(200), np.random.default_rng(0)
    decisions = experiment.ask(contexts=shown).decisions
    experiment.tell([(d.id, truth(x, d.arm) + shift + e) for d, x, e in zip(decisions, shown, rng.normal(size=200), strict=True)])
    experiment.refresh(force=True)
    assert bool(experiment.status()["warnings"]) == found
    assert experiment.verify() == []
