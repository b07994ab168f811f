"""`blts evaluate`: a table, JSON, and errors of one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from blts import logged
from running_cli import blts, one_sentence, refused


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


HEADING = "action,reward,propensity,x"
TWO = ["0,1,0.5,1", "1,0,0.5,2", "0,1,0.5,3"]
WRONG = {
    "numbers up to '99999999999999999999999999'": (["9" * 26 + ",1,0.5,1", *TWO], ()),  # it tried to list them all
    "numbers up to '9999": (["9" * 5000 + ",1,0.5,1", *TWO], ()),
    "numbers up to 4000000000": (["4000000000,1,0.5,1", *TWO], ()),
    "column 'action' has -2": (["-2,1,0.5,1", *TWO], ()),
    "A propensity of 1e-300 is too small": (["0,1,1e-300,1", *TWO], ()),
    "row 1 is -0.5": (["0,1,-0.5,1", *TWO], ()),
    "A context of 1e+300 is too large": (["0,1,0.5,1e300", *TWO], ("--context", "x")),
    "two of them are the same one": (TWO, ("--reward", "action")),
    "row 1 has nan": (["0,nan,0.5,1", *TWO], ()),
    "has no rows": ([], ()),
    "has 5 entries": (["0,1,0.5,1,9"], ()),
    "no column 'y'": (TWO, ("--context", "y")),
    "row 1 has 'red'": (["0,1,0.5,red", *TWO], ("--context", "x")),
    "no action in row 1": ([",1,0.5,1", *TWO], ()),
}


@pytest.mark.parametrize("match", WRONG)
def test_a_log_that_is_wrong_is_refused_in_one_sentence(match, tmp_path, capsys):
    rows, options = WRONG[match]
    place = tmp_path / "log.csv"
    place.write_text("\n".join([HEADING, *rows]) + "\n")
    err = refused(capsys, "evaluate", str(place), *options)
    assert match in err
    one_sentence(err)
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


def test_files_that_are_no_logs(tmp_path, capsys):
    for name, content in (("a.csv", "é".encode("latin1")), ("b.csv", b""), ("c.parquet", b"x" * 50)):
        (tmp_path / name).write_bytes(content)
        one_sentence(refused(capsys, "evaluate", str(tmp_path / name)))


def test_columns_that_are_neither_numbers_nor_labels(capsys, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    p, day = [0.5, 0.5], np.datetime64("2020-01-01")
    for match, columns in (
        ("Column 'reward' must have numbers; it has dates", {"action": [0, 1], "reward": np.array([day, day])}),
        ("whole numbers or labels; got", {"action": [[0], [1]], "reward": [0, 1]}),
        ("whole numbers or labels; got", {"action": [b"a", b"b"], "reward": [0, 1]}),
    ):
        parquet.write_table(pa.table({**columns, "propensity": p}), tmp_path / "log.parquet")
        err = refused(capsys, "evaluate", str(tmp_path / "log.parquet"))
        assert match in err
        one_sentence(err)


def test_numbers_that_jax_cannot_hold(capsys):
    small = ("simulate", "--horizon", "5", "--replications", "2")
    err = refused(capsys, *small, "--env", "unequal-scales", "--agent", "baoab-ts", "--set", "step_size=1e300")
    assert "BAOAB: step_size must be at most 3.4e+38" in err
    one_sentence(err)
    err = refused(capsys, *small, "--env", "linear-20d", "--agent", "neural-pool", "--set", "hidden=[4,0]")
    assert "got '[4,0]'" in err
    one_sentence(err)
