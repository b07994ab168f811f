"""Numbers of a process for Prometheus: its requests and how long they took, and with them the totals of the database."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Iterator, Mapping

from ..live.totals import Totals

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper ends of the histogram's bins."""


class Counts:
    """Counts the requests of a process. A scrape reaches one process of a service, so what a process counts has its number as a
    label; totals are read from the database and are the same in all."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, int], int] = {}
        self._bins: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            method: of its route.
            path: of its route.
            status: of its answer.
            seconds: until it was answered, or began to be.
        """
        route = f"{method} {path}"
        self._statuses[route, status] = self._statuses.get((route, status), 0) + 1
        bins = self._bins.setdefault(route, [0] * (len(SECONDS) + 1))
        bins[bisect.bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def text(self, totals: Totals) -> str:
        """All numbers in Prometheus's text format.

        Args:
            totals: of the database.

        Returns:
            Lines.
        """
        one: dict[str, tuple[str, str, int]] = {
            "blts_experiments": ("gauge", "Experiments.", totals.experiments),
            "blts_decisions_total": ("counter", "Decisions of all experiments.", totals.decisions),
            "blts_reward_entries_total": ("counter", "Entries of rewards of all experiments.", totals.entries),
            "blts_refreshes_total": ("counter", "Refreshes that were used.", totals.refreshes),
            "blts_failed_refreshes_total": ("counter", "Refreshes that were kept out of use.", totals.failed_refreshes),
        }
        lines = [line for name, (kind, said, value) in one.items() for line in (*_head(name, kind, said), f"{name} {value}")]
        lines += _head("blts_jobs", "gauge", "Jobs for the worker by state.")
        lines += [_sample("blts_jobs", {"state": state}, count) for state, count in totals.jobs.items()]
        return "\n".join([*lines, *self._requests(), ""])

    def _requests(self) -> Iterator[str]:
        process = {"process": str(os.getpid())}
        yield from _head("blts_requests_total", "counter", "Requests of this process by route and status.")
        for (route, status), count in self._statuses.items():
            yield _sample("blts_requests_total", {"route": route, "status": str(status)} | process, count)
        yield from _head("blts_request_seconds", "histogram", "How long requests of this process took.")
        for route, bins in self._bins.items():
            labels, below = {"route": route} | process, 0
            for end, count in zip([*SECONDS, "+Inf"], bins, strict=True):
                below += count
                yield _sample("blts_request_seconds_bucket", labels | {"le": str(end)}, below)
            yield _sample("blts_request_seconds_sum", labels, self._seconds[route])
            yield _sample("blts_request_seconds_count", labels, below)


def _head(name: str, kind: str, said: str) -> Iterable[str]:
    return f"# HELP {name} {said}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{said}}} {value}"
