"""OpenFeature's remote evaluation protocol (OFREP): an experiment is a flag, and a user's arm is its variant.

A flag's key is the experiment's name, the targeting key is the unit, and the value is what the arm's metadata have under "value",
or else its label. Other attributes of the context are left alone, unless the experiment declares features of these names.

| where the experiment stands | reason | value |
|---|---|---|
| it runs, or the user has a decision from before | SPLIT | of the user's arm |
| it is stopped | STATIC | of the user's arm; of the promoted one where the user has none, or one that was not promoted |
| the user has no decision, and it is paused, stopped without a promoted arm, or between batches | DISABLED | the caller's default |
| the user's arm was retired | DISABLED | the caller's default |

Evaluating a flag decides, once for each user. Whether the user was then exposed is a fact of its own in experiments with
`exposure="explicit"`, which `tracking` takes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ..errors import BltsError, StoreError
from ..live import Answer, Experiment
from ..live.checks import check_text
from ..live.entries import arms_of
from . import signing
from .dispatch import Call, Route, encode
from .problems import Kind, Problem, Shape, problem_of
from .roles import Permission
from .state import Opened

PATH = "/ofrep/v1/evaluate/flags"


class Evaluate(msgspec.Struct):
    """What is known of a user."""

    context: dict[str, Any] = {}
    """With "targetingKey", and the features that experiments declare."""


class Flag(msgspec.Struct, rename="camel", omit_defaults=True):
    """A flag for one user, or why it has no value."""

    key: str
    reason: str | UnsetType = UNSET
    variant: str | UnsetType = UNSET
    """The arm; empty where the caller's default is meant."""
    value: Any = UNSET
    """Left out where the caller's default is meant."""
    metadata: dict[str, str | int | float | bool] | UnsetType = UNSET
    error_code: str | UnsetType = UNSET
    error_details: str | UnsetType = UNSET


class Flags(msgspec.Struct):
    """All flags for one user."""

    flags: list[Flag]


class Failure(msgspec.Struct, rename="camel", omit_defaults=True):
    """Why a flag was not evaluated."""

    error_code: str
    error_details: str
    key: str | UnsetType = UNSET


class NoTarget(Problem):
    """A context that does not say whom the flag is for."""

    def __init__(self) -> None:
        super().__init__(Kind.refused, 'Give the user in the context: "targetingKey": "user-17".')


class Errors(Shape):
    """Problems as the protocol has them."""

    name = "ofrep"
    type = Failure
    media_type = "application/json"

    def status(self, kind: Kind) -> int:
        """One that clients of the protocol know."""
        return 400 if kind in (Kind.refused, Kind.too_slow, Kind.too_large, Kind.media_type) else kind.status

    def response(self, problem: Problem, request: Request) -> Response:
        """With the key of the flag, where one was asked for."""
        failure = Failure(_code(problem), problem.detail, request.path_params.get("experiment", UNSET))
        return Response(encode(failure), self.status(problem.kind), problem.headers, self.media_type)


def _code(problem: Problem) -> str:
    if isinstance(problem, NoTarget):
        return "TARGETING_KEY_MISSING"
    if problem.kind in (Kind.unreadable, Kind.too_slow, Kind.too_large, Kind.media_type):
        return "PARSE_ERROR"
    return {Kind.refused: "INVALID_CONTEXT", Kind.not_found: "FLAG_NOT_FOUND"}.get(problem.kind, "GENERAL")


async def evaluate(call: Call) -> Flag:
    """The user's arm of one experiment. A user who has none yet gets one, which is stored before it is answered."""
    return await _flag(call, call.opened, _target(call), call.body.context)


async def evaluate_all(call: Call) -> Response:
    """The user's arms of all experiments that the key is for, without those that declare features which the context lacks."""
    unit, context = _target(call), call.body.context
    names = [name for name in await call.service.run(call.service.database.names) if call.key.sees(name)]
    found = await asyncio.gather(*(_flag_or_failure(call, name, unit, context) for name in names))
    body = encode(Flags([flag for flag in found if flag is not None]))
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    known = {text.strip().removeprefix("W/") for text in call.request.headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, headers={"ETag": tag}, media_type="application/json")


def _target(call: Call) -> str:
    """Whom a flag is for (`Problem` where nobody is named, `ConfigError` where it can be nobody's name)."""
    unit = call.body.context.get("targetingKey", "")
    if unit == "":
        raise NoTarget
    check_text("targetingKey", unit)
    return unit


async def _flag_or_failure(call: Call, name: str, unit: str, context: dict[str, Any]) -> Flag | None:
    """One flag of many: a failure of its own does not spoil the others; None where the context lacks a feature."""
    try:
        opened = await call.service.experiment(name)
        if any(feature.name not in context for feature in opened.experiment.spec.features):
            return None
        return await _flag(call, opened, unit, context)
    except StoreError:
        raise
    except BltsError as error:
        problem = problem_of(error)
        return Flag(name, error_code=_code(problem), error_details=problem.detail)


async def _flag(call: Call, opened: Opened, unit: str, context: dict[str, Any]) -> Flag:
    experiment, names = opened.experiment.acting(call.key.actor), [feature.name for feature in opened.experiment.spec.features]
    shown = [{name: context[name] for name in names if name in context}] if names else None
    answer = await opened.ask(experiment.request(units=[unit], contexts=shown))
    decision = answer.decisions[0] if answer.decisions else None
    about: dict[str, str | int | float | bool] = {"experiment": experiment.name}
    if decision is not None and decision.available:
        about |= {
            "decisionId": signing.given_out(call.service.keys, call.key, decision.id),
            "policy": decision.policy,
            "propensity": decision.propensities[decision.arm],
        }
        label = decision.arm
    else:
        label = await call.service.run(_promoted, experiment) if answer.stopped else None
        about["why"] = _why(answer, label)
    if label is None:
        return Flag(experiment.name, "DISABLED", "", metadata=about)
    if label not in opened.values:
        opened.values |= await call.service.run(_values, experiment)
    return Flag(experiment.name, "STATIC" if answer.stopped else "SPLIT", label, opened.values[label], about)


def _why(answer: Answer, promoted: str | None) -> str:
    """Why a user has no arm of the experiment, or not the one of the user's decision."""
    if promoted is not None:
        return "the experiment is stopped, and this is the promoted arm"
    return answer.why or "the user's arm was retired"


def _promoted(experiment: Experiment) -> str | None:
    """The arm that was promoted when an experiment was stopped."""
    with experiment.database.read() as c:
        return experiment.database.find(c, experiment.name).stopped or None


def _values(experiment: Experiment) -> dict[str, Any]:
    """The values of all arms; UNSET, the caller's default, for one whose value is null."""
    with experiment.database.read() as c:
        found = {arm.label: json.loads(arm.metadata).get("value", arm.label) for arm in arms_of(c, experiment.id)}
    return {label: UNSET if value is None else value for label, value in found.items()}


ERRORS = Errors()
ROUTES = (
    Route("POST", PATH + "/{experiment}", Permission.evaluate, evaluate, "Evaluate a flag", Flag, Evaluate, shape=ERRORS),
    Route(
        "POST",
        PATH,
        Permission.evaluate,
        evaluate_all,
        "Evaluate all flags",
        Flags,
        Evaluate,
        headers=("If-None-Match",),
        sends=("ETag",),
        shape=ERRORS,
    ),
)
