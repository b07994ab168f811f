"""Pages of the ledger together are the whole ledger, a decision has all that was said of it, and the overview is the status."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sa

import shown
from blts.errors import ConfigError, UnknownName
from blts.live import Experiment, overview, pages, reports, schema
from blts.live.database import Database
from blts.live.export import table_of
from blts.live.worker import Worker
from experiments import REFUNDS, Hand, created, made, rewarded

SHARED = ["name", "paused", "stopped", "promoted", "arms", "active", "decisions", "entries", "without_reward", "batch"]
SHARED += ["feedback_due", "policy", "policies", "created_at", "refreshed_at"]
"""Columns that the overview and `status` have in common."""


def lived(url) -> tuple[Experiment, Hand]:
    """Batches, arms that come and go, corrections, exposures, metrics."""
    clock = Hand()
    mail = created(url, strict=False, exposure="explicit", floor=0.05, metrics=[REFUNDS], clock=clock)
    for batch in range(3):
        decisions = mail.ask(7, request_id=f"r{batch}").decisions
        mail.expose([d.id for d in decisions[:6]])
        clock.now += 10.5
        mail.tell([(d.id, float(i)) for i, d in enumerate(decisions[:5])])
        clock.now += 1
        mail.correct(decisions[0].id, 9.0)
        mail.cancel([decisions[1].id])
        mail.tell([(decisions[0].id, 1.0)], metric="refunds")
        mail.refresh(force=True)
        (mail.add_arm, mail.retire_arm)[batch % 2](("D", "B")[batch % 2]) if batch < 2 else None
    return mail, clock


def walked(page, **first) -> list[dict]:
    """All rows of an experiment's pages."""
    rows, name = [], "after" if first else "before"
    found = page(limit=4, **first)
    while True:
        rows += found.rows
        assert len(found.rows) <= 4
        if found.next is None:
            return rows
        found = page(limit=4, **{name: found.next})


def test_pages_are_the_whole_ledger(url):
    mail, _ = lived(url)
    table = table_of(mail)
    for rows in (walked(mail.decisions, after=0), walked(mail.decisions)[::-1]):
        assert [row["id"] for row in rows] == table.ids
        assert [row["arm"] for row in rows] == [table.labels[a] for a in table.arms]
        assert [row["status"] for row in rows] == table.status.tolist()
        for name, column in (("reward", table.rewards), ("told_at", table.told_at), ("exposed_at", table.exposed_at)):
            np.testing.assert_array_equal(np.array([row[name] for row in rows], float), column)
        np.testing.assert_array_equal([row["at"] for row in rows], table.asked_at)
        np.testing.assert_array_equal([row["propensity"] for row in rows], table.p[np.arange(len(table.arms)), table.arms])
        assert all(row["propensities"][row["arm"]] == row["propensity"] for row in rows)
    assert walked(mail.audit_page, after=0) == walked(mail.audit_page)[::-1] == mail.audit()
    versions = walked(mail.policies, after=0)
    assert versions == walked(mail.policies)[::-1]
    assert [row["version"] for row in versions] == [1, 2, 3, 4, 5, 6]
    for row in versions:
        entry = mail.policy(row["version"])
        assert {name: row[name] for name in ("kind", "batch", "t", "at", "in_use", "failings", "n")} == {
            name: entry[name] for name in ("kind", "batch", "t", "at", "in_use", "failings", "n")
        }
        assert sum(row["allocation"].values()) == pytest.approx(1.0, abs=1e-6)
        assert min(row["allocation"].values()) >= 0.05 - 1e-6
    status = mail.status()
    assert (versions[-1]["allocation"], versions[-1]["active"]) == (status["allocation"], status["active"])
    assert mail.decisions(after=10**15).rows == []
    assert mail.decisions(before=1) == pages.Page([], None)


def test_a_page_is_one_that_can_be(tmp_path):
    mail = made(tmp_path)
    for wrong in ({"after": 1, "before": 2}, {"after": -1}, {"before": "x"}, {"limit": 0}, {"limit": 1001}, {"after": 2**63}):
        for page in (mail.decisions, mail.policies, mail.audit_page):
            with pytest.raises(ConfigError):
                page(**wrong)
    assert mail.decisions() == pages.Page([], None)


def test_a_decision_has_everything_that_was_said_of_it(url):
    clock = Hand()
    mail = created(url, strict=False, metrics=[REFUNDS], clock=clock)
    first = mail.ask(units=["ann"]).decisions[0]
    mail.ask(3)
    clock.now += 5
    mail.tell([(first.id, 1.0)])
    clock.now += 5
    mail.tell([(first.id, 1.0)], metric="refunds")
    mail.correct(first.id, 2.0)
    mail.correct(first.id, 0.0, metric="refunds")
    mail.cancel([first.id])
    found = mail.decision(first.id)
    assert found == mail.decision(unit="ann")
    assert (found["arm"], found["propensities"], found["batch"], found["policy"]) == (
        first.arm,
        first.propensities,
        first.batch,
        first.policy,
    )
    assert [(e["kind"], e["reward"], e["at"]) for e in found["rewards"]] == [
        ("told", 1.0, 1005.0),
        ("corrected", 2.0, 1010.0),
        ("cancelled", None, 1010.0),
    ]
    assert [(e["metric"], e["kind"], e["value"]) for e in found["metrics"]] == [
        ("refunds", "told", 1.0),
        ("refunds", "corrected", 0.0),
    ]
    assert (found["status"], found["reward"], found["told_at"]) == ("cancelled", None, 1010.0)
    page = mail.decisions(after=0, limit=1).rows[0]
    assert page == {name: found[name] for name in page}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for wrong in ({}, {"decision_id": first.id, "unit": "ann"}, {"unit": ""}):
        with pytest.raises(ConfigError):
            mail.decision(**wrong)
    for missing in (
        {"decision_id": f"{mail.code}-5"},
        {"decision_id": "nobody"},
        {"unit": "bob"},
        {"decision_id": f"{mail.code}-{10**30}"},
    ):
        with pytest.raises(UnknownName, match="There is no"):
            mail.decision(**missing)


def test_a_decision_shows_its_context(tmp_path):
    people = shown.created(tmp_path / "blts.db")
    contexts = shown.contexts(2)
    one, two = people.ask(contexts=contexts, available=[None, ["A", "B"]]).decisions
    assert (people.decision(one.id)["context"], people.decision(one.id)["available"]) == (contexts[0], None)
    assert people.decision(two.id)["available"] == ["A", "B"]
    assert people.policies().rows[0]["allocation"] is None


def test_the_overview_is_the_status_of_all(url):
    mail, clock = lived(url)
    even = created(url, "even", seed=1, strict=False, clock=clock)
    even.tell(rewarded(even.ask(6)))
    database = Database(url)
    assert [row["report"] for row in overview.experiments(database)] == [None, None]
    worker = Worker(url, clock=clock)
    worker.once()
    even.pause()
    mail.stop("A")
    mail.ask(2)
    found = overview.experiments(database)
    for row, experiment in zip(found, (mail, even), strict=True):
        status = experiment.status()
        assert {name: row[name] for name in SHARED} == {name: status[name] for name in SHARED}
        assert row["position"] == experiment.audit()[-1]["position"]
        report = reports.last(experiment)
        leader = report["evidence"]["leader"] if report["evidence"] else None
        assert row["report"] == {
            "version": report["as_of"]["version"],
            "as_of": report["as_of"],
            "recommendation": report["recommendation"],
            "winner": report["winner"],
            "leader": leader,
            "p_best": next((arm["p_best"] for arm in report["arms"] if arm["arm"] == leader), None),
            "allocation": {arm["arm"]: arm["allocation"] for arm in report["arms"] if arm["active"]},
            "alarms": [],
            "misfit": report["misfit"],
            "sample_ratio": False,
            "feedback_share": None,
        }
    assert overview.experiments(database) == found
    even.ask(1)
    even.resume()
    assert overview.experiments(database)[1]["position"] > found[1]["position"]


def test_the_overview_takes_few_queries_and_reads_a_report_once(tmp_path):
    clock = Hand()
    for i in range(5):
        one = made(tmp_path, f"x{i}", seed=i, clock=clock)
        reports.keep(one)
    database, said = Database(tmp_path / "blts.db"), []
    sa.event.listen(database.engine, "before_cursor_execute", lambda *arguments: said.append(arguments[2]))
    overview.experiments(database)
    first = len(said)
    overview.experiments(database)
    assert sum("SELECT" in text for text in said[first:]) == 2
    assert sum("SELECT" in text for text in said[:first]) == 2 + 5


def test_a_report_that_was_changed_is_said_in_its_place(tmp_path):
    good, bad = made(tmp_path, "good"), made(tmp_path, "bad", seed=1)
    for one in (good, bad):
        reports.keep(one)
    with bad.database.write() as c:
        c.execute(sa.update(schema.reports).where(schema.reports.c.experiment == bad.id).values(report="{}"))
    first, second = overview.experiments(good.database)
    assert first["report"]["as_of"]["decisions"] == 0
    assert "was changed" in second["report"]["recommendation"]
    assert second["report"]["winner"] is None
