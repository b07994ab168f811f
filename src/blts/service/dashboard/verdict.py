"""One sentence for the top of a page: who wins, by how much, what now. What it says is what the report recommends."""

from __future__ import annotations

from typing import NamedTuple

from . import numbers
from .facts import Facts

GO_ON = "Nothing to do: traffic moves to better arms by itself, and this page says when one has won."


class Verdict(NamedTuple):
    """What is known, in order of importance."""

    tone: str
    """good, info, warn, bad or done: the colour and the sign of the card."""
    label: str
    """One or two words."""
    headline: str
    why: str
    """The report's own sentence."""
    next: str
    """What to do now."""
    action: tuple[str, str] | None = None
    """The page that does it, and the words of its button."""


def verdict(facts: Facts) -> Verdict:
    """Who wins, by how much, and what to do now.

    Args:
        facts: of the experiment.

    Returns:
        The verdict.
    """
    report, status = facts.report, facts.status
    if status["stopped"]:
        return _stopped(facts)
    if not status["decisions"]:
        return Verdict(
            "info",
            "Ready",
            "Waiting for the first decision",
            "Nothing has asked this experiment for a decision yet.",
            "Connect your application; the first decision appears here by itself.",
            ("connect", "Connect your application"),
        )
    if report is None:
        why = "Reports are made by the worker after every refresh."
        return Verdict(
            "info", "Collecting", "No report yet", why, "Nothing to do: the worker makes the first report when it refreshes."
        )
    why = report["recommendation"]
    if status["paused"]:
        return Verdict(
            "warn", "Paused", f"Paused: no decisions are made{_so_far(facts)}", why, "Resume it, or stop it.", ("resume", "Resume…")
        )
    if why.startswith("Look at the guardrails"):
        return Verdict(
            "bad",
            "Needs you",
            "A guardrail alarm: an arm does harm",
            why,
            "Retire the arm, or stop.",
            ("retire-arm", "Retire an arm…"),
        )
    if why.startswith("Look into"):
        what = next((one for one in ("assignment", "feedback", "sampler") if one in why[:30]), "model")
        headline = f"Check the {what} before you trust a number"
        return Verdict("bad", "Needs you", headline, why, "See what is wrong under Health.", ("health", "Open Health"))
    if facts.winner is not None:
        return _winner(facts)
    if report["winner"] is not None:
        why = f"{_named(report['winner'])} was ahead in the last report, and was retired since."
        return Verdict(
            "info", "Collecting", "The arms changed since the last report", why, "Nothing to do: the worker makes the next one."
        )
    return _undecided(facts)


def _winner(facts: Facts) -> Verdict:
    label = facts.winner
    assert facts.report is not None
    assert label is not None
    return Verdict(
        "good",
        "Winner",
        f"{_named(label)} wins{_by(facts, label)}",
        facts.report["recommendation"],
        f"Give {_named(label)} to everybody, or let the experiment go on: it sends most units there already.",
        ("stop", f"Stop and promote {numbers.short(label, 20)}…"),
    )


def _undecided(facts: Facts) -> Verdict:
    report = facts.report
    assert report is not None
    why = report["recommendation"]
    if facts.contextual:
        return Verdict(
            "info", "By context", "The best arm depends on the context", why, "Compare what policies earn in the table below."
        )
    leader = report["evidence"]["leader"] if report["evidence"] else None
    if facts.status["waits"]:
        headline, now = "Learning waits for rewards that may never come", "Refresh with force to learn from the rewards that came."
        return Verdict("warn", "Waiting", headline, facts.status["waits"] + ".", now, ("refresh", "Refresh…"))
    if not report["rewards"] or leader is None:
        waits = (
            f"{numbers.count(report['open'])} rewards wait for their window to end" if report["open"] else "no reward has come yet"
        )
        return Verdict(
            "info", "Collecting", f"Too early: {waits}", why, "Nothing to do: the first comparison follows the first refresh."
        )
    if why.startswith("There is nothing to compare"):
        return Verdict(
            "info", "One arm", "Only one arm is active", why, "Add an arm, or stop the experiment.", ("add-arm", "Add an arm…")
        )
    arm = facts.arm(leader)
    p = None if arm is None else arm["p_best"]
    if p is not None and p >= 0.8:
        return Verdict("info", "Leading", f"{_named(leader)} leads{_by(facts, leader)}, not yet enough for a winner", why, GO_ON)
    return Verdict("info", "Undecided", "No arm is clearly ahead yet", why, GO_ON)


def _stopped(facts: Facts) -> Verdict:
    promoted = facts.status["promoted"]
    why = "" if facts.report is None else facts.report["recommendation"]
    if promoted is None:
        return Verdict("done", "Stopped", "Stopped: there are no more decisions", why, "Nothing to do. Rewards are still accepted.")
    return Verdict(
        "done",
        "Promoted",
        f"Finished: everybody new gets {_named(promoted)}{_by(facts, promoted)}",
        why,
        "Make it the default in your code, then the experiment can go.",
    )


def _so_far(facts: Facts) -> str:
    return "" if facts.winner is None else f"; {_named(facts.winner)} wins so far"


def _by(facts: Facts, label: str) -> str:
    """By how much an arm is ahead: of the control, or where it is that of the best other arm."""
    arm = facts.arm(label)
    if arm is None or facts.contextual:
        return ""
    lift = arm["lift"]
    if lift is not None and lift["absolute"] is not None and lift["absolute"]["value"] is not None:
        rel = (
            ""
            if lift["relative"] is None or lift["relative"]["value"] is None
            else f" ({numbers.relative(lift['relative']['value'])})"
        )
        return f", {numbers.difference(lift['absolute']['value'], facts.unit)}{rel} over {_named(facts.control)}"
    others = [o for o in facts.arms if o["active"] and o is not arm and facts.mean(o)["value"] is not None]
    mine = facts.mean(arm)["value"]
    if mine is None:
        return ""
    if not others:
        return f", at {numbers.reward(mine, facts.unit)} a unit"
    best = max(others, key=lambda o: facts.mean(o)["value"] or 0.0)
    gap = mine - (facts.mean(best)["value"] or 0.0)
    return f", {numbers.difference(gap, facts.unit)} over {_named(best['arm'])}"


def _named(label: str) -> str:
    """A label within a sentence, isolated from its direction by the characters made for that."""
    return f"\u2068{numbers.short(label, 40)}\u2069"
