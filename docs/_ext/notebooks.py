"""Notebooks: plain Python files with cells (`# %%`), run when the site is built and shown with what they print and draw.

A page of docs/tutorials has `:::{notebook} few_batches` and `:::`, for docs/notebooks/few_batches.py. There `# %% [markdown]`
begins a cell of text, in comments, and `# %%` one of code. What a code cell prints is shown below it. If its last line is an
expression with a picture (`trace.plot()`), so is that, and the cell's mark says what is to be seen: `# %% alt="Regret over time"`.
A cell that fails, or a picture without such words, fails the build.

Each notebook runs in a process of its own, in an empty folder. What came out is kept in .pytest_cache/notebooks, under a digest of
the notebook and of the package's source, so that only what has changed runs again.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import html
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "notebooks"
KEPT = ROOT / ".pytest_cache" / "notebooks"
PLACE = re.compile(r"^:::\{notebook\} (?P<name>\w+)\n:::$", re.MULTILINE)
MARK = re.compile(r'^# %%(?: (?P<text>\[markdown\])| alt="(?P<alt>[^"]+)")?$')


class Cell(NamedTuple):
    """A cell and the line that it begins on."""

    is_text: bool
    alt: str
    source: str
    line: int


class Output(NamedTuple):
    """What a code cell printed, and a PNG file as base64, or ""."""

    printed: str
    picture: str


class Failed(Exception):
    """A notebook that does not run, with the cell and the reason."""


def cells(source: str) -> list[Cell]:
    """The cells of a notebook.

    Args:
        source: of the file.

    Returns:
        Those that are not empty. What stands before the first mark must be a docstring or nothing.
    """
    found: list[Cell] = []
    lines = source.splitlines()
    marks = [(i, mark) for i, line in enumerate(lines) if (mark := MARK.match(line))]
    for (i, mark), end in zip(marks, [*(i for i, _ in marks[1:]), len(lines)], strict=True):
        body = lines[i + 1 : end]
        is_text = mark["text"] is not None
        text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body) if is_text else "\n".join(body)
        if text.strip():
            found.append(Cell(is_text, mark["alt"] or "", text.strip("\n"), i + 2))
    return found


def run(path: pathlib.Path) -> list[Output]:
    """Run the code cells of a notebook in order, in one namespace of this process.

    Args:
        path: of the notebook.

    Returns:
        An output for each code cell.

    Raises:
        Failed: a cell raised an error, or drew a picture without words.
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    return [_run_cell(path.name, cell, space) for cell in cells(path.read_text(encoding="utf-8")) if not cell.is_text]


def _run_cell(name: str, cell: Cell, space: dict[str, Any]) -> Output:
    printed, value = io.StringIO(), None
    try:
        tree = ast.parse(cell.source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec"), space)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            if value is not None and not hasattr(value, "_repr_png_"):
                print(value)
    except Exception as error:
        raise Failed(f"{name}, the cell at line {cell.line}: {type(error).__name__}: {error}") from error
    if not hasattr(value, "_repr_png_"):
        return Output(printed.getvalue(), "")
    if not cell.alt:
        raise Failed(f'{name}, the cell at line {cell.line} draws a picture; say what it shows: # %% alt="…"')
    return Output(printed.getvalue(), base64.b64encode(value._repr_png_()).decode())


def outputs(path: pathlib.Path) -> list[Output]:
    """What a notebook shows: from an earlier build, or run in a process of its own.

    Args:
        path: of the notebook.

    Returns:
        An output for each code cell.

    Raises:
        Failed: it does not run.
    """
    kept = KEPT / f"{_address(path)}.json"
    if kept.exists():
        return [Output(*output) for output in json.loads(kept.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])}
        command = [sys.executable, __file__, str(path)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{path.name} ended with {done.returncode}.")
    KEPT.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}")
    part.write_text(done.stdout, encoding="utf-8")
    part.replace(kept)
    return [Output(*output) for output in json.loads(done.stdout)]


def _address(path: pathlib.Path) -> str:
    digest = hashlib.sha256(path.read_bytes() + pathlib.Path(__file__).read_bytes())
    for file in sorted((ROOT / "src").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def page(path: pathlib.Path, shown: list[Output] | None) -> str:
    """A notebook as Markdown.

    Args:
        path: of the notebook.
        shown: what its code cells printed and drew; None to leave that out.

    Returns:
        The text of the page.
    """
    source = path.read_text(encoding="utf-8")
    rest = iter(shown or [])
    parts = [
        f"{{download}}`Download this notebook <../notebooks/{path.name}>`: plain Python with cells, for any editor that knows them."
    ]
    for cell in cells(source):
        if cell.is_text:
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if shown is None:
            continue
        output = next(rest)
        if output.printed.strip():
            parts.append(f"```text\n{output.printed.rstrip()}\n```")
        if output.picture:
            parts.append(f'<img class="drawn" alt="{html.escape(cell.alt)}" src="data:image/png;base64,{output.picture}">')
    first = next((i for i, part in enumerate(parts) if part.startswith("# ")), 0)
    title = parts.pop(first)  # the title stands before the link
    return "\n\n".join([*title.split("\n\n", 1)[:1], *parts[:1], *title.split("\n\n", 1)[1:], *parts[1:]]) + "\n"


def expanded(text: str, execute: bool) -> str:
    """A page with its notebook written out.

    Args:
        text: of the page.
        execute: whether outputs are shown.

    Returns:
        The text of the page.
    """

    def written(place: re.Match[str]) -> str:
        path = FOLDER / f"{place['name']}.py"
        return page(path, outputs(path) if execute else None)

    return PLACE.sub(written, text)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx. Notebooks run two at a time, before the pages are read."""
    from sphinx.errors import ExtensionError

    def all_run(app: Any) -> None:
        if app.config.notebooks_execute and pathlib.Path(app.srcdir) == ROOT / "docs":
            with ThreadPoolExecutor(2) as pool:
                try:
                    list(pool.map(outputs, sorted(FOLDER.glob("*.py"))))
                except Failed as error:
                    raise ExtensionError(str(error)) from None

    app.add_config_value("notebooks_execute", True, "env", bool)
    app.connect("builder-inited", all_run)
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expanded(source[0], app.config.notebooks_execute)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    try:
        found = run(pathlib.Path(sys.argv[1]))
    except Failed as error:
        sys.exit(str(error))
    print(json.dumps(found))
