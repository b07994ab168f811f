"""One sentence for a person to act on: what to do, and why."""

from __future__ import annotations

from typing import Any

from .evidence import ERROR
from .feedback_share import alarming
from .words import probability, windows_of

WINNER = 0.95
"""P(best) from which an arm may be recommended. By itself, looked at often, it names a winner in most A/A tests."""


def recommend(report: dict[str, Any]) -> tuple[str | None, str]:
    """The winner of an experiment, and what to do.

    A winner has P(best) ≥ WINNER, by more than twice its standard error, and enough evidence against every other active arm
    (`evidence.needed`). Nothing is recommended where a check of the experiment failed, or before every active arm has its burn-in
    and its least number of rewards.

    Args:
        report: all other entries of a report.

    Returns:
        The label of the winner or None, and the sentence.
    """
    why = _why_nothing(report)
    if why is not None:
        return None, why
    arms = {arm["arm"]: arm for arm in report["arms"] if arm["active"]}
    evidence = report["evidence"]
    leader = arms[evidence["leader"]]
    label, p, error = leader["arm"], leader["p_best"], leader["posterior_error"]["p_best"]
    best = f"best with probability {probability(p, error)}"
    if p - 2 * error < WINNER:
        return None, f"Keep on: {label!r} leads, and is {best}; a winner needs {WINNER:g}."
    weakest = min(evidence["against"], key=evidence["against"].__getitem__)
    least, needed = evidence["against"][weakest], evidence["needed"]
    if least < needed:
        return None, (
            f"Keep on: {label!r} leads, and is {best}, but its evidence against {weakest!r} is E = {least:.2g}. "
            f"With E ≥ {needed:.3g} the chance that a wrong winner is ever named is at most {100 * ERROR:g} %, "
            "however often one looks."
        )
    return label, (
        f"Consider {label!r} for all units: it is {best}, with evidence E {_large(least)} against every other active arm "
        f"({needed:.3g} is needed){_loss(leader)}{_lift(report, leader)}."
    )


def _why_nothing(report: dict[str, Any]) -> str | None:
    """Why nothing can be recommended, before the arms are compared."""
    ratio, active = report["sample_ratio"], [arm for arm in report["arms"] if arm["active"]]
    if ratio is not None and ratio["alarm"]:
        return "Look into the assignment first: arms were not played as often as their propensities say."
    if all(arm["rewards"] for arm in active):
        for sentence in alarming(report["feedback_share"]):
            return f"Look into the feedback first. {sentence}"
    if report["last_refresh_failed"]:
        return f"Look into the sampler first: the last refresh is not used ({'; '.join(report['last_refresh_failed'])})."
    if not any(arm["rewards"] for arm in active):
        waiting = f" that count; {windows_of(report['open'])} still open" if report["open"] else ""
        return f"Keep on: there are no rewards{waiting or ' yet'}."
    if report["posterior_failings"]:
        return f"Look into the sampler first: this report's posterior is not reliable ({'; '.join(report['posterior_failings'])})."
    if report["misfit"]:
        return f"Look into the model first: it does not fit the rewards. {report['misfit'][0]}"
    if len(active) < 2:
        return f"There is nothing to compare: {active[0]['arm']!r} is the only active arm."
    for arm in active:
        if not arm["rewards"]:
            return f"Keep on: {arm['arm']!r} has no data yet."
        if arm["units"] < report["burn_in"]:
            return f"Keep on: {arm['arm']!r} has not had its {report['burn_in']} units yet."
    evidence = report["evidence"]
    few = min(active, key=lambda arm: arm["varied"])
    if few["varied"] < evidence["least"]:
        one = few["varied"] == 1
        kind = "reward" if one else "rewards"
        if not evidence["exact"]:
            kind += f" that {'differs' if one else 'differ'} from its most common one"
        return f"Keep on: {few['arm']!r} has {few['varied']} {kind}, and {evidence['least']} are needed of every arm."
    return None


def _large(E: float) -> str:
    return f"≥ {E:.3g}" if E < 1e3 else "> 1,000"


def _loss(arm: dict[str, Any]) -> str:
    loss = arm["expected_loss"]
    if loss is None:
        return ""
    small = 1e-4 * (arm["posterior_high"] - arm["posterior_low"])
    return f", an expected loss {f'below {small:.1g}' if loss < small else f'of {loss:.2g}'} a unit"


def _lift(report: dict[str, Any], arm: dict[str, Any]) -> str:
    lift = arm["lift"]
    if lift is None or lift["absolute"] is None:
        return ""
    a, r = lift["absolute"], lift["relative"]
    value = "" if a["value"] is None else f"{a['value']:+.3g} "
    percent = "" if r is None else f" ({_percent(r['value'], '+')} % [{_percent(r['low'])}, {_percent(r['high'])}])"
    return f", and a lift over {report['control']!r} of {value}[{a['low']:.3g}, {a['high']:.3g}] a unit{percent}"


def _percent(x: float, sign: str = "") -> str:
    """Two digits, without an exponent."""
    return f"{float(f'{x:.2g}'):{sign},.0f}" if abs(x) >= 10 else f"{x:{sign}.2g}"
