"""The OpenAPI document is committed, and the service answers as it says: no failure, and nothing outside the schema.

Cases are made from the document by schemathesis, valid ones and invalid ones, and sent to the application in this process.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import msgspec
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import FailureGroup, not_a_server_error
from schemathesis.openapi.checks import JsonSchemaError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import documents
from blts.live import SharedSeed
from blts.service.openapi import document
from blts.service.roles import Role
from blts.service.routes import ROUTES
from served import Served, experiment_in, served

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = {"/v1/events"}
STOPPED = {"/v1/experiments/{experiment}/stop", "/v1/experiments/{experiment}/arms"}
"""What would stop the experiment that the other cases need, or compile for one more arm at every case."""
SLOW = {"/v1/experiments/{experiment}/report", "/v1/experiments/{experiment}/export"}
MOST = 50  # decisions of a request


def test_the_document_is_committed() -> None:
    assert documents.OPENAPI.read_text(encoding="utf-8") == documents.openapi(), "run: python tests/documents.py docs/openapi.json"


def test_operations_have_ids_of_their_own() -> None:
    found = document(ROUTES)
    ids = [operation["operationId"] for path in found["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids)) == len(ROUTES)


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedSeed)
        with served() as found:
            experiment_in(found.service.database, "over").stop()
            yield found


def schema_of(service: Served) -> Any:
    return schemathesis.openapi.from_dict(service.done(None, "GET", "/openapi.json"))


def directed(case: Any) -> Any:
    """A case for an experiment that is there, with no more decisions than a test has time for."""
    if "experiment" in (case.path_parameters or {}) and len(str(case.path_parameters["experiment"])) % 8:
        case.path_parameters["experiment"] = "over" if case.operation.path in STOPPED else "mail"
    if isinstance(case.body, dict) and isinstance(case.body.get("n"), int) and 0 < case.body["n"] <= 10_000:
        case.body["n"] = min(case.body["n"], MOST)
    return case


def send(service: Served, case: Any) -> Any:
    sent = case.as_transport_kwargs(base_url=str(service.client.base_url))
    given = dict(sent["headers"]) | {"Authorization": f"Bearer {service.keys[Role.admin]}"}
    sent["headers"] = {name: str(value).encode("latin-1", "replace") for name, value in given.items()}
    if isinstance(sent.get("data"), bytes | str):
        sent["content"] = sent.pop("data")
    assert not sent.pop("cookies", None), "no route has cookies"
    return service.client.request(**sent)


def has_wrong_body(case: Any) -> bool:
    """Whether a case has a body that the document does not allow."""
    return any(where.name == "BODY" and made.mode == GenerationMode.NEGATIVE for where, made in case.meta.components.items())


def run(service: Served, each: int) -> Counter[str]:
    """Send cases of every operation; how many by operation."""
    sent: Counter[str] = Counter()
    for found in schema_of(service).get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            examine(service, operation, mode, max(1, each // 10) if operation.path in SLOW else each, sent)
    return sent


def examine(service: Served, operation: Any, mode: GenerationMode, each: int, sent: Counter[str]) -> None:
    try:
        cases = operation.as_strategy(generation_mode=mode)
    except (schemathesis.errors.SchemathesisError, hypothesis.errors.Unsatisfiable):
        return
    kept = hypothesis.settings(
        max_examples=each,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )

    @kept
    @hypothesis.given(case=cases)
    def look(case: Any) -> None:
        answer = send(service, directed(case))
        case.validate_response(answer, checks=CHECKS)
        assert not (has_wrong_body(case) and answer.status_code < 300), (operation.label, case.body)
        sent[operation.label] += 1

    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # nothing of it can be wrong
        look()


def test_answers_are_as_the_document_says(service: Served) -> None:
    sent = run(service, each=3)
    assert len(sent) == len(ROUTES) - len(ENDLESS)


@pytest.mark.slow
def test_ten_thousand_answers_are_as_the_document_says(service: Served) -> None:
    sent = run(service, each=int(os.environ.get("BLTS_CASES", "250")))
    assert len(sent) == len(ROUTES) - len(ENDLESS)
    print(f"{sum(sent.values()):,} cases of {len(sent)} operations")
    assert sum(sent.values()) >= 10_000, sent


class Wrong(msgspec.Struct):
    """What the mutant says that it answers."""

    ready: bool


def test_an_answer_outside_the_document_is_noticed(service: Served) -> None:
    """The mutant: a document that says something else of one route."""
    other = tuple(route._replace(answer=Wrong) if route.path == "/healthz" else route for route in ROUTES)
    operation = schemathesis.openapi.from_dict(document(other))["/healthz"]["GET"]
    case = operation.Case()
    with pytest.raises(FailureGroup) as failed:
        case.validate_response(send(service, case), checks=CHECKS)
    assert [type(one) for one in failed.value.exceptions] == [JsonSchemaError]
