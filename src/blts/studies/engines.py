"""Where cells are computed: in this process, in local processes, or on a Dask cluster. The numbers are the same."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from ..compilation import keep_programs, make_room
from ..errors import ConfigError, UnknownName, whole
from .spec import Cell

Done = Iterator[tuple[Cell, bytes]]


def compute(cell: Cell) -> bytes:
    """A cell's result as it is stored. A process of its own keeps its programs where the others do."""
    keep_programs()
    make_room()
    from .. import registry
    from .provenance import here
    from .reading import load_source
    from .store import Result, encode

    if cell.source:
        load_source(cell.source, cell.code)
    began = time.perf_counter()
    arrays, about = registry.build("task", cell.task).run(
        cell.condition, seed=cell.seed, first=cell.first, replications=cell.replications
    )
    spent = {"seconds": round(time.perf_counter() - began, 3), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    cell_of = {name: value for name, value in cell._asdict().items() if name != "source"}
    return encode(Result(arrays, about, {**here(), **spent, "cell": cell_of}))


def in_process(cells: list[Cell], workers: int | None = None, address: str | None = None) -> Done:
    """In threads of this process: while one compiles, the other runs."""
    import jax

    from ..simulation import cores
    from .reading import load_source

    for source, code in {(cell.source, cell.code) for cell in cells if cell.source}:
        load_source(source, code)  # here and not in the threads
    # One accelerator serves one cell at a time; each core of a CPU has its own.
    count = workers or (cores() if jax.default_backend() == "cpu" else 1)
    yield from _in(lambda: ThreadPoolExecutor(count), cells)


def processes(cells: list[Cell], workers: int | None = None, address: str | None = None) -> Done:
    """In processes of this machine."""
    from ..simulation import cores

    yield from _in(lambda: ProcessPoolExecutor(workers or cores(), mp_context=get_context("spawn")), cells)


def _in(pool: Callable[[], Executor], cells: list[Cell]) -> Done:
    with pool() as executor:
        waiting = {executor.submit(compute, cell): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def dask(cells: list[Cell], workers: int | None = None, address: str | None = None) -> Done:
    """On the workers of a Dask scheduler, or of a cluster started here where no address is given."""
    import distributed

    with contextlib.ExitStack() as stack:
        client = stack.enter_context(_client(distributed, address, workers, stack))
        futures = client.map(compute, cells, pure=False, key=[f"blts-{i}-{cell.task}" for i, cell in enumerate(cells)])
        waiting = dict(zip([future.key for future in futures], cells, strict=True))
        for future in distributed.as_completed(futures):
            content: Any = future.result()
            yield waiting[future.key], content
            future.release()


def _client(distributed: Any, address: str | None, workers: int | None, stack: contextlib.ExitStack) -> Any:
    from dask import config as dask_config

    from ..simulation import cores

    if address is None:
        # On a busy machine a worker may take longer to start than Dask waits by default.
        stack.enter_context(dask_config.set({"distributed.comm.timeouts.connect": "120s"}))
        options = {"n_workers": workers or cores(), "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        return distributed.Client(stack.enter_context(distributed.LocalCluster(**options)))
    try:
        return distributed.Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}); "
            "start one with `dask scheduler`, or leave --address out."
        ) from None


ENGINES: dict[str, Callable[..., Done]] = {"in-process": in_process, "processes": processes, "dask": dask}


def engine_named(name: str, workers: int | None, address: str | None) -> Callable[..., Done]:
    """The engine of a name.

    Args:
        name: one of `ENGINES`.
        workers: how many cells it is to compute at once; None for its default.
        address: a Dask scheduler; None for none.

    Returns:
        A function from cells to results.

    Raises:
        ConfigError: there is no such engine, or it cannot do what is asked of it.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    if workers is not None:
        whole("--workers", workers)
    if address is not None and name != "dask":
        raise ConfigError("--address goes with --engine dask; leave it out, or choose that engine.")
    if address is not None and workers is not None:
        raise ConfigError("--workers is for a cluster started here; a scheduler at an address has its own.")
    if name == "dask" and importlib.util.find_spec("distributed") is None:
        raise ConfigError('The engine "dask" needs Dask: pip install "blts[dask]".')
    return ENGINES[name]
