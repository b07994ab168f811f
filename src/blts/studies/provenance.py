"""Where results come from: versions, commit, host, and a digest of the code that computes. Importing this loads no JAX."""

from __future__ import annotations

import functools
import hashlib
import pathlib
import platform
import subprocess
from importlib import metadata

from .. import plugins, registry
from .spec import Study

PACKAGE = pathlib.Path(__file__).resolve().parent.parent
NOT_COMPUTING = {"cli", "report", "paper", "live", "drawing"}
"""Parts that no number of a cell depends on."""
LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "numpyro", "blackjax")


def version_of(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
def code_version() -> str:
    """A digest of every file that computes and of the numerical libraries: other code, other results."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if path.suffix in {".py", ".csv", ".gz"} and place.parts[0] not in NOT_COMPUTING and not _is_plumbing(place):
            digest.update(str(place).encode() + b"\0" + path.read_bytes() + b"\0")
    for library in LIBRARIES[:4]:
        digest.update(f"{library} {version_of(library)}\n".encode())
    return digest.hexdigest()[:16]


def version_for(study: Study) -> str:
    """`code_version`, with a digest of every other package that a part of the study comes from."""
    named = {(kind, table[key]) for table in study.conditions for key, kind in KINDS.items() if isinstance(table.get(key), str)}
    offered = [(kind, name) for kind, name in sorted(named) if name in plugins.offered(kind)]
    digests = [plugins.chosen(*each).digest() for each in offered if registry.find(*each).package != registry.OWN]
    if not digests:
        return code_version()
    return hashlib.sha256("\n".join([code_version(), *digests]).encode()).hexdigest()[:16]


KINDS = {"env": "environment", "agent": "agent", "batching": "batching", "sampler": "sampler"}
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
