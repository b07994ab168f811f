"""Priors of live experiments: as they are said, and in an experiment that learns them."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest
from scipy import stats

from blts.errors import ConfigError, UnknownName
from blts.live import Experiment, Spec, priors, verify
from blts.live.parts import check_spread, part_of
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
)
from blts.models.arms import numbers_of
from experiments import LABELS

# Names of models


def test_models_are_named_by_what_is_rewarded():
    for name, model in (
        ("conversions", "bernoulli"),
        ("counts", "poisson"),
        ("numbers", "gaussian-unknown-variance"),
        ("revenue", "zero-inflated-log-normal"),
    ):
        assert part_of("model", name).name == model
    with pytest.raises(UnknownName, match="Did you mean 'conversions'"):
        part_of("model", "conversion")


@pytest.mark.parametrize("name", ["gaussian", "laplace", "student-t", "gamma"])
def test_a_known_spread_must_be_stated(name):
    """In a new experiment; one that was stored without goes on."""
    with pytest.raises(ConfigError, match=rf"{name} needs the \w+ of the rewards: give \w+=…, or take \w+, which learns it\."):
        Spec.of(LABELS, name)
    number = {"gaussian": "sd", "gamma": "shape"}.get(name, "scale")
    spec = Spec.of(LABELS, {"name": name, number: 2.0})
    check_spread(spec.model)
    stored = json.loads(spec.to_json()) | {"model": {"name": name, "options": {}}}
    for field in ("prior", "floors_first"):  # as earlier code wrote it
        del stored[field]
    earlier = Spec.from_json(json.dumps(stored))
    assert (earlier.prior, earlier.floors_first) == (None, False)
    assert earlier.build((0, 1, 2), earlier.arms).agent.actions == 3


def test_objects_say_their_spread():
    assert Spec.of(LABELS, Gaussian(sd=1.0)).prior is None


def test_an_experiment_of_earlier_code_is_created_again(tmp_path):
    """The same call as then is the same experiment, with the prior and the floors that it had; another prior is another one."""
    spec = Spec.of(LABELS, {"name": "gaussian", "sd": 2.0}, "exact", "external")
    newer = ("prior", "floors_first", "strict", "learn", "exposure", "refresh_rewards", "refresh_seconds")
    stored = {name: value for name, value in json.loads(spec.seeded().to_json()).items() if name not in newer}
    assert not spec.differs_from(json.dumps(stored))
    earlier = Spec.from_json(json.dumps(stored))
    assert (earlier.prior, earlier.floors_first, earlier.strict, earlier.learn) == (None, False, True, "open")
    for change in ({"floor": 0.1}, {"seed": 1}):
        assert Spec.of(LABELS, {"name": "gaussian", "sd": 2.0}, "exact", "external", **change).differs_from(json.dumps(stored))
    other = Spec.of(LABELS, {"name": "gaussian", "sd": 2.0}, "exact", "external", prior="8 to 12")
    assert other.differs_from(spec.seeded().to_json())
    assert not spec.differs_from(spec.seeded().to_json())
    first = Experiment.create(tmp_path / "x.db", "x", spec=spec)
    again = Experiment.create(tmp_path / "x.db", "x", LABELS, {"name": "gaussian", "sd": 2.0}, "exact", "external")
    assert again.id == first.id


# As they are said


def of_mean_reward(model):
    """The distribution of an arm's mean reward under the prior that a model documents, by SciPy."""
    match model:
        case Bernoulli():
            return stats.beta(model.a, model.b)
        case Poisson():
            return stats.gamma(model.a, scale=1 / model.b)
        case Gamma():
            return stats.invgamma(model.a, scale=model.shape * model.b)
        case GaussianUnknownVariance():
            return stats.t(2 * model.a, model.prior_mean, np.sqrt(model.b / (model.a * model.weight)))
        case _:
            return stats.norm(model.prior_mean, model.prior_sd)


@pytest.mark.parametrize(("low", "high"), [(0.08, 0.12), (1e-4, 2e-4), (0.5, 0.99), (0.001, 0.9), (0.025, 0.975)])
def test_an_interval_of_rates_is_that_of_the_beta_prior(low, high):
    numbers = priors.of_interval(Bernoulli(), low, high)
    assert stats.beta.ppf([0.025, 0.975], numbers["a"], numbers["b"]) == pytest.approx([low, high], rel=1e-6)


@pytest.mark.parametrize("model", [Poisson(), Gaussian(), GaussianUnknownVariance()], ids=lambda model: type(model).__name__)
def test_intervals_of_other_means(model):
    numbers = priors.of_interval(model, 2.0, 9.0)
    assert of_mean_reward(priors.with_numbers(model, numbers)).ppf([0.025, 0.975]) == pytest.approx([2, 9], rel=1e-6)


SAID = {
    "rates": (Bernoulli(), "10% ± 2%", 0.1, 0.02),
    "counts": (Poisson(), "40 ± 15", 40, 15),
    "known spread": (Gaussian(sd=20.0), "40 ± 15", 40, 15),
    "known scale": (Laplace(scale=20.0), {"mean": 40, "sd": 15}, 40, 15),
    "tails": (StudentT(scale=20.0), "40 +/- 15", 40, 15),
    "numbers": (GaussianUnknownVariance(), "40 ± 15", 40, 15),
    "numbers with a spread": (GaussianUnknownVariance(), "40 ± 15, spread 20", 40, 15),
    "amounts of known shape": (Gamma(shape=2.0), "40 ± 15", 40, 15),
}


@pytest.mark.parametrize("name", SAID)
def test_arms_are_around_what_was_said(name):
    model, said, mean, sd = SAID[name]
    law = of_mean_reward(priors.with_numbers(model, priors.of(model, said).numbers))
    assert (law.mean(), law.std()) == (pytest.approx(mean, rel=1e-6), pytest.approx(sd, rel=1e-6))


def amounts(model, rng, n: int) -> np.ndarray:
    """Means of log-normal amounts, drawn from the prior."""
    variance = float(model.b) / rng.standard_gamma(float(model.a), n)
    return np.exp(float(model.prior_mean) + np.sqrt(variance / float(model.weight)) * rng.standard_normal(n) + 0.5 * variance)


@pytest.mark.parametrize("said", ["40 ± 15, 2% to 4% pay", {"mean": 40, "sd": 15, "rate": 0.03}, "40 ± 15"])
def test_revenue_is_around_what_was_said(said):
    """Its mean reward has no moments, so quantiles: within 12 % of those of a log-normal distribution of mean 40 and sd 15."""
    s, rng, n = np.sqrt(np.log1p((15 / 40) ** 2)), np.random.default_rng(0), 200_000
    expected = stats.lognorm.ppf([0.025, 0.5, 0.975], s, scale=40 * np.exp(-0.5 * s**2))
    model = LogNormal() if said == "40 ± 15" else ZeroInflatedLogNormal()
    model = priors.with_numbers(model, priors.of(model, said).numbers)
    rate = 1.0 if isinstance(model, LogNormal) else rng.beta(float(model.paid), float(model.unpaid), n)
    assert np.quantile(rate * amounts(model, rng, n), [0.025, 0.5, 0.975]) == pytest.approx(expected, rel=0.12)


REFUSED = {
    "not a rate": (Bernoulli(), "8 to 12", "between 0% and 100%"),
    "backwards": (Bernoulli(), "12% to 8%", "smaller to the larger"),
    "too wide": (Bernoulli(), "10% ± 50%", "cannot have an sd"),
    "words": (Bernoulli(), "about ten percent", "cannot be read"),
    "a number": (Gaussian(), 40, "is no prior"),
    "an unknown key": (Gaussian(), {"mean": 40, "deviation": 15}, "cannot be read"),
    "no sd": (Gaussian(), {"mean": 40}, "needs a mean and an sd"),
    "an interval with an sd": (Gaussian(), {"mean": [30, 50], "sd": 15}, "no use for an sd"),
    "an sd of nothing": (Gaussian(), "40 ± 0", "must be > 0"),
    "a spread that is known": (Gaussian(), "40 ± 15, spread 20", "no use for spread"),
    "negative counts": (Poisson(), "-4 ± 1", "above 0"),
    "revenue without a rate": (ZeroInflatedLogNormal(), "40 ± 15", "share of units that pay"),
    "revenue by a wide rate": (ZeroInflatedLogNormal(), "40 ± 5, 2% to 8% pay", "larger sd or a narrower rate"),
    "a prior for each arm": (Gaussian(prior_mean=[0.0, 1.0]), "learned", "for each arm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_prior_is(name):
    model, said, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words):
        priors.of(model, said)


def test_a_specification_holds_what_was_said_and_the_numbers():
    spec = Spec.of(LABELS, "conversions", "exact", prior="8% to 12%")
    assert spec.prior is not None
    assert spec.prior.said == "8% to 12%"
    assert spec.prior.numbers == priors.of_interval(Bernoulli(), 0.08, 0.12)
    again = Spec.from_json(spec.to_json())
    assert again.prior == spec.prior
    built = again.build((0, 1, 2), again.arms)
    assert np.asarray(built.agent.model.a) == pytest.approx([spec.prior.numbers["a"]] * 3)
    with pytest.raises(ConfigError, match="ucb1 has no prior"):
        Spec.of(LABELS, "conversions", "ucb1", prior="8% to 12%")


@pytest.mark.parametrize(
    ("model", "learned"),
    [
        ("conversions", True),
        ({"name": "gaussian", "sd": 2.0}, True),
        ({"name": "gaussian", "sd": 2.0, "prior_sd": 3.0}, False),
        ({"name": "bernoulli", "a": 1.0, "b": 9.0}, False),
        (Bernoulli(), False),
    ],
)
def test_a_prior_is_learned_where_none_is_given(model, learned):
    assert (Spec.of(LABELS, model, "exact").prior == priors.Prior("learned", {})) == learned


def test_priors_in_words():
    model = Bernoulli()
    words = priors.in_words(priors.with_numbers(model, priors.of(model, "8% to 12%").numbers))
    assert words == "an arm's rate is 8% to 12% (95%), mean 9.91%, as after 855 rewards"
    for model, said in ((m, s) for m, s, *_ in SAID.values()):
        assert priors.in_words(priors.with_numbers(model, priors.of(model, said).numbers)).startswith("an arm's ")
    numbers = priors.of(ZeroInflatedLogNormal(), "40 ± 15, 2% to 4% pay").numbers
    assert "pays is 2% to 4%" in priors.in_words(priors.with_numbers(ZeroInflatedLogNormal(), numbers))
    assert priors.in_words(Gaussian(prior_mean=[0.0, 1.0])) == ""


# In an experiment


def played(url) -> Experiment:
    """Three batches."""
    settings = {"batching": {"name": "fixed", "size": 40}, "seed": 5}
    experiment = Experiment.create(url, "mail", LABELS, {"name": "gaussian", "sd": 2.0}, "exact", **settings)
    rng = np.random.default_rng(0)
    for _ in range(3):
        decisions = experiment.ask(40).decisions
        experiment.tell([(d.id, rng.normal(50 + (d.arm == "B"), 2)) for d in decisions])
        experiment.refresh()
    return experiment


def test_every_version_has_the_prior_of_its_rewards(tmp_path):
    experiment = played(tmp_path / "x.db")
    assert experiment.policy(1)["prior"] == {}
    with experiment.database.read() as c:
        entry = experiment.policy(3)
        rows = experiment.session.fold.until(c, entry["watermark"], entry["t"]).rows(False, None)
    assert experiment.policy(3)["prior"] == priors.fitted(Gaussian(sd=2.0), rows.arms, rows.rewards)
    assert experiment.policy(4)["prior"] != experiment.policy(3)["prior"]
    assert experiment.status()["prior"].startswith("learned from all arms: an arm's mean is 50.")
    experiment.add_arm("D")
    assert experiment.policy()["prior"] == experiment.policy(4)["prior"]
    assert 0.1 < experiment.status()["allocation"]["D"] < 0.5  # N(0, 1) would give it nothing, N(0, 100²) a third of the time
    decisions = experiment.ask(20).decisions
    again = Experiment.open(tmp_path / "x.db", "mail")
    assert again.status() == experiment.status()
    assert len(decisions) == 20
    assert again.verify() == []


@pytest.mark.parametrize("name", ["conversions", "counts", "numbers", "revenue"])
def test_all_arms_are_equal_before_the_first_rewards(name):
    spec = Spec.of(LABELS, name, "exact", "external")
    assert spec.prior == priors.Prior("learned", {})
    model = spec.build((0, 1, 2), spec.arms).model
    assert all((np.asarray(number.value) == np.asarray(number.value)[0]).all() for number in numbers_of(model))


def test_another_prior_than_that_of_the_rewards_is_found(tmp_path, monkeypatch):
    """The mutant of `verify`: somebody changed the prior of a version."""
    experiment = played(tmp_path / "x.db")
    experiment.close()
    with sqlite3.connect(tmp_path / "x.db") as c:
        for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            c.execute(f"DROP TRIGGER {name}")
        (about,) = c.execute("SELECT about FROM blts_policies WHERE version = 3").fetchone()
        changed = json.loads(about)
        changed["prior"]["prior_sd"] *= 1.5
        c.execute("UPDATE blts_policies SET about = ? WHERE version = 3", (json.dumps(changed),))
    c.close()
    assert "is not as it was written" in Experiment.open(tmp_path / "x.db", "mail").verify()[0]
    monkeypatch.setattr(verify, "check_chain", lambda *args: [])  # the replay alone
    assert "version 3 has another prior than its replay" in Experiment.open(tmp_path / "x.db", "mail").verify()
