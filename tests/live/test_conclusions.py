"""What a report shows and recommends: exact posteriors whatever the policy draws with, of all rewards that count."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from blts import models
from blts._typing import Row
from blts.grid import grid
from blts.live.conclusions import posterior as posteriors
from blts.live.conclusions.lift import lifts
from blts.live.conclusions.posterior import DRAWS, of_draws, posterior, tail_index
from blts.live.conclusions.recommendation import recommend
from blts.models import stack
from experiments import Hand, made
from laws import LEVEL

ARMS = np.arange(60) % 3
ONES = (np.arange(60) % 7 < 1 + ARMS).astype(float)

FLAT = {"name": "bernoulli", "a": 1.0, "b": 1.0}


def beta_report(ones: np.ndarray, zeros: np.ndarray):
    """Mean, interval, P(best) and loss of Beta(1 + ones, 1 + zeros) arms, by sums over a fine grid."""
    a, b = 1 + ones, 1 + zeros
    x = (np.arange(200_000) + 0.5) / 200_000
    f = stats.beta.pdf(x[:, None], a, b) / len(x)
    F = stats.beta.cdf(x[:, None], a, b)
    best = np.array([(f[:, k] * np.delete(F, k, 1).prod(1)).sum() for k in range(len(a))])
    top = 1 - F.prod(1).mean()  # E[max] = ∫ P(max > x) dx
    return a / (a + b), stats.beta.ppf(0.025, a, b), stats.beta.ppf(0.975, a, b), best, top - a / (a + b)


@pytest.mark.parametrize("sampler", ["sgld", "exact", "ucb1"])
def test_a_report_shows_the_exact_posterior_of_all_rewards(tmp_path, sampler):
    """The policy has learned from half of them, or draws around a chain's end, or has no posterior at all."""
    experiment = made(tmp_path, model=FLAT, sampler=sampler, batching={"name": "fixed", "size": 60}, seed=3)
    n, ones = np.zeros(3), np.zeros(3)
    for last in (False, True):
        decisions = experiment.ask(60).decisions
        arms = np.array(["ABC".index(d.arm) for d in decisions])
        rewards = (np.arange(60) % 7 < 1 + arms).astype(float)
        experiment.tell(list(zip([d.id for d in decisions], rewards, strict=True)))
        n, ones = n + np.bincount(arms, minlength=3), ones + np.bincount(arms, rewards, 3)
        if not last:
            experiment.refresh()
    report = experiment.report()
    keys = ("posterior_mean", "posterior_low", "posterior_high", "p_best", "expected_loss")
    shown = np.array([[arm[key] for arm in report["arms"]] for key in keys])
    assert np.abs(shown - np.array(beta_report(ones, n - ones))).max() < 1e-5
    assert report["posterior"] == "exact (quadrature)"
    assert "has learned from 60 rewards of active arms, this report from 120" in report["policy_in_use"]


def test_rewards_that_the_policy_has_not_seen_are_reported(tmp_path):
    experiment = made(tmp_path, arms=["A", "B"], model=FLAT, batching={"name": "fixed", "size": 100})
    decisions = experiment.ask(100).decisions
    experiment.tell([(d.id, float(d.arm == "B")) for d in decisions[:99]])
    report = experiment.report()
    assert report["winner"] == "B"
    assert report["recommendation"].startswith("Consider 'B' for all units: it is best with probability above 0.999")
    assert "has learned from 0 rewards" in report["policy_in_use"]
    assert report["evidence"]["against"]["A"] > 1e6


# Which rewards count


def test_rewards_count_when_their_window_has_passed(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, model=FLAT, window=60.0, default_reward=0.0, clock=clock, batching="external")
    first = experiment.ask(6).decisions
    experiment.tell([(d.id, 1.0) for d in first[:4]])
    clock.now += 30
    second = experiment.ask(6).decisions
    experiment.tell([(d.id, 1.0) for d in second])
    early = experiment.report()
    assert (early["rewards"], early["open"], early["pending"]) == (0, 10, 2)
    assert early["recommendation"] == "Keep on: there are no rewards that count; the windows of 10 are still open."
    clock.now += 30  # exactly the window of the first
    report = experiment.report()
    assert (report["rewards"], report["open"], report["pending"]) == (6, 6, 0)
    assert sum(arm["defaulted"] for arm in report["arms"]) == 2
    assert report["missing_feedback_rate"] == pytest.approx(2 / 12)
    labels = np.array([d.arm for d in first])
    for arm in report["arms"]:
        mine = labels == arm["arm"]
        assert arm["rewards"] == mine.sum()
        if mine.any():
            assert arm["naive"]["value"] == pytest.approx(mine[:4].sum() / mine.sum())
            assert arm["posterior_mean"] == pytest.approx((1 + mine[:4].sum()) / (2 + mine.sum()))
    clock.now += 30
    assert experiment.report()["rewards"] == 12
    assert experiment.verify() == []


def test_without_a_default_silence_is_no_reward(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, window=60.0, clock=clock, batching="external")
    experiment.tell([(d.id, 1.0) for d in experiment.ask(6).decisions[:4]])
    clock.now += 60
    report = experiment.report()
    assert (report["rewards"], sum(arm["missing"] for arm in report["arms"]), report["pending"]) == (4, 2, 0)


def test_an_arm_without_data_neither_leads_nor_wins(tmp_path):
    """Its prior has the larger mean: before, it was the leader."""
    model = models.Gaussian(prior_mean=[0.0, 0.0, 50.0], prior_sd=10.0, sd=1.0)
    experiment = made(tmp_path, model=model, sampler="uniform", batching="external")
    decisions = [d for d in experiment.ask(400).decisions if d.arm != "C"]
    rng = np.random.default_rng(0)
    experiment.tell([(d.id, float(rng.normal(d.arm == "B"))) for d in decisions])
    report = experiment.report()
    arms = {arm["arm"]: arm for arm in report["arms"]}
    assert (arms["C"]["p_best"], arms["C"]["posterior_mean"], arms["C"]["note"]) == (None, None, "no data yet")
    assert arms["A"]["p_best"] + arms["B"]["p_best"] == pytest.approx(1)
    assert report["evidence"]["leader"] == "B"
    assert (report["winner"], report["recommendation"]) == (None, "Keep on: 'C' has no data yet.")
    experiment.retire_arm("C")
    assert experiment.report()["winner"] == "B"
    experiment.add_arm("D", prior_mean=50.0, prior_sd=10.0, sd=1.0)
    assert experiment.report()["winner"] is None


# The posterior


def test_normal_arms_have_closed_forms():
    model = stack(models.Gaussian(prior_mean=0.0, prior_sd=[1.0, 2.0], sd=1.5), 2)
    arms, rewards = np.array([0, 1, 0, 0, 1]), np.array([0.3, 0.9, -0.2, 0.4, 0.1])
    found = posterior(model, arms, rewards).shown
    n, total = np.bincount(arms), np.bincount(arms, rewards)
    precision = 1 / np.array([1.0, 2.0]) ** 2 + n / 1.5**2
    mean, sd = total / 1.5**2 / precision, precision**-0.5
    gap, spread = mean[1] - mean[0], np.hypot(*sd)
    z = gap / spread
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.959964 * sd)
    assert found.best[1] == pytest.approx(stats.norm.cdf(z), abs=1e-6)
    assert found.loss[0] == pytest.approx(spread * stats.norm.pdf(z) + gap * stats.norm.cdf(z), rel=1e-6)
    assert found.loss[1] == pytest.approx(spread * stats.norm.pdf(z) - gap * stats.norm.sf(z), rel=1e-6)


CLOSED = {
    "bernoulli": (models.Bernoulli(a=[0.5, 1.0, 3.0]), ONES),
    "infinite densities": (models.Bernoulli(a=0.5, b=0.5), np.where(ARMS == 2, 1.0, np.arange(60) % 4 > 0)),
    "gaussian": (models.Gaussian(), ONES),
    "gaussian-unknown-variance": (models.GaussianUnknownVariance(), ONES),
    "poisson": (models.Poisson(), ONES + 2 * (ARMS == 1)),
    "exponential": (models.Exponential(), ONES + 0.1),
}


@pytest.mark.parametrize("name", CLOSED)
def test_quadrature_agrees_with_draws(name):
    """P(best) and loss against those of the draws, within four standard errors. The mutant is another arm's."""
    model, rewards = CLOSED[name]
    found = posterior(stack(model, 3), ARMS[:40], rewards[:40])
    drawn = of_draws(found.draws, DRAWS, np.ones(3, bool), "")
    for key in ("mean", "low", "median", "high", "best", "loss"):
        z = (getattr(found.shown, key) - getattr(drawn.shown, key)) / getattr(drawn.error, key)
        assert np.abs(z).max() < 4.5, key
        assert np.abs((np.roll(getattr(found.shown, key), 1) - getattr(drawn.shown, key)) / getattr(drawn.error, key)).max() > 4.5
    assert found.error.best.max() < 1e-4
    again = posterior(stack(model, 3), ARMS[:40], rewards[:40])
    assert all((x == y).all() for x, y in zip((*found.shown, found.draws), (*again.shown, again.draws), strict=True))


def test_rewards_are_summarised_in_pieces(monkeypatch):
    """The same to the last bit as all at once, whatever is left over."""
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(0, 2, 1000), np.exp(rng.normal(size=1000))
    model = stack(models.ZeroInflatedLogNormal(), 2)
    whole = posteriors.posterior(model, arms, rewards)
    monkeypatch.setattr(posteriors, "ROWS", 256)
    pieces = posteriors.posterior(model, arms, rewards)
    np.testing.assert_array_equal(pieces.draws, whole.draws)
    assert len(pieces.draws) == posteriors.DRAWS
    assert len(np.unique(pieces.draws[:, 0])) > 0.99 * posteriors.DRAWS  # each has a key of its own
    # The mutant: a piece that is left out.
    assert not np.array_equal(posteriors.posterior(model, arms[:744], rewards[:744]).draws, whole.draws)


def test_another_number_of_rewards_compiles_nothing():
    model = stack(models.Bernoulli(), 3)
    posterior(model, ARMS[:10], ONES[:10])
    before = posteriors._added._cache_size()  # type: ignore[attr-defined]
    for n in (11, 40, 60):
        posterior(model, ARMS[:n], ONES[:n])
    assert posteriors._added._cache_size() == before  # type: ignore[attr-defined]


def test_draws_of_log_normal_arms_are_exact():
    """Against draws of the normal-inverse-gamma posterior by NumPy. The mutant lacks a reward."""
    arms, rewards = np.zeros(12, int), np.exp(np.linspace(-1, 2, 12))
    found = posterior(stack(models.LogNormal(), 1), arms, rewards)
    assert found.how == "100,000 exact draws"

    def law(logs, rng=np.random.default_rng(1), size=20_000):  # noqa: B008
        n, mean = len(logs), np.mean(logs)
        b = 10 + 0.5 * (np.sum((logs - mean) ** 2) + n / (1 + n) * mean**2)
        variance = b / rng.gamma(10 + 0.5 * n, size=size)
        return np.exp(n * mean / (1 + n) + np.sqrt(variance / (1 + n)) * rng.normal(size=size) + 0.5 * variance)

    p_value = lambda logs: float(np.asarray(stats.ks_2samp(found.draws[:20_000, 0], law(logs)))[1])  # noqa: E731
    assert p_value(np.log(rewards)) > LEVEL
    assert p_value(np.log(rewards[:-1])) < LEVEL


def test_chains_agree_with_a_grid():
    """Laplace rewards have no closed posterior. The mutant is the mean of the rewards."""
    rng = np.random.default_rng(4)
    arms, rewards = np.repeat([0, 1], 15), np.append(rng.laplace(0.3, 1, 15), rng.laplace(0.8, 1, 15))
    found = posterior(stack(models.Laplace(), 2), arms, rewards)
    assert found.failings == []
    assert found.how.startswith("a pool of 1,024 adjusted chains an arm")
    for k in (0, 1):
        rows = Row((), np.zeros(15, int), rewards[arms == k])  # type: ignore[arg-type]
        exact = grid(models.Laplace(), rows, found.draws[:16, [k]])
        mean, sd = exact.moments(exact.points[:, 0])
        assert abs(found.shown.mean[k] - mean) < 4 * found.error.mean[k]
        assert abs(rewards[arms == k].mean() - mean) > 4 * found.error.mean[k]
        low, high = (exact.cdf(exact.points[:, 0], np.array([x]))[0] for x in (found.shown.low[k], found.shown.high[k]))
        assert (low, high) == pytest.approx((0.025, 0.975), abs=0.02)
        assert found.error.mean[k] == pytest.approx(sd / np.sqrt(found.effective), rel=0.2)
    strict = posterior(stack(models.Laplace(), 2), arms, rewards, rhat_limit=1.000001)
    assert "R-hat" in strict.failings[0]


@pytest.mark.parametrize(("claimed", "right"), [(1, True), (4, False)])
def test_stated_errors_are_those_of_the_draws(claimed, right):
    """400 times 1,000 draws of two normal arms; the mutant claims four times as many draws."""
    rng = np.random.default_rng(3)
    runs = [of_draws(rng.normal([0.0, 1.0], 1.0, (1000, 2)), 1000 * claimed, np.ones(2, bool), "") for _ in range(400)]
    loss = np.sqrt(2) * stats.norm.pdf(0.5**0.5) + stats.norm.cdf(0.5**0.5)
    truth = {"mean": 0.0, "median": 0.0, "low": -1.959964, "high": 1.959964, "best": stats.norm.sf(0.5**0.5), "loss": loss}
    for key, value in truth.items():
        z = np.array([(getattr(run.shown, key)[0] - value) / getattr(run.error, key)[0] for run in runs])
        assert (0.75 < z.std() < 1.35) == right, key


def test_what_a_heavy_tail_does_not_have_is_none():
    infinite = posterior(stack(models.Gamma(shape=0.1, a=0.5), 2), np.array([0, 1]), np.array([1.0, 2.0]))  # shape 0.6 of the rate
    assert np.isnan(infinite.shown.mean).all()
    assert np.isnan(infinite.shown.loss).all()
    assert np.isfinite(infinite.shown.median).all()
    assert infinite.shown.best.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    draws = np.stack([rng.normal(size=DRAWS), rng.standard_t(30, DRAWS), rng.standard_t(1.5, DRAWS), -rng.pareto(1.5, DRAWS)], 1)
    assert (tail_index(draws) < posteriors.HEAVIEST).tolist() == [True, True, False, False]
    found = of_draws(draws, DRAWS, np.ones(4, bool), "")
    assert np.isnan(found.shown.mean).tolist() == [False, False, True, True]
    assert np.isnan(found.shown.loss).all()


# Lifts


def test_lifts_by_closed_forms():
    rng = np.random.default_rng(2)
    found = of_draws(rng.normal([10.0, 12.0, 9.0], [0.5, 1.0, 0.1], (DRAWS, 3)), DRAWS, np.ones(3, bool), "")
    lift = lifts(found, 0)[1]
    spread = 1.959964 * np.hypot(0.5, 1.0)
    absolute, relative = lift["absolute"], lift["relative"]
    assert (absolute["value"], absolute["low"], absolute["high"]) == pytest.approx((2, 2 - spread, 2 + spread), abs=0.04)
    assert 0 < absolute["error"] < 0.02
    # Fieller: μ₁ - (1 + r) μ₀ has no sign at the ends of the interval
    z = [(12 - (1 + x / 100) * 10) / np.hypot(1.0, 0.5 * (1 + x / 100)) for x in (relative["low"], relative["high"])]
    assert z == pytest.approx([1.959964, -1.959964], abs=0.05)
    near_zero = of_draws(rng.normal([0.5, 1.0], 1.0, (DRAWS, 2)), DRAWS, np.ones(2, bool), "")
    assert lifts(near_zero, 0)[1]["relative"] is None
    assert lifts(near_zero, 0)[1]["absolute"]["value"] == pytest.approx(0.5, abs=0.05)


def test_the_control_of_a_report_is_the_one_of_its_specification(tmp_path):
    experiment = made(tmp_path, model=FLAT, control="B", batching="external", sampler="uniform")
    experiment.tell([(d.id, float(i % 3 == 0)) for i, d in enumerate(experiment.ask(60).decisions)])
    report = experiment.report()
    assert report["control"] == "B"
    arms = {arm["arm"]: arm for arm in report["arms"]}
    assert arms["B"]["lift"] is None
    expected = arms["A"]["posterior_mean"] - arms["B"]["posterior_mean"]
    assert arms["A"]["lift"]["absolute"]["value"] == pytest.approx(expected)


# The recommendation


def arm(label: str, **changes):
    about = {"arm": label, "active": True, "units": 90, "rewards": 80, "varied": 60, "p_best": 0.03, "expected_loss": 0.2}
    about |= {"posterior_error": {"p_best": 0.001}, "posterior_low": 0.0, "posterior_high": 1.0, "lift": None}
    return about | changes


def situation(**changes):
    lift = {"absolute": {"value": 0.1, "low": 0.05, "high": 0.15}, "relative": {"value": 20.0, "low": 10.0, "high": 30.0}}
    report = {
        "sample_ratio": None,
        "feedback_share": None,
        "last_refresh_failed": None,
        "open": 0,
        "posterior_failings": [],
        "misfit": [],
        "burn_in": 0,
    }
    report |= {"control": "A", "arms": [arm("A"), arm("B", p_best=0.97, expected_loss=0.0123, lift=lift)]}
    report["evidence"] = {"leader": "B", "against": {"A": 34.2}, "needed": 20.0, "exact": True, "least": 10}
    return report | changes


def test_a_winner_and_its_numbers():
    assert recommend(situation()) == (
        "B",
        "Consider 'B' for all units: it is best with probability 0.97, with evidence E ≥ 34.2 against every other active arm "
        "(20 is needed), an expected loss of 0.012 a unit, and a lift over 'A' of +0.1 [0.05, 0.15] a unit (+20 % [10, 30]).",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sample_ratio": {"alarm": True}}, "Look into the assignment first"),
        ({"feedback_share": {"alarm": True, "words": "Shares differ."}}, "Look into the feedback first. Shares differ."),
        ({"last_refresh_failed": ["R-hat is 9"]}, "Look into the sampler first: the last refresh"),
        ({"posterior_failings": ["R-hat is 9"]}, "this report's posterior is not reliable (R-hat is 9)"),
        ({"misfit": ["Rewards vary more."]}, "Look into the model first: it does not fit the rewards. Rewards vary more."),
        ({"burn_in": 100}, "'A' has not had its 100 units yet"),
        ({"arms": [arm("A"), arm("B", p_best=0.951)]}, "leads, and is best with probability 0.951; a winner needs 0.95"),
        ({"arms": [arm("A", rewards=0, p_best=None), arm("B", p_best=1.0)]}, "'A' has no data yet"),
        ({"arms": [arm("A", varied=9), arm("B", p_best=1.0)]}, "'A' has 9 rewards, and 10 are needed of every arm"),
        ({"arms": [arm("A", active=False), arm("B", p_best=1.0)]}, "'B' is the only active arm"),
        ({"arms": [arm("A", rewards=0), arm("B", rewards=0)]}, "there are no rewards yet"),
    ],
)
def test_no_winner(changes, words):
    winner, sentence = recommend(situation(**changes))
    assert winner is None
    assert words in sentence


@pytest.mark.parametrize("E", [0.0, 3.0, 19.9])
def test_a_winner_needs_evidence_against_everybody(E):
    against = {"leader": "B", "against": {"A": 1e9, "C": E}, "needed": 20.0, "exact": True, "least": 10}
    arms = [arm("A"), arm("B", p_best=0.999), arm("C")]
    for order in itertools.permutations(arms):
        winner, sentence = recommend(situation(arms=list(order), evidence=against))
        assert winner is None
        assert f"its evidence against 'C' is E = {E:.2g}" in sentence
    enough = against | {"against": {"A": 1e9, "C": 20.0}}
    assert recommend(situation(arms=arms, evidence=enough))[0] == "B"
