"""Requests of many threads in one transaction: whoever comes first takes along all who wait, and answers for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..errors import BltsError

R = TypeVar("R")
A = TypeVar("A")


class Waiting(Generic[R, A]):
    """A request, and in the end its answer or its error."""

    def __init__(self, request: R):
        self.request = request
        self.done = False
        self.answer: A | None = None
        self.error: BaseException | None = None
        self._called = threading.Lock()
        self._called.acquire()

    def succeed(self, answer: A) -> None:
        self.answer, self.done = answer, True

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True

    def outcome(self) -> A | BltsError:
        """Its answer, or an error that says in a sentence why there is none; any other error is raised."""
        if self.error is not None and not isinstance(self.error, BltsError):
            raise self.error
        return self.error or self.answer  # type: ignore[return-value]

    def call(self) -> None:
        """Wake whoever waits for it: it is done, or it is their turn to answer the next group."""
        self._called.release()

    def wait(self) -> None:
        self._called.acquire()


class Combiner(Generic[R, A]):
    """Runs requests one group after another: one caller answers a group, while the next one gathers.

    Args:
        run: answers some requests, in their order, in one transaction. What it raises is raised for every one of them that has no
            answer yet.
        most: requests of one group.
    """

    def __init__(self, run: Callable[[Sequence[Waiting[R, A]]], None], most: int = 1000):
        self._run, self._most = run, most
        self._queue: list[Waiting[R, A]] = []
        self._busy = False
        """Whether somebody answers a group, or was called to."""
        self._lock = threading.Lock()

    def submit(self, request: R) -> A:
        """Answer a request, perhaps together with others.

        Args:
            request: what `run` understands.

        Returns:
            The answer.
        """
        mine: Waiting[R, A] = Waiting(request)
        with self._lock:
            self._queue.append(mine)
            first, self._busy = not self._busy, True
        if not first:
            mine.wait()
        if not mine.done:
            self._answer_group(mine)
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _answer_group(self, mine: Waiting[R, A]) -> None:
        with self._lock:
            group, self._queue = self._queue[: self._most], self._queue[self._most :]
        try:
            self._run(group)
            missing: BaseException = RuntimeError("A request was left without an answer; this is a bug in blts.")
        except BaseException as error:  # an interrupt too: nobody may wait for ever
            missing = error
        for waiting in group:
            if not waiting.done:
                waiting.fail(missing)
        try:
            for waiting in group:
                if waiting is not mine:
                    waiting.call()
            if len(group) > 1:
                self._gather()
        finally:
            with self._lock:
                self._busy = bool(self._queue)
                following = self._queue[0] if self._queue else None
            if following is not None:
                following.call()

    def _gather(self) -> None:
        """Let those who were just answered run, as long as they come back with other requests: a group of all callers takes half
        the transactions of two groups that take turns."""
        before = -1
        while before < len(self._queue) < self._most:
            before = len(self._queue)
            time.sleep(0)
