"""What attackers found in models of a user's own, in metrics, and in experiments that are stopped: each once a wrong number."""

from __future__ import annotations

import json
import math
import sys
import time

import numpy as np
import pytest
from scipy import stats

from blts.errors import ConfigError
from blts.live import Experiment, Spec
from blts.live.conclusions import estimates
from blts.live.durations import in_words
from blts.live.figures import draw
from blts.live.metrics import guardrails
from blts.live.worker import Worker
from blts.models import Bernoulli, Gamma, LogNormal, Poisson, ZeroInflatedLogNormal
from experiments import Hand, written_module
from test_live_cli import folder, run  # noqa: F401

MODELS = """
import jax.numpy as jnp
from blts import Model, random
from blts.models import Bernoulli, Gaussian

class Later(Model):
    sd: float = 1.0
    dim = 1

    def init(self, key):
        return random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(self, theta, row):
        if LATER:
            raise ValueError("oops")
        return -0.5 * (row.reward - theta[0]) ** 2

    def mean_reward(self, theta, context, action):
        return theta[0]

    def information(self, theta):
        return jnp.ones(1)

    def prior_precision(self):
        return jnp.ones(1)

class Raises(Later):
    def log_likelihood(self, theta, row):
        raise ValueError("oops")

    mean_reward, information = Later.mean_reward, Later.information

class Bare(Model):
    dim = 1
    init, log_prior, log_likelihood = Later.init, Later.log_prior, Later.log_likelihood
    mean_reward, information, prior_precision = Later.mean_reward, Later.information, Later.prior_precision

class Plain(Gaussian):
    pass

class Wide(Gaussian):
    def sample(self, key, theta, context, action):
        return theta + random.normal(key)  # [1], not a number

class Shifted(Gaussian):
    def draw(self, key, summary):
        return super().draw(key, summary) + 5.0

LATER = []
thing = Bernoulli(a=1.0, b=1.0)
each = Gaussian(sd=[1.0, 2.0])
three = Gaussian(prior_mean=[0.0, 5.0, 100.0], prior_sd=1.0, sd=2.0)
two = Bernoulli(a=[1.0, 2.0], b=[1.0, 1.0])
"""


@pytest.fixture
def mine(folder):  # noqa: F811
    yield from written_module(folder, MODELS)


# Stopped experiments


@pytest.mark.parametrize("promoted", ["A", None])
def test_the_arms_of_a_stopped_experiment_stay(tmp_path, promoted):
    experiment = Experiment.create(tmp_path / "x.db", "x", ["A", "B"], "conversions", batching="external")
    experiment.ask(20)
    experiment.stop(promoted)
    for change in (lambda: experiment.add_arm("C"), lambda: experiment.retire_arm("A")):
        with pytest.raises(ConfigError, match="is stopped; create another one"):
            change()
    assert {d.arm for d in experiment.ask(6).decisions} == ({promoted} if promoted else set())


def test_a_failed_refresh_is_not_forgotten_when_arms_change(tmp_path):
    rng = np.random.default_rng(0)
    experiment = Experiment.create(tmp_path / "x.db", "x", ["A", "B", "C"], "numbers", seed=5, batching="external")
    experiment.tell([(d.id, 3e4 + rng.normal() + 2 * (d.arm == "A")) for d in experiment.ask(600).decisions])
    assert not experiment.refresh().in_use
    experiment.retire_arm("C")
    assert experiment.status()["last_refresh_failed"]
    assert experiment.report()["recommendation"].startswith("Look into the sampler first")
    experiment.stop("A")
    assert [arm["allocation"] for arm in experiment.report()["arms"]] == [1.0, 0.0, 0.0]


# Models in modules


def test_a_model_that_fails_is_refused_or_left_alone(mine, folder):  # noqa: F811
    with pytest.raises(ConfigError, match=r"log_likelihood of Raises cannot be evaluated \(ValueError: oops\)"):
        Experiment.create("w.db", "a", ["A", "B"], f"{mine}:Raises")
    with pytest.raises(ConfigError, match="Bare has no number of its own"):
        Experiment.create("w.db", "a", ["A", "B"], f"{mine}:Bare")
    for name, model in (("a", f"{mine}:Later"), ("b", "conversions")):
        experiment = Experiment.create("w.db", name, ["A", "B"], model, batching="external")
        experiment.tell([(d.id, 1.0) for d in experiment.ask(60).decisions])
    sys.modules[mine].LATER.append(True)  # type: ignore[attr-defined]
    done = {one.experiment: one for one in Worker("w.db", clock=lambda: time.time() + 100).once()}
    assert "ValueError: oops" in (done["a"].problem or "")
    assert done["b"].refreshed is not None


def test_a_sample_that_is_no_number_is_refused(mine):
    """It was a traceback of every refresh."""
    with pytest.raises(ConfigError, match="sample of Wide must return one number"):
        Experiment.create("sqlite://", "a", ["A", "B"], {"name": f"{mine}:Wide", "sd": 1.0})


def test_draws_of_another_posterior_than_the_densities_recommend_nothing(mine):
    rng = np.random.default_rng(0)
    experiment = Experiment.create("sqlite://", "a", ["A", "B"], {"name": f"{mine}:Shifted", "sd": 1.0}, batching="external")
    experiment.tell([(d.id, float(rng.normal() + 2 * (d.arm == "A"))) for d in experiment.ask(200).decisions])
    experiment.refresh()
    report = experiment.report()
    assert "within [" in report["misfit"][0]
    assert report["winner"] is None
    assert report["recommendation"].startswith("Look into the model first")


def test_a_model_that_was_changed_is_noticed(mine, folder):  # noqa: F811
    Experiment.create("w.db", "a", ["A", "B"], f"{mine}:thing").close()
    Experiment.open("w.db", "a").close()
    (folder / f"{mine}.py").write_text(MODELS.replace("a=1.0, b=1.0", "a=500.0, b=500.0"))
    sys.modules.pop(mine)
    with pytest.raises(ConfigError, match="put it back"):
        Experiment.open("w.db", "a")
    with pytest.raises(ConfigError, match=r"another specification \(model\)"):
        Experiment.create("w.db", "a", ["A", "B"], f"{mine}:thing")


def test_a_model_by_path_is_checked_like_an_object(mine):
    with pytest.raises(ConfigError, match="describes 3 arms and the experiment has 2"):
        Experiment.create("sqlite://", "p", ["A", "B"], f"{mine}:three")
    with pytest.raises(ConfigError, match="numbers for each arm"):
        Spec.of(["A", "B"], "conversions", metrics=[{"name": "m", "model": f"{mine}:two"}])
    with pytest.raises(ConfigError, match="needs the sd"):
        Experiment.create("sqlite://", "p", ["A", "B"], "blts.models:Gaussian")
    with pytest.raises(ConfigError, match="needs the sd"):
        Experiment.create("sqlite://", "p", ["A", "B"], f"{mine}:Plain")
    assert Spec.of(["A", "B"], {"name": f"{mine}:Plain", "sd": 2.0}).model.options == {"sd": 2.0}
    assert Spec.of(["A", "B"], f"{mine}:each").model.options == {}


# Metrics and intervals


@pytest.mark.parametrize("level", [0.0, 1000.0])
def test_guardrails_see_as_well_far_from_zero(level):
    """400 units, a loss of 2 with an sd of 5; before, no alarm at a level of 1000."""
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        arms = rng.integers(0, 2, 400)
        values = level + 2.0 * (arms == 1) + rng.normal(0, 5, 400)
        sums = guardrails.terms(arms, values, np.full((400, 2), 0.5), (1, 0), guardrails.Question(-1.0)).sums().at(-1)
        found.append((float(sums.loss), float(sums.se), float(sums.log_evidence()) >= math.log(20)))
    loss, se, alarm = np.array(found).T
    assert loss.mean() == pytest.approx(2.0, abs=4 * 0.5 / 10)
    assert np.median(se) == pytest.approx(0.5, rel=0.1)
    assert alarm.mean() > 0.6


def test_intervals_say_what_is_known():
    none = np.zeros(188)
    low, high = estimates.naive(np.zeros(188, int), none, 1, binary=True).interval()
    z2 = stats.norm.ppf(0.975) ** 2
    assert (low[0], high[0]) == pytest.approx((0.0, z2 / (188 + z2)), abs=1e-12)  # Wilson
    for equal in ([0.1] * 3, [1.0], [0.0, 0.0]):
        assert np.isnan(estimates.naive(np.zeros(len(equal), int), np.array(equal), 1).interval()).all()
    few = estimates.naive(np.zeros(4, int), np.array([0.0, 1.0, 0.0, 1.0]), 1).interval()  # counts that happen to be 0 and 1
    assert np.ravel(few) == pytest.approx(stats.t.interval(0.95, 3, 0.5, np.sqrt(1 / 12)))
    large = 1.7e9 + np.random.default_rng(0).normal(0, 100, 1000)
    found = np.ravel(estimates.naive(np.zeros(1000, int), large, 1).interval())
    assert np.diff(found) == pytest.approx(np.diff(stats.t.interval(0.95, 999, large.mean(), stats.sem(large))), rel=1e-6)


@pytest.mark.parametrize("value", [0.1, 0.7])
def test_equal_values_say_nothing_of_being_worse(value):
    same = np.full(200, value)
    assert math.isnan(guardrails.probability_worse("real", (1.0, 1.0), same, same, guardrails.Question(-1.0)))


def test_a_metric_without_events_has_an_interval_and_no_certain_difference(tmp_path):
    metric = {"name": "refunds", "model": "conversions", "better": "lower"}
    experiment = Experiment.create(tmp_path / "x.db", "x", ["A", "B"], "conversions", metrics=[metric], batching="external")
    ids = [d.id for d in experiment.ask(40).decisions]
    experiment.tell([(i, 0.0) for i in ids], metric="refunds")
    for arm in experiment.report()["metrics"][0]["arms"]:
        assert arm["low"] == 0.0
        assert 0.0 < arm["high"] < 0.3
        assert arm["difference"] is None
    experiment.cancel([ids[0]])
    again = experiment.tell([(ids[0], 1.0)], metric="refunds")
    assert again.conflict == 1


def test_a_metric_of_a_cancelled_decision_is_a_conflict(tmp_path):
    metric = {"name": "refunds", "model": "conversions"}
    experiment = Experiment.create(tmp_path / "x.db", "x", ["A", "B"], "conversions", metrics=[metric], batching="external")
    ids = [d.id for d in experiment.ask(2).decisions]
    experiment.cancel([ids[0]])
    told = experiment.tell([(i, 1.0) for i in ids], metric="refunds")
    assert (told.accepted, told.conflict) == (1, 1)


def test_rows_of_a_refused_kind_refuse_all(folder):  # noqa: F811
    spec = {
        "arms": ["A", "B"],
        "model": "numbers",
        "objective": {"rev": 1.0},
        "metrics": [{"name": "rev", "model": "numbers", "window": 9}],
    }
    (folder / "s.json").write_text(json.dumps(spec | {"batching": "external"}))
    run("create", "x", "--spec", "s.json")
    (decision,) = json.loads(run("ask", "x", "--json"))["decisions"]
    before = run("audit", "x", "--json")
    with pytest.raises(ConfigError, match="combined of rev"):
        run("tell", "x", given=f"decision_id,metric,reward\n{decision['decision_id']},rev,5\n{decision['decision_id']},,1\n")
    assert run("audit", "x", "--json") == before


# Looking


def test_rewards_that_hardly_differ_are_drawn(tmp_path):
    experiment = Experiment.create(tmp_path / "x.db", "x", ["A", "B"], "numbers", batching="external", clock=Hand())
    experiment.tell([(d.id, 1e9 + 1e-7 * (i % 3)) for i, d in enumerate(experiment.ask(40).decisions)])
    assert "rewards.svg" in [path.name for path in draw(experiment, tmp_path / "figures")]


def test_long_durations_in_words():
    assert [in_words(x) for x in (5.0, 60.0, 86400.0, 1000 * 86400.0)] == ["5 s", "1 minute", "1 day", "1000 days"]


@pytest.mark.parametrize(
    "model", [Bernoulli(), Poisson(), Gamma(), LogNormal(), ZeroInflatedLogNormal()], ids=lambda m: type(m).__name__
)
def test_a_likelihood_is_not_taken_for_other_rewards(model):
    """A Bernoulli model that says its rewards are any numbers learned 0.5 as 0 and 1.5 as 1, and reported 0.32 for 0.8."""
    wider = type("Wider", (type(model),), {"support": "real"})
    with pytest.raises(ConfigError, match=r"Wider overrides support, on which \w+.log_likelihood rests"):
        Experiment.create("sqlite://", "x", ["A", "B"], wider())
