"""Private live experiments: the noise, the posterior that counts it, what is refused, and what is said of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from blts import Exact, Gaussian, Thompson, cli
from blts.errors import ConfigError, Conflict
from blts.live import Experiment, Spec, creating, releases
from blts.live.ledger import Rewards
from blts.live.page import write as write_page
from blts.live.private import Privacy
from blts.live.releases import Arms, Limits, Totals
from experiments import Hand
from privates import GAUSSIAN, PRIVATE, batch, hand_of, private

SAID = Privacy(2.0, 0.0, 1.0)
PLAYED = Arms((0, 1), ["A", "B"], Thompson(Gaussian(prior_mean=[0.3, 0.3], prior_sd=0.3, sd=0.5), Exact()))
NEW = Rewards(np.arange(1, 61), np.arange(60) % 2, np.ones(60))

LIMITS = Limits(9, 60, 5.0)


def noises(said: Privacy = SAID, count: int = 4000) -> np.ndarray:
    """Noise of releases of the same rewards, 30 of each arm, in units of the promised sd 0.5; one row for each release."""
    made = [releases.step("a secret", said, PLAYED, Totals(), NEW, LIMITS, version) for version in range(count)]
    return np.array([[one.release.sums[label] - 30 for label in "AB"] for one in made]) / SAID.noise_sd


def is_standard(z: np.ndarray) -> bool:
    """Whether numbers look standard normal, independent between arms and between releases; six tests at 10⁻⁴."""
    n, squares = z.size, float(np.sum(z**2))
    p = [stats.norm.sf(abs(z.mean()) * np.sqrt(n)), stats.chi2.cdf(squares, n), stats.chi2.sf(squares, n)]
    p.append(stats.kstest(z.ravel(), "norm").pvalue)
    for one, other in ((z[:, 0], z[:, 1]), (z[:-1, 0], z[1:, 0])):
        p.append(stats.norm.sf(abs(np.corrcoef(one, other)[0, 1]) * np.sqrt(len(one))))
    return bool(min(p) > 1e-4)


def test_noise_has_the_promised_sd():
    assert is_standard(noises())
    assert not is_standard(noises(SAID._replace(rho=SAID.rho / 1.1**2)))  # 10 % too much
    assert not is_standard(noises(SAID._replace(rho=SAID.rho * 1.1**2)))
    assert SAID._replace(rows=3).noise_sd == 3 * SAID.noise_sd == 1.5
    assert "the reward of 3 rows of one person" in str(SAID._replace(rows=3).guarantee)


def test_noise_of_experiments_has_the_promised_sd(monkeypatch):
    """The same of whole experiments, each with a secret of its own, in which arms are drawn and 10 rewards are 1."""
    found, peppers = [], iter(range(1000))
    monkeypatch.setattr(creating.secrets, "token_hex", lambda n: f"{next(peppers):0{2 * n}x}")
    spec = Spec.of(["A", "B"], GAUSSIAN, "exact", "external", seed=0, **PRIVATE)
    clock = Hand()
    first = Experiment.create("sqlite://", "0", spec=spec, clock=clock)
    with pytest.warns(UserWarning, match="has the seed 0"):
        others = [Experiment.create(first.database, f"{i}", spec=spec, clock=clock) for i in range(1, 60)]
    for one in (first, *others):
        ids = one.ask(20).decisions
        one.tell([(d.id, 1.0) for d in ids[:10]])
        clock.now += 20
        one.refresh()
        release = one.policy()["privacy"]["release"]
        found += [(release["sums"][label] - sum(d.arm == label for d in ids[:10])) / 0.5 for label in release["sums"]]
    z = np.array(found)
    assert len(z) > 100
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert 1e-3 < stats.chi2.cdf(np.sum(z**2), len(z)) < 1 - 1e-3


def test_noise_is_a_function_of_the_secret_and_of_what_is_released():
    def made(pepper="a secret", new=NEW, limits=LIMITS, version=3) -> dict:
        return releases.step(pepper, SAID, PLAYED, Totals(), new, limits, version).release.sums

    assert made() == made() == made(limits=Limits(12, 60, 5.0))  # how the ledger is numbered tells how rewards were told
    another = Rewards(NEW.t, NEW.arms, np.where(NEW.t == 1, 0.0, 1.0))
    for other in (made("other"), made(version=4), made(limits=Limits(9, 60, 6.0)), made(limits=Limits(9, 61, 5.0))):
        assert all(abs(other[label] - made()[label]) > 1e-3 for label in "AB")
    assert abs(made(new=another)["A"] + 1 - made()["A"]) > 1e-3
    assert abs(made(new=another)["B"] - made()["B"]) > 1e-3
    assert all((value * 2.0**21).is_integer() for value in made().values())  # a multiple of 2⁻²⁰ sd


def test_a_lost_secret_is_no_reason_for_no_noise():
    experiment = private()
    experiment.ask(20)
    hand_of(experiment).now += 20
    experiment.session.pepper = ""
    with pytest.raises(Exception, match="restore the database from a backup"):
        experiment.refresh()


# The posterior


def probability_of_a(releases_so_far: list[dict], noise: float) -> float:
    """P(A is best), by hand: a noisy sum of n rewards is N(nθ, n sd² + noise²)."""
    moments = []
    for label in "AB":
        precision, weighted = 1 / 0.3**2, 0.3 / 0.3**2
        for one in releases_so_far:
            n = one["rows"].get(label, 0)
            variance = n * 0.5**2 + noise**2 or 1.0
            precision, weighted = precision + n**2 / variance, weighted + n * one["sums"].get(label, 0.0) / variance
        moments.append((weighted / precision, 1 / precision))
    (a, of_a), (b, of_b) = moments
    return float(stats.norm.cdf((a - b) / np.sqrt(of_a + of_b)))


def test_the_posterior_counts_the_noise():
    experiment = private(privacy={"rho": 0.02, "low": 0, "high": 1}, floor=0.2)  # noise of sd 5
    for _ in range(3):
        batch(experiment)
    made = [experiment.policy(v)["privacy"]["release"] for v in (2, 3, 4)]
    own = (experiment.status()["allocation"]["A"] - 0.2) / 0.6
    assert own == pytest.approx(probability_of_a(made, 5.0), abs=1e-5)
    assert abs(own - probability_of_a(made, 0.0)) > 0.01  # the mutants: noise that is not counted, or 10 % of it
    assert abs(own - probability_of_a(made, 5.5)) > 1e-4


def test_without_noise_to_speak_of_it_is_an_ordinary_experiment():
    rewards = lambda t: 0.1 * (t % 7)  # noqa: E731
    almost = private(privacy={"rho": 1e12, "low": 0, "high": 1})
    plain = private(privacy=None)
    for experiment in (almost, plain):
        for _ in range(3):
            batch(experiment, rewards)
    own, other = almost.status()["allocation"], plain.status()["allocation"]
    assert own == pytest.approx(other, abs=1e-4)
    assert plain.status()["privacy"] is None


# What is refused


REFUSED = {
    "no table": ({"privacy": 1.0}, "privacy must be a table with rho, low, high, rows"),
    "a typo": ({"privacy": {"roh": 1.0, "low": 0, "high": 1}}, "Did you mean 'rho'"),
    "no range": ({"privacy": {"rho": 1.0}}, "privacy needs the number low"),
    "no rho": ({"privacy": {"rho": True, "low": 0, "high": 1}}, "privacy needs the number rho"),
    "rho 0": ({"privacy": {"rho": 0, "low": 0, "high": 1}}, "rho of privacy must be"),
    "upside down": ({"privacy": {"rho": 1, "low": 1, "high": 0}}, "must be above low"),
    "nobody": ({"privacy": {"rho": 1, "low": 0, "high": 1, "rows": 0}}, "rows of privacy must be a whole number"),
    "far away": ({"privacy": {"rho": 1, "low": 10_000, "high": 10_001}}, "subtract a constant"),
    "conversions": ({"model": "conversions"}, 'take {"name": "gaussian", "sd": 0.5}'),
    "numbers": ({"model": "numbers", "prior": "0.3 ± 0.2"}, "privacy needs the model gaussian"),
    "chains": ({"sampler": "mala"}, "take the sampler exact"),
    "UCB": ({"sampler": "ucb1"}, "take the sampler exact"),
    "a private agent": (
        {"sampler": {"name": "private-ts", "rho": 1.0, "low": 0.0, "high": 1.0}},
        "Private agents are for simulations",
    ),
    "a learned prior": ({"model": {"name": "gaussian", "sd": 0.5}}, "A learned prior reads rewards without noise"),
    "no window": ({"window": None, "default_reward": None}, "privacy needs a window and a default reward"),
    "silence is missing": ({"default_reward": None}, "privacy needs a window and a default reward"),
    "silence out of range": ({"default_reward": -1.0}, "is not between the low=0 and high=1"),
    "early rewards": ({"learn": "open"}, 'learn="open" tells whose rewards came'),
    "a cadence of rewards": ({"refresh_rewards": 10}, "refresh_rewards tells how many rewards have come"),
    "forgetting": ({"forget": 100.0}, "forget would release rewards again"),
    "delays": ({"delay": "learned"}, "delay weighs silence by rewards without noise"),
    "promotions": ({"stop": {"p_best": 0.95, "action": "promote"}}, "A stopping rule that promotes reads rewards without noise"),
    "guardrails that act": ({"metrics": [{"name": "speed", "model": "numbers", "pause": True}]}, "would retire arms by values"),
    "contexts": ({"features": {"age": [18, 90]}, "model": "linear"}, "privacy is for experiments without contexts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_be_private_is_refused_in_a_sentence(name):
    options, expected = REFUSED[name]
    with pytest.raises(ConfigError) as refused:
        private(**options)
    sentence = str(refused.value)
    assert expected in sentence
    assert "\n" not in sentence
    assert len(sentence) < 260


def test_objectives_are_refused():
    metrics = [
        {"name": name, "model": "conversions", "window": 5.0, "default": 0.0, "role": "secondary"} for name in ("buy", "stay")
    ]
    with pytest.raises(ConfigError, match="privacy needs rewards of a known range"):
        private(metrics=metrics, objective={"buy": 1.0, "stay": 0.5}, window=None, default_reward=None)


def test_totals_are_refused():
    experiment = private()
    experiment.ask(20)
    with pytest.raises(ConfigError, match="tell rewards one by one"):
        experiment.tell_aggregate("A", 2, total=1.0, total_of_squares=1.0, request_id="x")


def test_a_promise_cannot_be_changed(tmp_path):
    """Nor can an experiment that was created before there was privacy be had as a private one."""
    private(tmp_path / "x.db")
    assert private(tmp_path / "x.db").status()["privacy"]["rho"] == 2.0
    with pytest.raises(Conflict, match=r"another specification \(privacy\)"):
        private(tmp_path / "x.db", privacy={"rho": 4.0, "low": 0, "high": 1})
    stored = json.loads(private("sqlite://", privacy=None).spec.to_json())
    del stored["privacy"]
    assert private().spec.differs_from(json.dumps(stored)) == ["privacy"]


def test_metrics_and_rules_that_only_report_are_fine():
    experiment = private(stop={"p_best": 0.95}, metrics=[{"name": "speed", "model": "numbers"}])
    assert experiment.status()["metrics"] == ["speed"]
    assert Spec.from_json(experiment.spec.to_json()) == experiment.spec


# What is said


def test_a_report_says_whose_view_it_is(tmp_path):
    """Rewards of 0 and 1 are no misfit of the largest sd that they can have; where the sd is smaller they are."""
    reports = {}
    for sd in (0.5, 0.2):
        experiment = private(model=GAUSSIAN | {"sd": sd}, seed=1)
        for _ in range(8):
            batch(experiment)
        assert not experiment.policy()["misfit"]
        reports[sd] = experiment.report()
        assert "without noise, for those who may see them" in reports[sd]["privacy"]["words"]
    assert not reports[0.5]["misfit"]
    assert "need not be normal" in " ".join(reports[0.5]["notes"])
    assert reports[0.2]["misfit"]
    write_page(experiment, experiment.report(), tmp_path / "x.html")
    assert "So far 8 releases were made, of 160 rewards in all" in (tmp_path / "x.html").read_text()


def test_the_command_line_creates_private_experiments(tmp_path):
    run = lambda *words: CliRunner().invoke(cli.app, ["experiment", *words, "--db", str(tmp_path / "x.db")])  # noqa: E731
    options = ["--arm", "A", "--arm", "B", "--model", "gaussian", "--set", "sd=0.5", "--prior", "0.3 ± 0.2"]
    options += ["--window", "1d", "--default-reward", "0", "--privacy"]
    assert run("create", "mail", *options, "rho=1,low=0,high=1").exit_code == 0
    shown = " ".join(run("status", "mail").output.split())
    assert "ρ = 1 (zCDP), which is ε = 7.77" in shown
    assert "Nothing is released yet." in shown
    assert json.loads(run("status", "mail", "--json").output)["privacy"]["noise_sd"] == pytest.approx(0.5**0.5)
    assert "ρ = 1 (zCDP)" in " ".join(run("report", "mail").output.split())
    for wrong in ("rho=x", "rho", "=1"):
        found = run("create", "other", *options, wrong)
        assert found.exit_code != 0
        assert "such as rho=1,low=0,high=1" in str(found.exception)
