"""Metrics and stopping rules from a shell."""

from __future__ import annotations

import csv

import pytest

from blts.errors import ConfigError, UnknownName
from blts.live import Experiment
from blts.live.figures import draw
from blts.live.metrics.summary import tolerated
from test_live_cli import answer, folder, run  # noqa: F401

SPEC = """
arms = ["A", "B"]
model = {name = "gaussian", sd = 1.0}
sampler = "exact"
batching = {name = "fixed", size = 6}
seed = 3

[[metrics]]
name = "refunds"
model = "conversions"
better = "lower"
margin = 0.01

[[metrics]]
name = "spend"
model = "revenue"
role = "secondary"

[stop]
units = 6
until = 2999-12-31
"""


@pytest.fixture
def ids(folder) -> list[str]:  # noqa: F811
    """The decisions of a new experiment with metrics."""
    (folder / "shop.toml").write_text(SPEC)
    assert answer("create", "shop", "--spec", "shop.toml")["arms"] == ["A", "B"]
    return [d["decision_id"] for d in answer("ask", "shop", "--n", "6")["decisions"]]


def test_values_of_a_metric_are_told_and_corrected(ids):
    rows = "decision_id,value\n" + "".join(f"{i},1\n" for i in ids[:3])
    assert answer("tell", "shop", "--metric", "refunds", given=rows)["accepted"] == 3
    assert answer("tell", "shop", "--metric", "refunds", given=rows)["duplicate"] == 3
    assert answer("correct", "shop", ids[0], "0", "--metric", "refunds") == {"changed": True}
    with pytest.raises(UnknownName, match="Known: refunds, spend"):
        run("tell", "shop", "--metric", "visits", given=rows)
    assert answer("verify", "shop")["verified"]


def test_a_file_may_name_the_metric_of_each_row(ids):
    rows = "decision_id,reward,metric\n" + f"{ids[0]},0.5,\n{ids[0]},1,refunds\n{ids[1]},2,refunds\n{ids[1]},3.5,spend\n"
    told = answer("tell", "shop", "--request-id", "r1", given=rows)
    assert (told["accepted"], told["invalid"]) == (3, 1)
    assert told["ids"]["invalid"][0][0] == ids[1]
    assert answer("tell", "shop", "--request-id", "r1", given=rows) == told
    assert answer("status", "shop")["entries"] == 1
    with pytest.raises(ConfigError, match="leave --metric out"):
        run("tell", "shop", "--metric", "spend", given=rows)
    lines = f'{{"decision_id": "{ids[2]}", "value": 1, "metric": "spend"}}\n{{"decision_id": "{ids[2]}", "reward": 1}}\n'
    assert answer("tell", "shop", given=lines)["accepted"] == 2
    before = answer("audit", "shop")
    with pytest.raises(UnknownName, match="visits"):
        run("tell", "shop", given=rows + f"{ids[3]},1,visits\n")
    assert answer("audit", "shop") == before  # nothing of the file was written


def test_metrics_and_stopping_are_shown(ids):
    run("tell", "shop", given="decision_id,reward\n" + "".join(f"{i},1\n" for i in ids))
    run("tell", "shop", "--metric", "refunds", given="decision_id,value\n" + "".join(f"{i},1\n" for i in ids))
    shown = run("report", "shop")
    assert "refunds (guardrail, lower is better, margin 0.01, conversions)" in shown
    assert "minus A" in shown
    assert "Stop: the budget of 6 units is spent" in shown
    found = answer("report", "shop")
    assert [metric["metric"] for metric in found["metrics"]] == ["refunds", "spend"]
    assert answer("status", "shop")["alarms"] == []
    assert "alarms" not in run("status", "shop")


def test_rewards_are_still_counted_for_people(ids):
    assert "5 decisions without" in run("tell", "shop", given=f"decision_id,reward\n{ids[0]},1\n")


def test_metrics_are_exported_and_drawn(ids, folder):  # noqa: F811
    run("tell", "shop", given="decision_id,reward\n" + "".join(f"{i},1\n" for i in ids))
    run("tell", "shop", "--metric", "refunds", given=f"decision_id,value\n{ids[0]},1\n{ids[2]},0\n")
    run("correct", "shop", ids[2], "1", "--metric", "refunds", "--reason", "a typo")
    run("export", "shop", "decisions.csv")
    with open("decisions.csv", newline="") as file:
        told = {row["decision_id"]: row["metric: refunds"] for row in csv.DictReader(file)}
    assert told == {i: "1.0" if i in (ids[0], ids[2]) else "" for i in ids}
    values = "".join(f"{i},{k % 2}\n" for k, i in enumerate(ids) if i not in (ids[0], ids[2]))
    run("tell", "shop", "--metric", "refunds", given="decision_id,value\n" + values)
    experiment = Experiment.open(None, "shop")
    drawn = {path.name: path.read_text() for path in draw(experiment, folder)}
    assert "minus A (lower is better)" in drawn["metrics.svg"]
    (refunds,) = [metric for metric in experiment.report()["metrics"] if metric["metric"] == "refunds"]
    assert tolerated(refunds) == 0.01
    assert tolerated(refunds | {"better": "higher", "margin": "50%"}) == -0.5 * refunds["arms"][0]["mean"]
    assert tolerated(refunds | {"role": "secondary"}) is None
