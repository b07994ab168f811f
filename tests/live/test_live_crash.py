"""Real processes, killed and crowded: nothing is lost, nothing is doubled, and the posterior is the same."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import sqlalchemy as sa

from blts.live import Experiment, schema
from blts.live.database import Database
from blts.live.export import table_of

LABELS = ("A", "B", "C")
GAUSSIAN = {"name": "gaussian", "sd": 1.0}
SPEC = {"arms": LABELS, "model": GAUSSIAN, "sampler": "exact", "batching": {"name": "fixed", "size": 10}, "strict": True}
STEPS = 12  # batches that a worker plays
TESTS = pathlib.Path(__file__).resolve().parent


def reward_of(decision: str) -> float:
    """A reward that anybody can compute again from the decision's number; the rest of an id is random."""
    return random.Random(decision.split("-")[1]).gauss(0.3, 1.0)


def play(url: str, say=lambda word: None) -> None:
    """All batches, from wherever the experiment is, with ids for every request: what a careful client does."""
    experiment = Experiment.create(url, "mail", **SPEC, seed=11)
    say("ready")
    while True:
        status = experiment.status()
        batch = status["batch"]
        if batch > STEPS:
            return
        ids = []
        for part in range(3):
            answer = experiment.ask(4, request_id=f"batch {batch}, part {part}")
            ids += [d.id for d in answer.decisions]
            say("ask")
        for start in range(0, len(ids), 5):
            experiment.tell([(i, reward_of(i)) for i in ids[start : start + 5]])
            say("tell")
        experiment.refresh()
        say("refresh")


def start(url: str, code: str) -> subprocess.Popen:
    script = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import test_live_crash as t; {code}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"  # those of this process: the same last bits
    environment = os.environ | {"BLTS_TEST_URL": url, "XLA_FLAGS": flags}
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def state_of(experiment: Experiment) -> dict:
    table = table_of(experiment)
    return {
        "decisions": table.t.tolist(),
        "arms": table.arms.tolist(),
        "rewards": table.rewards.tolist(),
        "data": [experiment.policy(v)["data"] for v in range(2, STEPS + 2)],
        "states": states(experiment),
    }


def states(experiment: Experiment) -> list[str]:
    with experiment.database.read() as c:
        entries = schema.policies
        query = sa.select(entries.c.state).where(entries.c.experiment == experiment.id).order_by(entries.c.version)
        return list(c.execute(query).scalars())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What comes out when nobody is killed."""
    place = f"sqlite:///{tmp_path_factory.mktemp('calm') / 'blts.db'}"
    play(place)
    return state_of(Experiment.open(place, "mail"))


def killed_until_done(url: str, kills: int, seed: int) -> tuple[int, int]:
    """Processes that play the experiment, killed at random moments until one comes through.

    How many were killed, and how many of those between their first request and their last.
    """
    worker = start(url, f"t.forge({kills}, {seed})")
    out, err = worker.communicate(timeout=900)
    assert worker.returncode == 0, err[-3000:]
    return tuple(json.loads(out.splitlines()[-1]))


def warm() -> None:
    """Have everything compiled, so that what follows is requests and nothing else."""
    with Experiment.create("sqlite://", "warm", **SPEC) as experiment:
        experiment.tell([(d.id, 0.5) for d in experiment.ask(4).decisions])
        experiment.refresh(force=True)


def forge(kills: int, seed: int) -> None:
    """Fork processes and kill them with SIGKILL, some moments after each has begun to play.

    Forking saves their imports and no more: neither JAX nor a database was used before.
    """
    chance, killed, inside, done = random.Random(seed), 0, 0, False
    while not done:
        ready, begun = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                warm()
                play(os.environ["BLTS_TEST_URL"], partial(_count, begun))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(begun)
        requests = 0
        if killed < kills:
            os.read(ready, 1)  # it is about to make its first request
            for _ in range(chance.randrange(12)):  # by progress, since a busy machine may do little in any time
                requests += len(os.read(ready, 1))
            time.sleep(chance.uniform(0.0, 0.05))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        requests += len(os.read(ready, 10_000))
        os.close(ready)
        done = not os.WIFSIGNALED(status)
        killed += not done
        inside += not done and requests > 0
        assert not done or os.WEXITSTATUS(status) == 0
    print(json.dumps([killed, inside]))


def _count(pipe: int, word: str) -> None:
    os.write(pipe, b".")


def check_crashes(url: str, undisturbed: dict, kills: int, seed: int) -> tuple[int, int]:
    counts = killed_until_done(url, kills, seed)
    experiment = Experiment.open(url, "mail")
    assert state_of(experiment) == undisturbed
    assert experiment.verify() == []
    return counts


def test_killed_processes_lose_and_double_nothing(url, undisturbed):
    killed, inside = check_crashes(url, undisturbed, 6, 1)
    assert killed >= 3
    assert inside >= 2


@pytest.mark.slow
def test_hundreds_of_killed_processes(url, undisturbed, tmp_path):
    """Experiment after experiment until 100 processes were killed between two of their requests."""
    inside, seed = 0, 100
    while inside < 100:
        if url.startswith("sqlite"):
            place = f"sqlite:///{tmp_path / f'{seed}.db'}"
        else:
            place = url
            clear(url)
        inside += check_crashes(place, undisturbed, 25, seed)[1]
        seed += 1
    print(f"{inside} killed at work in {seed - 100} experiments")


def clear(url: str) -> None:
    """Forget everything in a PostgreSQL database."""
    place = Database(url)
    with place.engine.connect() as c:
        c.exec_driver_sql("DROP SCHEMA public CASCADE")
        c.exec_driver_sql("CREATE SCHEMA public")
        c.commit()


# Several at once


WORKERS, EACH = 3, 40


def crowd(number: int) -> None:
    """One of several processes that create, ask, tell and refresh at once."""
    experiment = Experiment.create(os.environ["BLTS_TEST_URL"], "mail", **SPEC)
    mine, idle = [], 0
    while len(mine) < EACH and idle < 600:
        answer = experiment.ask(3)
        mine += [d.id for d in answer.decisions]
        experiment.tell([(d.id, reward_of(d.id)) for d in answer.decisions])
        if not answer.decisions or answer.feedback_due:
            experiment.refresh()
        idle = 0 if answer.decisions else idle + 1
        if not answer.decisions:
            time.sleep(0.02)
    told = experiment.tell([(i, reward_of(i)) for i in mine])  # once more, all of it
    assert told.duplicate == len(mine), told
    print(json.dumps(mine))


def test_several_processes_at_once(url):
    workers = [start(url, f"t.crowd({i})") for i in range(WORKERS)]
    ids = []
    for worker in workers:
        out, err = worker.communicate(timeout=300)
        assert worker.returncode == 0, err[-3000:]
        ids += json.loads(out.splitlines()[-1])
    assert len(ids) == len(set(ids))
    experiment = Experiment.open(url, "mail")
    table = table_of(experiment)
    assert sorted(ids) == sorted(table.ids)
    assert len(table.t) >= WORKERS * EACH
    assert [reward_of(i) for i in table.ids] == table.rewards.tolist()
    _, sizes = map(list, zip(*sorted({b: int((table.batches == b).sum()) for b in table.batches}.items()), strict=True))
    assert sizes[:-1] == [10] * (len(sizes) - 1)  # every batch but the running one is whole
    assert experiment.verify() == []


def test_threads_of_a_server_parse_no_python(url, parsed):
    """Two threads that parse Python source at once crash CPython before 3.11.8: see studies/store.py."""

    def serve(number: int) -> None:
        with Experiment.create(url, f"mail {number}", **SPEC) as experiment:
            for _ in range(2):
                experiment.tell([(d.id, reward_of(d.id)) for d in experiment.ask(10).decisions])
                experiment.refresh()
            experiment.report()
            experiment.status()
            assert experiment.verify() == []
            assert len(table_of(experiment).ids) == 20

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(serve, range(2)))
    assert parsed == []


def test_everything_on_either_database(url):
    """One long story on SQLite and on PostgreSQL: arms, windows, totals, corrections, export, report."""
    now = [0.0]
    experiment = Experiment.create(
        url,
        "a story ✓",
        LABELS,
        GAUSSIAN,
        "exact",
        {"name": "fixed", "size": 10},
        window=60,
        learn="open",
        clock=lambda: now[0],
        floor=0.02,
        cap=2.0,
    )
    other = Experiment.create(url, "another", LABELS, GAUSSIAN, "exact", "external")
    other.ask(5)
    first = experiment.ask(10, request_id="r")
    assert experiment.ask(10, request_id="r").decisions == first.decisions
    experiment.tell([(d.id, reward_of(d.id)) for d in first.decisions[:7]])
    now[0] = 61.0
    assert experiment.refresh().in_use
    experiment.add_arm("D ünïcode")
    second = experiment.ask(10)
    arm = second.decisions[0].arm
    count = sum(d.arm == arm for d in second.decisions)
    experiment.tell_aggregate(arm, count, total=float(count), total_of_squares=2.0 * count if count > 1 else 1.0, request_id="t")
    experiment.tell([(d.id, 5.0) for d in second.decisions])
    single = [d.id for d in second.decisions if d.arm != arm]
    experiment.correct(single[0], 0.25)
    experiment.cancel([single[1]])
    assert experiment.refresh().in_use
    experiment.retire_arm("A")
    experiment.ask(3)
    experiment.pause()
    report = experiment.report()
    assert report["cap"] == 2.0
    assert sum(a["units"] for a in report["arms"]) == 23
    assert experiment.verify() == []
    assert other.verify() == []
    assert table_of(other).t.tolist() == [1, 2, 3, 4, 5]
