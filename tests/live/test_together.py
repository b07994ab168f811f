"""Requests that are answered together are those requests one by one, each written down as whoever made it."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from blts.errors import BltsError, ConfigError, StoreError
from blts.live import Experiment, asking, schema
from blts.live.request import Request
from experiments import created, made, rewarded

ASKED = (
    {"n": 2},
    {"units": ["ann", "bob"]},
    {"n": 1, "request_id": "r1"},
    {"units": ["bob", "cid"], "request_id": "r2"},
    {"n": 1, "request_id": "r1"},  # the same again
    {"units": ["ann"]},
    {"n": 3},
)


def written(experiment: Experiment) -> dict:
    """What is stored, without times and what depends on random ids."""
    with experiment.database.read() as c:
        read = lambda table, *names: c.execute(sa.select(*(table.c[n] for n in names)).order_by(table.c.position)).all()  # noqa: E731
        return {
            "decisions": read(schema.decisions, "t", "arm", "batch", "policy", "vector", "position"),
            "requests": read(schema.requests, "request", "answer", "position"),
            "audit": read(schema.audit, "position", "what", "detail", "actor"),
        }


@pytest.mark.parametrize("strict", [False, True])
def test_together_is_one_by_one(url, tmp_path, strict):
    alone = created(tmp_path / "alone.db", strict=strict, actor="maker")
    group = created(url, strict=strict, actor="maker")
    views = [(one.acting("shop"), one.acting("app")) for one in (alone, group)]
    single = [views[0][i % 2].ask(**asked) for i, asked in enumerate(ASKED)]
    answers = group.ask_together([views[1][i % 2].request(**asked) for i, asked in enumerate(ASKED)])
    plain = lambda answer, code: [d._replace(id=d.id.removeprefix(code)) for d in answer.decisions]  # noqa: E731
    assert [plain(a, group.code) for a in answers] == [plain(a, alone.code) for a in single]
    known = 5  # its unit has a decision, so it is answered at once: how many rewards are awaited is from before the group
    others = [i for i in range(len(ASKED)) if i != known]
    assert [answers[i]._replace(decisions=()) for i in others] == [single[i]._replace(decisions=()) for i in others]
    assert answers[known].awaited < single[known].awaited
    assert written(group) == written(alone)
    assert {line["actor"] for line in group.audit()} == {"maker", "shop", "app"}
    assert alone.verify() == group.verify() == []


def test_a_request_is_checked_and_nothing_is_stored(tmp_path):
    experiment = made(tmp_path, strict=False, actor="maker")
    with pytest.raises(ConfigError, match="whole number"):
        experiment.request(0)
    with pytest.raises(ConfigError, match="not both"):
        experiment.request(2, units=["ann"])
    with pytest.raises(ConfigError, match="no features"):
        experiment.request(contexts=[{"age": 3}])
    request = experiment.request(units=["ann"])
    assert isinstance(request, Request)
    assert request.actor == "maker"
    assert experiment.status()["decisions"] == 0
    assert experiment.ask_together([]) == []


def test_the_error_of_one_is_its_own(tmp_path):
    experiment = made(tmp_path, strict=False)
    experiment.ask(2, request_id="r1")
    first, refused, last = experiment.ask_together([experiment.request(1), experiment.request(3, "r1"), experiment.request(1)])
    assert isinstance(refused, ConfigError)
    assert [len(answer.decisions) for answer in (first, last)] == [1, 1]
    assert experiment.verify() == []


def test_trouble_of_the_database_is_an_error_for_each_that_has_no_answer(tmp_path, monkeypatch):
    """Those that were answered in an earlier transaction keep their answers."""
    experiment = made(tmp_path, strict=False)
    known = experiment.ask(units=["ann"])
    together, calls = asking._ask_together, []

    def fails(session, group):
        calls.append(len(group))
        raise StoreError("The database is away.")

    monkeypatch.setattr(asking, "_ask_together", fails)
    found = experiment.ask_together([experiment.request(units=["ann"]), experiment.request(1), experiment.request(2)])
    assert found[0].decisions == known.decisions
    assert [str(error) for error in found[1:]] == ["The database is away."] * 2
    assert calls == [2]
    with pytest.raises(BltsError, match="away"):
        experiment.ask(1)
    monkeypatch.setattr(asking, "_ask_together", together)
    assert [len(a.decisions) for a in experiment.ask_together([experiment.request(1), experiment.request(2)])] == [1, 2]
    assert experiment.verify() == []


def test_an_error_that_is_no_sentence_is_raised(tmp_path, monkeypatch):
    experiment = made(tmp_path, strict=False)
    monkeypatch.setattr(asking, "_ask_together", lambda session, group: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        experiment.ask_together([experiment.request(1)])


def test_together_among_threads(url):
    """Every unit has one decision, whoever asks for it and how."""
    experiment, answers, lock = created(url, strict=False), [], threading.Lock()
    names = [f"u{i}" for i in range(40)]

    def singly(number: int) -> None:
        for name in names[number:] + names[:number]:
            got = experiment.acting(f"thread {number}").ask(units=[name]).decisions
            with lock:
                answers.extend(got)

    def together(number: int) -> None:
        for start in range(0, len(names), 8):
            found = experiment.ask_together([experiment.request(units=[name]) for name in names[start : start + 8]])
            with lock:
                answers.extend(d for answer in found for d in answer.decisions)

    threads = [threading.Thread(target=work, args=(i,)) for i, work in enumerate([singly, together] * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert len(answers) == 6 * len(names)
    assert len({(d.unit, d.id, d.arm) for d in answers}) == len(names)
    assert experiment.status()["decisions"] == len(names)
    assert experiment.verify() == []


DONE = ("ask", "expose", "tell", "aggregate", "correct", "cancel", "refresh", "add arm", "retire arm", "pause", "resume", "stop")


def test_acting_is_for_everything_that_is_written(tmp_path):
    experiment = made(tmp_path, strict=False, actor="maker", exposure="explicit")
    ann = experiment.acting("ann")
    decisions = ann.ask(6).decisions
    ann.expose([d.id for d in decisions])
    ann.tell([(d.id, 1.0) for d in decisions[1:]])
    ann.tell_aggregate(decisions[0].arm, 1, total=1.0, total_of_squares=1.0, request_id="a")
    ann.correct(decisions[1].id, 2.0)
    ann.cancel([decisions[2].id])
    assert ann.refresh(force=True).in_use
    ann.add_arm("D")
    ann.retire_arm("D")
    ann.pause()
    ann.resume()
    ann.stop("A")
    lines = experiment.audit()
    assert (lines[0]["what"], lines[0]["actor"]) == ("create", "maker")
    assert [line["what"] for line in lines[1:]] == [*DONE]
    assert {line["actor"] for line in lines[1:]} == {"ann"}
    assert experiment.verify() == []
    with pytest.raises(ConfigError, match="actor"):
        experiment.acting(" ")


def test_acting_shares_what_is_kept(tmp_path, monkeypatch):
    """A view that kept things of its own would build the model for every request."""
    experiment = made(tmp_path, strict=False)
    experiment.tell(rewarded(experiment.acting("ann").ask(6)))
    built = []
    monkeypatch.setattr(type(experiment.spec), "build", lambda *arguments: built.append(arguments))
    for name in ("ann", "bob"):
        view = experiment.acting(name)
        view.tell(rewarded(view.ask(1)))
        assert view.session.model is experiment.session.model
    assert built == []
    monkeypatch.undo()
    assert experiment.acting("ann").refresh().refreshed
    assert len(experiment.session.fold.arms) == 8
