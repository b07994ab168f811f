"""What people do to a running experiment. Each needs a reason, and If-Match refuses it where the experiment changed meanwhile."""

from __future__ import annotations

from ...errors import ConfigError, UnknownName
from ..answers import Changed, Version
from ..bodies import AddArm, Cancel, Correct, Stop, Why
from ..dispatch import Call, Reply, Route
from ..problems import Kind, Problem
from ..roles import Permission

OPERATE = Permission.operate
OWN = {"label", "metadata", "reason"}
"""What an arm has besides numbers of its model."""


async def pause(call: Call) -> Reply:
    """No decisions until it is resumed; rewards are still accepted."""
    await call.service.run(call.experiment.pause, call.body.reason)
    return Reply(None, 204)


async def resume(call: Call) -> Reply:
    """Decisions again."""
    await call.service.run(call.experiment.resume, call.body.reason)
    return Reply(None, 204)


async def add_arm(call: Call) -> Version:
    """A new arm from the next decision on."""
    body: AddArm = call.body
    if unknown := OWN & set(body.options):
        raise ConfigError(f"The model has no number {min(unknown)!r}; leave it out of options.")
    add = call.experiment.add_arm
    version = await call.service.compute(lambda: add(body.label, body.metadata, reason=body.reason, **body.options))
    call.service.warm_soon(call.opened)
    return Version(version)


async def retire_arm(call: Call) -> Version:
    """No more decisions for an arm; what it earned stays."""
    try:
        version = await call.service.compute(call.experiment.retire_arm, call.path("arm"), call.body.reason)
    except UnknownName as error:
        raise Problem(Kind.not_found, str(error)) from None
    call.service.warm_soon(call.opened)
    return Version(version)


async def stop(call: Call) -> Version:
    """End the experiment, for good; with an arm to promote, every new decision is that arm."""
    body: Stop = call.body
    version = await call.service.compute(call.experiment.stop, body.promote, body.reason)
    call.service.warm_soon(call.opened)
    return Version(version)


async def correct(call: Call) -> Changed:
    """Replace a reward, or a value of a metric; the next refresh learns from it."""
    body: Correct = call.body
    right = call.experiment.correct
    return Changed(int(await call.service.run(right, body.decision_id, body.reward, body.reason, metric=body.metric)))


async def cancel(call: Call) -> Changed:
    """Decisions whose units were never exposed: they count for nothing."""
    body: Cancel = call.body
    return Changed(await call.service.run(call.experiment.cancel, body.decision_ids, body.reason))


AT = "/v1/experiments/{experiment}"
IF = ("If-Match",)
AGAIN = (Kind.conflict,)
ROUTES = (
    Route("POST", f"{AT}/pause", OPERATE, pause, "Pause", None, Why, status=204, headers=IF, problems=AGAIN),
    Route("POST", f"{AT}/resume", OPERATE, resume, "Resume", None, Why, status=204, headers=IF, problems=AGAIN),
    Route("POST", f"{AT}/arms", OPERATE, add_arm, "Add an arm", Version, AddArm, headers=IF, problems=AGAIN),
    Route("POST", f"{AT}/arms/{{arm:path}}/retire", OPERATE, retire_arm, "Retire an arm", Version, Why, headers=IF, problems=AGAIN),
    Route("POST", f"{AT}/corrections", OPERATE, correct, "Correct a reward", Changed, Correct, headers=IF),
    Route("POST", f"{AT}/cancellations", OPERATE, cancel, "Cancel decisions", Changed, Cancel, headers=IF),
    Route("POST", f"{AT}/stop", Permission.administer, stop, "Stop", Version, Stop, headers=IF, problems=AGAIN),
)
