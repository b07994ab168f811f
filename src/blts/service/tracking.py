"""What became of users, told one event at a time: rewards, values of metrics, exposures.

| `event` | what it is | without `experiment` |
|---|---|---|
| reward | the reward of a decision | refused for a targeting key: what is a reward in one experiment is none in another |
| exposure | that the decision was carried out, where `exposure="explicit"` | refused for a targeting key, as above |
| another name | a value of the metric of that name | told to all experiments of the key that measure it and decided for the user |

A decision id says which experiment it is of. With a key of the role client only ids that this service signed are taken.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from ..live import Experiment, Told
from ..live.asking import units_of
from ..live.request import unit_hash
from . import signing
from .bodies import Body, Number, Text
from .dispatch import Call, Route
from .problems import Kind, Problem, no_experiment
from .roles import Permission, Role

REWARD, EXPOSURE = "reward", "exposure"
OUTCOMES = ("accepted", "duplicate", "conflict", "unknown", "invalid")


class Track(Body, rename="camel"):
    """An event of a user, or of a decision."""

    targeting_key: Text | None = None
    decision_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """From the flag's metadata."""
    event: Text = REWARD
    value: Number | None = None
    """Of the reward or metric."""
    experiment: Text | None = None


class TrackedIn(msgspec.Struct):
    """What became of an event in one experiment."""

    experiment: str
    outcome: str
    """accepted; duplicate: told before, and counted once; conflict: told before with another value, which stays; unknown: there is
    no such decision; invalid: no such reward is possible."""
    why: str | None = None


class Tracked(msgspec.Struct):
    """What became of an event."""

    experiments: list[TrackedIn]


async def track(call: Call) -> Tracked:
    """Tell what became of a user. The same event again changes nothing."""
    body: Track = call.body
    if (body.targeting_key is None) == (body.decision_id is None):
        raise Problem(Kind.refused, "An event is about a targetingKey or a decisionId; give one of the two.")
    if body.event != EXPOSURE and body.value is None:
        raise Problem(Kind.refused, "Give the value of the reward or metric.")
    if body.event == EXPOSURE and body.value is not None:
        raise Problem(Kind.refused, "An exposure has no value; leave it out, or tell a metric of another name.")
    names, row = await (_of_decision(call, body.decision_id) if body.decision_id is not None else _of_unit(call, body))
    found = [await call.service.experiment(name) for name in names]
    experiments = [opened.experiment.acting(call.key.actor) for opened in found]
    return Tracked(list(await asyncio.gather(*(call.service.run(_told, one, row, body) for one in experiments))))


async def _of_decision(call: Call, text: str) -> tuple[list[str], dict[str, str]]:
    """The experiment of a decision, and the decision (`Problem` where the key is not for it)."""
    decision_id, code = signing.taken(call.service.keys, call.key, text)
    name, said = await call.service.name_of(code), call.body.experiment
    if name is None or not call.key.sees(name):
        raise signing.no_decision()
    if said not in (None, name):
        raise Problem(Kind.refused, f"That decision is not of the experiment {said!r}; leave experiment out.")
    return [name], {"decision_id": decision_id}


async def _of_unit(call: Call, body: Track) -> tuple[list[str], dict[str, str]]:
    """The experiments that an event of a user is told to, and the user (`Problem` where the key or the event says too little)."""
    unit, service = body.targeting_key or "", call.service
    if call.key.role == Role.client:
        raise Problem(Kind.forbidden, "A key of the role client tells by decisionId, which is in the flag's metadata.")
    if body.experiment is not None:
        if not call.key.sees(body.experiment):
            raise no_experiment(body.experiment)
        return [body.experiment], {"unit": unit}
    if body.event in (REWARD, EXPOSURE):
        raise Problem(Kind.refused, f"A {body.event} is one experiment's; name it with experiment, or give a decisionId.")
    names = [name for name in await service.run(service.database.names) if call.key.sees(name)]
    found = [(await service.experiment(name)).experiment for name in names]
    measuring = [one for one in found if body.event in {metric.name for metric in one.spec.metrics}]
    known = await asyncio.gather(*(service.run(_has_decision, one, unit) for one in measuring))
    return [one.name for one, has in zip(measuring, known, strict=True) if has], {"unit": unit}


def _has_decision(experiment: Experiment, unit: str) -> bool:
    with experiment.database.read() as c:
        return bool(units_of(experiment.session, c, [unit_hash(experiment.session, unit)]))


def _told(experiment: Experiment, row: dict[str, str], body: Track) -> TrackedIn:
    """Tell an experiment of an event."""
    if body.event == EXPOSURE:
        ids, units = ([row[name]] if name in row else [] for name in ("decision_id", "unit"))
        told = experiment.tell_exposures(ids, units=units)
    else:
        told = experiment.tell([row | {"reward": body.value}], metric=None if body.event == REWARD else body.event)
    return TrackedIn(experiment.name, *_outcome(told))


def _outcome(told: Told) -> tuple[str, str | None]:
    """What became of the one row that was told, and why it is invalid."""
    outcome = next(name for name in OUTCOMES if getattr(told, name))
    return outcome, told.ids[outcome][0][1] if outcome == "invalid" else None


ABSENT = (Kind.not_found,)
ROUTES = (Route("POST", "/v1/track", Permission.evaluate, track, "Tell what became of a user", Tracked, Track, problems=ABSENT),)
