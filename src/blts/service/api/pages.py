"""The ledger of an experiment, some rows at a time: decisions, policy versions, the audit log."""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError, UnknownName
from ...live.pages import Page as LivePage
from ..answers import AuditLine, AuditPage, DecisionEntries, DecisionPage, DecisionRow, PolicyPage, PolicyRow
from ..bodies import FindUnit, Page
from ..dispatch import Call, Route
from ..problems import Kind, Problem
from ..roles import Permission

LOOK = Permission.look
DIGITS = 18  # of a version; longer numbers are those of none


async def decisions(call: Call) -> DecisionPage:
    """Decisions with their propensities and rewards, by their numbers."""
    page = await _page(call, call.experiment.decisions)
    return DecisionPage([DecisionRow(**row) for row in page.rows], page.next)


async def decision(call: Call) -> DecisionEntries:
    """One decision, with every entry about it."""
    return await _decision(call, decision_id=call.path("decision"))


async def decision_of_unit(call: Call) -> DecisionEntries:
    """The decision of a unit, with every entry about it."""
    body: FindUnit = call.body
    return await _decision(call, unit=body.unit)


async def _decision(call: Call, **which: str) -> DecisionEntries:
    try:
        return DecisionEntries(**await call.service.run(lambda: call.experiment.decision(**which)))
    except UnknownName as error:
        raise Problem(Kind.not_found, str(error)) from None


async def policies(call: Call) -> PolicyPage:
    """Policy versions: when and why each was written, its allocation, and what it learned from."""
    page = await _page(call, call.experiment.policies)
    return PolicyPage([PolicyRow(**row) for row in page.rows], page.next)


async def policy(call: Call) -> dict[str, Any]:
    """A policy version as it was written."""
    text = call.path("version")
    version = int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else 0
    try:
        return await call.service.run(call.experiment.policy, version)
    except ConfigError as error:
        raise Problem(Kind.not_found, str(error)) from None


async def audit(call: Call) -> AuditPage:
    """Everything that was done, by whom and why."""
    page = await _page(call, call.experiment.audit_page)
    return AuditPage([AuditLine(**row) for row in page.rows], page.next)


async def _page(call: Call, method: Any) -> LivePage:
    which: Page = call.query
    return await call.service.run(method, after=which.after, before=which.before, limit=which.limit)


AT = "/v1/experiments/{experiment}"
ROUTES = (
    Route("GET", f"{AT}/decisions", LOOK, decisions, "Decisions", DecisionPage, query=Page),
    Route("POST", f"{AT}/decisions/find", LOOK, decision_of_unit, "The decision of a unit", DecisionEntries, FindUnit),
    Route("GET", f"{AT}/decisions/{{decision}}", LOOK, decision, "A decision", DecisionEntries),
    Route("GET", f"{AT}/policies", LOOK, policies, "Policy versions", PolicyPage, query=Page),
    Route("GET", f"{AT}/policies/{{version}}", LOOK, policy, "A policy version", dict[str, Any]),
    Route("GET", f"{AT}/audit", LOOK, audit, "The audit log", AuditPage, query=Page),
)
