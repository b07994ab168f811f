"""A rehearsal makes the decisions that experiments then make, and predicts what they give."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError, ConfigError
from blts.live import Experiment, rehearse
from blts.live.conclusions.comparing import Seen, may_name
from blts.live.conclusions.counted import counted
from blts.live.export import table_of
from blts.live.rehearsal import simulating
from blts.live.rehearsal.assumptions import AssumedArm, delay_of, seconds_of
from blts.live.rehearsal.measured import Measured, Share
from blts.live.rehearsal.planning import Plan
from blts.live.rehearsal.simulating import run
from laws import LEVEL
from rehearsals import DAY, HOUR, REPLICATIONS, SETTINGS, TRUTH, Driven, far_apart, planned, smallest_p, spec_of

SPECS = {
    "windows": {"window": 6 * HOUR, "default_reward": 0.0},
    "early rewards": {"window": 6 * HOUR, "default_reward": 0.0, "learn": "open"},
    "missing": {"window": 2 * HOUR},
    "no windows": {},
    "floors": {"floor": 0.1, "control": "B", "control_share": 0.2, "burn_in": 20},
    "strict": {"strict": True},
    "external": {"batching": "external"},
    "by time": {"refresh_seconds": 4 * HOUR, "window": 3 * HOUR, "default_reward": 0.0},
    "by rewards": {"refresh_rewards": 25},
    "exposures": {"exposure": "explicit", "window": 4 * HOUR, "default_reward": 0.0},
    "from the vector": {"draw": "vector"},
    "UCB": {"sampler": "ucb1"},
    "learned delays": {"window": 6 * HOUR, "default_reward": 0.0, "delay": "learned", "refresh_seconds": 4 * HOUR},
    "by chance": {"batching": {"name": "geometric", "rate": 0.05}},
    "several agents": {"batching": {"name": "exchanges", "agents": 4, "leave": 0.1}},
    "forgotten": {"forget": 10 * HOUR, "window": 3 * HOUR, "default_reward": 0.0, "refresh_seconds": 4 * HOUR},
    "chains": {"sampler": "blts", "batching": {"name": "fixed", "size": 40}},
}
HEAVY = ("chains", "from the vector", "external")  # these compile, or refresh at every step


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in SPECS])
def test_a_rehearsal_makes_the_decisions_of_the_experiment(name):
    """With a replication's seed and rewards, an experiment in a database makes the same decisions and as many refreshes."""
    plan = planned(spec_of(**SPECS[name]), exposed=0.7 if name == "exposures" else 1.0)
    block = run(plan, REPLICATIONS, far_apart)
    real = Driven(plan, 1)
    assert real.arms == block.arms[1, : block.t[1]].tolist()
    assert real.refreshes == block.refreshes[1] == real.versions - 1
    assert (-1 if real.winner is None else real.winner) == block.winner[1]
    assert block.refreshes.max() >= 2


@pytest.mark.parametrize("changed", [{"window": HOUR}, {"learn": "open"}, {"floor": 0.0}, {"burn_in": 0}, {"default_reward": None}])
def test_decisions_of_another_specification_differ(changed):
    """The mutants of the test above: a rehearsal that ignored a setting would make other decisions."""
    spec = spec_of(window=6 * HOUR, default_reward=0.0, floor=0.1, burn_in=20)
    one, other = (run(planned(s), REPLICATIONS, far_apart) for s in (spec, dataclasses.replace(spec, **changed)))
    assert one.arms.tolist() != other.arms.tolist()


# What is predicted


def numbers(arms, refreshes, winners) -> np.ndarray:
    """One column each: loss, share of the best arm, refreshes, whether a winner is named; a row for each replication."""
    best = np.array([np.mean(np.array(some) == 1) for some in arms])
    loss = np.array([0.8 * np.sum(np.array(some) == 0) for some in arms])
    return np.stack([loss, best, np.array(refreshes, float), np.array(winners, float)], axis=1)


def rehearsed(plan: Plan, replications) -> np.ndarray:
    block = run(plan, replications, far_apart)
    return numbers([arms[:t] for arms, t in zip(block.arms, block.t, strict=True)], block.refreshes, block.winner >= 0)


PREDICTED = {"window": 6 * HOUR, "default_reward": 0.0, "floor": 0.3}
APART = {"A": 0.1, "B": 0.9}


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_a_rehearsal_predicts_what_experiments_give(count):
    """Experiments with other seeds and rewards than those rehearsed. The mutants rehearse without the window, or the floor."""
    plan = planned(spec_of(**PREDICTED), APART)
    real = [Driven(plan, 1000 + r) for r in range(count)]
    given = numbers([one.arms for one in real], [one.refreshes for one in real], [one.winner is not None for one in real])
    assert smallest_p(given, rehearsed(plan, REPLICATIONS)) > LEVEL
    for changed in ({"window": 0.0}, {"floor": 0.0}):
        assert smallest_p(given, rehearsed(planned(spec_of(**PREDICTED | changed), APART), REPLICATIONS)) < LEVEL


def test_replications_do_not_depend_on_each_other(monkeypatch):
    spec = spec_of(window=6 * HOUR, default_reward=0.0)
    monkeypatch.setattr(simulating, "AT_ONCE", 32 * 120 * 2)  # blocks of 32
    whole = rehearse(spec, TRUTH, **SETTINGS | {"replications": 64, "seed": 5, "report_every": "6h", "winner_of": far_apart})
    middle = run(planned(spec), range(16, 48), far_apart).outcome()
    assert middle.acts.rule.tolist() == [-1] * 32
    for name, values in middle._replace(acts=None)._asdict().items():
        assert values is None or np.array_equal(getattr(whole, name)[16:48], values, equal_nan=True), name
    assert not (whole.counts[0] == whole.counts[1]).all()


def test_a_cadence_that_a_step_cannot_follow_is_said():
    shown = {seconds: str(rehearse(spec_of(refresh_seconds=seconds), TRUTH, **SETTINGS)) for seconds in (HOUR / 2, 2 * HOUR)}
    assert ["give a shorter step" in text for text in shown.values()] == [True, False]


# Winners


def test_no_winner_without_what_is_looked_at_first(tmp_path):
    """A rehearsal compares arms only where the evidence is enough; reports name winners only there. 10 of 100 against more."""
    found = {}
    for b in (10, 20, 30, 35, 60):
        experiment = Experiment.create(tmp_path / "x.db", f"{b}", ["A", "B"], "conversions", "uniform", "external")
        decisions, left = experiment.ask(200).decisions, {"A": 10, "B": b}
        for d in decisions:
            left[d.arm] -= 1
            experiment.tell([(d.id, float(left[d.arm] >= 0))])
        table = table_of(experiment)
        known = counted(table, experiment.spec, experiment.session.now())
        enough = may_name(Seen(table, known, experiment.spec, experiment.session.model), (0, 1))
        found[b] = experiment.report()["winner"], enough
    assert all(enough for winner, enough in found.values() if winner is not None)
    assert {winner for winner, _ in found.values()} == {None, "B"}
    assert {enough for _, enough in found.values()} == {True, False}  # it saves something


def test_a_rule_of_your_own_names_winners():
    named = rehearse(spec_of(), TRUTH, **SETTINGS, winner_of=lambda model, arms, rewards, active: active[0])
    assert named.winner.tolist() == [0] * 32
    assert named.wrong.all()  # A is the worse one
    right = rehearse(spec_of(), TRUTH, **SETTINGS, winner_of=lambda model, arms, rewards, active: active[1])
    assert not right.wrong.any()
    equal = rehearse(spec_of(), {"A": 0.3, "B": 0.3}, **SETTINGS, winner_of=lambda *_: 1)
    assert equal.wrong.all()
    assert "a false one, as all arms are equal  above 90.6 % of the time" in str(equal)
    none = rehearse(spec_of(), TRUTH, **SETTINGS, winner_of=lambda *_: None)
    assert "below 9.4 % of the time" in str(none)
    assert none.to_dict()["units_until_named"] == {"value": None, "se": None}


# What is assumed


ASSUMED = {
    "bernoulli": {"0.1": 0.1, "10 %": 0.1, "1": 1.0},
    "poisson": {"2.5": 2.5},
    "numbers": {"50±20": 50.0, "-1 +- 0.5": -1.0},
    "log-normal": {"40±15": 40.0, "lognormal(3.2, 0.8)": math.exp(3.2 + 0.32)},
    "zero-inflated-log-normal": {"0.1x40±15": 4.0, "10% * 40±15": 4.0, "0.1*lognormal(3.2,0.8)": 0.1 * math.exp(3.52)},
}


@pytest.mark.parametrize("model", ASSUMED)
def test_assumed_rewards_have_the_mean_they_say(model):
    spec = spec_of(model=model)
    for text, mean in ASSUMED[model].items():
        plan = planned(spec, {"A": text, "B": text})
        assert plan.arms[0].mean == pytest.approx(mean)
        rewards = plan.arms[0].draw(np.random.default_rng(1), 40_000)
        spread = rewards.std() / 200
        assert abs(rewards.mean() - mean) <= 4 * spread
        if spread:  # the mutant
            assert abs(rewards.mean() - 1.1 * mean) > 4 * spread
    spend = planned(spec_of(model="log-normal"), {"A": "40±15", "B": "40±15"}).arms[0].draw(np.random.default_rng(2), 40_000)
    assert spend.std() == pytest.approx(15, rel=0.05)


WRONG = {
    "nothing assumed": ({"A": 0.1}, {}, "Nothing is assumed of the arm 'B'"),
    "no such arm": (TRUTH | {"Z": 0.1}, {}, "'Z'"),
    "impossible rate": ({"A": "1.2", "B": 0.1}, {}, "'A' cannot earn '1.2'"),
    "not a number": ({"A": "many", "B": 0.1}, {}, "'A' cannot earn 'many'"),
    "no spread": ({"A": "50", "B": "50±1"}, {"model": "numbers"}, 'such as "50±20"'),
    "negative amounts": ({"A": "-5±1", "B": "5±1"}, {"model": "log-normal"}, "'A' cannot earn"),
    "impossible draws": ({"A": AssumedArm(0.5, lambda rng, n: rng.random(n), ""), "B": 0.1}, {}, "cannot occur"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_assumptions_are_one_sentence(case):
    truth, settings, sentence = WRONG[case]
    with pytest.raises(BltsError) as error:
        rehearse(spec_of(**settings), truth, units=50)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"units": 0},
        {"per_day": 0},
        {"delay": "soon"},
        {"delay": "fixed 1 fortnight"},
        {"delay": "empirical nowhere.txt"},
        {"step": "1s"},
        {"exposed": 0.5},
        {"replications": 1},
        {"report_every": "-1d"},
    ],
)
def test_wrong_settings_are_one_sentence(settings):
    with pytest.raises(ConfigError):
        rehearse(spec_of(), TRUTH, **{"units": 50} | settings)


def test_delays(tmp_path):
    assert [seconds_of("x", text) for text in ("90", "5 min", "1.5h", "2 days", 7)] == [90, 300, 5400, 2 * DAY, 7]
    rng = np.random.default_rng(0)
    assert abs(delay_of("exponential 6h").draw(rng, 40_000).mean() / HOUR - 6) < 0.15
    assert set(delay_of("fixed 1d").draw(rng, 3)) == {DAY}
    (tmp_path / "delays.txt").write_text("1h\n\n30min\n")
    assert set(delay_of(f"empirical {tmp_path / 'delays.txt'}").draw(rng, 50)) == {3600, 1800}
    assert delay_of(None).draw(rng, 2).tolist() == [0, 0]


# What is shown


def test_nothing_is_more_precise_than_its_error():
    assert str(Measured(1234.567, 43.2)) == "1,230 ± 40"
    assert str(Measured(1234.567, 0.13)) == "1,234.57 ± 0.13"
    assert str(Measured(24.1234, 0.96)) == "24.1 ± 1.0"
    assert str(Measured(-0.001, 0.02)) == "0.00 ± 0.02"
    assert str(Measured(4.0, 0.0)) == "4"
    assert str(Share(0, 200)) == "below 1.5 %"
    assert str(Share(200, 200)) == "above 98.5 %"
    assert str(Share(50, 200)) == "25 ± 3 %"


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mail.toml").write_text('arms = ["A", "B"]\nmodel = "bernoulli"\nbatching = {name = "fixed", size = 20}\n')
    given = [
        "experiment",
        "rehearse",
        "mail.toml",
        "--arm",
        "A=20%",
        "--arm",
        "B=0.5",
        "--units",
        "120",
        "--replications",
        "32",
        "--step",
        "1h",
        "--per-day",
        "120",
    ]
    shown = CliRunner().invoke(cli.app, given, catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "loss against B alone" in shown.output
    found = CliRunner().invoke(cli.app, [*given, "--json", "--figure", "out/mail.svg"], catch_exceptions=False)
    data = json.loads(found.output)
    assert data["best"] == "B"
    assert data["refreshes"] == {"value": 6.0, "se": 0.0}
    assert sum(arm["share"]["value"] for arm in data["arms"]) == pytest.approx(1)
    assert (tmp_path / "out" / "mail.svg").read_text().startswith("<?xml")
    assert not (tmp_path / "blts.db").exists()
    for wrong in (["--arm", "A"], ["--arm", "A=0.3"], ["--figure", "mail.png"]):
        with pytest.raises(ConfigError):
            CliRunner().invoke(cli.app, [*given, *wrong], catch_exceptions=False)
