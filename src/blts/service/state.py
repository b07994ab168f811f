"""What all requests of a process share: the database, the keys, the experiments that are open, and threads to work in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa

from ..errors import UnknownName
from ..live import Answer, Experiment, schema
from ..live.asking import Request
from ..live.database import Database
from ..live.repeats import Repeats
from .counts import Counts
from .events import Events
from .groups import Groups
from .keys import Keys
from .limits import Buckets
from .problems import no_experiment
from .settings import Settings

log = logging.getLogger("blts.service")
P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8  # for what is quick
HEAVY = 1  # for reports and pages: they compute, and threads that compute only wait for each other


class Opened:
    """An experiment that is open in this process, the groups in which its asks are stored, and units that it answered lately."""

    def __init__(self, experiment: Experiment, executor: ThreadPoolExecutor):
        self.experiment = experiment
        self._executor, self._looking = executor, asyncio.Lock()
        self._asks: Groups[Request, Answer] = Groups(experiment.ask_together, executor)
        self._repeats = Repeats(experiment.session)
        self.values: dict[str, Any] = {}
        """What arms are as values of a flag, by label, as far as anybody asked; an arm's metadata never change."""

    async def ask(self, request: Request) -> Answer:
        """The answer to a request: from memory where its units have their decisions, else in a transaction with those who wait."""
        if not self._repeats.serves(request):
            return await self._asks.submit(request)
        if not self._repeats.is_fresh:
            async with self._looking:
                if not self._repeats.is_fresh:
                    await asyncio.get_running_loop().run_in_executor(self._executor, self._repeats.look)
        versions, answer = self._repeats.versions, self._repeats.answer(request)
        if answer is None:
            answer = await self._asks.submit(request)
            self._repeats.keep(answer, versions)
        return answer

    def changed(self) -> None:
        """Answer nothing from memory that was read before now."""
        self._repeats.forget()

    async def finished(self) -> None:
        """Wait until everything that was asked is answered."""
        await self._asks.finished()


class Service:
    """What the requests of a process share.

    Args:
        settings: how the service runs.
        database: where the experiments are; by default that of the settings.
        clock: tells the time.
    """

    def __init__(self, settings: Settings, database: Database | None = None, clock: Callable[[], float] = time.time):
        self.settings, self.clock = settings, clock
        self.database = Database(settings.db) if database is None else database
        self.keys = Keys(self.database, clock)
        self.buckets = Buckets()
        self.counts = Counts()
        self.events = Events(self.database, self.run)
        self.openapi: dict[str, Any] = {}
        """The document that describes the routes."""
        self.is_ready = False
        """Whether the programs of all running experiments are compiled."""
        self._threads = ThreadPoolExecutor(THREADS, "blts-quick")
        self._heavy = ThreadPoolExecutor(HEAVY, "blts-heavy")
        self._warm_thread = ThreadPoolExecutor(1, "blts-warm")
        self._opened: dict[str, Opened] = {}
        self._opening = asyncio.Lock()
        self._names: dict[str, str] = {}
        self._warming: set[asyncio.Task[None]] = set()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread, so that other requests are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for what takes long, one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._heavy, lambda: function(*args, **kwargs))

    async def experiment(self, name: str) -> Opened:
        """An experiment by its name.

        Raises:
            Problem: there is none.
        """
        found = self._opened.get(name)
        if found is None:
            async with self._opening:
                found = self._opened.get(name) or await self.run(self._open, name)
                self._opened[name] = found
        return found

    async def name_of(self, code: str) -> str | None:
        """The name of the experiment whose decision ids begin with a code; None where there is none."""
        found = self._names.get(code)
        if found is None:
            found = await self.run(self._find_name, code)
            if found is not None:
                self._names[code] = found
        return found

    def _find_name(self, code: str) -> str | None:
        table = schema.experiments
        with self.database.read() as c:
            return c.execute(sa.select(table.c.name).where(table.c.code == code)).scalar_one_or_none()

    def _open(self, name: str) -> Opened:
        try:
            return Opened(Experiment.open(self.database, name, clock=self.clock, actor="service"), self._threads)
        except UnknownName:
            raise no_experiment(name) from None

    async def warm(self) -> None:
        """Open all experiments that are not stopped and compile what their first asks run."""
        await self.run(lambda: self.keys.secret)
        for name in await self.run(self.database.names):
            opened = await self.experiment(name)
            await self.compute(opened.experiment.warm)
        self.is_ready = True

    def warm_soon(self, opened: Opened) -> None:
        """Compile what the asks of an experiment run, because its arms are new; nobody waits for it."""

        async def warm() -> None:
            try:
                await asyncio.get_running_loop().run_in_executor(self._warm_thread, opened.experiment.warm)
            except Exception:
                log.exception("Compiling ahead failed; first requests will wait for it")

        task = asyncio.create_task(warm())
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def close(self) -> None:
        """Finish what was accepted, and give the connections back."""
        self.events.close()
        for task in self._warming:
            task.cancel()
        for opened in self._opened.values():
            await opened.finished()
        self._threads.shutdown()
        self._heavy.shutdown()
        self._warm_thread.shutdown(cancel_futures=True)
        self.database.close()
