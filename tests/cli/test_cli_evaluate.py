"""`blts evaluate`: a table, JSON, and errors of one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from blts import logged
from running_cli import blts, refused


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 400)
    reward = rng.random(400) < np.array([0.2, 0.6])[action]
    lines = [f"{'ab'[a]},{int(r)},0.5,{x:.3f}" for a, r, x in zip(action, reward, rng.normal(size=400), strict=True)]
    place = tmp_path / "log.csv"
    place.write_text("\n".join(["arm,reward,propensity,x", *lines]) + "\n")
    return str(place)


def test_the_table_has_every_action_and_the_logging_policy(path):
    printed = blts("evaluate", path, "--action", "arm", "--context", "x")
    log = logged.read_log(path, action="arm", context=["x"])
    assert "as logged" in printed
    for label, found in logged.constant_values(log).items():
        assert f"always {label}" in printed
        assert f"{found.dr.value:.4f} [{found.dr.low:.4f}, {found.dr.high:.4f}]" in printed
    assert "WARNING" not in printed


def test_json(path):
    found = json.loads(blts("evaluate", path, "--action", "arm", "--propensity", "0.5", "--json"))
    log = logged.read_log(path, action="arm")
    assert found["rows"] == 400
    assert found["logged"]["value"] == pytest.approx(log.rewards.mean())
    assert found["actions"]["b"]["dr"]["low"] == pytest.approx(logged.evaluate(log, "b").dr.low)


def test_errors_are_one_sentence(path, capsys):
    assert "no column 'action'" in refused(capsys, "evaluate", path)
    assert "Did you mean 'reward'" in refused(capsys, "evaluate", path, "--action", "arm", "--reward", "rewards")
    assert "cannot be read" in refused(capsys, "evaluate", "nowhere.csv")
    assert "at most 1" in refused(capsys, "evaluate", path, "--action", "arm", "--propensity", "2")
    assert "--level" in refused(capsys, "evaluate", path, "--action", "arm", "--level", "95")
