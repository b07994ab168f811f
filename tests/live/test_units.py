"""Units keep their decision and stay unknown; many threads, forked processes, and groups of requests."""

from __future__ import annotations

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from blts.errors import BltsError, ConfigError, StoreError
from blts.live import Experiment, SharedSeed, asking, database, schema
from blts.live.combining import Combiner, Waiting
from blts.live.request import Request, unit_hash
from experiments import LABELS, created, made, rewarded

EXACT = {"model": "bernoulli", "sampler": "exact", "batching": "external"}


# Seeds and ids


def agreement(one: Experiment, other: Experiment, n: int = 500) -> float:
    """The share of decisions, made in the same order, with the same arm."""
    pairs = zip(one.ask(n).decisions, other.ask(n).decisions, strict=True)
    return sum(a.arm == b.arm for a, b in pairs) / n


def test_experiments_without_a_seed_have_nothing_in_common(tmp_path):
    """Arms agree a third of the time, as by chance; with the same stated seed, which is warned of, always."""
    mail, push = (Experiment.create(tmp_path / "x.db", name, LABELS, **EXACT) for name in ("mail", "push"))
    assert mail.spec.seed != push.spec.seed
    assert 1 / 3 - 0.1 < agreement(mail, push) < 1 / 3 + 0.1  # 4.7 standard deviations
    stated = Experiment.create(tmp_path / "x.db", "stated", LABELS, **EXACT, seed=7)
    with pytest.warns(SharedSeed, match="has the seed 7, as has 'stated'"):
        again = Experiment.create(tmp_path / "x.db", "again", LABELS, **EXACT, seed=7)
    assert agreement(stated, again) == 1


def test_ids_of_a_database_that_was_created_again_are_unknown(tmp_path):
    old = made(tmp_path)
    ids = rewarded(old.ask(3))
    old.close()
    for path in tmp_path.glob("blts.db*"):
        path.unlink()
    new = made(tmp_path)
    new.ask(3)
    assert new.tell(ids).unknown == 3
    assert new.status()["without_reward"] == 3


def test_negative_zero_verifies(url):
    """SQLite does not keep the sign of -0.0, PostgreSQL does."""
    experiment = created(url, strict=False, window=10.0, default_reward=-0.0, clock=(clock := Clock()))
    a, b, c, *_ = experiment.ask(6).decisions
    experiment.tell([(a.id, -0.0)])
    experiment.correct(b.id, -0.0)
    experiment.tell_aggregate(c.arm, 1, total=-0.0, total_of_squares=0.0, request_id="x")
    clock.now = 100.0
    assert experiment.refresh().in_use
    assert experiment.verify() == []


class Clock:
    now = -0.0

    def __call__(self) -> float:
        return self.now


# Units


def test_a_unit_keeps_its_decision(url):
    """Over refreshes, arms that come and go, and another process; `ask` without units never gives it away."""
    experiment = created(url, strict=False)
    first = experiment.ask(units=["ann", "bob", "ann"]).decisions
    assert first[0] == first[2]
    assert [d.unit for d in first] == ["ann", "bob", "ann"]
    mine = {d.unit: (d.id, d.arm, d.propensities) for d in first}
    told = experiment.tell([{"unit": u, "reward": 1.0} for u in ("ann", "bob", "nobody")], request_id="t")
    assert (told.accepted, told.ids) == (2, {"unknown": ["nobody"]})
    assert experiment.tell([{"unit": u, "reward": 1.0} for u in ("ann", "bob", "nobody")], request_id="t") == told
    experiment.tell(rewarded(experiment.ask(10)))
    experiment.refresh()
    experiment.add_arm("D")
    experiment.retire_arm(first[0].arm)
    for again in (experiment, Experiment.open(url, "mail")):
        for decision in again.ask(units=["bob", "ann", "cid"]).decisions[:2]:
            id_, arm, propensities = mine[decision.unit or ""]
            assert (decision.id, decision.arm) == (id_, arm)
            assert {k: decision.propensities[k] for k in propensities} == propensities
    assert experiment.status()["decisions"] == 13
    assert experiment.tell(unit="ann", reward=1.0).duplicate == 1
    assert experiment.verify() == []


def test_returning_units_wait_for_no_writer(tmp_path, monkeypatch):
    """Their decisions never change, so they are read; new units wait."""
    experiment = made(tmp_path, strict=False)
    first = experiment.ask(units=["ann", "bob"])
    experiment.pause()
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    with sqlite3.connect(tmp_path / "blts.db", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert experiment.ask(units=["bob", "ann"]).decisions == first.decisions[::-1]
        assert experiment.ask(units=["bob"]).paused
        with pytest.raises(StoreError, match="locked"):
            experiment.ask(units=["ann", "cid"])
        writer.execute("ROLLBACK")
    writer.close()
    answer = experiment.ask(units=["ann", "cid"])
    assert [d.unit for d in answer.decisions] == ["ann"]
    assert answer.why == "the experiment is paused"


def test_units_are_not_stored_in_clear(tmp_path):
    """Nowhere in the database's files, the write-ahead log too, whatever became of the rows about them."""
    experiment = made(tmp_path, strict=False, exposure="explicit", metrics=[{"name": "m", "model": "numbers", "role": "secondary"}])
    unit = "secret-unit-of-somebody"
    experiment.ask(units=[unit], request_id="visible-request")
    experiment.expose(units=[unit])
    for rows in ([{"unit": unit, "reward": 1.0}], [{"unit": unit, "reward": "x"}], [{"unit": unit, "reward": 9.0}]):
        for metric in (None, "m"):
            told = [*rows, {"unit": unit + "-unknown", "reward": 1.0}]
            assert experiment.tell(told, request_id=f"t {metric} {rows[0]['reward']}", metric=metric).unknown == 1
    experiment.tell([{"unit": unit, "decision_id": unit, "reward": 1.0}], request_id="malformed")
    for wrong in (lambda: experiment.expose(units=[unit + "2"]), lambda: experiment.ask(2, units=[unit])):
        with pytest.raises(ConfigError):
            wrong()
    experiment.refresh(force=True)
    assert (tmp_path / "blts.db-wal").stat().st_size > 0
    for closed in (False, True):
        if closed:
            experiment.close()
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("blts.db*"))
        assert b"visible-request" in stored  # so it would be found
        assert b"secret-unit" not in stored
    with sqlite3.connect(tmp_path / "blts.db") as c:
        (hashed,) = c.execute("SELECT unit FROM blts_units").fetchone()
    c.close()
    other = made(tmp_path, "other")
    assert unit_hash(other.session, unit) != hashed == unit_hash(experiment.session, unit)  # keyed


def test_a_unit_named_like_a_decision_is_exposed_by_its_own_name(tmp_path):
    experiment = made(tmp_path, strict=False, exposure="explicit")
    first = experiment.ask(1).decisions[0]
    second = experiment.ask(units=[first.id]).decisions[0]
    assert experiment.expose([first.id], units=[first.id]) == 2
    with experiment.database.read() as c:
        assert sorted(c.execute(sa.select(schema.exposures.c.t)).scalars()) == [1, 2]
    assert second.id != first.id


# Threads and processes


def in_threads(experiment: Experiment) -> None:
    """Eight threads that ask for the same and for different units, and without units."""
    start = threading.Barrier(8)

    def ask(i: int) -> list:
        start.wait()
        out = []
        for j in range(6):
            out += experiment.ask(units=[f"shared {j}", f"own {i} {j}"]).decisions
            out += experiment.ask(1).decisions
        return out

    with ThreadPoolExecutor(8) as pool:
        found = [d for some in pool.map(ask, range(8)) for d in some]
    shared = {d.unit: {e.id for e in found if e.unit == d.unit} for d in found if d.unit is not None}
    assert len(shared) == 6 + 48
    assert all(len(ids) == 1 for ids in shared.values())
    assert len({d.id for d in found}) == experiment.status()["decisions"] == 6 + 48 + 48
    assert experiment.verify() == []


def test_eight_threads_share_an_experiment(url):
    in_threads(created(url, strict=False, sampler="exact", batching="external"))


def test_a_database_in_memory_is_one_for_all_threads():
    """Before, every thread had an empty one of its own."""
    experiment = created("sqlite://", strict=False, batching="external")
    in_threads(experiment)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: (experiment.tell(unit=f"own {i} 0", reward=1.0), experiment.status()), range(8)))
    assert experiment.status()["entries"] == 8
    assert experiment.refresh().refreshed
    assert experiment.verify() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_told_to_open_the_experiment_again(url):
    experiment = created(url, strict=False)
    ids = [d.id for d in experiment.ask(2).decisions]
    calls = {
        "ask": lambda: experiment.ask(1),
        "tell": lambda: experiment.tell([(ids[0], 1.0)]),
        "refresh": lambda: experiment.refresh(force=True),
        "status": experiment.status,
        "verify": experiment.verify,
    }
    ready, said = os.pipe()
    child = os.fork()
    if child == 0:
        words = []
        for name, call in calls.items():
            try:
                call()
            except StoreError as error:
                words.append(f"{name}: {error}")
            except BaseException as error:
                words.append(f"{name}: {error!r}")
        experiment.close()
        os.write(said, "\n".join(words).encode())
        os._exit(0)
    os.close(said)
    _, status = os.waitpid(child, 0)
    lines = os.read(ready, 100_000).decode().splitlines()
    os.close(ready)
    assert status == 0
    assert [line.split(":")[0] for line in lines] == list(calls)
    assert all("open the experiment again in the child process" in line and "spawn" in line for line in lines), lines
    assert len(experiment.ask(1).decisions) == 1  # the parent goes on, with its own connection
    assert experiment.verify() == []


# Groups


REQUESTS = (
    (2, None, "r1"),
    (None, ("ann", "bob"), None),
    (None, ("bob", "cid"), "r2"),  # must see the decision of the request before
    (3, None, None),
    (2, None, "r1"),  # the same request again
    (None, ("ann",), "r3"),
    (4, None, None),
)


def request_of(experiment: Experiment, n, units, request_id) -> Request:
    given = units or ()
    return Request(n or len(given), units, tuple(unit_hash(experiment.session, u) for u in given), request_id)


def ledger_of(experiment: Experiment) -> dict:
    """What is stored, without times, random ids and digests of them."""
    with experiment.database.read() as c:
        read = lambda table, *names: c.execute(sa.select(*(table.c[n] for n in names)).order_by(table.c.position)).all()  # noqa: E731
        row = experiment.session.row(c)
        return {
            "decisions": read(schema.decisions, "t", "arm", "batch", "policy", "vector", "position"),
            "units": sorted(read(schema.units, "t", "position")),
            "requests": read(schema.requests, "request", "answer", "position"),
            "audit": read(schema.audit, "position", "what", "detail")[1:],
            "row": (row.t, row.position, row.due, row.closing, row.awaited, row.clock),
        }


def plain(answer, code: str) -> tuple:
    return answer._replace(decisions=[d._replace(id=d.id.removeprefix(code)) for d in answer.decisions])


@pytest.mark.parametrize("strict", [False, True])
def test_a_group_of_asks_is_those_asks_one_by_one(tmp_path, strict):
    """The same decisions, propensities, positions and answers, bit for bit."""
    one, all_ = (created(tmp_path / f"{name}.db", strict=strict) for name in ("one", "all"))
    single = [plain(one.ask(n, r, units=list(u) if u else None), one.code) for n, u, r in REQUESTS]
    group: list[Waiting] = [Waiting(request_of(all_, *request)) for request in REQUESTS]
    asking.ask_all(all_.session, group)
    together = [plain(waiting.answer, all_.code) for waiting in group]
    assert together == single
    assert ledger_of(all_) == ledger_of(one)
    assert one.verify() == all_.verify() == []


def test_a_request_that_is_refused_does_not_spoil_its_group(tmp_path):
    experiment = made(tmp_path, strict=False)
    experiment.ask(2, request_id="r1")
    group: list[Waiting] = [Waiting(request_of(experiment, *r)) for r in ((1, None, None), (3, None, "r1"), (1, None, None))]
    asking.ask_all(experiment.session, group)
    assert isinstance(group[1].error, ConfigError)
    assert [len(w.answer.decisions) for w in (group[0], group[2])] == [1, 1]
    assert experiment.verify() == []


def test_nobody_waits_for_ever():
    """A group that fails, and a request that was forgotten."""

    def fail(group):
        raise BltsError("No.")

    with pytest.raises(BltsError, match="No"):
        Combiner(fail).submit(1)
    with pytest.raises(RuntimeError, match="without an answer"):
        Combiner(lambda group: None).submit(1)
