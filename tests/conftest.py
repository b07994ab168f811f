"""Settings of the test run, made before anything imports JAX."""

from __future__ import annotations

import ast
import builtins
import ctypes
import gc
import math
import os
import pathlib
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from blts.compilation import on_one_piece_of_stack, take_memory_in_large_pieces

# Compiled programs are kept between runs, and shared by the workers of one, the small ones too.
_CACHE = pathlib.Path(__file__).resolve().parent.parent / ".pytest_cache" / "xla"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Workers share the cores already: without these each would start threads for every core.
os.environ.setdefault("NPROC", "1")
# Those of NumPy wait for each other by spinning. (Workers start after this; with -n 0, NumPy may be imported already.)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")

# Most programs of tests run for less time than they take to compile, so that they are compiled quickly rather than well: by LLVM
# without optimisation, in one module, and without XLA's newer emitters, a whole simulation takes a third less CPU time from tracing
# to its numbers. Last bits are others: LLVM then fuses no products with sums. `make slow` compiles as a user does, and the fixture
# `well_compiled` does so for tests of what a user's process stored.
QUICK = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",  # a version of XLA that does not know it ignores it
]
SLOW = os.environ.get("BLTS_SLOW") is not None
if not SLOW:
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICK])

# Tracing makes millions of small objects, few of which are in cycles: looking for those took a tenth of the time.
gc.set_threshold(50_000, 20, 50)


take_memory_in_large_pieces()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run a test on a stack of its own, below which pytest's is deep."""
    names = pyfuncitem._fixtureinfo.argnames
    on_one_piece_of_stack(lambda: pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


CONTEXTS = 200
"""Programs that are written down in one context of MLIR: to make one takes 5 ms, and a run writes down 20,000 programs."""


@pytest.fixture(scope="session", autouse=True)
def _few_contexts() -> Iterator[None]:
    """The programs of a thread share contexts, which JAX makes anew for each."""
    from jax._src.interpreters import mlir

    made, local = mlir.make_ir_context, threading.local()

    def shared():
        context, left = getattr(local, "context", (None, 0))
        local.context = context, left = (context, left - 1) if left else (made(), CONTEXTS)
        return context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", shared)
        yield


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: no search for cycles needs to look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what pgserver says about folders
        try:
            import pgserver
        except ImportError:
            pytest.skip("pgserver is not installed: no PostgreSQL to test against")
        folder = pathlib.Path("/tmp") / f"blts-pg-{os.getpid()}"
        try:
            server = pgserver.get_server(folder, cleanup_mode="delete")
        except Exception as error:
            pytest.skip(f"PostgreSQL does not start here: {error}")
        yield server
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'blts.db'}"
    server = request.getfixturevalue("postgres")
    name = f"test_{abs(hash(request.node.nodeid)) % 10**9}"
    server.psql(f"DROP DATABASE IF EXISTS {name};")
    server.psql(f"CREATE DATABASE {name};")
    return server.get_uri(name)


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """Every text that is parsed as Python source from here on: two threads must not (see `encode` in studies/store.py)."""
    texts, compile_ = [], builtins.compile

    def watched(source, filename, mode, flags=0, *rest, **options):
        if flags & ast.PyCF_ONLY_AST and not str(filename).endswith("_test.py"):  # pytest rewrites such files, SciPy's too
            texts.append(str(source))
        return compile_(source, filename, mode, flags, *rest, **options)

    monkeypatch.setattr(builtins, "compile", watched)
    return texts


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The names of the programs that were compiled, or loaded from disk, since the test began: "jit(run)" is a simulation."""
    from jax import monitoring

    names: list[str] = []

    def happened(event: str, duration: float, **about: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(about["fun_name"])

    monitoring.register_event_duration_secs_listener(happened)
    yield names
    monitoring.unregister_event_duration_listener(happened)


@pytest.fixture(scope="module")
def well_compiled() -> Iterator[None]:
    """Programs are compiled as in a user's process, with the same last bits."""
    import jax
    from jax._src import compiler

    options, level = compiler.get_compile_options, {} if SLOW else {"xla_backend_optimization_level": 3}

    def well(*args, env_options_overrides=None, **settings):
        return options(*args, env_options_overrides=level | (env_options_overrides or {}), **settings)

    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", well)
        yield
    jax.clear_caches()


AFTER_A_FILE, AFTER_A_TEST = 500, 1800
"""A worker that holds more megabytes than this lets its compiled programs go: files share few, and less is looked at for cycles."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Compiled programs hold memory: 4 GB for a whole run. The next test finds those that it shares on disk."""
    same_file = nextitem is not None and nextitem.path == item.path
    if not same_file and isinstance(item, pytest.Function):
        for value in vars(item.module).values():
            if getattr(value, "__module__", None) == item.module.__name__ and hasattr(value, "cache_clear"):
                value.cache_clear()  # arrays that the tests of a file share
    if resident() > (AFTER_A_TEST if same_file else AFTER_A_FILE):
        import jax

        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed otherwise


def resident() -> float:
    """The megabytes that this process holds, or infinitely many where that is not known."""
    status = pathlib.Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), math.inf)
