"""The worker refreshes what is due and keeps reports; two of them do everything once. And what the shell says of rewards."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from blts import cli
from blts.cli.worker import _say as say_done
from blts.errors import ConfigError, StoreError
from blts.live import Experiment, schema
from blts.live.worker import EXTERNAL_SECONDS, LEASE, Worker
from experiments import Hand, created, made, rewarded


@pytest.fixture
def clock():
    return Hand()


def versions(experiment: Experiment) -> list[int]:
    """Those of the stored reports."""
    with experiment.database.read() as c:
        table = schema.reports
        return sorted(c.execute(sa.select(table.c.version).where(table.c.experiment == experiment.id)).scalars())


def test_the_worker_refreshes_when_all_rewards_are_in(url, clock):
    experiment, worker = created(url, strict=False, clock=clock), Worker(url, clock=clock)
    assert worker.once() == []
    assert versions(experiment) == [1]
    answer = experiment.ask(6)
    experiment.tell(rewarded(answer)[:5])
    assert worker.once() == []  # one is awaited
    experiment.tell(rewarded(answer)[5:])
    (done,) = worker.once()
    assert (done.experiment, done.refreshed.version, done.problem) == ("mail", 2, None)
    assert worker.once() == []
    assert versions(experiment) == [1, 2]
    stored = experiment.report(2)
    assert stored == experiment.report(fresh=True)
    assert (stored["policy"], stored["as_of"]["at"]) == (2, clock.now)
    assert experiment.report(1)["policy"] == 1
    assert experiment.audit()[-1]["actor"] == "worker"
    assert experiment.verify() == []
    with pytest.raises(ConfigError, match="No report of version 7"):
        experiment.report(7)


def test_the_worker_closes_windows_and_keeps_external_time(tmp_path, clock):
    window = made(tmp_path, "window", strict=False, window=30.0, default_reward=0.0, clock=clock)
    outer = made(tmp_path, "outer", strict=False, batching="external", clock=clock)
    rows = made(tmp_path, "rows", strict=False, batching="external", refresh_rewards=3, clock=clock)
    worker = Worker(tmp_path / "blts.db", clock=clock)
    window.ask(6)
    outer.tell(rewarded(outer.ask(2)))
    answer = rows.ask(4)
    rows.tell(rewarded(answer)[:2])
    assert worker.once() == []
    rows.tell(rewarded(answer)[2:])
    assert [done.experiment for done in worker.once()] == ["rows"]
    clock.now += 31
    assert [done.experiment for done in worker.once()] == ["window"]
    clock.now += EXTERNAL_SECONDS
    assert [done.experiment for done in worker.once()] == ["outer"]
    clock.now -= 1e6  # a clock that is set back
    assert worker.once() == []
    for experiment in (window, outer, rows):
        assert experiment.status()["policies"] == 2
        assert experiment.verify() == []


def test_two_workers_do_everything_once(url, clock):
    """The second leaves an experiment to the first until the lease is over, and takes it over if it is not renewed."""
    experiment = created(url, strict=False, clock=clock)
    first, second = Worker(url, clock=clock), Worker(url, clock=clock)

    def full() -> None:
        experiment.tell(rewarded(experiment.ask(6)))

    full()
    assert len(first.once()) == 1
    full()
    assert second.once() == []  # it is the first one's
    clock.now += LEASE - 1
    assert second.once() == []
    assert len(first.once()) == 1  # which renews
    full()
    clock.now += LEASE - 1
    assert second.once() == []
    clock.now += 2
    assert len(second.once()) == 1  # taken over
    full()
    assert first.once() == []
    clock.now -= 1e6  # a lease that ends in the far future is none
    assert len(first.once()) == 1
    assert experiment.status()["policies"] == 5
    assert experiment.verify() == []


def test_a_worker_without_leases_still_writes_each_version_once(tmp_path, clock, monkeypatch):
    """The lease saves work; that nothing happens twice is the transaction's."""
    monkeypatch.setattr(Worker, "_lease", lambda self, experiment: True)
    experiment = made(tmp_path, strict=False, clock=clock)
    workers = [Worker(tmp_path / "blts.db", clock=clock) for _ in range(2)]
    experiment.tell(rewarded(experiment.ask(6)))
    assert [len(worker.once()) for worker in workers] == [1, 0]
    assert versions(experiment) == [2]
    assert experiment.verify() == []


def test_a_worker_that_leaves_gives_its_leases_back(tmp_path):
    experiment, clock = created(f"sqlite:///{tmp_path / 'blts.db'}", strict=False), Hand()
    for version in (2, 3):
        experiment.tell(rewarded(experiment.ask(6)))
        worker = Worker(tmp_path / "blts.db", clock=clock)
        assert [done.refreshed.version for done in worker.once() if done.refreshed] == [version]
        worker.close()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_two_processes_do_everything_once(url):
    experiment = created(url, strict=False)
    experiment.tell(rewarded(experiment.ask(6)))
    command = [sys.executable, "-m", "blts", "worker", "--once", "--db", url]
    root = pathlib.Path(cli.__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    workers = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = []
    for worker in workers:
        out, err = worker.communicate(timeout=300)
        assert worker.returncode == 0, err[-3000:]
        said += [line for line in out.splitlines() if line]
    assert sorted(said) == ["Nothing was due.", "mail: policy version 2 is in use."]
    assert versions(experiment) == [2]
    assert [e["what"] for e in experiment.audit()].count("refresh") == 1


def test_the_trouble_of_one_experiment_is_not_that_of_the_others(tmp_path, clock):
    good, bad = made(tmp_path, "good", strict=False, clock=clock), made(tmp_path, "bad", clock=clock)
    with bad.database.write() as c:
        c.exec_driver_sql("UPDATE blts_experiments SET spec = '{' WHERE name = 'bad'")
    good.tell(rewarded(good.ask(6)))
    done = {one.experiment: one for one in Worker(tmp_path / "blts.db", clock=clock).once()}
    assert done["good"].refreshed.in_use
    assert "stored specification" in done["bad"].problem
    with pytest.raises(StoreError, match="restore the database from a backup"):
        Experiment.open(tmp_path / "blts.db", "bad")


def test_the_worker_names_versions_that_others_wrote(tmp_path, clock, monkeypatch, capsys):
    """Before, its log went from version 2 to 5 without a word, because arms that come and go are versions too."""
    experiment, worker = made(tmp_path, strict=False, clock=clock, actor="ann"), Worker(tmp_path / "blts.db", clock=clock)

    def looked() -> list[str]:
        experiment.tell(rewarded(experiment.ask(12)))
        for done in worker.once():
            say_done(done)
        return capsys.readouterr().out.splitlines()

    assert looked() == ["mail: policy version 2 is in use."]
    experiment.add_arm("D")
    experiment.retire_arm("A")
    assert looked() == [
        "mail: policy version 3 was written by ann (add arm).",
        "mail: policy version 4 was written by ann (retire arm).",
        "mail: policy version 5 is in use.",
    ]
    monkeypatch.setattr("blts.live.reports.keep", lambda experiment: 1 / 0)  # after a refresh that is written
    first, second = looked()
    assert first == "mail: policy version 6 is in use."
    assert second.startswith("mail: It cannot be looked after (ZeroDivisionError")
    monkeypatch.undo()
    assert looked() == ["mail: policy version 7 is in use."]


def test_a_worker_waits_between_its_rounds(tmp_path):
    made(tmp_path)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Worker(tmp_path / "blts.db").run(2.0, print, wait=wait)
    assert waited == [1.0] * 3
    with pytest.raises(ConfigError, match="number of seconds"):
        Worker(tmp_path / "blts.db").run(float("nan"), print, wait=wait)


# The shell


def run(path, *arguments: str, given: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["experiment", *arguments, "--db", str(path)], input=given)
    assert not isinstance(result.exception, Exception), result.exception
    return result.exit_code, result.output


def test_rows_that_are_all_unknown_are_an_error(tmp_path):
    experiment = made(tmp_path, strict=False)
    ids, path = [d.id for d in experiment.ask(3).decisions], tmp_path / "blts.db"
    code, said = run(path, "tell", "mail", given="decision_id,reward\n0123456789abcdef-1,1\n")
    assert code == 5
    assert " ".join(said.split()).startswith(
        "0 accepted, 0 duplicate, 0 conflict, 1 unknown, 0 invalid; 3 decisions without a reward."
    )
    mixed = f"decision_id,reward\n{ids[0]},1\nnobody,1\n"
    assert run(path, "tell", "mail", given=mixed)[0] == 0
    assert run(path, "tell", "mail", "--strict", given=mixed)[0] == 5
    assert run(path, "tell", "mail", given=f"decision_id,reward\n{ids[0]},1\n")[0] == 0  # a duplicate is no error
    assert json.loads(run(path, "status", "mail", "--json")[1])["without_reward"] == 2
    assert "without a reward" in run(path, "status", "mail")[1]


@pytest.mark.parametrize("text", ["", "\n", "unit,reward\n", "[]"])
def test_no_rows_at_all_are_an_error(tmp_path, text):
    """Before, a file that came out empty passed as told. Its request id is still free."""
    experiment, path, file = made(tmp_path, strict=False), tmp_path / "blts.db", tmp_path / "r.csv"
    experiment.ask(units=["ann"])
    file.write_text(text)
    code, said = run(path, "tell", "mail", str(file), "--request-id", "today")
    assert code == 5
    assert "".join(said.split()) == "".join(f"Nothing was told: the file {file} has no rows.".split())
    assert run(path, "tell", "mail", given=text) == (5, "Nothing was told: standard input has no rows.\n")
    assert json.loads(run(path, "tell", "mail", "--json", given=text)[1])["accepted"] == 0
    file.write_text("unit,reward\nann,1\n")
    code, said = run(path, "tell", "mail", str(file), "--request-id", "today")
    assert (code, said.startswith("1 accepted")) == (0, True)


def test_rows_with_lone_surrogates_are_reported_and_the_others_recorded(tmp_path):
    """Before, the good row was recorded and the command ended with a traceback."""
    experiment = made(tmp_path, strict=False)
    i = experiment.ask(1).decisions[0].id
    lines = [{"decision_id": "\ud800", "reward": 1}, {"unit": "\udfff", "reward": 1}, {"decision_id": i, "reward": 1}]
    code, said = run(tmp_path / "blts.db", "tell", "mail", given="\n".join(json.dumps(line) for line in lines))
    assert code == 0
    assert said.splitlines()[0].startswith("1 accepted, 0 duplicate, 0 conflict, 2 unknown")
    assert "\\ud800" in said


def test_a_file_without_units_asks_for_nobody(tmp_path):
    """Before, it asked for one decision of no unit."""
    experiment = made(tmp_path, strict=False)
    result = CliRunner().invoke(
        cli.app, ["experiment", "ask", "mail", "--units", "-", "--db", str(tmp_path / "blts.db")], input="\n"
    )
    assert isinstance(result.exception, ConfigError)
    assert experiment.status()["decisions"] == 0
