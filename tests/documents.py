"""What README.md and docs/ show is what the code prints. `make outputs` (this file) rewrites it; docs/test_examples.py compares.

- The `python` blocks of a document are run in order, in one namespace. What one prints stands in a `text` block right after it.
- A `console` block is a session: lines that begin with `$ blts`, each followed by what that command prints.
- docs/openapi.json is what the service says of itself (`python tests/documents.py docs/openapi.json` writes it alone).

Outputs are compared as printed. Every seed is fixed, and the numbers shown were the same for four instruction sets and code
generators of XLA (XLA_FLAGS=--xla_cpu_max_isa=AVX2, SSE4_2, --xla_cpu_use_fusion_emitters=false), so no tolerance is needed. The
default tests compile documents as they compile everything, quickly; `make slow` and `make outputs` run them as a user does. So
print what last bits do not change: of a bandit on Metropolis-adjusted chains, where they decide what is accepted and so all that
follows, a rounded regret.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "extend")
"""The pages of the documentation site."""
WITH_OUTPUTS = (ROOT / "README.md", *(path for path in PAGES if "\n```" in path.read_text(encoding="utf-8")))
"""The documents whose outputs are the code's: all that have a block."""
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$\n?", re.DOTALL | re.MULTILINE)
OPENAPI = ROOT / "docs" / "openapi.json"
LANGUAGES = {
    "python": "run; what it prints is the text block right after it",
    "text": "what the Python block right before it prints",
    "console": "commands, each with what it prints",
    "bash": "commands that tests run, and whose output is not shown",
    "sh": "commands for other machines, which nothing runs",
    "py": "Python of another library, on a page that compares it with blts: it is not installed here, so nothing runs it; "
    "or a new file, on the page for contributors, which tests/docs/test_contributing.py applies",
    "diff": "a change to a file, on the same page",
    "js": "JavaScript, which tests/service/test_openfeature.py runs",
    "toml": "a study, which tests run, or a part of docs/extend/pyproject.toml",
}
"""Languages of blocks in these documents. A block without one could hold an output that nobody compares."""
PROMPT = "$ blts "
FLAGS = ("XLA_FLAGS", "NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "JAX_CPU_ENABLE_ASYNC_DISPATCH")
"""What tests/conftest.py sets and a user does not."""


class Block(NamedTuple):
    """A fenced block and where it stands."""

    language: str
    text: str
    start: int
    end: int


def blocks(document: str) -> list[Block]:
    """All fenced blocks of a document, in order."""
    return [Block(m["language"], m["text"], m.start(), m.end()) for m in FENCE.finditer(document)]


def unclear(document: str) -> list[str]:
    """Blocks of which nothing says whether they are run or shown."""
    found, before = [], None
    for block in blocks(document):
        adjacent = before is not None and before.language == "python" and not document[before.end : block.start].strip()
        if block.language not in LANGUAGES:
            found.append(f"a block of the language {block.language!r}; take one of {', '.join(LANGUAGES)}")
        elif block.language == "text" and not adjacent:
            found.append(f"a text block that follows no Python block: {block.text[:40]!r}")
        before = block
    return found


def updated(document: str, name: str = "document") -> str:
    """A document with what its blocks print now in the place of what it shows. Runs them, in this process."""
    namespace: dict[str, object] = {"__name__": name}
    pieces, place, found = [], 0, blocks(document)
    for i, block in enumerate(found):
        if block.language == "console":
            pieces += [document[place : block.start], _fenced("console", _session(block.text))]
            place = block.end
        if block.language != "python":
            continue
        pieces.append(document[place : block.end])
        printed = _printed(block.text, f"{name}, block {i + 1}", namespace)
        following = found[i + 1] if i + 1 < len(found) else None
        shown = (
            following if following and following.language == "text" and not document[block.end : following.start].strip() else None
        )
        if printed:
            pieces.append("\n" + _fenced("text", printed))
        place = shown.end if shown else block.end
    return "".join([*pieces, document[place:]])


def _printed(code: str, where: str, namespace: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, where, "exec", dont_inherit=True), namespace)
    return _plain(out.getvalue())


def _session(text: str) -> str:
    """The commands of a console block, each followed by what it prints."""
    lines = []
    for line in text.splitlines():
        if line.startswith(PROMPT):
            lines += [line, _plain(_output(*shlex.split(line, comments=True)[2:], line=line))]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _output(*arguments: str, line: str = "") -> str:
    """What a command prints, in this process."""
    from typer.testing import CliRunner

    from blts import cli

    result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(f"`{line or shlex.join(arguments)}` failed: {result.output}")
    return result.output


def _plain(printed: str) -> str:
    """Without the blanks at the ends of lines, which no editor keeps."""
    return "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())


def example_parts(folder: pathlib.Path) -> str:
    """What PYTHONPATH must have for the package in docs/extend to be installed: its metadata, written into `folder`, and itself."""
    import tomllib

    project = tomllib.loads((ROOT / "docs" / "extend" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in of.items()) for group, of in project["entry-points"].items())
    (info / "entry_points.txt").write_text("\n".join(groups))
    return os.pathsep.join((str(folder), str(ROOT / "docs" / "extend")))


@contextlib.contextmanager
def service(folder: pathlib.Path) -> Iterator[dict[str, str]]:
    """`blts serve` on a database in a folder, for a document about it; the variables that say where it is and have a key."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    database = str(folder / "blts.db")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))}
    key = json.loads(_output("keys", "create", "documents", "--role", "admin", "--db", database, "--json"))["key"]
    serve = [sys.executable, "-m", "blts", "serve", "--db", database, "--port", str(port)]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield {"BLTS_URL": f"http://127.0.0.1:{port}", "BLTS_KEY": key}  # clients wait until it answers
        finally:
            process.terminate()


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}```\n"


def openapi() -> str:
    """The OpenAPI document of the service, as docs/openapi.json has it."""
    from blts.service.openapi import document
    from blts.service.routes import ROUTES

    return json.dumps(document(ROUTES), indent=1, ensure_ascii=False) + "\n"


def rewritten(path: pathlib.Path, quickly: bool = False) -> str:
    """What `updated` makes of a file in a new process and an empty folder, as a user runs it: without the flags of the tests.

    Args:
        path: The document.
        quickly: Whether it is compiled with the flags of the tests all the same.

    Returns:
        The document with what its blocks print now.
    """
    kept = {name: value for name, value in os.environ.items() if quickly or name not in FLAGS}
    cache = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / "xla"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as site:
        parts = example_parts(pathlib.Path(site)) if path.name == "howto-extend.md" else None
        path_of = os.pathsep.join(filter(None, (str(ROOT / "src"), parts, os.environ.get("PYTHONPATH"))))
        environment = kept | cache | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": path_of, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--print", str(path.resolve())]
        with service(pathlib.Path(site)) if path.name == "howto-serve.md" else contextlib.nullcontext({}) as where:
            own = environment | where
            done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"{path.name} does not run:\n{done.stderr}")
    return done.stdout


def main(arguments: Sequence[str]) -> None:
    """Rewrite the outputs of all documents, or of those named; `--print FILE` prints one instead."""
    if arguments[:1] == ["--print"]:
        path = pathlib.Path(arguments[1])
        sys.stdout.write(updated(path.read_text(encoding="utf-8"), path.stem))
        return
    for path in [pathlib.Path(name) for name in arguments] or (*WITH_OUTPUTS, OPENAPI):
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        now = openapi() if path.resolve() == OPENAPI else rewritten(path)
        if now != before:
            path.write_text(now, encoding="utf-8")
        print(f"{path.name}: {'rewritten' if now != before else 'as it was'}")


if __name__ == "__main__":
    main(sys.argv[1:])
