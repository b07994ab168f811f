"""Values of policies from logs: coverage, unbiasedness, pairing, warnings, and agreement with another library."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from blts import logged
from blts.errors import ConfigError
from blts.logged import Log
from laws import LEVEL
from logs import simulated, target_policy, truth

RUNS = 400


def naive(log: Log, policy) -> logged.Value:
    """The mutant: the mean reward of each action as it was logged, weighted by how often the policy plays it."""
    share = policy(log.contexts).mean(0)
    mean = np.array([log.rewards[log.actions == a].mean() for a in range(3)])
    var = np.array([log.rewards[log.actions == a].var(ddof=1) / (log.actions == a).sum() for a in range(3)])
    value, se = float(share @ mean), float(np.sqrt(share**2 @ var))
    return logged.Value(value, se, value - 1.96 * se, value + 1.96 * se)


@cache
def runs() -> list[tuple[Log, logged.Evaluation]]:
    logs = [simulated(np.random.default_rng([1, i])) for i in range(RUNS)]
    return [(log, logged.evaluate(log, target_policy)) for log in logs]


@pytest.mark.parametrize("name", ["ipw", "snipw", "dr"])
def test_intervals_cover_and_estimates_are_unbiased(name):
    exact = truth(target_policy)
    found = [getattr(e, name) for _, e in runs()]
    assert 0.93 <= np.mean([v.low <= exact <= v.high for v in found]) <= 0.97
    values = np.array([v.value for v in found])
    z = abs(values.mean() - exact) / (values.std(ddof=1) / np.sqrt(RUNS))
    assert z < stats.norm.isf(LEVEL / 2)


def test_the_naive_mean_does_not_cover():
    exact = truth(target_policy)
    found = [naive(log, target_policy) for log, _ in runs()]
    assert np.mean([v.low <= exact <= v.high for v in found]) < 0.5


def test_a_model_of_rewards_makes_the_interval_narrower():
    dr, ipw = (np.mean([getattr(e, name).se for _, e in runs()]) for name in ("dr", "ipw"))
    assert dr < 0.8 * ipw
    bad = [logged.evaluate(log, target_policy, model=wrong_model) for log, _ in runs()[:100]]
    exact = truth(target_policy)
    assert np.mean([e.dr.low <= exact <= e.dr.high for e in bad]) > 0.9  # doubly robust
    assert np.mean([e.direct.low <= exact <= e.direct.high for e in bad]) < 0.1  # and the direct method is not


def wrong_model(contexts, actions, rewards, K):
    return lambda new: np.full((len(new), K), 3.0)


def test_predictions_come_from_rows_that_were_not_seen():
    """With a model that remembers its rows, the mutant without folds has rewards in its predictions."""
    log = simulated(np.random.default_rng(2), 200)

    def memory(contexts, actions, rewards, K):
        known = {tuple(x): r for x, r in zip(contexts, rewards, strict=True)}
        return lambda new: np.array([[known.get(tuple(x), 0.0)] * K for x in new])

    assert logged.evaluate(log, "a", model=memory).direct.value == 0
    same = memory(log.contexts, log.actions, log.rewards, 3)(log.contexts)
    assert (same[:, 0] == log.rewards).all()


def test_terms_by_hand():
    """Two actions, four rows."""
    log = logged.read_log({"action": [0, 1, 0, 1], "reward": [1.0, 2.0, 3.0, 6.0], "propensity": [0.5, 0.25, 0.8, 0.5]})
    pi = np.array([[0.5, 0.5], [0.5, 0.5], [0.4, 0.6], [0.0, 1.0]])
    w = np.array([1.0, 2.0, 0.5, 2.0])
    found = logged.evaluate(log, pi, model=lambda x, a, r, K: lambda new: np.tile([1.0, 4.0], (len(new), 1)))
    assert found.ipw.value == pytest.approx((w * log.rewards).mean())
    assert found.snipw.value == pytest.approx((w * log.rewards).sum() / w.sum())
    assert found.direct.value == pytest.approx(np.mean([2.5, 2.5, 2.8, 4.0]))
    assert found.dr.value == pytest.approx(np.mean([2.5 + 0.0, 2.5 - 4.0, 2.8 + 1.0, 4.0 + 4.0]))
    assert found.effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert found.largest_weight == 2.0


def test_a_comparison_is_paired():
    log = simulated(np.random.default_rng(3))

    def near(x):
        return 0.9 * target_policy(x) + 0.1 * np.array([1.0, 0.0, 0.0])

    one, other, both = logged.evaluate(log, near), logged.evaluate(log, target_policy), logged.compare(log, near, target_policy)
    for name in ("ipw", "snipw", "direct", "dr"):
        a, b, difference = (getattr(e, name) for e in (one, other, both))
        assert difference.value == pytest.approx(a.value - b.value)
        assert difference.se < 0.5 * np.hypot(a.se, b.se)  # which is that of independent logs
    exact = truth(near) - truth(target_policy)
    hits = [c.dr.low <= exact <= c.dr.high for c in (logged.compare(log, near, target_policy) for log, _ in runs()[:200])]
    assert 0.9 < np.mean(hits) < 0.99


def test_constant_actions_and_the_logging_policy():
    log = simulated(np.random.default_rng(4), 4000)
    values = logged.constant_values(log)
    assert list(values) == ["a", "b", "c"]
    for k, label in enumerate(values):
        exact = truth(lambda x, k=k: np.broadcast_to(np.arange(3) == k, (len(x), 3)))
        assert abs(values[label].dr.value - exact) < 4 * values[label].dr.se
        assert values[label] == logged.evaluate(log, label)
    assert logged.logged_value(log).value == pytest.approx(log.rewards.mean())


def test_poor_overlap_is_said():
    log = simulated(np.random.default_rng(5), 300)
    assert logged.evaluate(log, target_policy).warnings == ()
    rare = Log(log.contexts, log.actions, log.rewards, np.where(np.arange(300) == 7, 1e-4, log.propensities), log.labels)
    found = logged.evaluate(rare, log.labels[int(log.actions[7])])
    assert any("of all weight" in w for w in found.warnings)
    assert any("rows of equal weight" in w for w in found.warnings)
    assert np.isnan(found.ipw.low)
    assert "say as much of their spread" in found.ipw.why
    four = Log(log.contexts, log.actions, log.rewards, log.propensities, ("a", "b", "c", "d"))
    found = logged.evaluate(four, [0.25] * 4)
    assert found.warnings[0].startswith("The log never plays d, which the policy plays in 25.0% of rows")
    assert logged.evaluate(four, "d").ipw.why
    assert np.isnan(logged.evaluate(four, "d").snipw.value)
    wrong = Log(log.contexts, log.actions, log.rewards, 0.5 * log.propensities, log.labels)
    assert any("average" in w for w in logged.evaluate(wrong, target_policy).warnings)
    assert "WARNING: " in str(logged.evaluate(wrong, target_policy))


def test_a_number_that_is_the_label_of_another_action_is_refused():
    action = np.array([1, 2, 3] * 10)
    log = logged.read_log({"action": action, "reward": action + 0.01 * np.arange(30)}, propensity=1 / 3, actions=[1, 2, 3])
    assert logged.evaluate(log, "1").snipw.value == pytest.approx(1.135)
    assert logged.evaluate(log, 0).snipw.value == pytest.approx(1.135)
    with pytest.raises(ConfigError, match="the label of one action and the number of another; give the label as text, '1'"):
        logged.evaluate(log, 1)


def test_rows_that_were_not_left_to_chance_are_said():
    log = simulated(np.random.default_rng(5), 300)
    some = np.arange(300) < 9
    sure = Log(log.contexts, log.actions, log.rewards, np.where(some, 1.0, log.propensities), log.labels)
    words = "of 300 rows the logged action had probability 1, and the policy plays others"
    assert any(f"In 9 {words}" in w for w in logged.evaluate(sure, target_policy).warnings)
    same = np.where(some[:, None], np.eye(3)[log.actions], target_policy(log.contexts))
    assert not any(words in w for w in logged.evaluate(sure, same).warnings)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("d", "no action 'd'"),
        (3, "numbered from 0 to 2"),
        (np.ones((4, 3)), r"shape \(300, 3\) or \(3,\); got \(4, 3\)"),
        ([0.5, 0.2, 0.2], "sum to 1; row 1"),
        ([1.5, -0.5, 0.0], "at least 0"),
        ([np.nan, 0.5, 0.5], "row 1"),
        (object(), "A policy is an action"),
        (lambda x: np.ones(2) / 2, "got \\(2,\\)"),
    ],
)
def test_what_is_no_policy_is_refused(policy, words):
    with pytest.raises(ConfigError, match=words):
        logged.evaluate(simulated(np.random.default_rng(5), 300), policy)


def test_contexts_that_never_vary_are_said():
    """One constant is an intercept; zeros, and a second constant, say nothing."""
    rng = np.random.default_rng(0)
    table = {"action": rng.integers(0, 2, 50), "reward": rng.normal(size=50), "x": rng.normal(size=50)}
    table |= {"one": np.ones(50), "two": np.full(50, 2.0), "none": np.zeros(50)}
    said = lambda *names: logged.evaluate(logged.read_log(table, propensity=0.5, context=names), [0.5, 0.5]).warnings  # noqa: E731
    assert said("x") == said("x", "one") == ()
    assert said("x", "none") == ("The context never varies in none, which say nothing of rewards; leave them out.",)
    assert said("x", "one", "two") == ("The context never varies in one, two, which say nothing of rewards; leave them out.",)


@pytest.mark.parametrize("level", ["0.9", 95, 0.0, None])
def test_a_level_that_is_none_is_refused(level):
    log = logged.read_log({"action": [0, 1, 0], "reward": [1.0, 0.0, 2.0]}, propensity=0.5)
    with pytest.raises(ConfigError, match="level must be between 0 and 1"):
        logged.evaluate(log, 0, level=level)


def test_a_model_that_fails_is_named():
    log = simulated(np.random.default_rng(5), 300)
    for model, words in (
        (lambda *data: lambda new: new[:, :1], "of shape"),
        (lambda *data: lambda new: np.full((len(new), 3), np.nan), "not finite"),
        (lambda *data: 1 / 0, "ZeroDivisionError"),
    ):
        with pytest.raises(ConfigError, match=words):
            logged.evaluate(log, "a", model=model)
    with pytest.raises(ConfigError, match="folds"):
        logged.evaluate(log, "a", folds=1)
    with pytest.raises(ConfigError, match="level"):
        logged.evaluate(log, "a", level=95)


def test_obp_has_the_same_estimates():
    """Open Bandit Pipeline on the same rows, weights and predictions."""
    ope = pytest.importorskip("obp.ope", reason="Open Bandit Pipeline (obp) is not installed", exc_type=ImportError)
    from blts.logged.reward_models import cross_fitted, ridge

    log = simulated(np.random.default_rng(6))
    pi, q = target_policy(log.contexts), cross_fitted(log, ridge, 5)
    found = logged.evaluate(log, pi)
    rows = {"reward": log.rewards, "action": log.actions, "pscore": log.propensities, "action_dist": pi[:, :, None]}
    model = {"estimated_rewards_by_reg_model": q[:, :, None]}
    assert ope.InverseProbabilityWeighting().estimate_policy_value(**rows) == pytest.approx(found.ipw.value, rel=1e-12)
    assert ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**rows) == pytest.approx(
        found.snipw.value, rel=1e-12
    )
    assert ope.DirectMethod().estimate_policy_value(pi[:, :, None], **model) == pytest.approx(found.direct.value, rel=1e-12)
    assert ope.DoublyRobust().estimate_policy_value(**rows, **model) == pytest.approx(found.dr.value, rel=1e-12)
    mutant = rows | {"pscore": log.propensities**1.01}
    assert ope.InverseProbabilityWeighting().estimate_policy_value(**mutant) != pytest.approx(found.ipw.value, rel=1e-4)
