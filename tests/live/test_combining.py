"""Requests of many threads in one transaction: who answers, who is woken, and what is written for each."""

from __future__ import annotations

import json
import threading
import time

import pytest

from blts.live import chain, combining, schema
from blts.live.combining import Combiner
from experiments import made

TEXTS = ['plain, with ", " and "quotes"', "ünï\n\\", "", "[1, 2]", "null"]


@pytest.mark.parametrize("counts", [[1, 1, 1, 1, 1], [5], [0, 2, 0, 3, 0], [0]])
def test_rows_of_each_are_the_rows_of_each(counts):
    """The bytes that enter the chain are those of operations that are written one by one, whatever texts and numbers they have."""
    total = sum(counts)
    columns = {
        "position": [3, 4, 10**17, 6, -7][:total],
        "t": [True, 2, 3, 4, 5][:total],
        "kind": TEXTS[:total],
        "reward": [None, 0.1, 1e300, -0.0, 2][:total],
        "at": 1e9 + 0.123456789,
    }
    found = chain.rows_of_each(schema.rewards, columns, counts)
    start = 0
    for count, bytes_ in zip(counts, found, strict=True):
        some = {k: v[start : start + count] if isinstance(v, list) else v for k, v in columns.items()}
        assert bytes_ == (chain.rows(schema.rewards, some, count) if count else b"")
        start += count
    assert len(found) == len(counts)


def test_rows_of_each_see_every_value():
    """The mutant of the test above: another value of one operation changes its bytes, and no others."""
    columns = {"position": [1, 2], "t": [1, 2], "kind": ["told", "told"], "reward": [0.0, 1.0], "at": 5.0}
    before = chain.rows_of_each(schema.rewards, columns, [1, 1])
    after = chain.rows_of_each(schema.rewards, columns | {"reward": [0.0, 2.0]}, [1, 1])
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_lines_of_asks_are_json_as_python_writes_it(tmp_path):
    """Their text enters the chain, so that a repeated experiment has it byte for byte."""
    experiment = made(tmp_path, strict=False)
    experiment.ask(2, request_id='a "b"')
    experiment.ask(1)
    details = [line["detail"] for line in experiment.audit() if line["what"] == "ask"]
    assert details == [{"n": 2, "first": 1, "count": 2, "request": 'a "b"'}, {"n": 1, "first": 3, "count": 1, "request": None}]
    with experiment.database.read() as c:
        texts = [*c.execute(schema.audit.select()).all(), *c.execute(schema.requests.select()).all()]
    for text in (getattr(row, "detail", None) or row.answer for row in texts):
        assert json.dumps(json.loads(text)) == text


def answer_all(combiner: Combiner, threads: int, requests: int) -> list[int]:
    """What threads are answered that each have several requests, one after another."""
    answers: list[int] = []

    def work(thread: int) -> None:
        for i in range(requests):
            answers.append(combiner.submit(1000 * thread + i))

    running = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not any(thread.is_alive() for thread in running)
    return answers


def test_every_request_is_answered_once_and_groups_do_not_overlap():
    inside, groups = threading.Lock(), []

    def run(group):
        assert inside.acquire(blocking=False)
        groups.append([waiting.request for waiting in group])
        time.sleep(0.001)  # as a transaction does, so that others gather
        for waiting in group:
            waiting.succeed(waiting.request)
        inside.release()

    answers = answer_all(Combiner(run, most=5), 8, 25)
    wanted = sorted(1000 * thread + i for thread in range(8) for i in range(25))
    assert sorted(answers) == sorted(request for group in groups for request in group) == wanted
    assert max(map(len, groups)) <= 5


def test_an_interrupt_after_a_group_was_answered_leaves_nobody_waiting(monkeypatch):
    """Whoever answered a group hands on even where he is interrupted while the next one gathers."""
    interrupts = []

    def interrupted(seconds: float) -> None:
        if not interrupts:
            interrupts.append(seconds)
            raise KeyboardInterrupt

    begun, go = threading.Event(), threading.Event()

    def run(group):
        begun.set()
        assert go.wait(60)
        for waiting in group:
            waiting.succeed(waiting.request)

    combiner, ends = Combiner(run), []
    monkeypatch.setattr(combining.time, "sleep", interrupted)

    def work(request: int) -> None:
        try:
            ends.append(combiner.submit(request))
        except KeyboardInterrupt:
            ends.append(None)

    running = [threading.Thread(target=work, args=(0,))]
    running[0].start()
    assert begun.wait(60)  # the first is alone; the others wait for it and make the next group
    running += [threading.Thread(target=work, args=(i,)) for i in range(1, 4)]
    for thread in running[1:]:
        thread.start()
    while len(combiner._queue) < 3:
        threading.Event().wait(0.001)
    go.set()
    for thread in running:
        thread.join(60)
    assert not any(thread.is_alive() for thread in running)
    assert len(interrupts) == 1
    assert len(ends) == 4
    assert ends.count(None) == 1
    assert combiner.submit(7) == 7
