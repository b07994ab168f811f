"""Progress: shown where a person looks and after a while, never in pipes; no number depends on it."""

from __future__ import annotations

import io
import sys
import time
import types

import numpy as np
import pytest

from blts import ConfigError, DoublingCounts, condition, live, progress, simulate
from blts.live import refreshing
from blts.live.worker import Worker


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def in_a_terminal(monkeypatch) -> Terminal:
    """Called by tests and not a fixture: pytest sets standard error again after fixtures."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return shown


def in_a_notebook(monkeypatch) -> list[str]:
    """What a cell shows, one after the other: of a kernel, whose standard error is no terminal."""
    shown: list[str] = []

    class Display(types.ModuleType):
        def display(self, content, *, raw, display_id):
            assert raw
            assert display_id
            shown.append(content["text/plain"])
            return self

        def update(self, content, *, raw):
            assert raw
            shown.append(content["text/plain"])

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for name in ("ipykernel", "IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, Display(name))
    return shown


def run(**options) -> np.ndarray:
    env, agent, *_ = condition("gaussian", "exact-ts", "dynamic")
    return simulate(0, env, agent, DoublingCounts(), horizon=20, replications=6, **options).regret


def test_nothing_is_shown_where_nobody_looks(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.bar("parts", 2) as advance:
        advance(2)
    with progress.working("refreshing"):
        time.sleep(0.05)
    run(chunk=2)
    assert pipe.getvalue() == ""


def test_chunks_are_shown_in_a_terminal(monkeypatch):
    terminal = in_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    run(chunk=2)
    assert "replications" in terminal.getvalue()
    assert "6/6" in terminal.getvalue()


def test_chunks_are_shown_in_a_notebook(monkeypatch):
    """One line, which changes in place and goes at the end."""
    cell = in_a_notebook(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    run(chunk=2)
    assert [line.split(",")[0] for line in cell] == ["replications 2/6", "replications 4/6", "replications 6/6", ""]
    assert cell[2].endswith(" 0 s left")
    run(chunk=2, progress=False)
    monkeypatch.setattr(progress, "PATIENCE", 1000.0)
    run(chunk=2)
    assert len(cell) == 4
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_what_is_soon_done_shows_nothing(monkeypatch):
    """So does what is done in one piece, and what was told not to."""
    terminal = in_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 1000.0)
    run(chunk=2)
    with progress.working("refreshing"):
        pass
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    run()
    run(chunk=2, progress=False)
    assert terminal.getvalue() == ""


def test_work_without_parts_is_shown(monkeypatch):
    terminal = in_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.working("refreshing mail"):
        time.sleep(0.3)
    assert "refreshing mail" in terminal.getvalue()


def test_a_refresh_is_shown_as_at_the_command_line(monkeypatch, tmp_path):
    """In a terminal or a notebook, and not where it is told not to, or where the worker calls it."""
    mail = live.Experiment.create(f"sqlite:///{tmp_path / 'blts.db'}", "mail", ["A", "B"], "conversions", sampler="exact")
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    computed = refreshing.refresh
    monkeypatch.setattr(refreshing, "refresh", lambda *arguments: (time.sleep(0.3), computed(*arguments))[1])
    terminal = in_a_terminal(monkeypatch)
    mail.refresh(force=True, progress=False)
    assert terminal.getvalue() == ""
    mail.refresh(force=True)
    assert "refreshing mail" in terminal.getvalue()
    cell = in_a_notebook(monkeypatch)
    mail.refresh(force=True)
    assert cell == ["refreshing mail …", ""]
    monkeypatch.delitem(sys.modules, "ipykernel")
    mail.refresh(force=True)  # a pipe
    assert len(cell) == 2
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="progress must be True, False or None"):
        mail.refresh(progress="yes")


def test_a_worker_shows_no_sign(monkeypatch, tmp_path):
    url = f"sqlite:///{tmp_path / 'blts.db'}"
    mail = live.Experiment.create(url, "mail", ["A", "B"], "conversions", sampler="exact", batching="fixed")
    mail.tell([(decision.id, True) for decision in mail.ask(10).decisions])
    terminal = in_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    computed = refreshing.refresh
    monkeypatch.setattr(refreshing, "refresh", lambda *arguments: (time.sleep(0.1), computed(*arguments))[1])
    assert [done.refreshed is not None for done in Worker(url).once()] == [True]
    assert "refreshing" not in terminal.getvalue()


def test_an_error_ends_the_bar(monkeypatch):
    in_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)

    def fail() -> None:
        with progress.bar("parts", 2) as advance:
            advance(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with progress.bar("parts", 2) as advance:  # a second bar could not start if the first went on
        advance(1)


def test_numbers_do_not_depend_on_it(monkeypatch):
    in_a_terminal(monkeypatch)
    assert (run(chunk=2, progress=True) == run()).all()


def test_other_words_are_refused():
    with pytest.raises(ConfigError, match="progress must be True, False or None; got 'yes'"):
        run(progress="yes")
