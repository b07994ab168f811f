"""What somebody sees who uses experiments for the first time: his own words, dates, hints."""

from __future__ import annotations

import csv
import datetime
import json
import re

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from blts import cli
from blts.cli.experiment.looking import _in_words
from blts.errors import ConfigError
from blts.live import Experiment, Spec
from blts.live.conclusions.words import shares
from blts.live.export import iso_date, table_of
from blts.live.spec import SAID
from rehearsals import planned, spec_of

REFUNDS = {"name": "refunds", "model": "conversions", "better": "lower"}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """An experiment with a metric and decisions for three units, in the default database of an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLTS_DB", raising=False)
    experiment = Experiment.create(tmp_path / "blts.db", "shop", ["A", "B"], "conversions", metrics=[REFUNDS], seed=1)
    experiment.ask(units=["ann", "bob", "cid"])
    return experiment


def run(*arguments: str, given: str | None = None) -> str:
    result = CliRunner().invoke(cli.app, ["experiment", *arguments], input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


# Names


def test_parts_are_shown_by_the_name_that_was_given(shop):
    status, report = shop.status(), shop.report()
    for found in (status, report):
        assert (found["model"], found["sampler"], found["batching"]) == ("conversions", "thompson", "doubling(first=64)")
    assert "bernoulli" not in run("status", "shop") + run("audit", "shop")
    again = Experiment.open(shop.database.url.render_as_string(), "shop")
    assert again.status()["model"] == "conversions"
    assert shop.verify() == []
    assert Spec.of(["A", "B"], "bernoulli", "exact-ts", "dynamic").model.words == "bernoulli"
    assert Spec.of(["A", "B"], "conversions", "exact").sampler.words == "exact"


def test_another_name_for_the_same_is_the_same(shop):
    """Experiments of before have no given names in their specification, and the same call finds them."""
    spec = Spec.of(["A", "B"], "bernoulli", "thompson", "doubling", metrics=[REFUNDS], seed=1)
    assert spec.differs_from(shop.spec.to_json()) == []
    stored = json.loads(shop.spec.to_json())
    for part in ("model", "sampler", "batching"):
        stored[part].pop(SAID, None)
    assert shop.spec.differs_from(json.dumps(stored)) == []
    assert Spec.from_json(json.dumps(stored)).model.words == "bernoulli"


def test_only_what_was_stated_differently_is_named():
    spec = Spec.of(["A", "B"], "conversions")
    others = Spec.of(["A", "B", "C", "D"], "conversions"), Spec.of(["A", "B"], "conversions", horizon=100)
    assert [spec.differs_from(other.seeded().to_json()) for other in others] == [["arms"], ["horizon"]]
    stated = Spec.of(["A", "B"], "conversions", batching={"name": "doubling", "first": 7})
    assert spec.differs_from(stated.seeded().to_json()) == ["batching"]


def test_an_experiment_has_two_arms():
    with pytest.raises(ConfigError, match=r"^An experiment compares between 2 and 1000 arms; got 1\.$"):
        Spec.of(["A"], "conversions")


# Telling


def test_one_reward_is_told_without_a_file(shop):
    assert "1 accepted" in run("tell", "shop", "--unit", "ann", "--reward", "1")
    decision = json.loads(run("ask", "shop", "--unit", "bob", "--json"))["decisions"][0]
    assert "id" not in decision
    assert "1 accepted" in run("tell", "shop", "--decision", decision["decision_id"], "--reward", "0")
    assert "1 accepted" in run("tell", "shop", "--unit", "ann", "--reward", "1", "--metric", "refunds")
    assert shop.status()["without_reward"] == 1
    wrong = (["--unit", "ann"], ["--reward", "1"], ["--unit", "a", "--decision", "b", "--reward", "1"])
    for options in (*wrong, ["file.csv", "--unit", "ann", "--reward", "1"]):
        with pytest.raises(ConfigError):
            run("tell", "shop", *options)


@pytest.mark.parametrize(
    "text", ["Unit,Reward\nann,1\n", "unit;reward\nann;1\n", "UNIT;VALUE\nann;1,0\n", "unit , Reward\nann, 1\n"]
)
def test_columns_with_capitals_and_semicolons_are_read(shop, text):
    assert "1 accepted" in run("tell", "shop", "-", given=text)


def test_a_column_of_a_metric_is_a_hint(shop):
    text = "unit,refunds\nann,1\n"
    with pytest.raises(ConfigError, match="'refunds' is a metric of this experiment: add --metric 'refunds'"):
        run("tell", "shop", "-", given=text)
    assert "1 accepted" in run("tell", "shop", "-", "--metric", "refunds", given=text)
    with pytest.raises(ConfigError, match=r"it has unit, clicks\.$"):
        run("tell", "shop", "-", given="unit,clicks\nann,1\n")


# Looking


def test_a_decimal_comma_is_not_cut_off(shop):
    """`ann,1,5` between commas was told as 1, and `1.234` beside `1,5` as 1.234."""
    for given, words in {
        "unit,reward\nbob,1\nann,1,5\n": "has 3 cells, and its header 2; where commas separate cells",
        "unit;reward\nbob;1,5\nann;1.234\n": "a comma (1,5) and with a point (1.234)",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(words)):
            run("tell", "shop", "-", given=given)
    assert shop.status()["entries"] == 0
    assert run("tell", "shop", "-", given="unit,reward\nann,1,\n").startswith("1 accepted")  # a trailing comma is no cell


def test_a_header_is_no_unit(shop):
    """A file with the line `unit` above its units made one decision more, for whose reward the batch then waited."""
    lines = "dan\neve\n"
    for given in (lines, "unit\n" + lines, "Unit;country\ndan;DE\neve;FR\n", '\ufeff"country","unit"\r\nDE,dan\r\n,eve\r\n\r\n'):
        made = json.loads(run("ask", "shop", "--units", "-", "--json", given=given))["decisions"]
        assert [d["unit"] for d in made] == ["dan", "eve"]
    assert shop.status()["decisions"] == 5


def test_exports_say_that_units_are_not_in_them(shop, tmp_path):
    assert "of units only hashes are stored" in " ".join(run("export", "shop", str(tmp_path / "all.csv")).split())
    assert "ann" not in (tmp_path / "all.csv").read_text()


def test_exports_have_dates(shop, tmp_path):
    shop.tell(unit="ann", reward=1)
    shop.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    at = table_of(shop).asked_at[0]
    asked = datetime.datetime.fromisoformat(rows[0]["asked_at"])
    assert asked.utcoffset() == datetime.timedelta(0)
    assert asked.timestamp() == pytest.approx(at, abs=1e-6)
    assert rows[0]["told_at"]
    assert rows[1]["told_at"] == ""
    shop.export(tmp_path / "all.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "all.parquet")["asked_at"]
    assert str(stored.type) == "timestamp[us, tz=UTC]"
    assert stored[0].as_py() == asked
    assert [iso_date(at) for at in (0.0, 1e14)] == ["1970-01-01T00:00:00.000000+00:00", "1e+14 s"]


def test_equal_shares_look_equal():
    assert shares([0.3301, 0.3403, 0.3296], 0.007) == [0.333] * 3
    assert shares([0.30, 0.37, 0.33], 0.007) == [0.3, 0.37, 0.33]
    assert shares([0.3301, 0.3403, 0.3296], None) == [0.3301, 0.3403, 0.3296]
    assert shares([None, None], 0.01) == [None, None]


def test_an_estimated_allocation_says_its_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = Experiment.create(tmp_path / "blts.db", "shop", ["A", "B", "C"], "revenue")
    assert 0.001 < experiment.status()["allocation_error"] < 0.01
    shown = run("status", "shop")
    assert shown.count("0.333") == 3
    assert "standard error" in shown


def test_the_only_active_arm_is_not_called_the_best(tmp_path, monkeypatch):
    """An arm that a guardrail retired may have earned more; and nothing is estimated of a share that is 1."""
    monkeypatch.chdir(tmp_path)
    experiment = Experiment.create(tmp_path / "blts.db", "shop", ["A", "B"], "revenue", batching="external", seed=1)
    experiment.tell([(d.id, 5.0 + i % 3) for i, d in enumerate(experiment.ask(20).decisions)])
    experiment.retire_arm("B")
    experiment.refresh()
    assert experiment.status()["allocation_error"] is None
    assert "factor of" in experiment.status()["prior"]
    first = experiment.report()["arms"][0]
    assert (first["arm"], first["p_best"], first["expected_loss"]) == ("A", None, None)
    shown = run("report", "shop")
    assert "the only active arm" in shown
    assert "without A" not in shown  # it has data
    assert "standard error" not in run("status", "shop")


def test_a_conflict_is_explained(shop):
    run("tell", "shop", "--unit", "ann", "--reward", "1")
    both = "unit,reward\nann,0\nbob,1\n"
    assert "`correct` replaces a value" in " ".join(run("tell", "shop", "-", given=both).split())
    assert shop.status()["entries"] == 2


def test_the_audit_log_shows_a_specification_line_by_line(shop):
    words = _in_words(shop.audit()[0]["detail"])
    lines = words.split("\n")
    assert {"arms A, B", "model conversions", "batching doubling(first=64)", "prior learned"} <= set(lines)
    assert max(map(len, lines)) < 120
    assert "default reward 0" in _in_words({"spec": {"default_reward": 0, "floor": 0.0, "window": None}})


def test_a_run_shorter_than_the_time_between_reports_is_said():
    (line,) = [text for text in planned(spec_of(), report="3d").in_words() if "report" in text]
    assert line.endswith("all units come within 1 day, before a report is read after 3 days: only one is read, at the end")
    assert not any("only one" in text for text in planned(spec_of()).in_words())
