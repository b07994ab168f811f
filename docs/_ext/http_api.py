"""The HTTP API in words, from docs/openapi.json: no script draws it, so that it is found by the search and read offline."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

GROUPS = {
    "Decisions and rewards": ("traffic_", "tracking_"),
    "Flags (OpenFeature's OFREP)": ("ofrep_",),
    "Experiments": ("experiments_", "events_"),
    "Reading page by page": ("pages_",),
    "Changing an experiment": ("operating_",),
    "Jobs": ("jobs_",),
    "Keys": ("keys_",),
    "Health": ("health_",),
}
"""Headings, and the operations below each, by how their ids begin."""
Json = dict[str, Any]


def page(root: pathlib.Path) -> str:
    """Every operation, grouped, and every schema that one of them names.

    Args:
        root: of the repository.

    Returns:
        Markdown below a page's title.

    Raises:
        KeyError: an operation belongs to no group.
    """
    document = json.loads((root / "docs" / "openapi.json").read_text(encoding="utf-8"))
    operations = [(method, path, operation) for path, methods in document["paths"].items() for method, operation in methods.items()]
    known = tuple(start for starts in GROUPS.values() for start in starts)
    if lost := [o["operationId"] for _, _, o in operations if not o["operationId"].startswith(known)]:
        raise KeyError(f"http_api.GROUPS has no place for {', '.join(lost)}.")
    parts = []
    for heading, starts in GROUPS.items():
        parts.append(f"## {heading}")
        for method, path, operation in operations:
            if operation["operationId"].startswith(starts):
                parts += _operation(method, path, operation)
    parts += ["## Failures", _failures(document["components"]["responses"])]
    parts += ["## Schemas", "What bodies and answers are made of."]
    for name, schema in document["components"]["schemas"].items():
        parts += _schema(name, schema)
    return "\n\n".join(parts)


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield f"```text\n{method.upper()} {path}\n```"
    yield operation["description"]
    rows = [
        (p["name"], f"{p['in']}, {type_of(p['schema'])}{', required' if p.get('required') else ''}", p.get("description", ""))
        for p in operation["parameters"]
    ]
    if rows:
        yield _table(("parameter", "kind", "meaning") if any(row[2] for row in rows) else ("parameter", "kind"), rows)
    if body := operation.get("requestBody"):
        yield f"Body: {_content(body['content'])}."
    answers = [f"`{code}` {_content(answer['content'])}" for code, answer in operation["responses"].items() if "content" in answer]
    failures = [f"`{code}`" for code, answer in operation["responses"].items() if "$ref" in answer]
    yield " ".join([f"Answers: {'; '.join(answers)}." if answers else "", f"Fails with {', '.join(failures)}." if failures else ""])


def _failures(responses: Json) -> str:
    """What each status means; those of the flags' own protocol are alike."""
    problems = {name.removeprefix("problem-"): of for name, of in responses.items() if name.startswith("problem-")}
    rows = [(status, of["description"], "") for status, of in problems.items()]
    return "The body says what is wrong in one sentence, as `detail`.\n\n" + _table(("status", "meaning"), rows)


def _content(content: Json) -> str:
    return " or ".join(f"{type_of(of['schema'])}" if kind == "application/json" else f"`{kind}`" for kind, of in content.items())


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}"
    yield schema.get("description", "")
    required = schema.get("required", ())
    rows = [
        (field, type_of(of) + (", required" if field in required else ""), of.get("description", ""))
        for field, of in schema.get("properties", {}).items()
    ]
    if rows:
        yield _table(("field", "type", "meaning") if any(row[2] for row in rows) else ("field", "type"), rows)
    elif "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."


def type_of(schema: Json) -> str:
    """A schema in a few words, with links to those that have a name.

    Args:
        schema: of JSON Schema, as far as docs/openapi.json uses it.

    Returns:
        Markdown.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_of(option) for option in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema['items'])}" if "items" in schema else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_of(schema['additionalProperties'])}"
    return str(kind) if kind else "anything"


def _table(head: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    cells = [" | ".join([f"`{row[0]}`", *(text.replace("|", "\\|") for text in row[1 : len(head)])]) for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {cell} |" for cell in cells)])
