"""Actions: their pages, and doing them in the name of who sent the form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from ...errors import BltsError, ConfigError, Stale
from ...live import Experiment, jobs
from ..problems import Kind, Problem
from .drafts import labels_of, number_of
from .facts import Facts
from .frames import facts_of, framed
from .views.actions import ACTIONS, Action, action
from .visits import Visit

DONE = {
    "create": "The experiment runs. Connect your application; the first decision appears by itself.",
    "pause": "Paused. No decisions are made until somebody resumes it.",
    "resume": "Resumed. Decisions are made again.",
    "add-arm": "The arm is in the running from the next decision on.",
    "retire-arm": "The arm is retired. Units that have it keep it.",
    "correct": "The reward is corrected. The next refresh learns from it.",
    "cancel": "The decisions are cancelled and count for nothing.",
    "stop": "Stopped, for good.",
}
"""What a page says after an action."""


async def offered(visit: Visit) -> Response:
    """The page of an action: what it would do, and what it needs."""
    chosen = _chosen(visit)
    opened, facts = await facts_of(visit)
    given = {name: visit.query(name)[:200] for name in ("arm", "promote", "id") if visit.query(name)}
    if facts.winner is not None and chosen.slug == "stop":
        given.setdefault("promote", facts.winner)
    return await _page(visit, opened.experiment, facts, chosen, given, None)


async def done(visit: Visit) -> Response:
    """Do an action, or show its page again with the reason why not."""
    chosen, form = _chosen(visit), visit.form
    opened, facts = await facts_of(visit)
    own = opened.experiment.acting(visit.who.key.actor).expecting(form.get("mark", ""))
    run = visit.service.compute if chosen.changes_arms else visit.service.run
    try:
        _check(chosen, form, facts)
        job = await run(_do, chosen.slug, own, form)
    except Stale:
        why = "The experiment changed since you opened this page. Read what would happen now, and send it again."
        return await _page(visit, opened.experiment, facts, chosen, form, why)
    except BltsError as error:
        return await _page(visit, opened.experiment, facts, chosen, form, str(error))
    if chosen.changes_arms:
        visit.service.warm_soon(opened)
    return visit.go("experiments", facts.name, **({"done": chosen.slug} if job is None else {"job": job}))


async def _page(
    visit: Visit, experiment: Experiment, facts: Facts, chosen: Action, given: dict[str, str], problem: str | None
) -> Response:
    """The page of an action, with the mark of the experiment as it is now; a problem has the status 422."""
    view, mark = await visit.service.run(
        lambda: (_view(experiment, facts, chosen, given, problem), experiment.definition()["mark"])
    )
    return await framed(visit, view, facts, None, 200 if problem is None else 422, mark=mark)


def _chosen(visit: Visit) -> Action:
    chosen = ACTIONS.get(visit.request.path_params["action"])
    if chosen is None:
        raise Problem(Kind.not_found, "There is no such action.")
    if chosen.administer and not visit.allowed.administer:
        raise Problem(Kind.forbidden, "Only an admin may do this.")
    return chosen


def _view(experiment: Experiment, facts: Facts, chosen: Action, given: dict[str, str], problem: str | None) -> Any:
    decision = None
    if chosen.slug == "correct" and given.get("id"):
        try:
            decision = experiment.decision(given["id"])
        except BltsError as error:
            problem = problem or str(error)
    return action(facts, chosen, given, problem, decision)


def _check(chosen: Action, form: dict[str, str], facts: Facts) -> None:
    """Refuse a form that lacks its reason or the typed name (`ConfigError`)."""
    if facts.status["stopped"] and not chosen.when_stopped:
        raise ConfigError("The experiment is stopped; create another one.")
    if chosen.reason and not form.get("reason", "").strip():
        raise ConfigError("Say why, in a few words; it is kept in the audit log.")
    if chosen.final and form.get("typed", "").strip() != facts.name:
        raise ConfigError(f"Type the name of the experiment, {facts.name}, to go on.")


def _do(slug: str, experiment: Experiment, form: dict[str, str]) -> str | None:
    """Do it; the id of a job where a worker does it."""
    reason = form.get("reason", "").strip()
    if slug in jobs.OPTIONS:
        detail = {"force": form.get("force") == "yes"} if slug == "refresh" else {}
        return jobs.submit(experiment, slug, detail, experiment.session.actor)
    simple: dict[str, Callable[[], Any]] = {
        "pause": lambda: experiment.pause(reason),
        "resume": lambda: experiment.resume(reason),
        "add-arm": lambda: experiment.add_arm(form.get("label", "").strip(), reason=reason),
        "retire-arm": lambda: experiment.retire_arm(form.get("arm", ""), reason),
        "stop": lambda: experiment.stop(_promoted(form), reason),
        "correct": lambda: _correct(experiment, form, reason),
        "cancel": lambda: _cancel(experiment, form, reason),
    }
    simple[slug]()
    return None


def _promoted(form: dict[str, str]) -> str | None:
    if "promote" not in form:
        raise ConfigError("Choose the arm that everybody new gets, or none.")
    return form["promote"] or None


def _correct(experiment: Experiment, form: dict[str, str], reason: str) -> None:
    decision = experiment.decision(form.get("id", "").strip())
    if not experiment.correct(decision["id"], number_of("The reward", form.get("reward", "").strip()), reason):
        raise ConfigError("The reward stood so already; nothing was changed.")


def _cancel(experiment: Experiment, form: dict[str, str], reason: str) -> None:
    ids = labels_of(form.get("id", ""))
    if not ids:
        raise ConfigError("Give the id of at least one decision, one a line.")
    if not experiment.cancel([experiment.decision(one)["id"] for one in ids[:1000]], reason):
        raise ConfigError("These decisions were cancelled before; nothing was changed.")
