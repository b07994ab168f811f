"""A plan says how many units an experiment needs and what it loses; experiments of that size then lose as much."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError
from blts.live import Sizing, Spec, plan, rehearse
from blts.live.rehearsal.assumptions import arms_of, with_effect
from blts.live.rehearsal.sizing import INSIDE, _days, interval_of, right_of, units_for
from compiling import optimised
from laws import LEVEL

SPEC = Spec.of(["A", "B"], "conversions", "top-two")
SETTINGS = {"per_day": 100.0}


def realised(sizing: Sizing, effect: float, runs: int, times: float = 1.0) -> np.ndarray:
    """The losses of experiments of `times` the size found, with random numbers that the plan has not seen. Nobody names a winner,
    on whom no loss depends."""
    truth, units = {"A": "0.2", "B": f"{0.2 + effect:g}"}, round(times * sizing.units)
    with optimised():
        return rehearse(SPEC, truth, units=units, replications=runs, seed=77, winner_of=lambda *_: None, **SETTINGS).loss


def p_inside(predicted: np.ndarray, losses: np.ndarray, low: float, high: float) -> float:
    """How likely at most so many of the losses are inside an interval from order statistics of `predicted`: their exact law."""
    place = max(1, math.floor((len(predicted) + 1) * (1 - INSIDE) / 2))
    inside = int(((losses >= low) & (losses <= high)).sum())
    return float(stats.betabinom.cdf(inside, len(losses), len(predicted) + 1 - 2 * place, 2 * place))


def check_prediction(sizing: Sizing, effect: float, runs: int) -> None:
    losses, predicted = realised(sizing, effect, runs), sizing.found.loss
    se = math.hypot(predicted.std(ddof=1) / math.sqrt(len(predicted)), losses.std(ddof=1) / math.sqrt(runs))
    assert abs(losses.mean() - sizing.loss.value) < 4 * se
    assert p_inside(predicted, losses, *sizing.interval) > LEVEL
    # Mutants: the interval of the mean in the place of a single experiment's; a plan for an effect that is a fifth larger.
    reach = 2 * sizing.loss.se
    assert p_inside(predicted, losses, sizing.loss.value - reach, sizing.loss.value + reach) < LEVEL
    other = realised(sizing, 1.2 * effect, runs)
    assert abs(other.mean() - sizing.loss.value) > 4 * se
    assert p_inside(predicted, other, *sizing.interval) < LEVEL
    # A plan for another size: its interval is not that of experiments that are half as large again.
    assert p_inside(predicted, realised(sizing, effect, runs, times=1.5), *sizing.interval) < LEVEL


@pytest.fixture(scope="module")
def sized() -> Sizing:
    with optimised():
        return plan(SPEC, "0.2", 0.3, replications=64, **SETTINGS)


def test_experiments_of_the_size_found_lose_what_is_predicted(sized):
    assert sized.reached
    assert sized.right.value >= 0.8 - sized.right.se
    check_prediction(sized, 0.3, 64)


@pytest.mark.slow
def test_200_experiments_lose_what_is_predicted():
    found = plan(SPEC, "0.2", 0.1, replications=200, **SETTINGS)
    print(found)
    check_prediction(found, 0.1, 200)


def test_a_plan_in_words_for_json_and_as_a_figure(sized, tmp_path):
    words, data = str(sized), json.loads(json.dumps(sized.to_dict(), allow_nan=False))
    assert f"{sized.units:,}, " in words
    assert data["units"] == sized.units
    assert data["loss"]["low"] <= data["loss"]["value"] <= data["loss"]["high"]
    assert data["equal_split"]["loss"] == pytest.approx(sized.units * 0.15, rel=0.1)
    path = sized.figure(tmp_path / "plan.svg")
    assert path.read_bytes() == sized.figure(tmp_path / "again.svg").read_bytes()
    assert b"<svg" in path.read_bytes()


def test_a_size_that_is_too_small_is_called_so():
    found = plan(SPEC, "0.2", 0.1, replications=20, most=200, **SETTINGS)
    assert not found.reached
    assert found.units == 200
    assert "200 units are not enough for 80%" in str(found)
    assert found.to_dict()["reached"] is False


class Named:
    """What `units_for` and `right_of` read of a rehearsal."""

    winner, best, replications = np.array([1, 1, -1, 1, 0]), 1, 5
    named_at = np.array([300.0, 100.0, np.nan, 200.0, 50.0])


def test_rewards_that_refreshes_cannot_learn_from_have_no_plan():
    with pytest.raises(BltsError, match=r"Rewards around 30000 .* too far from zero .* subtract a constant"):
        plan(Spec.of(["A", "B"], "numbers"), "30000±1", effect=1.0, most=3000, replications=20)


def test_units_for_a_power():
    found: list[int | None] = [units_for(Named, power) for power in (0.2, 0.4, 0.6, 0.61)]  # type: ignore[arg-type]
    assert found == [100, 200, 300, None]  # three of five name the right arm
    assert right_of(Named).value == 0.6  # type: ignore[arg-type]


def test_the_interval_has_nine_of_ten():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        low, high = interval_of(rng.gamma(2.0, 1.0, 200))
        inside.append(stats.gamma.cdf(high, 2.0) - stats.gamma.cdf(low, 2.0))
    assert np.mean(inside) == pytest.approx(1 - 20 / 201, abs=4 * np.std(inside) / math.sqrt(2000))


@pytest.mark.parametrize(
    ("name", "base", "effect", "more"),
    [
        ("conversions", "10 %", 0.02, "0.12"),
        ("counts", "2.5", 0.5, "3"),
        ("numbers", "50±20", 2.0, "52±20"),
        ("revenue", "0.1x40±15", 1.0, "0.125x40±15"),
        ("log-normal", "lognormal(3.2, 0.8)", 1.0, None),
    ],
)
def test_an_effect_is_what_the_mean_has_more(name, base, effect, more):
    model = Spec.of(["A", "B"], name).build((0, 1), Spec.of(["A", "B"], name).arms).model
    better = with_effect(base, effect, model)
    assert more is None or better == more
    one, other = arms_of({"A": base, "B": better}, ["A", "B"], model)
    assert other.mean - one.mean == pytest.approx(effect)


@pytest.mark.parametrize(("base", "effect"), [("0.2", 0.8), ("0", 1.0)])
def test_an_arm_that_always_earns_the_same_has_a_plan(base, effect):
    found = plan(Spec.of(["A", "B"], "conversions", "top-two"), base, effect, per_day=100, replications=20)
    assert found.reached
    assert 10 <= found.units <= 200


def test_units_that_come_all_at_once_have_a_plan():
    found = plan(Spec.of(["A", "B"], "conversions", "top-two"), "0.2", 0.7, per_day=1e15, replications=20)
    assert found.units <= 200


@pytest.mark.parametrize(("days", "words"), [(1.0, "1 day"), (0.5, "0.5 days"), (1.0004, "1 day"), (12.0, "12 days")])
def test_days_in_words(days, words):
    assert _days(days) == words


BASIC = ("--model", "conversions", "--base", "0.1", "--effect", "0.1")
REFUSED = {
    ("--base", "0.1", "--effect", "0.1"): "A plan needs --model",
    ("--model", "conversions", "--base", "0.9", "--effect", "0.2"): "more cannot earn '1.1'",
    ("--model", "conversions", "--base", "cheap", "--effect", "0.2"): "cannot earn 'cheap' under its model; give a rate",
    ("--model", "conversions", "--base", "0.1", "--effect", "-0.1"): "effect must be a number above 0",
    ("--model", "conversions", "--base", "0.1", "--effect", "1e-6"): "take a larger effect, or a larger most",
    ("--model", "conversions", "--base", "0.1", "--effect", "1e-200"): "takes more than 1,000,000,000,000 units",
    ("--model", "conversions", "--base", "0", "--effect", "1e-9"): "take a larger effect, or a larger most",
    ("--model", "revenue", "--base", "0.5x10±1", "--effect", "9"): "a share of buyers above 1",
    (*BASIC, "--arms", "1"): "arms must be a number from 2 to 26; got 1",
    (*BASIC, "--power", "1.2"): "power must be a probability from 0.5 to 0.99; got 1.2",
    (*BASIC, "--most", "5"): "most must be",
    (*BASIC, "--sampler", "nobody"): "'nobody'",
    (*BASIC, "--spec", "x.toml"): "give --spec alone",
    (*BASIC, "--figure", "plan.png"): "ends in .svg",
}


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: " ".join(options[-2:]))
def test_bad_input_is_one_sentence(options):
    result = CliRunner().invoke(cli.app, ["plan", *options])
    assert isinstance(result.exception, BltsError)
    assert REFUSED[options] in str(result.exception)
