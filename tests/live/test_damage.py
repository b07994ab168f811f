"""Databases that were changed outside of blts: whatever is called, an answer or one sentence that names `verify`."""

from __future__ import annotations

import pathlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import shown
import test_mutations as mutations
from blts.errors import BltsError, StoreError
from blts.live import Experiment, figures, overview, page, reports, schema
from blts.live.worker import Worker
from experiments import Hand, created

VERIFY = "blts experiment verify"


def calls(path: pathlib.Path, folder: pathlib.Path, asked: dict[str, Any]) -> dict[str, Callable[[Experiment], Any]]:
    """Everything that reads an experiment; `asked` is for units that have a decision."""

    def html(experiment: Experiment) -> None:
        page.write(experiment, experiment.report(), folder / "page.html")
        figures.draw(experiment, folder / "figures")

    def work(experiment: Experiment) -> None:
        worker = Worker(path, clock=Hand())
        try:
            for done in worker.once():
                assert "cannot be looked after" not in (done.problem or ""), done.problem
        finally:
            worker.close()

    return {
        "status": lambda e: e.status(),
        "report": lambda e: e.report(fresh=True),
        "html": html,
        "export": lambda e: e.export(folder / "all.csv"),
        "known units": lambda e: e.ask(**asked),
        "audit": lambda e: e.audit(),
        "policy": lambda e: e.policy(),
        "pages": lambda e: (e.decisions(), e.policies(), e.audit_page(), e.decision(unit="ann")),
        "overview": lambda e: overview.experiments(e.database),
        "tell": lambda e: e.tell([{"unit": "ann", "reward": 1.0}]),
        "refresh": lambda e: e.refresh(force=True),
        "worker": work,
    }


def with_contexts(path: pathlib.Path) -> dict[str, Any]:
    """An experiment with contexts, masks, windows, a new arm and a stored report; what its units are asked for with."""
    clock, people = Hand(), shown.contexts(30)
    with shown.created(path, "mail", clock=clock, batching="external", window=100.0, default_reward=0.0) as mail:
        decisions = mail.ask(contexts=people[:20], request_id="r1").decisions
        asked = {"units": ["ann", "bob"], "contexts": people[20:22], "available": ["A", "B"]}
        mail.ask(**asked)
        mail.tell([(d.id, 1.0 + i % 3) for i, d in enumerate(decisions)], request_id="t1")
        clock.now += 200
        assert mail.refresh(force=True).in_use
        mail.add_arm("D")
        mail.ask(contexts=people[22:])
        reports.keep(mail)
    return asked


@pytest.fixture(scope="module", params=["plain", "contexts"])
def whole(request, tmp_path_factory):
    path, asked = tmp_path_factory.mktemp("whole") / "blts.db", {"units": ["ann", "bob"]}
    if request.param == "plain":
        mutations.lived(path)
    else:
        asked = with_contexts(path)
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    c.close()
    return path, asked


def check(whole: Any, folder: pathlib.Path, some: list[tuple[str, str | None, str]], leave_out: tuple[str, ...] = ()) -> int:
    """Each mutation and each call on a fresh copy; how many ended in a sentence."""
    (source, asked), changed, path, sentences = whole, folder / "changed.db", folder / "copy.db", []
    for table, column, what in some:
        shutil.copy(source, changed)
        try:
            if mutations.mutate(changed, schema.metadata.tables[table], column, what) is None:
                continue
        except IndexError:  # a table without rows
            continue
        for name, call in calls(path, folder, asked).items():
            if name in leave_out:
                continue
            for old in folder.glob("copy.db*"):
                old.unlink()
            shutil.copy(changed, path)
            try:
                with Experiment.open(path, "mail", clock=Hand()) as experiment:
                    call(experiment)
            except BltsError as error:
                sentences.append(str(error))
    assert not any("\n" in sentence for sentence in sentences)
    return len(sentences)


def all_mutations(monkeypatch) -> list[tuple[str, str | None, str]]:
    monkeypatch.setattr(
        mutations, "TABLES", [t for t in schema.metadata.sorted_tables if t not in (schema.measures, *mutations.OUTSIDE)]
    )
    return mutations.mutations()


def test_some_changes_are_sentences(whole, tmp_path, monkeypatch):
    some = random.Random(7).sample(all_mutations(monkeypatch), 8)
    assert check(whole, tmp_path, some, leave_out=("html", "worker")) > 5


@pytest.mark.slow
def test_more_changes_are_sentences(whole, tmp_path, monkeypatch):
    """Reports and workers too. There are thousands of pairs of a change and a call, which would take hours."""
    some = random.Random(8).sample(all_mutations(monkeypatch), 60)
    assert check(whole, tmp_path, some) > 60


MISSING = {
    "a decision": "DELETE FROM blts_decisions WHERE t = 3",
    "its arm": "UPDATE blts_decisions SET arm = -1 WHERE t = 3",
    "a context": "DELETE FROM blts_contexts WHERE t = 3",
    "a reward": "DELETE FROM blts_rewards WHERE t = 3",
    "its number": "UPDATE blts_rewards SET reward = NULL WHERE t = 3",
    "a vector": "UPDATE blts_vectors SET probabilities = replace(probabilities, '0.', '0.0')",
    "a policy": "DELETE FROM blts_policies WHERE version = 3",
    "an arm": "DELETE FROM blts_arms WHERE arm = 1",
}


def execute(path: pathlib.Path, statement: str) -> None:
    c = sqlite3.connect(path)
    for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        c.execute(f"DROP TRIGGER {name}")
    assert c.execute(statement).rowcount > 0
    c.commit()
    c.close()


@pytest.mark.parametrize("what", MISSING)
def test_a_report_on_fewer_rows_than_were_written_is_refused(tmp_path, what):
    """Arrays would have anything in their place."""
    path = tmp_path / "blts.db"
    with_contexts(path)
    execute(path, MISSING[what])
    with Experiment.open(path, "mail") as mail, pytest.raises(StoreError, match=VERIFY) as error:
        mail.report()
    assert "\n" not in str(error.value)
    if what in ("a decision", "a context", "a reward"):
        with Experiment.open(path, "mail") as mail, pytest.raises(StoreError, match=VERIFY):
            mail.refresh(force=True)


def test_a_count_that_cannot_grow_is_a_sentence(tmp_path):
    """Only a replay knows that it is wrong."""
    path = tmp_path / "blts.db"
    with_contexts(path)
    execute(path, f"UPDATE blts_experiments SET batch = {2**63 - 1}")
    with Experiment.open(path, "mail") as mail, pytest.raises(StoreError, match=VERIFY):
        mail.refresh(force=True)


def test_an_error_with_another_reason_is_not_blamed_on_the_database(tmp_path, monkeypatch):
    """The mutant of `noticed`: an error of a user's code must stay what it is."""

    def fails(*arguments):
        raise KeyError("mine")

    with created(tmp_path / "blts.db") as mail:
        monkeypatch.setattr("blts.live.status.status", fails)
        with pytest.raises(KeyError, match="mine"):
            mail.status()
