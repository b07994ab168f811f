"""Requests of many threads in one transaction: whoever comes first takes along all who wait, and answers for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

R = TypeVar("R")
A = TypeVar("A")


class Waiting(Generic[R, A]):
    """A request, and in the end its answer or its error."""

    def __init__(self, request: R):
        self.request = request
        self.done = False
        self.answer: A | None = None
        self.error: BaseException | None = None

    def succeed(self, answer: A) -> None:
        self.answer, self.done = answer, True

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True


class Combiner(Generic[R, A]):
    """Runs requests one group after another.

    Args:
        run: answers some requests, in their order, in one transaction. What it raises is raised for every one of them that has no
            answer yet.
        most: requests of one group.
    """

    def __init__(self, run: Callable[[Sequence[Waiting[R, A]]], None], most: int = 1000):
        self._run, self._most = run, most
        self._queue: list[Waiting[R, A]] = []
        self._adding, self._turn = threading.Lock(), threading.Lock()

    def submit(self, request: R) -> A:
        """Answer a request, perhaps together with others.

        Args:
            request: what `run` understands.

        Returns:
            The answer.
        """
        mine: Waiting[R, A] = Waiting(request)
        with self._adding:
            self._queue.append(mine)
        while not mine.done:
            with self._turn:
                if not mine.done:
                    self._take()
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _take(self) -> None:
        with self._adding:
            group, self._queue = self._queue[: self._most], self._queue[self._most :]
        try:
            self._run(group)
        except BaseException as error:  # an interrupt too: nobody may wait for ever
            for waiting in group:
                if not waiting.done:
                    waiting.fail(error)
        for waiting in group:
            if not waiting.done:
                waiting.fail(RuntimeError("A request was left without an answer; this is a bug in blts."))
