"""Decisions with contexts: stored, replayed, those of a simulation, and the same again after a crash."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from blts import simulate
from blts._module import array, module
from blts._typing import Numbers
from blts.agents import Exact, Thompson
from blts.batching import Fixed
from blts.contexts import Context
from blts.envs.base import Env, Step
from blts.errors import BltsError, ConfigError
from blts.live import Experiment, Spec
from blts.live.export import table_of
from blts.live.worker import Worker
from blts.models import Linear
from shown import FEATURES, LABELS, LINEAR, contexts, created, encoded, played, reward

ONE = {"age": 40, "country": "FR", "returning": True}
TESTS = pathlib.Path(__file__).resolve().parent


# What can be declared and shown


class Broken(Linear):
    def mean_reward(self, theta, obs, action):
        raise KeyError("mine")


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "no range": ({"features": {"age": [90, 18]}}, "smaller first"),
    "not finite": ({"features": {"age": [0, float("inf")]}}, "finite"),
    "one level": ({"features": {"country": ["DE"]}}, "between 2 and"),
    "levels that look the same": ({"features": {"country": ["\u00e9", "e\u0301"]}}, "look the same"),
    "levels but for a space": ({"features": {"country": ["DE", "DE "]}}, "look the same"),
    "a huge range": ({"features": {"age": [0, 10**400]}}, "two finite numbers"),
    "arms that look the same": ({"arms": ["\u00e9", "e\u0301"]}, "look the same"),
    "level twice": ({"features": {"country": ["DE", "DE"]}}, "each given once"),
    "no form": ({"features": {"age": "numeric"}}, "must be a range"),
    "no table": ({"features": "age"}, "must be a table"),
    "a column of files": ({"features": {"unit": [0, 1]}}, "another name"),
    "no name": ({"features": {"": [0, 1]}}, "not empty"),
    "no contexts in the model": ({"model": "conversions"}, "has no contexts"),
    "no features": ({"features": None}, "declare features"),
    "no spread": ({"model": "linear"}, "needs the sd of the rewards"),
    "another width": ({"model": Linear(prior_mean=[0.0, 0.0])}, "The features are 5 numbers"),
    "a model that fails": ({"model": Broken(prior_mean=[0.0] * 5)}, "mean_reward of Broken cannot be evaluated"),
    "a prior": ({"prior": "learned"}, "prior_mean and prior_sd"),
    "metrics": ({"metrics": [{"name": "refunds", "model": "conversions"}]}, "leave out metrics"),
    "a winner": ({"stop": {"p_best": 0.95}}, "no winner is named"),
    "arms' features alone": ({"arm_features": {"price": [0, 1]}}, "shared=True"),
    "shared alone": ({"features": None, "model": "numbers", "shared": True}, "declare features"),
    "shared without θ": ({"sampler": "uniform", "shared": True}, "no θ to share"),
    "no metadata": ({"arm_features": {"price": [0, 1]}, "shared": True}, "lacks 'price'"),
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_bad_declaration_is_refused_in_a_sentence(tmp_path, name):
    settings, words = DECLARED[name]
    with pytest.raises(ConfigError, match=words) as error:
        created(tmp_path / "blts.db", **settings)
    assert "\n" not in str(error.value)


SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"n": 1}, "give contexts"),
    "too few": ({"n": 2, "contexts": [ONE]}, "1 contexts for 2 decisions"),
    "for units": ({"units": ["ann", "bob"], "contexts": [ONE]}, "1 contexts for 2 decisions"),
    "one table": ({"contexts": ONE}, "a list of tables"),
    "no table": ({"contexts": [3]}, "must be a table with age, country, returning"),
    "unknown column": ({"contexts": [ONE | {"height": 2}]}, "Context 1 has 'height', which is not declared"),
    "missing column": ({"contexts": [{"age": 40, "country": "FR"}]}, "lacks 'returning'"),
    "NaN": ({"contexts": [ONE, ONE | {"age": float("nan")}]}, "Context 2: age must be a number from 18 to 90; got nan"),
    "out of range": ({"contexts": [ONE | {"age": 17.9}]}, "from 18 to 90"),
    "text": ({"contexts": [ONE | {"age": "40"}]}, "must be a number"),
    "truth for a number": ({"contexts": [ONE | {"age": True}]}, "must be a number"),
    "unknown level": ({"contexts": [ONE | {"country": "UK"}]}, "one of DE, FR, US; got 'UK'"),
    "number for a truth": ({"contexts": [ONE | {"returning": 1}]}, "true or false; got 1"),
    "no arms": ({"contexts": [ONE], "available": []}, "names no arm"),
    "no arm": ({"contexts": [ONE], "available": [[]]}, "at least one label"),
    "unknown arm": ({"contexts": [ONE], "available": ["Z"]}, "Z"),
    "masks too few": ({"contexts": [ONE, ONE], "available": [["A"]]}, "1 lists for 2 decisions"),
    "mask of numbers": ({"contexts": [ONE], "available": [[0]]}, "must be text"),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return created(tmp_path_factory.mktemp("people") / "blts.db", batching="external")


@pytest.mark.parametrize("name", SHOWN)
def test_a_bad_context_is_refused_in_a_sentence_and_nothing_is_decided(people, name):
    asked, words = SHOWN[name]
    before = people.status()["decisions"]
    with pytest.raises(BltsError, match=words) as error:
        people.ask(**asked)
    assert "\n" not in str(error.value)
    assert people.status()["decisions"] == before


def test_contexts_where_none_are_declared_are_refused(tmp_path):
    plain = Experiment.create(tmp_path / "blts.db", "plain", ["A", "B"], "conversions")
    with pytest.raises(ConfigError, match="declares no features"):
        plain.ask(contexts=[ONE])
    with pytest.raises(ConfigError, match="declares no features"):
        plain.ask(available=["A"])


def test_a_level_is_what_it_looks_like(tmp_path):
    """Some systems write é as two characters."""
    with created(tmp_path / "blts.db", features={"drink": ["caf\u00e9", "tea"]}, batching="external") as experiment:
        experiment.ask(contexts=[{"drink": "cafe\u0301"}])
        assert table_of(experiment).contexts == [{"drink": "caf\u00e9"}]


def test_totals_are_refused(people):
    with pytest.raises(ConfigError, match="which contexts"):
        people.tell_aggregate("A", 1, total=1.0, request_id="totals")


def test_a_specification_survives_json_and_another_one_is_another_experiment(tmp_path):
    spec = Spec.of(LABELS, LINEAR, features=FEATURES)
    assert Spec.from_json(spec.to_json()) == spec
    assert json.loads(spec.to_json())["encoding"][1] == "age: from [18, 90] to [-1, 1]"
    created(tmp_path / "blts.db")
    with pytest.raises(ConfigError, match="features"):
        created(tmp_path / "blts.db", features=FEATURES | {"age": [18, 91]})


def test_only_declared_features_are_stored(tmp_path):
    experiment = created(tmp_path / "blts.db")
    experiment.ask(units=["ann"], contexts=[ONE])
    with sqlite3.connect(tmp_path / "blts.db") as c:
        stored = c.execute("SELECT t, context, available FROM blts_contexts").fetchall()
    c.close()
    assert stored == [(1, '{"age": 40.0, "country": "FR", "returning": true}', None)]
    assert experiment.status()["features"][1] == "age: from [18, 90] to [-1, 1]"


def test_the_encoding(people):
    shown = contexts(20)
    assert np.allclose([people.spec.encoding.encoded(x) for x in shown], [encoded(x) for x in shown])
    assert people.spec.encoding.columns == ["1", "age", "country=FR", "country=US", "returning"]


# Live equals simulated


@module
class Replayed(Env):
    """Shows given contexts and masks, and pays given rewards."""

    x: Numbers = array(ndim=2)
    available: Numbers = array(ndim=2)
    rewards: Numbers = array(ndim=2)

    @property
    def actions(self) -> int:
        return np.shape(self.rewards)[-1]

    def _shown(self, t):
        return Context(jnp.asarray(self.x)[t], (), jnp.asarray(self.available)[t] > 0)

    def reset(self, key):
        return jnp.zeros((), int), self._shown(0)

    def step(self, key, state, action):
        reward = jnp.asarray(self.rewards)[state, action]
        return state + 1, Step(self._shown(jnp.minimum(state + 1, self.x.shape[0] - 1)), reward, jnp.zeros(()))


ROUNDS = 150


def masks(n: int) -> list[list[str] | None]:
    return [None if i % 3 else ["A", "C"] for i in range(n)]


def lived(experiment: Experiment, rewards: np.ndarray) -> list[int]:
    """The arms of a live experiment, asked for in small parts, its rewards told backwards."""
    arms, shown = [], contexts(ROUNDS)
    while len(arms) < ROUNDS:
        here = slice(len(arms), min(len(arms) + 7, ROUNDS))
        answer = experiment.ask(contexts=shown[here], available=masks(ROUNDS)[here])
        told = []
        for decision in answer.decisions:
            arms.append(LABELS.index(decision.arm))
            told.append((decision.id, float(rewards[len(arms) - 1, arms[-1]])))
        experiment.tell(told[::-1])
        if answer.feedback_due:
            assert experiment.refresh().in_use
    return arms


def test_live_equals_simulated(tmp_path):
    """The same seed, contexts, masks and rewards make the same decisions; with other contexts they do not."""
    shown, rewards = contexts(ROUNDS), np.random.default_rng(1).normal(size=(ROUNDS, 3)).astype(np.float32)
    available = np.array([[mask is None or label in mask for label in LABELS] for mask in masks(ROUNDS)], float)
    x = np.array([encoded(one) for one in shown], float)
    experiment = created(tmp_path / "blts.db", seed=5, strict=True)
    live = lived(experiment, rewards)
    agent = Thompson(Linear(prior_mean=np.zeros(5), sd=1.0), Exact(), 3)

    def simulated(x):
        env = Replayed(x, available, rewards)
        trace = simulate(5, env, agent, Fixed(50), horizon=ROUNDS, replications=1, keep_actions=True)
        assert trace.actions is not None
        return np.asarray(trace.actions[0]).tolist()

    assert live == simulated(x)
    assert live != simulated(x[::-1])  # the mutant
    assert experiment.verify() == []


def test_chunks_are_the_whole(tmp_path):
    """Neither decisions nor their propensities depend on how many are asked for at once, or on their neighbours."""
    shown, url = contexts(300), tmp_path / "blts.db"
    whole, parts = (created(url, name, batching="external") for name in ("whole", "parts"))
    for experiment in (whole, parts):
        played(experiment, 60)
    at_once = whole.ask(contexts=shown).decisions
    each = [d for i, n in ((0, 1), (1, 16), (17, 40), (57, 243)) for d in parts.ask(contexts=shown[i : i + n]).decisions]
    assert [(d.arm, d.propensities) for d in each] == [(d.arm, d.propensities) for d in at_once]
    assert len({tuple(d.propensities.values()) for d in at_once}) == 300  # every decision has its own
    assert whole.verify() == parts.verify() == []


def test_a_unit_keeps_its_decision_and_a_request_its_answer(people):
    shown = contexts(4, seed=2)
    first = people.ask(units=list("wxyz"), contexts=shown, request_id="r").decisions
    assert people.ask(units=list("zyxw"), contexts=shown).decisions == first[::-1]
    assert people.ask(units=list("wxyz"), contexts=shown, request_id="r").decisions == first
    with pytest.raises(ConfigError, match="something else"):
        people.ask(units=list("wxyz"), contexts=shown[::-1], request_id="r")
    twice = people.ask(units=["v", "v"], contexts=shown[:2]).decisions
    assert twice[0] == twice[1]
    assert people.verify() == []


def asked_and_killed(url: str) -> None:
    """Ask for 1,000 units, say their arms, and die."""
    with Experiment.open(url, "people") as experiment:
        arms = [d.arm for d in experiment.ask(units=[f"u{i}" for i in range(1000)], contexts=contexts(1000)).decisions]
    print(json.dumps(arms), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_after_a_kill_a_thousand_contexts_have_the_same_arms(tmp_path):
    place = tmp_path / "blts.db"
    with created(place, batching="external") as experiment:
        played(experiment, 60)
    script = f"import sys; sys.path[:0] = {[str(TESTS), str(TESTS.parent)]!r}; import test_contexts as t; "
    script += f"t.asked_and_killed({str(place)!r})"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert child.returncode == -signal.SIGKILL, child.stderr[-3000:]
    arms = json.loads(child.stdout)
    experiment = Experiment.open(place, "people")
    again = experiment.ask(units=[f"u{i}" for i in range(1000)], contexts=contexts(1000)).decisions
    assert [d.arm for d in again] == arms
    assert len(set(arms)) == 3
    assert experiment.status()["decisions"] == 1060


# Verified


CHANGES = {
    "context": "UPDATE blts_contexts SET context = replace(context, 'true', 'false') WHERE context LIKE '%true%'",
    "mask": "UPDATE blts_contexts SET available = '[0]' WHERE t = 1",
    "all arms": "UPDATE blts_contexts SET available = NULL WHERE available IS NOT NULL",
    "time": "UPDATE blts_contexts SET t = t + 1000 WHERE t = 1",
    "position": "UPDATE blts_contexts SET position = position + 1 WHERE t = 1",
    "deleted": "DELETE FROM blts_contexts WHERE t = 1",
    "all deleted": "DELETE FROM blts_contexts",
    "added": "INSERT INTO blts_contexts SELECT experiment, t + 1000, context, available, position FROM blts_contexts WHERE t = 1",
    "no JSON": "UPDATE blts_contexts SET context = '{' WHERE t = 1",
    "no text": "UPDATE blts_contexts SET context = x'ff00' WHERE t = 1",
}


def test_changed_contexts_are_noticed(tmp_path, monkeypatch):
    path = tmp_path / "blts.db"
    with created(path, batching="external") as experiment:
        played(experiment, 60)
        experiment.ask(contexts=contexts(10), available=["A", "B"])
        assert experiment.verify() == []
    whole = path.read_bytes()

    def found(statement: str) -> list[str]:
        for old in tmp_path.glob("blts.db*"):
            old.unlink()
        path.write_bytes(whole)
        with sqlite3.connect(path) as c:
            for action in ("update", "delete"):
                c.execute(f"DROP TRIGGER blts_contexts_no_{action}")
            assert c.execute(statement).rowcount > 0
        c.close()
        with Experiment.open(path, "people") as changed:
            return changed.verify()

    with sqlite3.connect(path) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    c.close()
    whole = path.read_bytes()
    for name, statement in CHANGES.items():
        assert found(statement), name
    # Without the chain, the replay itself sees other contexts.
    monkeypatch.setattr("blts.live.verify.check_chain", lambda *arguments: [])
    assert any("propensities" in sentence or "another" in sentence for sentence in found(CHANGES["context"]))


def test_a_worker_refreshes_and_ends_it(tmp_path):
    """A stopping rule without a winner: after its units the control is promoted."""
    path, stop = tmp_path / "blts.db", {"units": 60, "action": "promote", "otherwise": "control"}
    experiment = created(path, stop=stop)
    shown = contexts(60)
    decisions = experiment.ask(contexts=shown).decisions
    experiment.tell([(d.id, reward(d, x)) for d, x in zip(decisions, shown, strict=True)])
    worker = Worker(path)
    done = [one for _ in range(2) for one in worker.once()]
    worker.close()
    assert [one.problem for one in done] == [None] * len(done)
    assert experiment.status()["promoted"] == "A"
    assert experiment.ask(contexts=shown[:1]).decisions[0].arm == "A"
    assert experiment.report(2)["winner"] is None
    assert experiment.verify() == []


def test_an_export_has_the_contexts(tmp_path):
    experiment = created(tmp_path / "blts.db")
    experiment.ask(contexts=contexts(3), available=[None, ["A"], ["A", "B"]])
    experiment.export(tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()
    header = lines[0].split(",")
    assert [name for name in header if name.startswith("context: ")] == [f"context: {name}" for name in FEATURES]
    assert [line.split(",")[header.index("available")] for line in lines[1:]] == ["", "A", "A; B"]
    assert table_of(experiment).contexts == contexts(3)


def test_a_unit_that_keeps_an_arm_which_is_not_available_says_so(tmp_path):
    with created(tmp_path / "blts.db", batching="external") as experiment:
        (first,) = experiment.ask(units=["ann"], contexts=[ONE], available=["A"]).decisions
        assert (first.arm, first.available) == ("A", True)
        again = experiment.ask(units=["ann", "bob"], contexts=[ONE, ONE], available=["B"]).decisions
        assert [(d.arm, d.available) for d in again] == [("A", False), ("B", True)]
        (alone,) = experiment.ask(units=["ann"], contexts=[ONE], available=["B", "C"]).decisions
        assert alone == first._replace(available=False)
        both = experiment.ask(units=["cid", "cid"], contexts=[ONE, ONE], available=[["C"], ["A"]]).decisions
        assert [(d.arm, d.available) for d in both] == [("C", True), ("C", False)]
        with pytest.raises(BltsError, match="Z"):
            experiment.ask(units=["ann"], contexts=[ONE], available=["Z"])
        experiment.retire_arm("A")
        assert not experiment.ask(units=["ann"], contexts=[ONE]).decisions[0].available
        assert experiment.ask(units=["bob"], contexts=[ONE]).decisions[0].available
        assert experiment.verify() == []
