"""True models are hardly ever called wrong, and wrong ones are found, with what it means for the arms' means."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import _random, registry
from blts.live.conclusions import misfit
from blts.live.conclusions.misfit import misfits
from blts.models import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    LogNormal,
    Poisson,
    StudentT,
    ZeroInflatedLogNormal,
    from_functions,
)
from blts.models.arms import stack

LABELS = ["A", "B"]


def simulated(model, arms: int, n: int, sets: int) -> np.ndarray:
    """Rewards of a true model, its parameters from the prior: [sets, arms, n]."""
    stacked = stack(model, arms)

    def one(key):
        key_theta, key_reward = _random.split(key)
        theta = jax.vmap(lambda single, k: single.init(k))(stacked, _random.split(key_theta, arms))
        keys = jax.vmap(lambda k: _random.split(k, n))(_random.split(key_reward, arms))
        return jax.vmap(lambda single, x, ks: jax.vmap(lambda k: single.sample(k, x, (), 0))(ks))(stacked, theta, keys)

    return np.asarray(jax.jit(jax.vmap(one))(_random.split(_random.as_key(1), sets)), float)


def alarms(model, sets: int) -> list[misfit.Misfit]:
    """What is found with 40 and with 400 rewards an arm that a true model paid, at most one thing for each set of rewards."""
    rewards = simulated(model, 3, 400, sets)
    found = [misfits(model, np.repeat(np.arange(3), n), x[:, :n].ravel(), list("ABC")) for n in (40, 400) for x in rewards]
    return [some[0] for some in found if some]


@pytest.mark.parametrize("sets", [30, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name, entry in registry.entries("model").items() if not entry.about.get("contextual")])
def test_a_true_model_is_hardly_ever_called_wrong(name, sets):
    found = alarms(registry.build("model", name), sets)
    assert len(found) <= sets // 50, found  # 1 % of the two sizes


def test_without_thresholds_true_models_are_called_wrong(monkeypatch):
    """The mutant: any difference of 2 standard errors counts, for each check and arm, whatever its size."""
    for name, value in {"ALARM": 0.5, "SHIFT": 0.0, "SHAPE": 0.0, "SCALE": 1.0}.items():
        monkeypatch.setattr(misfit, name, value)
    assert len(alarms(Gaussian(), 30)) > 2


def revenue(rng, n):
    return np.where(rng.random(n) < 0.1, rng.lognormal(0, 1, n), 0.0)


def with_outliers(rng, n):
    x = rng.normal(size=n)
    x[[50, 101, 150, 221]] = [20.0, 20.0, -20.0, -20.0]
    return x


CASES = {
    "a spread of 20 where 1 is stated": (Gaussian(), lambda r, n: r.normal(50, 20, n), "spread", True),
    "a prior far away": (Gaussian(sd=20.0), lambda r, n: r.normal(50, 20, n), "location", True),
    "0 or 1 with a stated sd": (Gaussian(), lambda r, n: (r.random(n) < 0.3) * 1.0, "spread", True),
    "0 or 1": (GaussianUnknownVariance(), lambda r, n: (r.random(n) < 0.3) * 1.0, "ties", False),
    "rare conversions": (GaussianUnknownVariance(), lambda r, n: (r.random(n) < 0.03) * 1.0, "ties", True),
    "revenue with a stated sd": (Gaussian(), revenue, "ties", True),
    "revenue": (GaussianUnknownVariance(), revenue, "ties", True),
    "counts that vary more": (Poisson(), lambda r, n: r.negative_binomial(2, 1 / 3, n) * 1.0, "spread", True),
    "counts with more zeros": (Poisson(), lambda r, n: r.poisson(4, n) * (r.random(n) < 0.6) * 1.0, "spread", True),
    "heavy tails": (GaussianUnknownVariance(), lambda r, n: r.standard_t(2, n), "shape", None),
    "outliers": (GaussianUnknownVariance(), with_outliers, "shape", True),
    "an outlier": (Gaussian(), lambda r, n: np.where(np.arange(n) == 7, 9.0, r.normal(size=n)), "tails", False),
    "an outlier of Laplace rewards": (Laplace(), lambda r, n: np.where(np.arange(n) == 7, 60.0, r.laplace(size=n)), "tails", True),
    "exponential": (GaussianUnknownVariance(), lambda r, n: r.exponential(size=n), "shape", False),
    "a wrong scale": (Laplace(), lambda r, n: r.laplace(0, 3, n), "spread", True),
    "tails that are not heavy": (StudentT(scale=1.0), lambda r, n: r.normal(0, 3, n), "spread", True),
    "a wrong shape": (Gamma(shape=1.0), lambda r, n: r.gamma(8.0, 0.25, n), "spread", True),
    "not log-normal": (LogNormal(), lambda r, n: r.exponential(size=n) ** 2 + 1e-3, "mean", True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_model_is_found(case):
    """200 rewards an arm."""
    model, draw, check, serious = CASES[case]
    arms = np.arange(400) % 2
    found = misfits(model, arms, draw(np.random.default_rng(3), 400), LABELS)
    print(*(m.sentence for m in found), sep="\n")
    mine = [m for m in found if m.check == check]
    assert mine, found
    assert serious is None or mine[0].serious == serious
    assert ("not at risk" in mine[0].sentence) == (check not in ("location", "spread") and not mine[0].serious)


# Rewards that are mostly 0

PAYMENTS = {
    "gamma": lambda r, n: r.gamma(0.5, 60.0, n),
    "exponential": lambda r, n: r.exponential(30.0, n),
    "uniform": lambda r, n: r.uniform(1.0, 59.0, n),
    "two prices": lambda r, n: np.where(r.random(n) < 0.9, 10.0, 100.0),
}


def paid_by(share, payments):
    return lambda r, n: np.where(r.random(n) < share, payments(r, n), 0.0)


def overdispersed(mean, factor):
    """Counts whose variance is `factor` times their mean."""
    shape = mean / (factor - 1)
    return lambda r, n: r.poisson(r.gamma(shape, mean / shape, n)).astype(float)


def found_in(model, draw, n, sets) -> list[list[misfit.Misfit]]:
    return [misfits(model, np.arange(n) % 2, draw(np.random.default_rng(seed), n), LABELS) for seed in range(sets)]


@pytest.mark.parametrize("sets", [10, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [400, 8000])
def test_rewards_that_are_mostly_zero_raise_no_alarm_where_the_model_is_right(n, sets):
    for share in (0.01, 0.1, 0.6):
        draw = paid_by(share, lambda r, n: r.lognormal(3.0, 1.0, n))
        assert not any(found_in(ZeroInflatedLogNormal(prior_mean=3.0), draw, n, sets))
    for mean in (0.002, 0.02, 0.3, 5.0):
        assert not any(found_in(Poisson(), lambda r, n, mean=mean: r.poisson(mean, n).astype(float), n, sets))


@pytest.mark.parametrize("kind", PAYMENTS)
def test_payments_of_another_shape_are_found(kind, monkeypatch):
    """10 % of 8,000 pay: the posterior's means are 1.1 to 4 times the truth, or below it, and others are right."""
    draw = paid_by(0.1, PAYMENTS[kind])
    found = found_in(ZeroInflatedLogNormal(), draw, 8000, 10)
    assert all(any(m.serious for m in some) for some in found)
    assert all("AIPW" in m.sentence and "payments" in m.sentence for some in found for m in some)
    monkeypatch.setattr(misfit, "_amounts", lambda model: None)  # the mutant: ranks of zeros and payments together
    if kind == "exponential":
        assert sum(bool(some) for some in found_in(ZeroInflatedLogNormal(), draw, 8000, 10)) <= 2


def test_the_sentence_on_payments_says_how_far_their_mean_is_off():
    draw = paid_by(0.1, PAYMENTS["gamma"])
    rewards = draw(np.random.default_rng(0), 8000)
    found = misfits(ZeroInflatedLogNormal(), np.arange(8000) % 2, rewards, LABELS)
    mine = next(m for m in found if m.arm == "A")
    of_a = rewards[::2]
    assert mine.check == "mean"
    assert mine.sentence.startswith(f"The payments of 'A' are {of_a[of_a > 0].mean():.4g} on average and the model says ")
    assert "% too much" in mine.sentence
    assert 'go by the AIPW means, or take the model "numbers"' in mine.sentence


@pytest.mark.parametrize(("mean", "factor", "n"), [(0.3, 2.25, 2000), (0.05, 2.25, 4000), (0.05, 9.0, 4000), (0.02, 4.0, 4000)])
def test_counts_that_vary_more_are_found_where_their_mean_is_small(mean, factor, n, monkeypatch):
    found = found_in(Poisson(), overdispersed(mean, factor), n, 10)
    assert all(some and all(m.serious and m.check == "spread" for m in some) for some in found)
    monkeypatch.setattr(misfit, "_counts", lambda model: False)  # the mutant: their ranks alone
    if mean <= 0.05:
        assert sum(any(m.serious for m in some) for some in found_in(Poisson(), overdispersed(mean, factor), n, 10)) <= 7


def test_pairs_of_events_have_the_moments_of_counts_with_a_given_total():
    rng = np.random.default_rng(0)
    for n, total in ((400, 40), (50, 250)):
        drawn = [misfit._pairs(x.astype(float)) for x in rng.multinomial(total, np.full(n, 1 / n), 20_000)]
        pairs, (_, expected, third) = np.array([x[0] for x in drawn]), drawn[0]
        assert pairs.mean() == pytest.approx(expected, rel=0.02)
        assert pairs.var() == pytest.approx(expected, rel=0.05)
        assert np.mean((pairs - expected) ** 3) == pytest.approx(third, rel=0.25)


def test_the_mode_is_that_of_all_rewards_not_of_the_part_that_is_ranked():
    """Of 20,000 rewards 512 are ranked, whose mean is 6 standard errors away from that of all."""
    x = np.random.default_rng(0).lognormal(0.0, 1.0, 20_000)
    values, counts = misfit._together(x)
    assert len(values) == len(counts) == misfit.ROWS
    assert counts.sum() == len(x)
    mean = misfit._predicted(LogNormal(), [x]).mean[0]
    assert mean == pytest.approx(np.exp(np.log(x).mean() + np.log(x).var() / 2), rel=2e-3)
    values, counts = misfit._together(np.floor(1000 * x))
    assert (values == values.round()).all()
    assert counts.sum() == len(x)


def test_the_sentence_says_what_was_expected_and_seen():
    rewards = np.random.default_rng(0).normal(50, 20, 400)
    found = misfits(Gaussian(), np.arange(400) % 2, rewards, LABELS)
    sd = rewards[::2].std(ddof=1)
    assert found[0].sentence.startswith(f"The rewards of 'A' spread {sd:.3g} around their mean and the model says about 0.99: ")
    assert "numbers" in found[0].sentence
    assert [m.arm for m in found] == LABELS


def test_a_small_error_of_scale_is_no_misfit_and_a_larger_one_is():
    arms, x = np.arange(8000) % 2, np.random.default_rng(0).normal(size=8000)
    assert misfits(Gaussian(), arms, 1.1 * x, LABELS) == []
    assert {m.check for m in misfits(Gaussian(), arms, 1.4 * x, LABELS)} == {"spread"}


def test_what_no_arm_shows_all_arms_together_do():
    labels, arms = [f"arm {i}" for i in range(12)], np.arange(12 * 15) % 12
    found = misfits(Gaussian(), arms, np.random.default_rng(0).normal(0, 2.0, 180), labels)
    assert [(m.arm, m.check) for m in found] == [(None, "spread")]
    assert misfits(Gaussian(), arms, np.random.default_rng(0).normal(0, 1.0, 180), labels) == []


def test_an_old_conflict_is_forgotten_once_the_rewards_outweigh_the_prior():
    """The likelihood of the rewards that are ranked counts for all: 512 of 20,000 would leave it far away."""
    arms, rewards = np.arange(40_000) % 2, np.random.default_rng(0).normal(50, 20, 40_000)
    model = Gaussian(prior_sd=3.0, sd=20.0)
    assert misfits(model, arms, rewards, LABELS) == []
    few = misfits(model, arms[:100], rewards[:100], LABELS)
    assert {m.check for m in few} == {"location"}


def test_few_rewards_and_arms_without_any_say_nothing():
    assert misfits(Gaussian(), np.zeros(0, int), np.zeros(0), LABELS) == []
    assert misfits(Gaussian(), np.arange(10) % 2, np.full(10, 1e6), LABELS) == []
    rewards = np.random.default_rng(0).normal(size=100)
    assert misfits(Gaussian(), np.zeros(100, int), rewards, LABELS) == []
    assert [m.arm for m in misfits(Gaussian(), np.ones(100, int), 9 * rewards, LABELS)] == ["B"]


def test_the_same_rewards_give_the_same_answer_and_their_number_compiles_nothing():
    rewards = np.random.default_rng(0).exponential(size=6000)
    first = misfits(Gaussian(), np.arange(100) % 2, rewards[:100], LABELS)
    size = misfit._predict._cache_size()  # type: ignore[attr-defined]
    assert misfits(Gaussian(), np.arange(100) % 2, rewards[:100], LABELS) == first
    misfits(Gaussian(), np.arange(6000) % 2, rewards, LABELS)
    assert misfit._predict._cache_size() == size  # type: ignore[attr-defined]


# Users' models


def log_prior(theta):
    return -0.5 * theta[0] ** 2


def log_likelihood(theta, reward):
    return -0.5 * jnp.square(reward - theta[0])


def test_a_model_of_two_functions_is_checked_where_it_can_draw_rewards():
    arms, x = np.arange(400) % 2, np.random.default_rng(0).normal(size=400)
    sample = lambda key, theta: theta[0] + _random.normal(key)  # noqa: E731
    model = from_functions(log_prior, log_likelihood, L=1.0, sample=sample)
    assert misfits(model, arms, x, LABELS) == []
    assert misfits(model, arms, 3 * x, LABELS)[0].check == "spread"
    blind = misfits(from_functions(log_prior, log_likelihood, L=1.0), arms, 3 * x, LABELS)
    assert [(m.check, m.serious) for m in blind] == [("unchecked", False)]
    assert "sample" in blind[0].sentence


def test_a_reward_that_cannot_be_is_found():
    def bounded(theta, reward):
        return jnp.where(jnp.abs(reward) < 3.0, 0.0, -jnp.inf) + 0.0 * theta[0]

    sample = lambda key, theta: 6.0 * _random.uniform(key) - 3.0  # noqa: E731
    model = from_functions(log_prior, bounded, L=1.0, sample=sample, mean_reward=lambda theta: 0.0 * theta[0])
    arms, x = np.arange(400) % 2, np.random.default_rng(0).uniform(-3, 3, 400)
    assert misfits(model, arms, x, LABELS) == []
    x[8] = 3.1
    assert [(m.arm, m.check) for m in misfits(model, arms, x, LABELS)] == [("A", "tails")]


class Widened(Gaussian):
    """A subclass with another likelihood: the `sample` of its parent is not its own any more."""

    def log_likelihood(self, theta, row):
        return -0.5 * jnp.square((row.reward - theta[0]) / 3.0)


class Widest(Widened):
    def mean_reward(self, theta, obs, action):
        return theta[0]

    def sample(self, key, theta, obs, action):
        return theta[0] + 3.0 * _random.normal(key)


def test_a_subclass_is_checked_where_it_can_draw_rewards():
    arms, x = np.arange(400) % 2, np.random.default_rng(0).normal(0, 3.0, 400)
    assert [m.check for m in misfits(Widened(), arms, x, LABELS)] == ["unchecked"]
    assert misfits(Widest(), arms, x, LABELS) == []
    assert misfits(Gaussian(), arms, x, LABELS)[0].check == "spread"


class Doubled(Bernoulli):
    """Its mean reward is not the mean of its rewards."""

    def mean_reward(self, theta, obs, action):
        return 2.0 * super().mean_reward(theta, obs, action)


class Halved(Doubled):
    """The same, and rewards to go with it."""

    def sample(self, key, theta, obs, action):
        return 2.0 * super().sample(key, theta, obs, action)


def test_a_mean_reward_that_is_not_the_mean_of_rewards_is_found():
    """Ranks fit, because rewards are as `sample` draws them, and what a report calls the mean reward is twice theirs."""
    arms, x = np.arange(400) % 2, (np.random.default_rng(0).random(400) < 0.3).astype(float)
    assert misfits(Bernoulli(), arms, x, LABELS) == []
    found = misfits(Doubled(), arms, x, LABELS)
    assert [(m.check, m.serious) for m in found] == [("mean", True)] * 2
    assert "let mean_reward be the mean of sample" in found[0].sentence
    assert "mean" not in {m.check for m in misfits(Halved(), arms, x, LABELS)}


def test_draws_that_are_not_those_of_the_densities_are_found():
    arms, x = np.arange(400) % 2, np.random.default_rng(0).normal(size=400)
    ends = lambda shift: (np.full(2, shift - 0.2), np.full(2, shift + 0.2))  # noqa: E731
    for shift, checks in {0.1: [], 5.0: ["posterior"] * 2, -5.0: ["posterior"] * 2}.items():
        assert [m.check for m in misfits(Gaussian(), arms, x, LABELS, ends(shift))] == checks


def test_rewards_that_are_all_equal_have_no_number_of_standard_errors():
    """Their standard error is 0, and a sentence had 290 digits."""
    found = misfits(LogNormal(), np.arange(60) % 2, np.full(60, 5.0), LABELS)
    assert all(m.serious for m in found)
    assert max(len(m.sentence) for m in found) < 300


def test_a_numpyro_model_is_checked():
    dist = pytest.importorskip("numpyro.distributions")
    from blts.models import from_numpyro

    model = from_numpyro(lambda mu, sd: dist.Normal(mu, sd), {"mu": dist.Normal(0, 5), "sd": dist.LogNormal(0, 1)})
    arms, rng = np.arange(400) % 2, np.random.default_rng(0)
    assert misfits(model, arms, rng.normal(3, 2, 400), LABELS) == []
    found = misfits(model, arms, rng.exponential(size=400), LABELS)
    assert [(m.check, m.serious) for m in found] == [("shape", False)] * 2
