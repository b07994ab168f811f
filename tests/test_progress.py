"""Progress: shown where a person looks and after a while, never in pipes; no number depends on it."""

from __future__ import annotations

import io
import sys
import time

import numpy as np
import pytest

from blts import ConfigError, DoublingCounts, condition, progress, simulate


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
