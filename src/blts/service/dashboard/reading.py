"""Pages that only look: the list of experiments, and every view of one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response, StreamingResponse

from ...errors import ConfigError, UnknownName
from ...live import Experiment, jobs, overview
from .. import sessions
from ..problems import Kind, Problem
from ..roles import Permission, may
from . import numbers
from .acting import DONE
from .facts import Facts
from .frames import facts_of, framed
from .views import allocation, audit, connect, decisions, estimates, experiments, feedback, health, policies
from .views import overview as overview_view
from .views.base import View
from .visits import Visit

ROWS = 50  # of a page of decisions, policies or the audit log


async def listed(visit: Visit) -> Response:
    """All experiments that somebody may see."""
    rows = await visit.service.run(overview.experiments, visit.service.database)
    view = experiments.experiments([row for row in rows if visit.who.key.sees(row["name"])], visit.allowed.administer)
    return visit.render(view, live="*")


async def shown(visit: Visit) -> Response:
    """One view of an experiment."""
    tab = visit.request.path_params.get("tab", "")
    opened, facts = await facts_of(visit)
    view = await _view(visit, tab, opened.experiment, facts)
    return await framed(visit, view, facts, tab, message=await _message(visit), live=facts.name, **_page_values(visit))


async def events(visit: Visit) -> Response:
    """What changes, as it changes, for the script of open pages, until its reader is signed out."""
    keys, cookie = visit.service.keys, visit.request.cookies.get(sessions.COOKIE, "")
    headers, kind = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, "text/event-stream"
    if visit.request.method == "HEAD":  # which would never end
        return Response(None, 200, headers, kind)
    stream = await visit.service.events.listen(visit.who.key.sees, lambda: sessions.signed_in(keys, cookie) is not None)
    return StreamingResponse(stream, 200, headers, kind)


async def as_csv(visit: Visit) -> Response:
    """The table of a chart or a page as CSV."""
    tab = visit.request.path_params.get("tab", "overview")
    opened, facts = await facts_of(visit)
    view = await _view(visit, "" if tab == "overview" else tab, opened.experiment, facts)
    table = view.table(visit.request.path_params["table"])
    if table is None:
        raise Problem(Kind.not_found, "There is no such table on this page.")
    headers = {"Content-Disposition": f'attachment; filename="{table.id}.csv"'}
    return Response(table.csv().encode(), 200, headers, "text/csv; charset=utf-8")


async def tried(visit: Visit) -> Response:
    """Connect, with a test call: one decision for a made-up unit, cancelled at once."""
    opened, facts = await facts_of(visit)
    answer = await visit.service.run(_test_call, opened.experiment.acting(visit.who.key.actor))
    view = connect.connect(facts, visit.address, answer)
    return await framed(visit, view, facts, "connect")


def _test_call(experiment: Experiment) -> dict[str, Any]:
    unit, began = f"test-{secrets.token_hex(6)}", time.perf_counter()
    answer = experiment.ask(units=[unit])
    took = f"{1000 * (time.perf_counter() - began):.0f}"
    if not answer.decisions:
        return {
            "arm": None,
            "why": f"No decision: {answer.why or 'the experiment makes none'}. OpenFeature clients get their default.",
        }
    (decision,) = answer.decisions
    experiment.cancel([decision.id], "a test call from the dashboard")
    share = numbers.percent(decision.propensities.get(decision.arm))
    return {"arm": decision.arm, "unit": unit, "id": decision.id, "propensity": share, "milliseconds": took}


async def _view(visit: Visit, tab: str, experiment: Experiment, facts: Facts) -> View:
    simple: dict[str, Callable[[Facts], View]] = {
        "": overview_view.overview,
        "allocation": allocation.allocation,
        "estimates": estimates.estimates,
        "health": health.health,
        "feedback": feedback.feedback,
    }
    if tab in simple:
        return simple[tab](facts)
    paged: dict[str, Callable[[Visit, Experiment, Facts], Awaitable[View]]] = {
        "policies": _policies,
        "decisions": _decisions,
        "audit": _audit,
    }
    if tab in paged:
        return await paged[tab](visit, experiment, facts)
    if tab == "connect":
        return connect.connect(facts, visit.address)
    raise Problem(Kind.not_found, "There is no such view of an experiment.")


def _before(visit: Visit) -> int | None:
    """Where a page begins, as the link to it said."""
    text = visit.query("before")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Problem(Kind.unreadable, "This address of a page cannot be read; go back to the newest.")
    return int(text)


def _page_values(visit: Visit) -> dict[str, Any]:
    return {"before": visit.query("before"), "example": None}


async def _policies(visit: Visit, experiment: Experiment, facts: Facts) -> View:
    before = _before(visit)
    page = await visit.service.run(experiment.policies, before=before, limit=ROWS)
    return policies.policies(facts, page.rows, _cursor(page.next), before is None)


async def _audit(visit: Visit, experiment: Experiment, facts: Facts) -> View:
    before = _before(visit)
    page = await visit.service.run(experiment.audit_page, before=before, limit=ROWS)
    return audit.audit(facts, page.rows, _cursor(page.next), before is None)


async def _decisions(visit: Visit, experiment: Experiment, facts: Facts) -> View:
    sought, before = visit.query("q").strip()[:200], _before(visit)
    if sought:
        row, problem = await visit.service.run(sought_decision, experiment, sought)
        return decisions.decisions(facts, [] if row is None else [row], None, True, sought, problem)
    page = await visit.service.run(experiment.decisions, before=before, limit=ROWS)
    return decisions.decisions(facts, page.rows, _cursor(page.next), before is None)


def sought_decision(experiment: Experiment, sought: str) -> tuple[dict[str, Any] | None, str | None]:
    """A decision by its id or its unit; or None, and a sentence that says so."""
    for way in ({"decision_id": sought}, {"unit": sought}):
        try:
            return experiment.decision(**way), None
        except (UnknownName, ConfigError):
            continue
    return None, "No decision has this id or unit. A unit must be written exactly as it was asked for."


def _cursor(following: int | None) -> str | None:
    return None if following is None else str(following)


async def _message(visit: Visit) -> tuple[str, str] | None:
    """What was just done, from the address of the page: one of a few sentences, or the state of a job."""
    done, job = visit.query("done"), visit.query("job")
    if done in DONE:
        return "good", DONE[done]
    if not job:
        return None
    found = await visit.service.run(jobs.find, visit.service.database, job)
    if found is None or found.experiment != visit.request.path_params["name"]:
        return None
    if found.state in jobs.UNFINISHED:
        what = "Verification" if found.kind == "verify" else "Refresh"
        return "info", f"{what} asked for; the worker does it in a moment. This page shows when it is done."
    bad = found.state == "failed" or (found.kind == "verify" and bool(found.result))
    first = f" First: {found.result[0]}" if found.kind == "verify" and found.result and found.state == "done" else ""
    return "bad" if bad else "good", jobs.in_words(found) + first


def may_see_keys(visit: Visit) -> bool:
    """Whether somebody may see and make keys: an admin of all experiments."""
    key = visit.who.key
    return may(key.role, Permission.administer) and key.experiments is None
