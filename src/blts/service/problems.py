"""What goes wrong, as problem details (RFC 9457): a stable type, a status and one sentence that says what to do."""

from __future__ import annotations

import enum

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..errors import BltsError, Conflict, Stale, StoreError, UnknownName, shown

MEDIA_TYPE = "application/problem+json"


class Kind(enum.Enum):
    """The kinds of problems: a slug that stays the same, the status, and a title."""

    unreadable = "unreadable", 400, "The request cannot be read"
    no_key = "no-key", 401, "An API key is needed"
    forbidden = "forbidden", 403, "This key may not do that"
    not_found = "not-found", 404, "There is no such thing"
    method = "method", 405, "The method does not fit"
    too_slow = "too-slow", 408, "The request came too slowly"
    conflict = "conflict", 409, "This contradicts what was said before"
    stale = "stale", 412, "It changed meanwhile"
    too_large = "too-large", 413, "The request is too large"
    media_type = "media-type", 415, "The body must be JSON"
    refused = "refused", 422, "The request is refused"
    too_many = "too-many", 429, "Too many requests"
    broken = "broken", 500, "An error of blts"
    unavailable = "unavailable", 503, "The database cannot be reached"
    not_ready = "not-ready", 503, "Programs are being compiled"

    @property
    def slug(self) -> str:
        return self.value[0]

    @property
    def status(self) -> int:
        return self.value[1]

    @property
    def title(self) -> str:
        return self.value[2]


class Details(msgspec.Struct, omit_defaults=True):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""


class Problem(Exception):
    """Ends a request.

    Args:
        kind: which problem.
        detail: one sentence that says what to do.
        headers: of the answer.
    """

    def __init__(self, kind: Kind, detail: str, headers: dict[str, str] | None = None):
        super().__init__(detail)
        self.kind, self.detail, self.headers = kind, detail, headers or {}

    @property
    def details(self) -> Details:
        """What is sent."""
        return Details(f"urn:blts:problem:{self.kind.slug}", self.kind.title, self.kind.status, self.detail)

    def response(self) -> Response:
        """The answer of the request that it ended."""
        return Response(msgspec.json.encode(self.details), self.kind.status, self.headers, MEDIA_TYPE)


class Shape:
    """How a route sends problems: as problem details, unless it speaks a protocol that has errors of its own."""

    name: str = "problem"
    """Of the answers, in the OpenAPI document."""
    type: type = Details
    """Of the body."""
    media_type: str = MEDIA_TYPE

    def status(self, kind: Kind) -> int:
        """The status of a kind of problem."""
        return kind.status

    def response(self, problem: Problem, request: Request) -> Response:
        """The answer of a request that a problem ended."""
        del request
        return problem.response()


DETAILS = Shape()


def no_experiment(name: str) -> Problem:
    """The problem of an experiment that does not exist or that a key must not know of; both read the same."""
    return Problem(Kind.not_found, f"There is no experiment named {shown(name)} for this key.")


def problem_of(error: BltsError) -> Problem:
    """The problem that an error of blts is.

    Args:
        error: what a method of an experiment raised.

    Returns:
        The problem, with the error's sentence.
    """
    if isinstance(error, StoreError):
        from ..live.damage import Damaged

        if isinstance(error, Damaged):
            return Problem(Kind.broken, str(error))
        return Problem(Kind.unavailable, "The database cannot be reached; try again in a moment.", {"Retry-After": "1"})
    if isinstance(error, UnknownName) and error.kind == "experiment":  # whose sentence names those of others
        return no_experiment(error.name)
    if isinstance(error, Conflict):
        return Problem(Kind.conflict, str(error))
    if isinstance(error, Stale):
        return Problem(Kind.stale, str(error))
    return Problem(Kind.refused, str(error))
