"""Where compiled programs are kept between runs, how many a process can hold, and what makes tracing and compiling faster."""

from __future__ import annotations

import functools
import gc
import os
import pathlib
import stat
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


@functools.cache
def keep_programs() -> pathlib.Path | None:
    """Let JAX keep compiled programs in a private folder of this user, so that a second process does not compile them again.

    The folder is `$XDG_CACHE_HOME/blts/xla` (`~/.cache/blts/xla`). Nothing is changed where JAX was already told a folder
    (`JAX_COMPILATION_CACHE_DIR` or `jax.config`) or not to keep programs (`JAX_ENABLE_COMPILATION_CACHE=false`), nor where
    the folder cannot be written or belongs to somebody else. Only the first call does something.

    Returns:
        The folder, where programs are kept in it.
    """
    import jax

    config = jax.config
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        return None
    folder = private_folder()
    if folder is not None:
        config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            # Small programs too: loading takes a tenth of compiling.
            config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


def private_folder() -> pathlib.Path | None:
    """The folder for compiled programs, which only this user can write.

    Returns:
        The folder, made with mode 0700 where it was not there; None where it cannot be made or written, or others can write to it:
        who can write a compiled program can run code here. A folder that others can read is closed to them, unless it is a link.
    """
    try:
        home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        folder = home / "blts" / "xla"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        foreign = os.name == "posix" and (about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if foreign or not os.access(folder, os.W_OK | os.X_OK):
            return None
        if os.name == "posix" and stat.S_IMODE(about.st_mode) & 0o077 and not folder.is_symlink():
            folder.chmod(0o700)
        return folder
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder
        return None


MAPPINGS = 0.5
"""Share of the memory mappings that Linux allows a process, beyond which its compiled programs are let go."""


def make_room() -> None:
    """Let compiled programs go where there are too many of them for the system.

    XLA takes some five hundred memory mappings for a simulation, Linux allows a process 65,530 by default (`vm.max_map_count`), and
    LLVM ends the process that wants more: after a hundred and twenty conditions. Whoever runs a program that was let go loads it
    again from the folder of `keep_programs`.
    """
    if mappings() > MAPPINGS * most_mappings():
        import jax

        jax.clear_caches()
        gc.collect()


def mappings() -> int:
    """How many memory mappings this process has; 0 where the system does not say."""
    try:
        with open("/proc/self/maps", "rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return 0


@functools.cache
def most_mappings() -> int:
    """How many it may have; Linux's default where the system does not say."""
    try:
        return int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65_530


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h
PIECE = 64 << 20


def take_memory_in_large_pieces() -> None:
    """Let the C library (glibc) take memory from the system 64 MB at a time, for a process that compiles and ends.

    A compilation takes memory in small pieces, for which heaps grew by 128 KB some ten thousand times.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_TOP_PAD, PIECE)
        mallopt(M_TRIM_THRESHOLD, 2 * PIECE)
        mallopt(M_MMAP_THRESHOLD, PIECE // 2)  # the first of these calls ends its growth by itself


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library can (glibc): a compilation leaves up to 200 MB that it does not."""
    import ctypes

    trim = getattr(ctypes.CDLL(None) if os.name == "posix" else None, "malloc_trim", None)
    if trim is not None:
        trim(0)


FRAME = 70_000
"""Words of a frame for which Python takes a megabyte of stack; the frames of functions called from there share the rest of it."""


def on_one_piece_of_stack(f: Callable[[], T]) -> T:
    """Call a function that traces a program.

    Python keeps its frames in pieces of 16 KB, takes one from the system when the last is full and gives it back as soon as it is
    empty. A loop that calls functions at the end of a piece does so at every call: tracing a simulation took memory from the
    system 15,000 times, a twentieth of its time. This takes a large piece first.

    Args:
        f: a function without arguments.

    Returns:
        What it returns.

    >>> on_one_piece_of_stack(lambda: 1 + 1)
    2
    """
    return f()


on_one_piece_of_stack.__code__ = on_one_piece_of_stack.__code__.replace(co_stacksize=FRAME)
