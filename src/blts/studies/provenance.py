"""Where results come from: versions, commit, host, and a digest of the code that computes. Importing this loads no JAX."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import pathlib
import platform
import subprocess
import sys
from importlib import metadata

from .. import plugins, registry
from ..errors import UnknownName
from ..sources import LIBRARIES, NOT_COMPUTING, PACKAGE, digest_of_sources, version_of
from .reading import import_beside
from .spec import Study


@functools.cache
def code_version() -> str:
    """A digest of every file that computes and of the numerical libraries: other code, other results."""
    digest = digest_of_sources(lambda place: place.parts[0] not in NOT_COMPUTING and not _is_plumbing(place))
    for library in LIBRARIES[:4]:
        digest.update(f"{library} {version_of(library)}\n".encode())
    return digest.hexdigest()[:16]


def version_for(study: Study) -> str:
    """The version that a study's results are stored under.

    Args:
        study: a planned study.

    Returns:
        `code_version`, with a digest of the Python source of every other package that the study's file or parts come from or
        import, directly or through one another. Packages that were installed from an index are included, but not what they import.
    """
    named = {(kind, table[key]) for table in study.conditions for key, kind in KINDS.items() if isinstance(table.get(key), str)}
    found = [plugins.chosen(*each) for each in sorted(named) if _is_of_a_package(*each)]
    modules = {top for _, name in named if (top := plugins.top_module(name))}
    if modules:
        plugins.look_here()
    digests = [plugin.point.value for plugin in found]
    if study.source:  # whose own digest is `study.code`
        import_beside(study.source)
    files = [pathlib.Path(study.source)] if study.source else _registering(named)
    digests += [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if not study.source]
    roots = modules | {plugin.point.module.split(".")[0] for plugin in found}.union(*map(_imports, files))
    digests += [f"{name} {digest}" for name, digest in sorted(_digests(roots).items())]
    if not digests:
        return code_version()
    return hashlib.sha256("\n".join([code_version(), *digests]).encode()).hexdigest()[:16]


def _is_of_a_package(kind: str, name: str) -> bool:
    return name in plugins.offered(kind) and registry.find(kind, name).package != registry.OWN


def _registering(named: set[tuple[str, str]]) -> list[pathlib.Path]:
    """The files of the modules that registered parts in this process, for a study that comes from no file."""
    modules = set()
    for kind, name in named:
        with contextlib.suppress(UnknownName):
            entry = registry.find(kind, name)
            modules |= {entry.builder.__module__} if entry.package == "" else set()
    files = (getattr(sys.modules.get(module), "__file__", None) for module in sorted(modules))
    return [pathlib.Path(file) for file in files if file and pathlib.Path(file).is_file()]


def _digests(waiting: set[str]) -> dict[str, str]:
    """Digests of top packages and of those that they import in turn, without blts and its `LIBRARIES`."""
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in found or name in {registry.OWN, *LIBRARIES, *sys.stdlib_module_names} or not (files := _files_of(name)):
            continue
        content = (place.encode() + b"\0" + path.read_bytes() for place, path in sorted(files.items()))
        found[name] = hashlib.sha256(b"\0".join(content)).hexdigest()
        if not _is_from_index(name):
            waiting = waiting.union(*map(_imports, files.values()))
    return found


def _imports(path: pathlib.Path) -> set[str]:
    """The top packages that a Python file imports anywhere."""
    try:
        tree = ast.walk(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return set()
    nodes = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
    full = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    full |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level and node.module}
    return {name.split(".")[0] for name in full}


def _files_of(name: str) -> dict[str, pathlib.Path]:
    """The Python files of a top package or module, by their place in it; nothing is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return {}
    places = [pathlib.Path(place) for place in (spec.submodule_search_locations or [spec.origin or ""])] if spec else []
    files = [(place, path) for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])]
    return {path.relative_to(place.parent).as_posix(): path for place, path in files if path.is_file()}


def _is_from_index(name: str) -> bool:
    """Whether a package was installed from an index and not from a folder or an address, for which pip writes direct_url.json."""
    distributions = metadata.packages_distributions().get(name, [])
    return any(metadata.distribution(each).read_text("direct_url.json") is None for each in distributions)


KINDS = {"env": "environment", "agent": "agent", "batching": "batching", "sampler": "sampler", "prior": "model"}
"""What the names in a condition are names of."""


def _is_plumbing(place: pathlib.Path) -> bool:
    """How cells are written down, stored and distributed cannot change them; what they compute is in `tasks`."""
    return place.parts[0] == "studies" and place.parts[1] != "tasks"


@functools.cache
def here() -> dict[str, str]:
    """This machine and these versions."""
    return {
        "blts": version_of("blts"),
        "commit": commit(),
        "code": code_version(),
        "python": platform.python_version(),
        **{library: version_of(library) for library in LIBRARIES},
        "host": platform.node(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def commit() -> str:
    """The git commit of a checkout, marked where files were changed since; empty for an installed package."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        if pathlib.Path(git("rev-parse", "--show-toplevel")) != PACKAGE.parent.parent:
            return ""
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return ""
