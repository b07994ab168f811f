"""`blts serve` and `blts keys`: mistakes are one sentence, and are made before anything is started."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import sqlite3
import subprocess
import sys
import time

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from blts.cli import app
from blts.errors import BltsError
from blts.live.database import Database
from blts.service.app import build
from blts.service.keys import Keys
from blts.service.server import alone_at
from blts.service.settings import Settings
from blts.service.state import Service
from served import experiment_in

RUN = CliRunner()


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("BLTS_DB", "BLTS_HOST", "BLTS_PORT"):
        monkeypatch.delenv(name, raising=False)


def refused(*arguments: str) -> str:
    """The sentence with which a command is refused."""
    result = RUN.invoke(app, list(arguments))
    assert isinstance(result.exception, BltsError), (result.output, result.exception)
    sentence = str(result.exception)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_help_names_every_option_and_variable() -> None:
    shown = RUN.invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    options = ("--db", "--host", "--port", "--workers", "--no-worker", "--root-path", "--secure")
    assert all(option in shown for option in options)
    assert "BLTS_PORT" in shown


@pytest.mark.parametrize("wrong", [["--port", "0"], ["--port", "http"], ["--workers", "0"], ["--prot", "1"]])
def test_wrong_flags_are_said(wrong: list[str]) -> None:
    result = RUN.invoke(app, ["serve", *wrong])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "take another --host or --port" in refused("serve", "--port", port)
    assert Keys(Database("blts.db")).all() == [], "no key is made that nobody has seen"


def test_a_second_service_on_one_file_is_announced(tmp_path: pathlib.Path) -> None:
    said: list[str] = []
    with alone_at(str(tmp_path / "a.db"), said.append), alone_at(str(tmp_path / "b.db"), said.append), alone_at(None, said.append):
        assert said == []
        with alone_at(str(tmp_path / "a.db"), said.append):
            (sentence,) = said
            assert sentence.startswith(f"Another blts serve uses {tmp_path / 'a.db'}, ")
            assert sentence.endswith("PostgreSQL is for several processes.")
    assert list(tmp_path.iterdir()) == []
    with alone_at(str(tmp_path / "a.db"), said.append):  # the first one ended
        assert len(said) == 1


def test_why_the_first_requests_wait_is_said() -> None:
    said: list[str] = []
    with contextlib.closing(Database("blts.db")) as database:
        experiment_in(database).stop()
        experiment_in(database, "site").stop()
    service = Service(Settings(db="blts.db"))
    with TestClient(build(service, said.append)):
        for _ in range(1000):
            if service.is_ready:
                break
            time.sleep(0.01)
    assert said[0] == "Compiling the programs of 2 experiments; until then the first requests wait, and /readyz says so …"
    assert said[1].startswith("Ready, after ")


def test_beyond_loopback_there_must_be_keys() -> None:
    assert "blts keys create" in refused("serve", "--host", "0.0.0.0")


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://nobody@127.0.0.1:1/none", "sqlite:////no/such/folder/x.db"])
def test_a_wrong_database(url: str) -> None:
    assert "database" in refused("serve", "--db", url) or "SQLite or PostgreSQL" in refused("serve", "--db", url)


def test_a_database_of_a_newer_version() -> None:
    Database("blts.db").close()
    with contextlib.closing(sqlite3.connect("blts.db")) as db, db:
        db.execute("UPDATE blts_schema SET version = 99")
    assert "install a newer blts" in refused("serve")


@pytest.mark.parametrize("path", ["blts", "/blts/"])
def test_root_paths(path: str) -> None:
    assert "root_path" in refused("serve", "--root-path", path)


def test_keys_from_their_creation_to_their_end() -> None:
    made = RUN.invoke(app, ["keys", "create", "shop", "--role", "app", "--experiment", "mail", "--json"])
    key = json.loads(made.output)
    assert key["key"].startswith(f"blts_{key['id']}_")
    database = pathlib.Path("blts.db").read_bytes() + b"".join(p.read_bytes() for p in pathlib.Path().glob("blts.db-*"))
    assert key["key"][14:].encode() not in database, "only a hash is stored"
    keys = Keys(Database("blts.db"))
    assert keys.known(key["key"]) is not None
    assert keys.known(key["key"][:-1] + ("A" if key["key"][-1] != "A" else "B")) is None
    assert "revoked" in RUN.invoke(app, ["keys", "revoke", key["id"]]).output
    assert Keys(Database("blts.db")).known(key["key"]) is None
    assert json.loads(RUN.invoke(app, ["keys", "list", "--json"]).output)[0]["revoked_at"] is not None


def test_keys_that_cannot_be() -> None:
    assert "role must be one of" in refused("keys", "create", "x", "--role", "king")
    assert "origin" in refused("keys", "create", "x", "--role", "client", "--origin", "shop.example").lower()
    assert "There is no key" in refused("keys", "revoke", "12345678")
    admin = json.loads(RUN.invoke(app, ["keys", "create", "boss", "--role", "admin", "--json"]).output)
    assert "last admin key" in refused("keys", "revoke", admin["id"])


def test_a_missing_library_is_a_sentence() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from blts.cli import main; sys.argv = ['blts', 'serve']; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert 'pip install "blts[serve]"' in result.stderr
    assert "Traceback" not in result.stderr
