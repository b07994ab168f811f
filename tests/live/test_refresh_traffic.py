"""Refreshes while others ask and tell: nobody waits for them, and nothing that comes meanwhile is lost."""

from __future__ import annotations

import threading

import pytest

from blts.live import Experiment, database, refreshing
from blts.live.export import table_of
from experiments import SGLD, Hand, created, rewarded

SETTINGS = {"strict": False, "window": 100.0, "default_reward": 0.0}


def during_refreshes(monkeypatch, work) -> list[int]:
    """Have another thread do some work while a refresh is computed; a list that has an entry for each computation."""
    computed, learned = [], refreshing.learned

    def busy(*arguments):
        made = learned(*arguments)
        computed.append(len(computed))
        errors: list[BaseException] = []

        def run() -> None:
            try:
                work(len(computed))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(30.0)  # PostgreSQL would wait for ever
        assert not errors, errors
        assert not thread.is_alive(), "somebody waits for the refresh"
        return made

    monkeypatch.setattr(refreshing, "learned", busy)
    monkeypatch.setattr(database, "PATIENCE", 0.2)  # seconds after which whoever waits for the lock gives up
    return computed


@pytest.mark.parametrize("scheme", [{"name": "fixed", "size": 6}, "external"])
def test_nobody_waits_for_a_refresh(url, monkeypatch, scheme):
    """Every computation is followed by more decisions and rewards, as on a busy page."""
    clock = Hand()
    experiment = created(url, clock=clock, batching=scheme, **SETTINGS)
    page = Experiment.open(url, "mail", clock=clock)
    page.ask(1)  # compile what is needed
    first = experiment.ask(9).decisions
    experiment.tell([(d.id, 1.0) for d in first[:4]])
    clock.now += 200.0

    def traffic(number: int) -> None:
        page.tell(rewarded(page.ask(3)))
        page.tell([(first[4].id, 2.0 if number == 1 else 3.0)])  # late: it was silent when the refresh began

    computed = during_refreshes(monkeypatch, traffic)
    done = experiment.refresh()
    assert (done.refreshed, done.in_use, done.version) == (True, True, 2)
    assert len(computed) == 2  # windows are closed after the first
    monkeypatch.undo()
    table = table_of(experiment)
    assert table.rewards[1:11].tolist() == [1.0] * 4 + [2.0] + [0.0] * 4 + [1.0]
    assert {int(v) for v in table.policies} == {1}
    assert sum(experiment.policy(2)["n"].values()) == 10  # what came meanwhile, in windows that are open, is learned later
    assert experiment.status()["without_reward"] == 0
    assert page.ask(1).decisions[0].policy == 2
    assert experiment.verify() == []
    clock.now += 200.0
    assert experiment.refresh(force=True).in_use
    assert sum(experiment.policy(3)["n"].values()) == 17
    assert experiment.verify() == []


def test_a_batch_that_is_closed_meanwhile_is_not_the_one_that_was_learned(tmp_path, monkeypatch):
    """A refresh of an open batch, forced, while its last decisions are made: the closed batch keeps its own refresh."""
    experiment = created(tmp_path / "blts.db", strict=False)
    page = Experiment.open(tmp_path / "blts.db", "mail")
    experiment.tell(rewarded(experiment.ask(4)))
    computed = during_refreshes(monkeypatch, lambda number: page.ask(2) if number == 1 else None)
    assert experiment.refresh(force=True).in_use
    assert len(computed) == 2
    monkeypatch.undo()
    assert experiment.policy(2)["known"] == 6
    assert experiment.verify() == []


def test_a_refresh_that_forgets_what_it_knew_is_found(tmp_path, monkeypatch):
    """The mutant: a version that is stored as if it had known all decisions."""
    experiment = created(tmp_path / "blts.db", strict=False, sampler=SGLD)
    page = Experiment.open(tmp_path / "blts.db", "mail")
    about = refreshing.entries.about
    monkeypatch.setattr(refreshing.entries, "about", lambda *a, **k: about(*a, **k | {"known": experiment.status()["decisions"]}))
    experiment.tell(rewarded(experiment.ask(6)))
    during_refreshes(monkeypatch, lambda number: page.ask(2))
    assert experiment.refresh().in_use
    monkeypatch.undo()
    assert experiment.verify() != []
