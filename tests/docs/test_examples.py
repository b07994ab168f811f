"""The documents run: every Python block, every `blts` command, and what they show is what is printed (tests/documents.py)."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import documents
from blts import cli
from blts.errors import UnknownName
from documents import PAGES, ROOT, WITH_OUTPUTS, blocks, rewritten, unclear, updated

DOCUMENTS = [ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")] + PAGES
SMALL = ("--horizon", "20", "--replications", "2")


NEEDS_A_PROCESS = ("howto-extend.md", "howto-serve.md")
"""A document with an installed package, and one with a service."""


@pytest.mark.parametrize("path", WITH_OUTPUTS, ids=lambda path: path.name)
def test_what_a_document_shows_is_what_is_printed(path, tmp_path, monkeypatch):
    """As printed, every character, however XLA generates code. `make outputs` rewrites what has changed."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    if path.name in NEEDS_A_PROCESS:
        compare(path, lambda text: rewritten(path, quickly=True))
    else:
        compare(path, lambda text: updated(text, path.stem))


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_OUTPUTS, ids=lambda path: path.name)
def test_what_a_document_shows_is_what_a_user_sees(path):
    """In a process of its own, compiled as there."""
    compare(path, lambda text: rewritten(path))


def compare(path: pathlib.Path, run: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert not unclear(text)
    if "numpyro" in text:
        pytest.importorskip("numpyro")
    assert run(text) == text, f"run `make outputs`, and read what changed in {path.name} before you commit it"


EXAMPLE = """# A document

```python
x = 0.242
print(f"{x} a round")
```

```text
0.242 a round
```

More.

```python
y = x + 1
```

```console
$ blts --help
```
"""
HAND = {
    "a last digit": ("0.242 a round\n```", "0.243 a round\n```"),
    "a number that was once within a tolerance": ("0.242 a round\n```", "0.226 a round\n```"),
    "a word": ("0.242 a round\n```", "0.242 a period\n```"),
    "a line too many": ("0.242 a round\n```", "0.242 a round\n0.398 a round\n```"),
    "an output that is not shown": ("\n```text\n0.242 a round\n```\n", ""),
    "an output of what prints nothing": ("y = x + 1\n```\n", "y = x + 1\n```\n\n```text\n1.242\n```\n"),
    "the code, and not what it prints": ("x = 0.242", "x = 0.226"),
}


@pytest.mark.parametrize("change", HAND)
def test_what_is_changed_by_hand_is_noticed_and_put_right(change):
    """The mutants of the comparison above."""
    document = EXAMPLE[: EXAMPLE.index("\n```console")]
    assert updated(document) == document
    mutant = document.replace(*HAND[change])
    assert mutant != document
    assert updated(mutant) != mutant
    if "code" not in change:
        assert updated(mutant) == document


def test_a_session_has_what_its_commands_print():
    once = updated(EXAMPLE)
    assert "$ blts --help\n" in once
    assert "simulate" in once
    assert updated(once) == once
    for mutant in (once.replace("simulate", "stimulate"), EXAMPLE):
        assert updated(mutant) == once != mutant


def test_a_command_that_fails_is_not_an_output():
    with pytest.raises(UnknownName, match="nobody"):
        updated("```console\n$ blts simulate --agent nobody\n```\n")
    with pytest.raises(SystemExit, match="`\\$ blts simulate --nonsense` failed"):
        updated("```console\n$ blts simulate --nonsense\n```\n")


def test_outputs_cannot_hide_in_blocks_that_nobody_compares():
    assert unclear(EXAMPLE) == []
    assert "of the language ''" in unclear("```\n0.242 a round\n```\n")[0]
    assert "follows no Python block" in unclear("```text\n0.242 a round\n```\n")[0]
    assert "follows no Python block" in unclear("```python\nx\n```\nprints\n```text\n0.242\n```\n")[0]


def test_a_document_runs_in_a_process_of_its_own(tmp_path):
    """The same as in this process; a document that does not run is refused with the reason."""
    path = tmp_path / "mine.md"
    path.write_text("```python\nimport os\nprint(os.environ.get('XLA_FLAGS'), os.listdir())\n```\n")
    assert "\n```text\nNone []\n```\n" in rewritten(path)
    documents.main([str(path)])
    assert rewritten(path) == path.read_text()
    path.write_text("```python\nprint(nothing)\n```\n")
    with pytest.raises(RuntimeError, match=r"mine\.md does not run:(?s:.*)NameError"):
        rewritten(path)


def commands(path: pathlib.Path) -> list[str]:
    """Those of live experiments build on each other; tests/live/test_live_cli.py runs them in order, in a folder of their own."""
    lines = [line for block in blocks(path.read_text()) if block.language == "bash" for line in block.text.splitlines()]
    return [
        line.split("  #")[0].strip()
        for line in lines
        if line.startswith("blts ") and not line.startswith(("blts experiment ", "blts worker "))
    ]


@pytest.mark.parametrize("line", sorted({line for path in DOCUMENTS for line in commands(path)}))
def test_commands_run(line, tmp_path, monkeypatch):
    """Simulations run with a small horizon; the paper's experiments, which take minutes, and studies are only parsed."""
    monkeypatch.chdir(tmp_path)  # some write a file
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
    for block in blocks(path.read_text()):
        if block.language in ("toml", "python"):
            (tmp_path / f"mine.{block.language.replace('python', 'py')}").write_text(block.text)
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
    code = next(block.text for block in blocks((ROOT / "README.md").read_text()) if block.language == "python")
    assert len(code.splitlines()) <= 20


def test_the_base_classes_of_the_design_are_those_of_the_code():
    """Every class and method of DESIGN.md's block exists, with these arguments, and no method is left out."""
    from blts.agents.base import Agent
    from blts.agents.beliefs import Belief
    from blts.batching.base import Batching
    from blts.delays import Delay
    from blts.dynamics.base import Dynamics
    from blts.envs.base import Env
    from blts.envs.drift import Drift
    from blts.models.base import Model
    from blts.samplers.base import Sampler
    from blts.samplers.mirror import Mirror
    from blts.samplers.rows import RowSampler

    code = next(block.text for block in blocks((ROOT / "DESIGN.md").read_text()) if block.language == "py")
    written = {node.name: node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)}
    known = (Agent, Batching, Belief, Delay, Drift, Dynamics, Env, Mirror, Model, RowSampler, Sampler)
    classes = {cls.__name__: cls for cls in known}
    assert written.keys() == classes.keys()
    for name, node in written.items():
        methods = {item.name: [arg.arg for arg in item.args.args] for item in node.body if isinstance(item, ast.FunctionDef)}
        named = {key: getattr(classes[name], key) for key in vars(classes[name]) if not key.startswith("_")}
        own = {key: value for key, value in named.items() if inspect.isfunction(value)}
        assert methods == {key: list(inspect.signature(value).parameters) for key, value in own.items()}, name
