"""Processes that tell, correct, cancel and measure, killed by the dozen, against a log that they write beside the database.

`test_live_crash.py` kills processes that also ask and refresh. Those here use nothing that is compiled, so that a kill costs some
hundredths of a second, and there can be many.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import time
import traceback

import pytest
import sqlalchemy as sa

from blts.live import Experiment, schema
from blts.live.database import Database
from blts.live.export import table_of
from test_live_crash import start

METRIC = {"name": "refunds", "model": "conversions", "better": "lower"}
EACH = 40  # decisions for each kill, more than a process comes to
PAUSE = 0.015  # seconds at most between the first request of a process and its death: a request takes a thousandth or less


def operations(kills: int) -> list[tuple]:
    """What is done to the decisions, each operation once: more than that many processes can do."""
    chance, done, told, silent = random.Random(kills), [], [], list(range(1, EACH * kills + 1))
    while len(silent) > 8:
        kind = chance.choice(["tell", "tell", "measure", "correct", "cancel"])
        if kind == "tell":
            new = [silent.pop() for _ in range(chance.randint(1, 6))]
            told += new
            done.append(("tell", [(t, round(chance.gauss(5, 2), 3)) for t in new]))
        elif kind == "cancel":
            done.append(("cancel", silent.pop()))
        elif kind == "correct" and told:
            done.append(("correct", chance.choice(told), 100.0 + len(done)))
        elif kind == "measure" and told:
            done.append(("measure", told.pop(0), float(chance.random() < 0.5)))
    return done


def do(experiment: Experiment, ids: list[str], operation: tuple) -> None:
    match operation:
        case ("tell", rewards):
            experiment.tell([(ids[t - 1], reward) for t, reward in rewards])
        case ("correct", t, reward):
            experiment.correct(ids[t - 1], reward, reason="a test")
        case ("cancel", t):
            experiment.cancel([ids[t - 1]], reason="a test")
        case ("measure", t, value):
            experiment.tell([(ids[t - 1], value)], metric="refunds")


def forge(kills: int, seed: int, folder: str) -> None:
    """Fork processes that go on where the log ends, and kill each some moments after its first request."""
    url, log = os.environ["BLTS_TEST_URL"], pathlib.Path(folder) / "log"
    ids, todo, chance = json.loads((pathlib.Path(folder) / "ids").read_text()), operations(kills), random.Random(seed)
    log.touch()
    experiment = Experiment.open(url, "mail")
    do(experiment, ids, todo[0])  # everything that is built at the first request is there before the first fork
    log.write_bytes(b".")
    experiment.close()
    for _ in range(kills):
        before = len(log.read_bytes())
        child = os.fork()
        if child == 0:
            try:
                experiment.session.database = Database(url)  # connections of its own; JAX, which must not be forked, is not used
                with log.open("ab", buffering=0) as answered:
                    for operation in todo[before:]:
                        do(experiment, ids, operation)
                        answered.write(b".")
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        while len(log.read_bytes()) == before:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, PAUSE))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "all operations are done, or a process failed"
    print(len(log.read_bytes()))


def check_kills(url: str, folder: pathlib.Path, kills: int) -> None:
    """Kill that many processes; then what the log says was answered, and at most one operation more, is in the database, once."""
    experiment = Experiment.create(url, "mail", ["A", "B"], {"name": "gaussian", "sd": 2.0}, seed=5, metrics=[METRIC])
    ids = [d.id for d in experiment.ask(EACH * kills).decisions]
    (folder / "ids").write_text(json.dumps(ids))
    worker = start(url, f"import test_live_kills as k; k.forge({kills}, {kills}, {str(folder)!r})")
    out, err = worker.communicate(timeout=1500)
    assert worker.returncode == 0, err[-3000:]
    answered, todo = int(out.split()[-1]), operations(kills)
    assert experiment.verify() == []
    with experiment.database.read() as c:
        mine = schema.audit.c.experiment == experiment.id, schema.audit.c.what.in_(["tell", "correct", "cancel", "measure"])
        entries = c.execute(sa.select(schema.audit.c.what, schema.audit.c.detail).where(*mine).order_by(schema.audit.c.position))
        lines = [what for what, detail in entries if json.loads(detail).get("accepted") != 0]  # 0: told again after a kill
        measured = dict(c.execute(sa.select(schema.measures.c.t, schema.measures.c.value)).all())
        stored = c.execute(sa.select(sa.func.count()).select_from(schema.rewards)).scalar_one()
    assert len(lines) in (answered, answered + 1)
    done = todo[: len(lines)]
    assert lines == [operation[0] for operation in done]
    assert measured == {t: value for kind, t, *rest in done if kind == "measure" for value in rest}
    rewards: dict[int, float] = {}
    for kind, *rest in done:
        if kind == "tell":
            rewards |= dict(rest[0])
        elif kind == "correct":
            rewards[rest[0]] = rest[1]
    table = table_of(experiment)
    found = {int(t): float(r) for t, r in zip(table.t, table.rewards, strict=True) if r == r}
    assert found == rewards
    assert stored == sum(len(rest[0]) if kind == "tell" else kind in ("correct", "cancel") for kind, *rest in done)


def test_killed_tellers_lose_and_double_nothing(url, tmp_path):
    check_kills(url, tmp_path, 54)


@pytest.mark.slow
def test_a_thousand_killed_tellers(url, tmp_path):
    check_kills(url, tmp_path, 1000)


def test_the_check_finds_what_is_lost_or_doubled(tmp_path, monkeypatch):
    """The mutants: a client that forgets an operation, and one that does one twice under another name."""
    url = f"sqlite:///{tmp_path / 'blts.db'}"
    right = operations(4)
    monkeypatch.setattr("test_live_kills.operations", lambda kills: [right[1], *right[1:]])
    with pytest.raises(AssertionError):
        check_kills(url, tmp_path, 4)
