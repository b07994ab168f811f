"""What takes too long for a request, and is left to the worker."""

from __future__ import annotations

from ...live import jobs
from ..answers import Job
from ..bodies import Refresh, Verify
from ..dispatch import Call, Reply, Route
from ..problems import Kind, Problem
from ..roles import Permission


async def refresh(call: Call) -> Reply:
    """Ask the worker for a refresh: it closes the batch and writes a new policy version."""
    body: Refresh = call.body
    return await _submitted(call, "refresh", {"force": body.force})


async def verify(call: Call) -> Reply:
    """Ask the worker to compare everything that is stored with what it follows from."""
    return await _submitted(call, "verify", {})


async def get(call: Call) -> Job:
    """What became of a job."""
    found = await call.service.run(jobs.find, call.service.database, call.path("job"))
    if found is None or not call.key.sees(found.experiment):
        raise Problem(Kind.not_found, "There is no such job for this key.")
    return Job(**found._asdict())


async def _submitted(call: Call, kind: str, detail: dict[str, bool]) -> Reply:
    job = await call.service.run(jobs.submit, call.experiment, kind, detail, call.key.actor)
    found = await call.service.run(jobs.find, call.service.database, job)
    assert found is not None
    return Reply(Job(**found._asdict()), 202, call.location(f"/v1/jobs/{job}"))


AT = "/v1/experiments/{experiment}"
OPERATE, SENDS = Permission.operate, ("Location",)
ROUTES = (
    Route("POST", f"{AT}/refresh", OPERATE, refresh, "Ask for a refresh", Job, Refresh, status=202, sends=SENDS),
    Route("POST", f"{AT}/verify", OPERATE, verify, "Ask for a verification", Job, Verify, status=202, sends=SENDS),
    Route("GET", "/v1/jobs/{job}", Permission.look, get, "What became of a job", Job),
)
