"""`blts.client` against a real service: the answers of `Experiment`, and repetitions that are harmless."""

from __future__ import annotations

import inspect
import json
import math
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from blts.client import Client, NotAllowed, RemoteExperiment, Told
from blts.errors import ConfigError, StoreError, UnknownName
from blts.live import Experiment
from blts.service.roles import Role
from running_service import key_of, running, working
from served import experiment_in


class Remote:
    """An experiment, over HTTP and directly."""

    def __init__(self, url: str, address: str, key: str):
        self.url, self.address, self.key = url, address, key
        self.client = Client(address, key, timeout=20)
        self.over_http = self.client.experiment("mail")

    @property
    def direct(self) -> Experiment:
        return Experiment.open(self.url, "mail")


@pytest.fixture
def remote(tmp_path: pathlib.Path) -> Iterator[Remote]:
    url = f"sqlite:///{tmp_path / 'blts.db'}"
    experiment_in(url, exposure="explicit", metrics=[{"name": "clicks", "model": "counts"}]).close()
    with running(url) as address, working(url):
        found = Remote(url, address, key_of(url, Role.admin))
        yield found
        found.client.close()


def plain(value: Any) -> Any:
    """As JSON gives it back; what is no number is null."""

    def finite(x: Any) -> Any:
        if isinstance(x, float) and not math.isfinite(x):
            return None
        if isinstance(x, dict):
            return {str(name): finite(one) for name, one in x.items()}
        return [finite(one) for one in x] if isinstance(x, list | tuple) else x

    return json.loads(json.dumps(finite(value)))


def test_it_has_the_methods_of_an_experiment() -> None:
    own = {name: method for name, method in inspect.getmembers(RemoteExperiment, inspect.isfunction) if not name.startswith("_")}
    assert set(own) >= {"ask", "tell", "tell_aggregate", "expose", "correct", "cancel", "refresh", "add_arm", "retire_arm", "stop"}
    assert set(own) >= {"pause", "resume", "status", "report", "policy", "audit", "decisions", "decision", "verify", "export"}
    for name, method in own.items():
        assert inspect.signature(method) == inspect.signature(getattr(Experiment, name)), name


def test_it_loads_neither_jax_nor_a_database() -> None:
    code = "import sys, blts.client; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({"jax", "numpy", "sqlalchemy", "msgspec", "starlette", "requests"})


def test_decisions_and_fates_are_those_of_an_experiment(remote: Remote) -> None:
    alone = experiment_in("sqlite://", exposure="explicit", metrics=[{"name": "clicks", "model": "counts"}])
    for asked in (
        {},
        {"n": 20},
        {"n": 3, "request_id": "monday"},
        {"n": 3, "request_id": "monday"},
        {"units": ["ann", "bob", "ann"]},
    ):
        ours, theirs = remote.over_http.ask(**asked), alone.ask(**asked)
        assert ours._replace(decisions=()) == theirs._replace(decisions=())
        assert [d._replace(id="") for d in ours.decisions] == [d._replace(id="") for d in theirs.decisions]
    ids = [(remote.over_http.decision(unit=unit)["id"], alone.decision(unit=unit)["id"]) for unit in ("ann", "bob")]
    code = dict(ids)
    for told in (
        [(ids[0][0], True), {"unit": "bob", "reward": 0}],
        [(ids[0][0], 1.0), {"decision_id": ids[1][0], "reward": 1}],
        [("unknown", 1), {"unit": "nobody", "reward": 1}, {"unit": "ann", "reward": 2}],
    ):
        theirs = [(code.get(row[0], row[0]), row[1]) if isinstance(row, tuple) else dict(row) for row in told]
        for row in theirs:
            if isinstance(row, dict) and "decision_id" in row:
                row["decision_id"] = code[row["decision_id"]]
        found, expected = remote.over_http.tell(told), alone.tell(theirs)
        assert found._replace(ids={}) == expected._replace(ids={})
        assert plain(found.ids) == json.loads(json.dumps(expected.ids).replace(ids[0][1], ids[0][0]).replace(ids[1][1], ids[1][0]))
    assert remote.over_http.tell(unit="ann", reward=3, metric="clicks").accepted == 1
    assert isinstance(remote.over_http.tell([(ids[0][0], 1)]), Told)
    assert remote.over_http.expose([ids[0][0]], units=["ann", "bob"]) == 2
    assert remote.over_http.expose(units=["bob"]) == 0
    with pytest.raises(ConfigError, match="nobody"):
        remote.over_http.expose(units=["nobody"])


def test_what_it_shows_is_what_the_experiment_shows(remote: Remote, tmp_path: pathlib.Path) -> None:
    asked = remote.over_http.ask(units=[f"user-{i}" for i in range(30)]).decisions
    remote.over_http.expose([d.id for d in asked])
    remote.over_http.tell([(d.id, d.arm == "B") for d in asked])
    refreshed = remote.over_http.refresh(force=True)
    direct = remote.direct
    assert (refreshed.refreshed, refreshed.version, refreshed.in_use) == (True, 2, True)
    for name in ("status", "policy", "audit", "decisions", "policies", "audit_page"):
        ours, theirs = getattr(remote.over_http, name)(), getattr(direct, name)()
        assert (type(ours), plain(ours)) == (type(theirs), plain(theirs)), name
    assert plain(remote.over_http.policy(1)) == plain(direct.policy(1))
    assert remote.over_http.decisions(after=3, limit=2) == direct.decisions(after=3, limit=2)
    assert plain(remote.over_http.decision(asked[4].id)) == plain(direct.decision(asked[4].id))
    ours, theirs = (plain(one.report(fresh=True)) for one in (remote.over_http, direct))
    assert ours.keys() == theirs.keys()
    assert ours["arms"] == theirs["arms"]
    assert remote.over_http.verify() == []
    assert remote.over_http.export(tmp_path / "ours.csv") == direct.export(tmp_path / "theirs.csv") == 30
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()
    assert remote.client.experiments() == ["mail"]


def test_changes_are_those_of_an_experiment(remote: Remote) -> None:
    mail, asked = remote.over_http, remote.over_http.ask(12).decisions
    mail.expose([d.id for d in asked])
    of = {arm: [d.id for d in asked if d.arm == arm] for arm in "ABC"}
    assert mail.tell_aggregate("A", len(of["A"]), total=1, request_id="t").accepted == len(of["A"])
    mail.tell([(of["B"][0], 1)])
    assert [mail.correct(of["B"][0], 0, "a bot") for _ in range(2)] == [True, False]
    assert [mail.cancel(of["C"], "never shown") for _ in range(2)] == [len(of["C"]), 0]
    assert mail.add_arm("D", {"value": 4}, reason="an idea") == 2
    assert mail.retire_arm("A", "slow") == 3
    mail.pause("a look")
    assert remote.direct.status()["paused"]
    mail.resume("fine")
    assert mail.stop("D", "it won") == 4
    status = remote.direct.status()
    assert (status["stopped"], status["promoted"], status["active"]) == (True, "D", ["D"])
    done = [(line["what"], line["actor"]) for line in mail.audit()]
    assert [what for what, _ in done[-6:]] == ["cancel", "add arm", "retire arm", "pause", "resume", "stop"]
    assert all(actor.startswith("a admin (") for _, actor in done[1:])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda r: r.client.experiment("nowhere").status(), UnknownName, "nowhere"),
        (lambda r: r.over_http.decision("0123456789abcdef-1"), UnknownName, "no decision"),
        (lambda r: r.over_http.ask(0), ConfigError, "1"),
        (lambda r: r.over_http.tell([("x", "a")]), ConfigError, "number"),
        (lambda r: r.over_http.tell([("x", math.nan)]), ConfigError, "JSON"),
        (lambda r: r.over_http.tell([3]), ConfigError, "row"),
        (lambda r: r.over_http.pause(), ConfigError, "reason"),
        (lambda r: r.over_http.export("mail.parquet"), ConfigError, "csv"),
        (lambda r: r.over_http.ask(1, request_id="ü"), ConfigError, "ASCII"),
        (lambda r: r.over_http.retire_arm("no/such arm", "x"), UnknownName, "no/such arm"),
        (lambda r: Client(r.address, "blts_00000000_" + "x" * 43).experiment("mail").ask(), NotAllowed, "API key"),
        (lambda r: Client(r.address, key_of(r.url, Role.reader)).experiment("mail").ask(), NotAllowed, "roles"),
        (lambda r: Client("127.0.0.1:8000", "x"), ConfigError, "url"),
        (lambda r: Client("http://127.0.0.1", ""), ConfigError, "key"),
        (lambda r: Client("http://127.0.0.1", "x", timeout=0), ConfigError, "timeout"),
    ],
)
def test_errors_are_those_of_an_experiment_with_the_sentence_of_the_service(
    remote: Remote, call: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call(remote)


class Flaky:
    """A proxy that forwards requests, and closes the connection in the place of some answers."""

    def __init__(self, address: str, lost: int):
        self._to, self.lost, self.forwarded = urlsplit(address), lost, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            with caller:
                self._forward(caller)

    def _forward(self, caller: socket.socket) -> None:
        """One request of a connection; the service answers and closes."""
        head, _, body = caller.recv(1 << 16).partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        while len(body) < length:
            body += caller.recv(1 << 16)
        with socket.create_connection((self._to.hostname, self._to.port)) as service:
            service.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            answer = b"".join(iter(lambda: service.recv(1 << 16), b""))
        self.forwarded += 1
        if self.lost:
            self.lost -= 1
        else:
            caller.sendall(answer)


def test_a_lost_answer_is_asked_for_again_and_counts_once(remote: Remote) -> None:
    flaky = Flaky(remote.address, lost=2)
    with Client(flaky.address, remote.key) as client:
        mail = client.experiment("mail")
        answer = mail.ask(5)
        assert (len(answer.decisions), flaky.forwarded, remote.direct.status()["decisions"]) == (5, 3, 5)
        flaky.lost = 1
        assert mail.tell([(d.id, 1) for d in answer.decisions]).accepted == 5
        flaky.lost = 1
        with pytest.raises(StoreError, match="did not answer"):  # nobody knows whether it was done
            mail.add_arm("D", reason="an idea")
        assert (flaky.forwarded, remote.direct.status()["arms"]) == (6, ["A", "B", "C", "D"])
    flaky.close()


def test_it_waits_for_its_turn(remote: Remote) -> None:
    slow = Client(remote.address, key_of(remote.url, Role.app, rate=1.0)).experiment("mail")
    assert len({slow.ask().decisions[0].id for _ in range(7)}) == 7  # five at once, and one a second


def test_it_waits_for_a_service_that_starts_again_and_gives_up_in_the_end(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'blts.db'}"
    experiment_in(url).close()
    key = key_of(url, Role.app)
    with running(url) as address:
        mail = Client(address, key).experiment("mail")
        before = mail.ask(units=["ann"]).decisions
    with pytest.raises(StoreError, match="cannot be reached"):
        Client(address, key, timeout=0.3).experiment("mail").ask(units=["ann"])
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(mail.ask, units=["ann"])
        with running(url, urlsplit(address).port or 0):
            assert waiting.result().decisions == before
            assert mail.ask(units=["ann"]).decisions == before  # over a connection that was closed meanwhile


def test_threads_share_a_client(remote: Remote) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: remote.over_http.ask(units=[f"user-{i % 20}"]).decisions[0], range(80)))
    assert len({(d.unit, d.id) for d in found}) == 20
    assert remote.direct.status()["decisions"] == 20
