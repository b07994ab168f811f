"""Imports point down only, JAX is loaded when it is needed, and the project knows nothing of the folders around it."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "blts"

# From the top. A part imports parts of lower lines only; parts of one line know nothing of each other.
LAYERS = (
    ("cli",),
    ("service", "openfeature"),
    ("paper", "report"),
    ("studies",),
    ("catalogue", "live"),
    ("problems",),
    ("simulation", "comparison"),
    ("trace", "leap", "specification", "inference", "wrong_returns", "silent_faults"),
    ("loop", "logged"),
    ("arrivals",),
    ("agents", "envs"),
    ("batching", "samplers"),
    ("theory", "history", "grid", "record", "delays"),
    ("dynamics",),
    ("models", "decision"),
    ("planning", "freshness", "steadiness"),
    ("registry", "random", "compilation", "sources", "statistics", "evidence", "privacy"),
    ("plugins",),
    ("_draws",),
    ("_random", "arrays", "factors", "untraceable"),
    ("lanes", "_module", "contexts"),
    ("declared", "client"),
    ("reading",),
    ("drawing", "progress"),
    ("_typing", "errors", "answers"),
    ("diagnosis",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
OUTSIDE = {"__init__", "__main__", "data"}
"""The public surface names every part, and the data have no code."""
EXCEPTIONS = {("registry", "catalogue"), ("registry", "studies")}
"""The registry fills itself at its first look-up, inside a function, so that importing it is cheap."""

Import = tuple[pathlib.Path, int, str]


def part_of(path: pathlib.Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports_of(tree: ast.AST, package: tuple[str, ...]) -> list[tuple[int, str]]:
    """Every imported module as (line, absolute dotted name), those inside functions too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            # `from .. import theory` names a module, `from ..errors import X` a thing in one.
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def files() -> list[pathlib.Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: pathlib.Path) -> tuple[str, ...]:
    return ("blts", *path.relative_to(SOURCE).parent.parts)


def upward(part: str, tree: ast.AST, package: tuple[str, ...]) -> list[str]:
    """The imports that point up or sideways."""
    wrong = []
    for line, name in imports_of(tree, package):
        pieces = name.split(".")
        if pieces[0] != "blts" or len(pieces) < 2:
            continue
        target = pieces[1]
        if target == part or (part, target) in EXCEPTIONS:
            continue
        if target not in LEVEL or LEVEL[target] <= LEVEL[part]:
            wrong.append(f"line {line}: {part} imports {target}")
    return wrong


def test_the_design_lists_these_layers():
    lines = [" · ".join(parts) for parts in LAYERS]
    assert "```\n" + "\n".join(lines) + "\n```" in (ROOT / "DESIGN.md").read_text()


def test_the_design_says_what_each_part_holds():
    table = (ROOT / "DESIGN.md").read_text().split("## What is where")[1].split("###")[0]
    assert [part for part in LEVEL if f"`{part}/`" not in table and f"`{part}.py`" not in table] == []


def test_every_part_has_a_layer():
    parts = {part_of(path) for path in files()} - OUTSIDE
    assert parts == set(LEVEL)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    part = part_of(path)
    if part in OUTSIDE:
        return
    assert upward(part, ast.parse(path.read_text()), package_of(path)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("models/new.py", "from ..agents import Thompson"),
        ("samplers/new.py", "def f():\n    from .. import loop"),
        ("agents/new.py", "from ..envs.base import Step"),
        ("arrays.py", "import blts.simulation"),
        ("loop.py", "from . import nowhere"),
    ],
)
def test_an_import_that_points_up_is_found(path, text):
    """The mutants of the test above."""
    place = SOURCE / path
    assert len(upward(part_of(place), ast.parse(text), package_of(place))) == 1


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize(
    "code", ["import blts, blts.cli, blts.registry, blts.errors", "import blts.cli.paper, blts.cli.study, blts.cli.experiment"]
)
def test_jax_is_not_imported_before_it_is_needed(code):
    assert loaded_by(code).isdisjoint({"jax", "numpy", "numpyro", "blackjax", "scipy", "matplotlib", "sqlalchemy"})


def test_studies_and_reports_load_no_jax():
    """The commands say where compiled programs are kept before JAX is imported, and a report needs none."""
    assert loaded_by("import blts.studies.planning, blts.studies.engines, blts.paper, blts.report").isdisjoint(
        {"jax", "matplotlib"}
    )


def test_extras_are_not_imported_before_they_are_used():
    found = loaded_by("import blts.catalogue, blts.paper, blts.models, blts.samplers")
    assert "jax" in found  # the check above can see it
    assert found.isdisjoint({"numpyro", "blackjax", "matplotlib", "typer"})


def test_extras_are_imported_inside_functions():
    """NumPyro only by models/numpyro.py and BlackJAX only by samplers/blackjax.py, never at module level."""
    homes = {"numpyro": "models/numpyro.py", "blackjax": "samplers/blackjax.py"}
    for path in files():
        tree = ast.parse(path.read_text())
        where = str(path.relative_to(SOURCE))
        for _, name in imports_of(tree, package_of(path)):
            extra = name.split(".")[0]
            assert extra not in homes or homes[extra] == where, f"{where} imports {name}"
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        assert {name.split(".")[0] for _, name in imports_of(top, package_of(path))}.isdisjoint(homes), where


def test_importing_configures_nothing():
    """No module sets JAX's options or starts a computation when it is imported."""
    lines = (
        "import jax",
        "before = dict(jax.config.values)",
        "import blts.catalogue, blts.studies.tasks",
        "assert before == dict(jax.config.values)",
        "from jax._src import xla_bridge",
        "assert not xla_bridge._backends, 'a device was started'",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def texts() -> list[pathlib.Path]:
    """The files that git keeps, or would keep."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    kinds = {".py", ".md", ".toml", ".json", ".cff", ".csv", ".svg", ".yml", ".yaml", ""}
    return [ROOT / name for name in listed.stdout.splitlines() if pathlib.Path(name).suffix in kinds and (ROOT / name).is_file()]


def foreign_paths(text: str) -> list[str]:
    """Absolute paths of somebody's machine."""
    named = len(ROOT.parts) > 2 and ROOT.parent != pathlib.Path(tempfile.gettempdir())  # documents may name /tmp
    around = [re.escape(f"{ROOT.parent}/")] if named else []
    return re.findall("|".join([r"(?<![\w.}~-])/(?:home|Users|root)/\w+", *around]), text)


def test_no_file_names_a_folder_outside_the_project():
    for path in texts():
        assert foreign_paths(path.read_text(errors="replace")) == [], path
    assert foreign_paths("/".join(("see ", "home", "somebody", "notes.md")))  # the mutant


def test_links_of_the_documents_lead_to_files_of_the_project():
    for path in texts():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text()):
            place = (path.parent / target).resolve()
            assert place.is_relative_to(ROOT), f"{path}: {target}"
            assert place.exists(), f"{path}: {target}"
