"""Logs from files and arrays; what is wrong with one is said in a sentence."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from blts import logged
from blts.errors import ConfigError

GOOD = {"action": ["a", "b", "a"], "reward": [1.0, 0.0, 2.5], "propensity": [0.5, 0.25, 1.0], "age": [31, 54, 27]}


def write_csv(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def same(log, other) -> bool:
    return log.labels == other.labels and all(
        np.array_equal(getattr(log, name), getattr(other, name)) for name in ("contexts", "actions", "rewards", "propensities")
    )


def test_files_and_arrays_are_the_same_log(tmp_path):
    log = logged.read_log(GOOD, context=["age"])
    assert (log.actions.tolist(), log.labels, log.contexts.tolist()) == ([0, 1, 0], ("a", "b"), [[31.0], [54.0], [27.0]])
    assert log.plays.tolist() == [2, 1]
    assert same(log, logged.read_log(write_csv(tmp_path / "log.csv", GOOD), context=["age"]))
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table(GOOD), tmp_path / "log.parquet")
    assert same(log, logged.read_log(str(tmp_path / "log.parquet"), context=["age"]))
    with pytest.raises(ConfigError, match=r"no column 'agee'\. Did you mean 'age'"):
        logged.read_log(tmp_path / "log.parquet", context=["agee"])
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(ConfigError, match="cannot be read"):
        logged.read_log(tmp_path / "bad.parquet")


def test_actions_are_whole_numbers_or_labels():
    numbers = GOOD | {"action": [0, 2, 0]}
    assert logged.read_log(numbers).labels == ("0", "1", "2")
    assert logged.read_log(GOOD | {"action": np.array([0.0, 2.0, 0.0])}).labels == ("0", "1", "2")
    assert logged.read_log(numbers, actions=["2", "0"]).actions.tolist() == [1, 0, 1]
    assert logged.read_log(numbers, actions=[0, 1, 2, 3]).labels == ("0", "1", "2", "3")
    assert logged.read_log(GOOD, actions=["a", "b", "c"]).plays.tolist() == [2, 1, 0]


def test_one_propensity_for_all_rows():
    assert logged.read_log(GOOD, propensity=0.5).propensities.tolist() == [0.5] * 3


WRONG = {
    "a column that is not there": ({}, {"reward": "rewards"}, "no column 'rewards'. Did you mean 'reward'"),
    "rows of different length": ({"reward": [1.0]}, {}, "as many rows; got 1 of reward, 3 of action"),
    "a reward that is missing": ({"reward": [1.0, np.nan, 0.0]}, {}, "'reward' must have finite numbers; row 2 has nan"),
    "a reward that is empty": ({"reward": ["1", "", "0"]}, {}, "'reward' must have numbers; row 2 has ''; leave such rows out"),
    "an infinite context": ({"age": [1, 2, np.inf]}, {"context": ["age"]}, "'age' must have finite numbers; row 3"),
    "a context of texts": ({"age": ["1", "old", "3"]}, {"context": ["age"]}, "row 2 has 'old'; where it has levels"),
    "a propensity of zero": ({"propensity": [0.5, 0.0, 0.5]}, {}, "above 0 and at most 1; row 2 is 0"),
    "a propensity above one": ({"propensity": [0.5, 0.5, 1.2]}, {}, "row 3 is 1.2"),
    "a propensity for all": ({}, {"propensity": 1.5}, "at most 1; it is 1.5"),
    "half an action": ({"action": np.array([0.0, 0.5, 1.0])}, {}, "whole numbers or labels; got 0.5"),
    "a negative action": ({"action": [0, -1, 1]}, {}, "numbered from 0; column 'action' has -1"),
    "an identifier as action": ({"action": [1, 2, 40_000]}, {}, "numbers up to 40000; give the labels"),
    "an action that is missing": ({"action": ["a", "", "b"]}, {}, "no action in row 2"),
    "an action that is not listed": ({}, {"actions": ["a", "bb"]}, "Row 2 plays 'b', which is not among the actions a, bb"),
    "a label twice": ({}, {"actions": ["a", "a"]}, "a label of its own"),
    "no list": ({}, {"context": "age"}, r"write context=\['age'\]"),
    "the reward as context": ({}, {"context": ["reward"]}, "known before the decision; leave 'reward' out"),
    "a propensity that is no number": ({}, {"propensity": True}, "a column or a probability; got True"),
    "no rows": (dict.fromkeys(GOOD, ()), {}, "no rows"),
    "two columns in one": ({"reward": np.zeros((3, 2))}, {}, "one entry a row; that is not so of reward"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(name):
    changes, options, words = WRONG[name]
    with pytest.raises(ConfigError, match=words) as found:
        logged.read_log(GOOD | changes, **options)
    assert "\n" not in str(found.value)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    for source, words in ((tmp_path / "none.csv", "cannot be read"), ("log.txt", "is a .csv or a .parquet file"), (3, "got 3")):
        with pytest.raises(ConfigError, match=words):
            logged.read_log(source)
    path = tmp_path / "log.csv"
    path.write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        logged.read_log(path)
    path.write_text("action,reward,propensity\n0,1,0.5\n\n0,1\n")
    with pytest.raises(ConfigError, match=r"Line 4 of log\.csv has 2 entries; the first line names 3"):
        logged.read_log(path)
    path.write_text("action,reward,reward,propensity\n0,1,5,0.5\n")
    with pytest.raises(ConfigError, match="two columns 'reward'; rename one"):
        logged.read_log(path)
    path.write_bytes(b"action,reward,propensity\n\xff\xfe,1,0.5\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        logged.read_log(path)
    real = builtins.__import__

    def without_pyarrow(name, *rest, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(ConfigError, match="Parquet needs pyarrow; install it with"):
        logged.read_log(tmp_path / "log.parquet")


ROWS = {
    "contexts": np.ones((4, 1)),
    "actions": np.array([0, 1, 0, 1]),
    "rewards": np.arange(4.0),
    "propensities": np.full(4, 0.5),
    "labels": ("a", "b"),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"propensities": np.full((4, 1), 0.5)}, r"one entry a row.* propensities \(4, 1\)"),
        ({"rewards": np.zeros((4, 1))}, "one entry a row"),
        ({"contexts": np.ones((2, 1))}, r"contexts \(2, 1\)"),
        ({"contexts": np.ones(4)}, r"contexts \(4,\)"),
        ({"actions": np.array([0, 1, -1, 1])}, "whole numbers from 0 to 1"),
        ({"actions": np.array([0, 1, 2, 1])}, "whole numbers from 0 to 1"),
        ({"actions": np.array([True, False, True, False])}, "whole numbers from 0 to 1"),
        ({"propensities": np.array([0.5, 0.5, 0.0, 0.5])}, "at most 1; row 3 is 0"),
        ({"propensities": np.full(4, 3.0)}, "at most 1; row 1 is 3"),
        ({"rewards": np.array([0.0, np.nan, 1.0, 1.0])}, "rewards of a log must be finite"),
        ({"rewards": ["x"] * 4}, "rewards of a log must be numbers"),
    ],
)
def test_a_log_of_arrays_is_checked_too(changes, words):
    assert logged.logged_value(logged.Log(**ROWS)).value == 1.5
    with pytest.raises(ConfigError, match=words):
        logged.Log(**ROWS | changes)


def test_columns_twice_missing_actions_and_rewards_beyond_squares():
    for changes, context, words in (
        ({}, ["x", "x"], "The context names 'x' twice"),
        ({"action": ["<NA>", "b"]}, [], "has no action in row 1"),
        ({"action": ["NaT", "b"]}, [], "has no action in row 1"),
        ({"reward": [1e200, 0.0]}, [], r"A reward of 1e\+200 is too large"),
    ):
        with pytest.raises(ConfigError, match=words):
            logged.read_log(
                {"action": ["a", "b"], "reward": [1.0, 0.0], "x": [1.0, 2.0]} | changes, propensity=0.5, context=context
            )


def test_labels_that_look_like_numbers_are_labels():
    """`int` cannot read them, although their characters are digits."""
    assert logged.read_log({"action": ["²", "--1"], "reward": [1.0, 0.0]}, propensity=0.5).labels == ("--1", "²")


def test_a_policy_cannot_change_the_log():
    mine = np.ones((2, 1))
    log = logged.Log(mine, np.array([0, 1]), np.zeros(2), np.full(2, 0.5), ("a", "b"))
    mine[:] = 5.0
    assert log.contexts.tolist() == [[1.0], [1.0]]
    with pytest.raises(ValueError, match="read-only"):
        log.contexts[:] = 0.0
