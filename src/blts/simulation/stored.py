"""Traced programs kept between processes, so that the next process does not trace the same parts again.

JAX keeps what XLA compiles, under a digest of the program; to have the program, a process traces every part, which takes longer
than loading what was compiled. So programs are kept too (`jax.export`), in the same private folder, under an address that has all
that tracing depends on: the source files of this package, the versions of the libraries, JAX's configuration, and the classes,
static fields, shapes and types of the parts. Only parts of this package are kept, and models made of a user's functions by
`from_numpyro` or `from_functions`, whose functions are traced for the address (`densities.py`). Whatever else holds a class or a
function from elsewhere is traced as ever, and so is everything in a process in which a source file, a function or a class of this
package was changed after it was imported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import platform
import sys
import tempfile
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import export

import blts

from .. import _random, sources
from .._module import is_static
from ..compilation import keep_programs
from ..models.custom import Custom
from ..models.moments import Sum
from ..record import Concluded, Diagnostics, Record
from . import densities

KEPT = 200
"""Files that are kept; the oldest go first."""
LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes")
IRRELEVANT = ("jax_compilation_cache", "jax_persistent_cache", "jax_log", "jax_debug_log", "jax_logging")
"""Settings of JAX that no program depends on begin so."""
_LEAVES: dict[str, Any] = dict.fromkeys(Record._fields, 0)
_LEAVES["reward"] = Sum._make([0, 0])
_LEAVES["diagnostics"] = Diagnostics._make([0] * len(Diagnostics._fields))
_CONCLUDED = Concluded._make([0] * len(Concluded._fields))
_STRUCTURES = [
    jax.tree.structure(Record(**_LEAVES | {"concluded": concluded, "in_flight": late}))
    for concluded in ((), _CONCLUDED)
    for late in ((), 0)
]
_RECORDS = {structure.num_leaves: structure for structure in _STRUCTURES}
"""The structure of a record by the number of its leaves: with conclusions or not, with plays in flight or not."""


class _Foreign(Exception):
    """A part that does not come from this package."""


def program(
    run: Callable[..., Record], options: Any, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Callable[..., Record] | None:
    """A program that was traced before, by this or another process; or else one that is traced now and kept.

    Args:
        run: the function that is traced, of this package; its first argument is a key.
        options: XLA's options.
        inputs: its arguments, of which shapes and types matter and numbers do not.
        settings: its static arguments.

    Returns:
        A function of arguments like `inputs`; None where such a program cannot be kept.
    """
    where = address("program", (run, settings), inputs)
    if where is None:
        return None
    tree = jax.tree.structure(inputs[1:])

    def of_leaves(words, *leaves):
        return jax.tree.leaves(run(_random.from_words(words), *jax.tree.unflatten(tree, leaves), **settings))

    def leaves_of(inputs):
        return _random.words_of(inputs[0]), *jax.tree.leaves(inputs[1:])

    try:
        found = read(where)
        traced = None if found is None else export.deserialize(bytearray(found))
        if traced is None:
            traced = export.export(jax.jit(of_leaves))(*leaves_of(inputs))
            write(where, bytes(traced.serialize()))
    except (ImportError, ValueError, NotImplementedError):  # no flatbuffers; something that JAX cannot write down
        return None
    call = jax.jit(traced.call, compiler_options=options)

    def run_kept(*inputs: Any) -> Record:
        leaves = call(*leaves_of(inputs))
        return jax.tree.unflatten(_RECORDS[len(leaves)], leaves)

    return run_kept


def address(purpose: str, static: Any, traced: Any) -> str | None:
    """Where something is kept that depends on these, this package's code, the libraries and the settings of JAX.

    Args:
        purpose: what is kept.
        static: functions, and numbers that count.
        traced: parts and arrays, of whose traced numbers only shapes and types count.

    Returns:
        A name for `read` and `write`; None where nothing is kept, or where one of them holds a class or function from
        elsewhere.
    """
    if keep_programs() is None or jax.default_backend() != "cpu" or jax.local_device_count() != 1:
        return None
    held = sources.contents_of_modules()
    if held is None or sources.changed_since(blts._IMPORTED):
        return None
    config = sorted((name, repr(x)) for name, x in jax.config.values.items() if not name.startswith(IRRELEVANT))  # type: ignore[attr-defined]
    try:
        parts = _described(static, True), _described(traced)
        users = densities.of_users(traced)
        if users and purpose != "program":  # digests take as long to make as what is kept
            return None
        said = (purpose, _code(), held, repr(config), *parts, *map(densities.digest, users))
    except (_Foreign, densities.Unknown):
        return None
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


@functools.cache
def _code() -> str:
    """Every source file, and the versions of what traces it."""
    versions = [f"{library} {sources.version_of(library)}" for library in LIBRARIES]
    return "\n".join([sources.digest_of_sources().hexdigest(), platform.python_version(), platform.machine(), *versions])


def _described(value: Any, static: bool = False) -> str:
    """Everything in a value that tracing depends on.

    Raises:
        _Foreign: it has a class or a function that does not come from this package, or something unknown.
    """
    kind = type(value)
    if kind in (str, bool, types.NoneType):
        return repr(value)
    if kind in (int, float):
        return f"{kind.__name__} {value!r}" if static else kind.__name__
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(_described(each, static) for each in value)})"
    if kind is dict:
        return f"dict({', '.join(f'{name!r}: {_described(each, static)}' for name, each in value.items())})"
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not static:
        return f"{value.dtype} {value.shape} {getattr(value, 'weak_type', False)}"
    if isinstance(value, types.FunctionType | type):
        return _own(value)
    if isinstance(value, tuple):
        return f"{_own(kind)}({', '.join(_described(each, static) for each in value)})"
    if dataclasses.is_dataclass(value):
        fields = [(each, getattr(value, each.name)) for each in dataclasses.fields(value)]
        if isinstance(value, Custom) and not static:  # `densities.of_users` finds it; what its functions do is in a digest
            fields = [(each, "a function" if callable(x) else x) for each, x in fields]
        return f"{_own(kind)}({', '.join(f'{each.name}={_described(x, static or is_static(each, x))}' for each, x in fields)})"
    raise _Foreign


def _own(value: Any) -> str:
    """The name under which a function or class of this package is found."""
    module, name = value.__module__, value.__qualname__
    if not module.startswith(f"{blts.__name__}.") or getattr(sys.modules.get(module), name, None) is not value:
        raise _Foreign
    return f"{module}.{name}"


def _file(where: str) -> pathlib.Path:
    folder = keep_programs()
    assert folder is not None, "address() gave a name"
    return folder / f"{where}.traced"


def read(where: str) -> bytes | None:
    """What was kept at an address; None where there is nothing, or something that was not written to the end."""
    try:
        digest, content = _file(where).read_bytes().split(b"\n", 1)
    except (OSError, ValueError):
        return None
    return content if hashlib.sha256(content).hexdigest().encode() == digest else None


def write(where: str, content: bytes) -> None:
    """Keep this at an address, whole or not at all; and let the oldest files go."""
    path = _file(where)
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        os.replace(file.name, path)
        files = sorted(path.parent.glob("*.traced"), key=lambda each: each.stat().st_mtime_ns)
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)
