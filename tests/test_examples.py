"""The documents run: every Python block, every `blts` command, and the output that is shown for them."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from blts import cli

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
SMALL = ("--horizon", "20", "--replications", "2")
# A number that is printed may differ in its last digits on another machine, whose compiler rounds differently and so
# breaks another near tie; it may not differ by more than this share.
NEAR = 0.1


def blocks(path: pathlib.Path) -> list[tuple[str, str]]:
    """All fenced blocks of a document as (language, text), in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def has_python(path: pathlib.Path) -> bool:
    return any(language == "python" for language, _ in blocks(path))


def same_words_near_numbers(shown: str, printed: str) -> bool:
    """Equal up to spaces, with numbers within NEAR of each other."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.sub("#", "".join(shown.split())) != number.sub("#", "".join(printed.split())):
        return False
    pairs = zip(number.findall(shown), number.findall(printed), strict=True)
    return all(abs(float(a) - float(b)) <= NEAR * abs(float(b)) + 0.5 for a, b in pairs)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if has_python(path)], ids=lambda path: path.name)
def test_python_blocks_run_and_print_what_is_shown(path, capsys):
    """In one namespace a document, in order. A text block right after a Python block is what that prints."""
    if "numpyro" in path.read_text():
        pytest.importorskip("numpyro")
    namespace: dict = {"__name__": path.stem}
    found = blocks(path)
    for i, (language, text) in enumerate(found):
        if language != "python":
            continue
        exec(compile(text, f"{path.name}, block {i + 1}", "exec"), namespace)
        printed = capsys.readouterr().out
        following = found[i + 1] if i + 1 < len(found) else ("", "")
        if following[0] == "text":
            assert same_words_near_numbers(following[1], printed), printed


def commands(path: pathlib.Path) -> list[str]:
    """Those of live experiments build on each other; tests/test_live_cli.py runs them in order, in a folder of their own."""
    lines = [line for language, text in blocks(path) if language == "bash" for line in text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("blts ") and not line.startswith("blts experiment ")]


@pytest.mark.parametrize("line", sorted({line for path in DOCUMENTS for line in commands(path)}))
def test_commands_run(line):
    """Simulations run with a small horizon; the paper's experiments, which take minutes, and studies are only parsed."""
    name, *arguments = shlex.split(line)[1:]
    if name in ("paper", "study"):
        command: Any = typer.main.get_command(cli.app)
        if name == "study":
            command, name, arguments = command.commands["study"], arguments[0], arguments[1:]
        command.commands[name].make_context(name, arguments)
        return
    small = SMALL if name == "simulate" else ()
    result = CliRunner().invoke(cli.app, [name, *arguments, *small], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_the_howto_on_studies_runs(tmp_path, monkeypatch):
    """Its study files in a folder of their own, and every command on them, in order."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    path = ROOT / "docs" / "howto-study.md"
    monkeypatch.chdir(tmp_path)
    for language, text in blocks(path):
        if language in ("toml", "python"):
            (tmp_path / f"mine.{language.replace('python', 'py')}").write_text(text)
    for line in [*commands(path), "blts study run mine.py --out timid"]:
        result = CliRunner().invoke(cli.app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    found = {
        name: (tmp_path / name / "results.json").read_text() for name in ("mine", "mine-processes", "mine-dask", "mine-shards")
    }
    assert len(set(found.values())) == 1
    assert (tmp_path / "timid" / "index.html").exists()


def test_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        assert set(re.findall(r"`make (\w+)`", path.read_text())) <= targets, path.name


def test_the_quickstart_is_short():
    """README: about twenty lines of Python, on the first screen."""
    code = next(text for language, text in blocks(ROOT / "README.md") if language == "python")
    assert len(code.splitlines()) <= 20


def test_comparison_of_shown_and_printed():
    """The mutants of the comparison above."""
    assert same_words_near_numbers("regret 99.5, 23 batches", "regret 99.1,  23 batches")
    assert not same_words_near_numbers("regret 99.5, 23 batches", "regret 139.5, 23 batches")
    assert not same_words_near_numbers("regret 99.5", "reward 99.5")
    assert not same_words_near_numbers("regret 99.5", "")


def test_the_protocols_of_the_design_are_those_of_the_code():
    """Every class and method of DESIGN.md's block exists, with these arguments, and no method is left out."""
    from blts.agents.base import Agent
    from blts.batching.base import Batching, Foreseeable
    from blts.dynamics.base import Dynamics
    from blts.envs.base import Env
    from blts.models.base import Closed, Conjugate, Model, Sufficient, Summarised
    from blts.samplers.base import Sampler
    from blts.samplers.rows import RowSampler

    code = next(text for language, text in blocks(ROOT / "DESIGN.md") if language == "py")
    written = {node.name: node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)}
    known = (Agent, Batching, Closed, Conjugate, Dynamics, Env, Foreseeable, Model, RowSampler, Sampler, Sufficient, Summarised)
    protocols = {cls.__name__: cls for cls in known}
    assert written.keys() == protocols.keys()
    for name, node in written.items():
        methods = {item.name: [arg.arg for arg in item.args.args] for item in node.body if isinstance(item, ast.FunctionDef)}
        own = {key: value for key, value in vars(protocols[name]).items() if inspect.isfunction(value) and not key.startswith("_")}
        assert methods == {key: list(inspect.signature(value).parameters) for key, value in own.items()}, name
