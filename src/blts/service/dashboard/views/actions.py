"""Actions: what each would do, said before it is done."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numbers
from ..facts import Facts
from .base import View


class Action(NamedTuple):
    """Something that a person can do to an experiment."""

    slug: str
    title: str
    button: str
    final: bool = False
    """Whether it cannot be undone; the experiment's name must then be typed."""
    administer: bool = False
    """Whether it needs an admin; an operator may do the others."""
    reason: bool = True
    """Whether a reason is asked for."""
    changes_arms: bool = False
    """Whether other arms are decided among afterwards, for which programs are compiled."""
    when_stopped: bool = False
    """Whether a stopped experiment can have it."""


ACTIONS = {
    action.slug: action
    for action in (
        Action("pause", "Pause the experiment", "Pause"),
        Action("resume", "Resume the experiment", "Resume"),
        Action("refresh", "Refresh the policy", "Refresh", reason=False),
        Action("verify", "Verify the ledger", "Verify", reason=False, when_stopped=True),
        Action("add-arm", "Add an arm", "Add the arm", changes_arms=True),
        Action("retire-arm", "Retire an arm", "Retire for good", final=True, changes_arms=True),
        Action("correct", "Correct a reward", "Correct", when_stopped=True),
        Action("cancel", "Cancel decisions", "Cancel these decisions", when_stopped=True),
        Action("stop", "Stop the experiment", "Stop for good", final=True, administer=True, changes_arms=True),
    )
}


def action(
    facts: Facts, chosen: Action, given: dict[str, str], problem: str | None = None, decision: dict[str, Any] | None = None
) -> View:
    """The page of an action: its effect first, then what it needs.

    Args:
        facts: of the experiment.
        chosen: which action.
        given: what was typed so far.
        problem: why it was refused.
        decision: that a correction is about, where there is one.

    Returns:
        The view.
    """
    values = {
        "action": chosen,
        "given": {"reason": "", "typed": "", "arm": "", "promote": "", "label": "", "id": "", "reward": "", "force": ""} | given,
        "effects": effects(facts, chosen.slug, given, decision),
        "problem": problem,
        "active": facts.status["active"],
        "winner": facts.winner,
    }
    return View(chosen.title, "action", values)


def effects(facts: Facts, slug: str, given: dict[str, str], decision: dict[str, Any] | None) -> list[str]:
    """What an action would do, in sentences."""
    status = facts.status
    match slug:
        case "pause":
            return [
                "No new decisions are made: callers get none, and OpenFeature clients their default.",
                "Units that have a decision keep it. Rewards are still accepted.",
                "Resume undoes it at any time.",
            ]
        case "resume":
            return [f"New decisions are made again, with policy version {status['policy']}.", _traffic(facts)]
        case "refresh":
            awaited = f"{numbers.plural(status['awaited'], 'reward')} of this batch can still come."
            open_batch = not status["feedback_due"] and status["batching"] != "external"
            waits = f"Batch {status['batch']} is still open: without force nothing is learned before it ends."
            return [
                f"The worker learns from all rewards that count and writes policy version {status['policies'] + 1}.",
                waits if open_batch else f"{awaited} Without force, the refresh waits for them or for the end of their window.",
                "Decisions go on meanwhile. If chains disagree, the new version is not used.",
            ]
        case "verify":
            n = numbers.plural(status["decisions"], "decision")
            return [f"The worker replays all {n} and compares every row with what is stored.", "Nothing is changed."]
        case "add-arm":
            new = len(status["active"]) + 1
            return [
                f"From the next decision on there are {new} arms.",
                "The new arm starts at what the others show, and is tried more while little is known of it.",
            ]
        case "retire-arm":
            return _retire(facts, given.get("arm", ""))
        case "correct":
            return _correct(decision)
        case "cancel":
            return [
                "These decisions count for nothing, as if they had never been shown. It cannot be undone.",
                "The next refresh learns without them.",
            ]
        case "stop":
            return _stop(facts, given.get("promote", ""))
    raise KeyError(slug)


def _traffic(facts: Facts) -> str:
    shares = facts.status["allocation"]
    if not shares:
        return "Shares depend on each decision."
    return "Shares: " + ", ".join(f"{numbers.short(label)} {numbers.percent(p)}" for label, p in shares.items()) + "."


def _retire(facts: Facts, label: str) -> list[str]:
    out = ["An arm that is retired gets no more decisions, for good. What it earned stays in every report."]
    for one in facts.arms:
        if one["active"] and label in ("", one["arm"]):
            share = "" if one["allocation"] is None else f" Its {numbers.percent(one['allocation'])} of decisions go to the others."
            out.append(f"{numbers.short(one['arm'])} has {numbers.plural(one['units'], 'unit')}, which keep it.{share}")
    return out


def _correct(decision: dict[str, Any] | None) -> list[str]:
    out = ["A correction is one more entry; the old value stays in the ledger. The next refresh learns from the new one."]
    if decision is not None:
        stands = "has no reward yet" if decision["reward"] is None else f"has the reward {numbers.number(decision['reward'], 6)}"
        out.insert(0, f"Decision {decision['id']} ({numbers.short(decision['arm'])}) {stands}.")
    return out


def _stop(facts: Facts, promote: str) -> list[str]:
    out = ["The experiment ends, for good. Units that have a decision keep it, and rewards are still accepted."]
    if promote:
        out.append(f"Every new unit gets {numbers.short(promote)}, and so does everybody who is asked for by OpenFeature.")
    else:
        out.append("With an arm to promote, every new unit gets that arm.")
        out.append("Without one there are no more decisions, and OpenFeature clients get their default.")
    winner = facts.winner
    if winner is None:
        why = "There is no report yet" if facts.report is None else facts.report["recommendation"].removeprefix("Keep on: ")
        out.append(f"The report names no winner: {why.rstrip('.')}.")
    elif promote and promote != winner:
        out.append(f"The report names another winner: {numbers.short(winner)}.")
    return out
