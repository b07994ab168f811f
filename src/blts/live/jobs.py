"""Jobs: what takes too long for whoever asks for it, and is left to a worker. Asked for, run, and looked up by id.

A job is run under the lease of its experiment, so one that is still "running" when a worker takes the lease was left by a worker
that died, and is run again. A refresh that the dead worker had written already is not written twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from ..errors import BltsError, ConfigError, UnknownName, shown, type_and_message
from . import leases, schema
from .checks import check_text
from .damage import Damaged
from .database import Database

if TYPE_CHECKING:
    from .experiment import Experiment

OPTIONS: dict[str, dict[str, bool]] = {"refresh": {"force": False}, "verify": {}}
"""The kinds of jobs, and what each can be told, with defaults."""
UNFINISHED = ("waiting", "running")


class Job(NamedTuple):
    id: str
    experiment: str
    """Its name."""
    kind: str
    """refresh or verify."""
    detail: dict[str, Any]
    """For a refresh: "force"."""
    state: str
    """waiting, running, done or failed."""
    result: Any
    """Of a refresh a table (`Refreshed`), of a verification the list of differences, of a job that failed the reason as one
    sentence; None until it has ended."""
    actor: str
    """Who asked for it; a refresh is theirs in the audit log."""
    asked_at: float
    began_at: float | None
    ended_at: float | None


def submit(experiment: Experiment, kind: str, detail: Mapping[str, Any], actor: str) -> str:
    """Ask for a job.

    Args:
        experiment: what it is about.
        kind: refresh or verify.
        detail: for a refresh perhaps {"force": True}.
        actor: who asks.

    Returns:
        The id of the job; where an equal one waits already, the id of that one, whoever asked for it.

    Raises:
        UnknownName: there is no such kind.
        ConfigError: the detail is none that it has.
    """
    check_text("actor", actor)
    text = json.dumps(_checked(kind, detail))
    table = schema.jobs
    with experiment.database.write() as c:
        experiment.database.find(c, experiment.name, lock=True)  # so that two who ask at once find each other's job
        equal = table.c.experiment == experiment.id, table.c.kind == kind, table.c.detail == text, table.c.state == "waiting"
        known = c.execute(sa.select(table.c.id).where(*equal)).scalar()
        if known is not None:
            return known
        new = {"id": secrets.token_hex(12), "experiment": experiment.id, "kind": kind, "detail": text, "state": "waiting"}
        c.execute(sa.insert(table).values(**new, actor=actor, asked_at=experiment.session.now()))
    return new["id"]


def _checked(kind: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(kind, str) or kind not in OPTIONS:
        raise UnknownName("kind of job", kind, OPTIONS)
    options = OPTIONS[kind]
    if not isinstance(detail, Mapping) or not set(detail) <= set(options) or not all(isinstance(v, bool) for v in detail.values()):
        takes = "nothing" if not options else " and ".join(f"{name!r} (true or false)" for name in options)
        raise ConfigError(f"A {kind} can be told {takes}; got {shown(detail)}.")
    return options | dict(detail)


_ALL = sa.select(schema.jobs, schema.experiments.c.name).join(
    schema.experiments, schema.experiments.c.id == schema.jobs.c.experiment
)


def find(database: Database, job: str) -> Job | None:
    """A job by its id; None where there is none.

    Args:
        database: where it is.
        job: its id, or any text.
    """
    if not isinstance(job, str) or not job.isascii() or "\x00" in job:
        return None
    with database.read() as c:
        row = c.execute(_ALL.where(schema.jobs.c.id == job)).first()
    return None if row is None else _job(row)


def waiting(database: Database, holder: str, now: float) -> list[str]:
    """The experiments with jobs that a worker could run now: one query for all.

    Args:
        database: where they are.
        holder: the worker, as its leases name it.
        now: seconds, on its clock.

    Returns:
        Their names.
    """
    jobs, held, own = schema.jobs, schema.leases, schema.experiments
    query = sa.select(own.c.name).join(jobs, jobs.c.experiment == own.c.id).where(jobs.c.state.in_(UNFINISHED)).distinct()
    others = sa.exists().where(held.c.experiment == own.c.id, leases.of_another(holder, now))
    with database.read() as c:
        return sorted(c.execute(query.where(~others)).scalars())


def unfinished(experiment: Experiment) -> list[Job]:
    """The jobs of an experiment that wait or were left, the oldest first."""
    table = schema.jobs
    query = _ALL.where(table.c.experiment == experiment.id, table.c.state.in_(UNFINISHED))
    with experiment.database.read() as c:
        return [_job(row) for row in c.execute(query.order_by(table.c.asked_at, table.c.id))]


def run(experiment: Experiment, job: Job) -> Job:
    """Run a job; the caller has the lease of its experiment.

    Args:
        experiment: what it is about.
        job: one that waits, or that a dead worker left.

    Returns:
        The job as it ended.
    """
    before = _written(experiment, job) if job.state == "running" and job.kind == "refresh" else None
    began = experiment.session.now()
    _change(experiment.database, job.id, state="running", began_at=began if before is None else job.began_at)
    try:
        own = experiment.acting(job.actor)
        if job.kind == "refresh":
            result = own.refresh(force=bool(job.detail["force"]), progress=False)._asdict() if before is None else before
        else:
            result = own.verify()
        state = "done"
    except BltsError as error:
        state, result = "failed", str(error)
    except Exception as error:  # a user's own model may raise anything
        state, result = "failed", f"It could not be done ({type_and_message(error)})."
    ended = experiment.session.now()
    _change(experiment.database, job.id, state=state, result=json.dumps(result), ended_at=ended)
    return job._replace(state=state, result=result, began_at=began, ended_at=ended)


def fail(database: Database, experiment: int, why: str, now: float) -> None:
    """End all unfinished jobs of an experiment that cannot be opened; `why` is a sentence."""
    table = schema.jobs
    own = table.c.experiment == experiment, table.c.state.in_(UNFINISHED)
    with database.write() as c:
        c.execute(sa.update(table).where(*own).values(state="failed", result=json.dumps(why), ended_at=now))


def in_words(job: Job) -> str:
    """How a job ended, in a sentence."""
    asked = f"{job.actor} asked for a {'refresh' if job.kind == 'refresh' else 'verification'}"
    if job.state == "failed":
        return f"{asked}, which failed: {job.result}"
    if job.kind == "verify":
        found = len(job.result)
        return f"{asked}: {'everything is as it was written' if not found else f'there are {found} differences'}."
    if not job.result["refreshed"] or not job.result["in_use"]:
        return f"{asked}: {job.result['why']}."
    return f"{asked}: policy version {job.result['version']} is in use."


def _written(experiment: Experiment, job: Job) -> dict[str, Any] | None:
    """What a refresh answered whose worker died after it was written; None where it was not."""
    made, log = schema.policies.c, schema.audit.c
    same = made.experiment == experiment.id, log.experiment == experiment.id, log.position == made.position
    own = made.kind == "refresh", made.at >= job.began_at, log.actor == job.actor
    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
        version = c.execute(sa.select(sa.func.min(made.version)).where(*same, *own)).scalar()
    if version is None:
        return None
    entry = experiment.policy(version)
    why = None if entry["in_use"] else f"version {version} is kept out of use: {'; '.join(entry['failings'])}"
    found = {"refreshed": True, "version": version, "in_use": entry["in_use"], "batch": entry["batch"] + 1, "why": why}
    return found | {"awaited": row.awaited, "diagnostics": entry["diagnostics"]}


def _change(database: Database, job: str, **values: Any) -> None:
    table = schema.jobs
    with database.write() as c:
        c.execute(sa.update(table).where(table.c.id == job).values(**values))


def _job(row: Any) -> Job:
    try:
        detail, result = json.loads(row.detail), None if row.result is None else json.loads(row.result)
    except (ValueError, TypeError):
        raise Damaged(f"the job {row.id} cannot be read", row.name) from None
    return Job(row.id, row.name, row.kind, detail, row.state, result, row.actor, row.asked_at, row.began_at, row.ended_at)
