"""`blts serve` and `blts keys`: mistakes are one sentence, and are made before anything is started."""

from __future__ import annotations

import json
import pathlib
import socket
import sqlite3
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from blts.cli import app
from blts.errors import BltsError
from blts.live.database import Database
from blts.service.keys import Keys

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


def test_beyond_loopback_there_must_be_keys() -> None:
    assert "blts keys create" in refused("serve", "--host", "0.0.0.0")


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://nobody@127.0.0.1:1/none", "sqlite:////no/such/folder/x.db"])
def test_a_wrong_database(url: str) -> None:
    assert "database" in refused("serve", "--db", url) or "SQLite or PostgreSQL" in refused("serve", "--db", url)


def test_a_database_of_a_newer_version() -> None:
    Database("blts.db").close()
    with sqlite3.connect("blts.db") as db:
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
