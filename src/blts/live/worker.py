"""The worker: refreshes what is due, closes windows, runs jobs, and keeps every version's report. Two workers do no harm."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from ..errors import BltsError, ConfigError, type_and_message
from . import jobs, leases, reports, schema
from .damage import noticed
from .database import Database
from .experiment import Experiment
from .metrics import stopping

if TYPE_CHECKING:
    from .answers import Refreshed

LEASE = leases.LEASE
JOBS_SECONDS = 1.0  # between two looks for jobs
EXTERNAL_SECONDS = 60.0  # between refreshes of external batches without a cadence of their own


class Done(NamedTuple):
    """What a worker did for an experiment."""

    experiment: str
    refreshed: Refreshed | None
    problem: str | None
    """Why it could not be looked after."""
    did: tuple[str, ...] = ()
    """What jobs, guardrails or the stopping rule had it do."""
    others: tuple[str, ...] = ()
    """Policy versions that others wrote since the worker's last look, in sentences: changes of arms are versions too."""


def _alarms(experiment: Experiment) -> list[str]:
    """What the new report alarms about, of arms that are still played."""
    report = reports.last(experiment) or {"arms": [], "metrics": []}
    active = experiment.status()["active"]
    return [f"ALARM: {a['alarm']}." for metric in report["metrics"] for a in metric["arms"] if a["alarm"] and a["arm"] in active]


def _last_version(experiment: Experiment) -> int:
    with experiment.database.read() as c:
        return experiment.database.find(c, experiment.name).versions


def _written(experiment: Experiment, after: int, before: int) -> tuple[str, ...]:
    """Who wrote the policy versions between two others, and by what."""
    made, log = schema.policies.c, schema.audit.c
    query = sa.select(made.version, log.what, log.actor).where(made.experiment == experiment.id, log.experiment == experiment.id)
    between = query.where(made.position == log.position, made.version > after, made.version < before).order_by(made.version)
    with experiment.database.read() as c:
        return tuple(f"policy version {v} was written by {actor} ({what})." for v, what, actor in c.execute(between))


class Worker:
    """Looks after all experiments of a database.

    Args:
        url: the database.
        clock: tells the time.
    """

    def __init__(self, url: str | os.PathLike[str] | None, *, clock: Callable[[], float] = time.time):
        self.url, self._clock = url, clock
        self.database = Database(url, create=False)
        self.holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._leasing, self._ended = threading.Lock(), False
        self._opened: dict[str, Experiment] = {}
        self._seen: dict[str, int] = {}
        """The last policy version of each experiment that was there at the last look."""

    def close(self) -> None:
        """Give the connections back, and the leases."""
        self.give_back()
        for experiment in self._opened.values():
            experiment.close()
        self.database.close()

    def give_back(self) -> None:
        """Give the leases back, so that the next worker need not wait for their ends, and take none again; from any thread."""
        with self._leasing, contextlib.suppress(BltsError):
            self._ended = True
            leases.give_back(self.database, self.holder)

    def once(self) -> list[Done]:
        """Look after every experiment once.

        Returns:
            What was done; experiments for which there was nothing to do are left out.
        """
        done = [self._look_after(name) for name in self.database.names()]
        return [one for one in done if one is not None]

    def run_jobs(self) -> list[Done]:
        """Look after the experiments that have jobs, if any: one query where there are none.

        Returns:
            What was done.
        """
        done = [self._look_after(name) for name in jobs.waiting(self.database, self.holder, self._clock())]
        return [one for one in done if one is not None]

    def run(self, seconds: float, say: Callable[[Done], None], *, wait: Callable[[float], object] = time.sleep) -> None:
        """Look after every experiment again and again, and between two rounds every second for jobs, until interrupted.

        Args:
            seconds: between two rounds.
            say: is told what was done.
            wait: waits so many seconds.
        """
        if not 0 < seconds < 1e9:
            raise ConfigError(f"A worker waits for a number of seconds between its rounds; got {seconds!r}.")
        while True:
            for one in self.once():
                say(one)
            looks = math.ceil(seconds / JOBS_SECONDS)
            for _ in range(looks):
                wait(seconds / looks)
                for one in self.run_jobs():
                    say(one)

    def _look_after(self, name: str) -> Done | None:
        new: Refreshed | None = None
        did: tuple[str, ...] = ()
        others: tuple[str, ...] = ()
        try:
            experiment = self._open(name)
            if not self._lease(experiment.id):
                return None
            did = self._run_jobs(experiment)
            with noticed(experiment.session):
                refreshed = experiment.refresh(progress=False) if self._may(experiment) else None
                if refreshed is not None and refreshed.refreshed:
                    new, others = refreshed, _written(experiment, self._seen[name], refreshed.version)
                    self._seen[name] = refreshed.version
                new_report = reports.keep(experiment)
                said = _alarms(experiment) if new_report else []
                did += (*said, *stopping.act(experiment))
                if did:
                    self._seen[name] = _last_version(experiment)
        except BltsError as error:  # one experiment's trouble is not that of the others
            return self._problem(Done(name, new, str(error), did, others))
        except Exception as error:  # nor is what its model, a user's own, may raise
            return self._problem(Done(name, new, f"It cannot be looked after ({type_and_message(error)}).", did, others))
        return Done(name, new, None, did, others) if new is not None or did else None

    def _run_jobs(self, experiment: Experiment) -> tuple[str, ...]:
        """Run what others asked for; how each ended."""
        found = jobs.unfinished(experiment)
        if not found:
            return ()
        with leases.renewed(lambda: self._lease(experiment.id)):
            return tuple(jobs.in_words(jobs.run(experiment, job)) for job in found)

    def _problem(self, done: Done) -> Done:
        """The same, and where the experiment cannot even be opened, an end of its jobs: nobody could run them."""
        if done.experiment not in self._opened and done.problem is not None:
            with contextlib.suppress(BltsError):
                with self.database.read() as c:
                    number = self.database.find(c, done.experiment).id
                if self._lease(number):
                    jobs.fail(self.database, number, done.problem, self._clock())
        return done

    def _open(self, name: str) -> Experiment:
        if name not in self._opened:
            experiment = Experiment.open(self.url, name, clock=self._clock, actor="worker")
            self._seen[name] = _last_version(experiment)
            self._opened[name] = experiment
        return self._opened[name]

    def _may(self, experiment: Experiment) -> bool:
        """Whether it is time to look: external batches without a cadence of their own have the worker's."""
        spec = experiment.spec
        if not experiment.session.external or spec.refresh_rewards is not None or spec.refresh_seconds is not None:
            return True
        return not 0 <= self._clock() - experiment.status()["refreshed_at"] < EXTERNAL_SECONDS  # a clock may be set back

    def _lease(self, experiment: int) -> bool:
        """Take or renew the lease of an experiment; False where another worker has it, or this one ends."""
        with self._leasing:
            return not self._ended and leases.take(self.database, experiment, self.holder, self._clock())
