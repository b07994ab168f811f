"""Asks of many connections in one transaction: all that wait while one group is stored are the next group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

R = TypeVar("R")
A = TypeVar("A")

MOST = 1000  # requests of a group
TURNS = 3  # of the loop, in which an answer is sent and the next request read


class Groups(Generic[R, A]):
    """Runs requests in groups, in a thread, one group after another.

    Args:
        run: answers some requests in their order; an error is the answer of the request that it is about.
        executor: its threads.
    """

    def __init__(self, run: Callable[[Sequence[R]], Sequence[A | BaseException]], executor: Executor):
        self._run, self._executor = run, executor
        self._waiting: list[tuple[R, asyncio.Future[A]]] = []
        self._task: asyncio.Task[None] | None = None

    async def submit(self, request: R) -> A:
        """The answer of a request, once it is stored."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())
        return await future

    async def finished(self) -> None:
        """Wait until nothing waits."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                try:
                    answers = await loop.run_in_executor(self._executor, self._run, [request for request, _ in group])
                except BaseException as error:  # nobody may wait for ever
                    answers = [error] * len(group)
                for (_, future), answer in zip(group, answers, strict=True):
                    if future.done():  # its connection is closed
                        continue
                    if isinstance(answer, BaseException):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
                await self._gather(len(group))
        finally:
            self._task = None

    async def _gather(self, answered: int) -> None:
        """Let the connections that were just answered come back with other requests, as long as they do: a group of all takes half
        the transactions of two groups that take turns."""
        before = -1
        while before < len(self._waiting) < answered:
            before = len(self._waiting)
            for _ in range(TURNS):
                await asyncio.sleep(0)
