"""Experiments: which there are, what each is and knows, and new ones."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response, StreamingResponse

from ...errors import ConfigError
from ...live import Experiment, overview
from ...live.spec import from_mapping
from ..answers import Definition, Experiments, Overview
from ..bodies import Create, Listing, WhichReport
from ..dispatch import Call, Reply, Route
from ..paging import paged
from ..problems import Kind, Problem
from ..roles import Permission
from ..state import Service

LOOK = Permission.look
CHUNK = 1 << 16  # bytes


async def listed(call: Call) -> Experiments:
    """Where the experiments that the key is for stand, in the order of their creation."""
    rows = await call.service.run(overview.experiments, call.service.database)
    some, following = paged([row for row in rows if call.key.sees(row["name"])], lambda row: row["name"], call.query)
    return Experiments([Overview(**row) for row in some], following)


async def create(call: Call) -> Reply:
    """A new experiment; the same request again is the same experiment."""
    body: Create = call.body
    if not call.key.sees(body.name):
        raise Problem(Kind.forbidden, "This key is for other experiments; take the name of one of them, or another key.")
    await call.service.compute(_create, call.service, body, call.key.actor)
    opened = await call.service.experiment(body.name)
    call.service.warm_soon(opened)
    return _defined(await call.service.run(opened.experiment.definition), 201, call.location(f"/v1/experiments/{body.name}"))


def _create(service: Service, body: Create, actor: str) -> None:
    stated = body.specification.stated
    _check_registered(stated)
    Experiment.create(service.database, body.name, spec=from_mapping(stated), clock=service.clock, actor=actor)


def _check_registered(stated: dict[str, Any]) -> None:
    """Refuse import paths, which name any code on this machine (`ConfigError`)."""
    parts = [stated.get(name) for name in ("model", "sampler", "batching")]
    parts += [metric.get("model") for metric in stated.get("metrics", ())]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and ":" in part:
            raise ConfigError(f"Over HTTP, parts of an experiment are registered ones; {part[:100]!r} is none. See: blts list.")


async def get(call: Call) -> Reply:
    """What an experiment is. Its ETag changes when people change it, and is what If-Match of a change names."""
    found = await call.service.run(call.opened.experiment.definition)
    if f'"{found["mark"]}"' in call.request.headers.get("if-none-match", ""):
        return Reply(None, 304, {"ETag": f'"{found["mark"]}"'})
    return _defined(found, 200, {})


def _defined(found: dict[str, Any], status: int, headers: dict[str, str]) -> Reply:
    mark = found.pop("mark")
    return Reply(msgspec.convert(found, Definition), status, headers | {"ETag": f'"{mark}"'})


async def status(call: Call) -> dict[str, Any]:
    """Where an experiment stands."""
    return await call.service.run(call.experiment.status)


async def report(call: Call) -> dict[str, Any]:
    """Estimates, checks and a recommendation: what is known now, or of a large experiment at its last refresh."""
    which: WhichReport = call.query
    return await call.service.compute(call.experiment.report, which.version, fresh=which.fresh)


async def export(call: Call) -> Response:
    """Every decision with its propensities and its reward, as CSV."""
    file = await call.service.compute(_exported, call.experiment)
    name = quote(call.opened.experiment.name, safe="")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{name}.csv"}
    return StreamingResponse(_pieces(call.service, file), headers=headers, media_type="text/csv; charset=utf-8")


def _exported(experiment: Experiment) -> IO[bytes]:
    """A file that is gone when it is closed."""
    with tempfile.TemporaryDirectory(prefix="blts-export-", ignore_cleanup_errors=True) as folder:
        path = pathlib.Path(folder) / "decisions.csv"
        experiment.export(path)
        return path.open("rb")


async def _pieces(service: Service, file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await service.run(file.read, CHUNK):
            yield piece


AT = "/v1/experiments/{experiment}"
TAG = ("ETag",)
ROUTES = (
    Route("GET", "/v1/experiments", LOOK, listed, "List experiments", Experiments, query=Listing),
    Route(
        "POST",
        "/v1/experiments",
        Permission.administer,
        create,
        "Create an experiment",
        Definition,
        Create,
        status=201,
        sends=("ETag", "Location"),
        problems=(Kind.conflict,),
    ),
    Route("GET", AT, LOOK, get, "What an experiment is", Definition, headers=("If-None-Match",), sends=TAG),
    Route("GET", f"{AT}/status", LOOK, status, "Where an experiment stands", dict[str, Any]),
    Route("GET", f"{AT}/report", LOOK, report, "What an experiment knows", dict[str, Any], query=WhichReport),
    Route("GET", f"{AT}/export", LOOK, export, "All decisions as CSV", str, media_type="text/csv", streams=True),
)
