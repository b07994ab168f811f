"""The OpenAPI 3.1 document, made from the table of routes and the types that it names."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

from .dispatch import Route
from .problems import DETAILS, Kind, Shape
from .roles import roles_with

_PROBLEMS_OF_KEYS = (Kind.no_key, Kind.forbidden, Kind.too_many)
_PROBLEMS_OF_BODIES = (Kind.unreadable, Kind.too_slow, Kind.too_large, Kind.media_type)


def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document of some routes.

    Args:
        routes: the table.

    Returns:
        What JSON can hold, in an order that does not change.
    """
    types = [t for route in routes for t in (route.answer, route.body) if t is not None]
    shapes = list(dict.fromkeys([DETAILS, *(route.shape for route in routes)]))
    wrong = [shape.type for shape in shapes]
    schemas, components = msgspec.json.schema_components([*types, *wrong], ref_template="#/components/schemas/{name}")
    found = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        answer = None if route.answer is None else next(found)
        body = None if route.body is None else next(found)
        paths.setdefault(_path(route), {})[route.method.lower()] = _operation(route, answer, body)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "blts",
            "version": importlib.metadata.version("blts"),
            "summary": "Decisions by posterior sampling, rewards when they come, and nothing acknowledged that is not stored.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "responses": _problem_responses(shapes),
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "blts_<id>_<secret>"}},
        },
    }


def _operation(route: Route, answer: dict[str, Any] | None, body: dict[str, Any] | None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}_{route.handler.__name__}",
        "summary": route.summary,
        "description": _description(route),
        "parameters": _parameters(route),
        "security": [] if route.permission is None else [{"key": []}],
    }
    if body is not None and route.body is not None:
        must = any(field.required for field in msgspec.structs.fields(route.body))  # elsewhere no body is an empty one
        operation["requestBody"] = {"required": must, "content": {"application/json": {"schema": body}}}
    sent: dict[str, Any] = {"description": "Done."}
    if route.sends:
        sent["headers"] = {name: {"schema": {"type": "string"}} for name in route.sends}
    if answer is not None:
        sent["content"] = {route.media_type: {"schema": answer}}
    operation["responses"] = {str(route.status): sent} | _problems_sent(route)
    return operation


def _problems_sent(route: Route) -> dict[str, Any]:
    responses = "#/components/responses/"
    sent: dict[str, Any] = {
        str(route.shape.status(kind)): {"$ref": f"{responses}{_name(route.shape, kind)}"} for kind in _problems(route)
    }
    return sent | ({"304": {"description": "It is as the caller knows it."}} if "If-None-Match" in route.headers else {})


def _name(shape: Shape, kind: Kind) -> str:
    """What the answer with a problem's status is called."""
    return f"{shape.name}-{shape.status(kind)}"


def _problem_responses(shapes: Iterable[Shape]) -> dict[str, Any]:
    """One for each shape and status, with the titles of all problems that have it."""
    found: dict[str, Any] = {}
    for shape in shapes:
        content = {shape.media_type: {"schema": {"$ref": f"#/components/schemas/{shape.type.__name__}"}}}
        titles: dict[str, list[str]] = {}
        for kind in Kind:
            titles.setdefault(_name(shape, kind), []).append(f"{kind.title}.")
        found |= {name: {"description": " ".join(said), "content": content} for name, said in titles.items()}
    return found


def _path(route: Route) -> str:
    """The path without Starlette's word for a part that may have slashes."""
    return route.path.replace(":path}", "}")


def _description(route: Route) -> str:
    said = inspect.getdoc(route.handler) or ""
    return said if route.permission is None else f"{said}\n\nRoles: {', '.join(roles_with(route.permission))}."


def _problems(route: Route) -> list[Kind]:
    kinds = [*route.problems, *(_PROBLEMS_OF_KEYS if route.permission is not None else ())]
    if route.body is not None:
        kinds += _PROBLEMS_OF_BODIES
    if "{" in route.path:
        kinds.append(Kind.not_found)
    if route.body is not None or route.query is not None or "{" in route.path:
        kinds.append(Kind.refused)
    if "Idempotency-Key" in route.headers:
        kinds.append(Kind.conflict)
    if "If-Match" in route.headers:
        kinds.append(Kind.stale)
    if route.path not in ("/healthz", "/openapi.json"):
        kinds.append(Kind.unavailable)
    return sorted(kinds, key=lambda kind: kind.status)


def _parameters(route: Route) -> list[dict[str, Any]]:
    parts = [part[1:-1] for part in _path(route).split("/") if part.startswith("{")]
    found = [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    found += [{"name": name, "in": "header", "required": False, "schema": {"type": "string"}} for name in route.headers]
    if route.query is not None:
        schema = msgspec.json.schema(route.query)["$defs"][route.query.__name__]
        for name, one in schema["properties"].items():
            found.append({"name": name, "in": "query", "required": name in schema.get("required", []), "schema": one})
    return found
