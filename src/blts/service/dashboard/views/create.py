"""Create: a form that explains each choice, what it would make, and what that would cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....live.durations import in_words
from ....live.rehearsal.results import Rehearsal
from .. import charts, numbers, scales
from ..drafts import Draft
from ..tables import Column, Table
from .base import View

MODELS = (
    ("conversions", "Conversions", "Each reward is 0 or 1: bought or not, clicked or not. Arms are compared by their rate."),
    ("counts", "Counts", "Each reward is 0, 1, 2, …: pages read, items ordered. Arms are compared by their mean."),
    ("numbers", "Numbers", "Any number around a mean: seconds saved, a score. The spread is learned too."),
    ("revenue", "Revenue", "0, or an amount: what a visitor spends. The share that pays and the amounts are learned."),
)
TRUTH = {"conversions": "10 %", "counts": "2.5", "numbers": "50±20", "revenue": "0.1x40±15"}
"""How an arm is assumed, by model."""


BY_PROGRAM = """import os
from blts.client import Client

service = Client(os.environ["BLTS_URL"], os.environ["BLTS_KEY"])  # this service, and an admin's key
service.create(
    "front-page",
    arms=["books", "music", "games"],
    model="logistic",  # rewards 0 or 1 that depend on the features of the visitor
    features={"age": [18, 80], "country": ["DE", "FR"], "returning": "boolean"},
)
service.create(
    "headline",
    arms={"short": {"value": "Sale!"}, "long": {"value": "All shoes are cheaper today."}},
    model="conversions",
    metrics=[
        {"name": "refunds", "model": "conversions", "better": "lower", "margin": "1%"},
        {"name": "pages", "model": "counts", "better": "higher", "margin": "5%"},
    ],
)"""
"""What the form does not have."""


def create(draft: Draft, rehearsal: Rehearsal | None = None, problem: str | None = None) -> View:
    """The page where an experiment is made.

    Args:
        draft: what was typed so far.
        rehearsal: what it would cost, if that was simulated.
        problem: why that could not be simulated.

    Returns:
        The view.
    """
    drawn = () if rehearsal is None else (_traffic(rehearsal),)
    values = {
        "given": draft.given,
        "by_program": BY_PROGRAM,
        "errors": draft.errors,
        "models": MODELS,
        "example": TRUTH.get(draft.given["model"], "10 %"),
        "summary": summary(draft),
        "cost": None
        if rehearsal is None
        else cost(rehearsal, "conversions" if draft.given["model"] == "conversions" else "reward"),
        "problem": problem,
    }
    return View("New experiment", "create", values, drawn)


def summary(draft: Draft) -> list[tuple[str, str]]:
    """What would be created, in words; empty where something is wrong."""
    spec = draft.spec
    if spec is None:
        return []
    first = f"{spec.control or spec.arms[0].label}"
    waits = "Rewards count as soon as they are told."
    if spec.window is not None:
        silence = "is left out" if spec.default_reward is None else f"counts as {spec.default_reward:g}"
        waits = f"A reward is awaited for {in_words(spec.window)}; silence {silence}."
    least = f"Every arm keeps at least {numbers.percent(spec.floor)} of decisions" if spec.floor else "An arm may be played no more"
    burn = f", and gets its first {numbers.plural(spec.burn_in, 'unit')} in any case" if spec.burn_in else ""
    if spec.batching.name == "external":
        learns = "Learns whenever there is something new."
    else:
        learns = "Learns when a batch closes: early batches are small, later ones twice as large."
    often = "" if spec.refresh_seconds is None else f" Also every {in_words(spec.refresh_seconds)}."
    out = [
        ("Compares", f"{numbers.plural(len(spec.arms), 'arm')}, with {numbers.short(first)} as the control"),
        ("Rewards", waits),
        ("Traffic", f"{least}{burn}."),
        ("Learning", learns + often),
        ("Ends", _ends(spec)),
    ]
    if spec.metrics:
        one = spec.metrics[0]
        out.append(("Guards", f"{numbers.short(one.name)}: an alarm when an arm is worse by more than {one.margin}."))
    return out


def _ends(spec: Any) -> str:
    rule = spec.stop
    if rule is None:
        return "By hand."
    said = [] if rule.p_best is None else [f"a winner with P(best) of at least {numbers.percent(rule.p_best)} and enough evidence"]
    said += [] if rule.units is None else [numbers.plural(rule.units, "unit")]
    said += [] if rule.until is None else [str(rule.until)]
    then = "the winner is promoted by itself" if rule.action == "promote" else "a person is asked to decide"
    return f"At {' or '.join(said)}; then {then}."


def cost(found: Rehearsal, noun: str) -> dict[str, Any]:
    """What the rehearsals say an experiment would cost and bring, in sentences.

    Args:
        found: the rehearsals.
        noun: what is earned.

    Returns:
        The variables of the template.
    """
    told, text = found.to_dict(), str(found)
    named, wrong = told["winner_named"]["value"] or 0.0, told["wrong_winner"]["value"] or 0.0
    rows = []
    for k, arm in enumerate(told["arms"]):
        share = arm["share"]["value"] or 0.0
        rows.append(
            {
                "arm": arm["arm"],
                "look": charts.Look(k),
                "assumed": arm["assumed"],
                "share": numbers.percent(share, 2),
                "named": numbers.percent(arm["named"]["value"], 2),
            }
        )
    within = f" within {numbers.plural(found.units, 'unit')}"
    headline = (
        f"It would find no winner{within}"
        if named < 0.05
        else f"It would name a winner in {numbers.percent(named, 2)} of cases{within}"
    )
    after = told["units_until_named"]["value"]
    if after is not None and named >= 0.05:
        headline += f", after about {numbers.count(round(after, -1))}"
    equal = found.all_equal
    loss, gain = told["loss_against_best"]["value"], told["gain_over_equal_split"]["value"]
    facts = []
    if not equal:
        facts.append(
            (
                "Cost of learning",
                f"{numbers.number(loss)} less {noun} in total than {numbers.short(told['best'] or '')} alone would earn",
            )
        )
        facts.append(("Gain over an equal split", f"{numbers.number(gain)} more {noun} in total"))
    facts.append(
        (
            "A wrong winner",
            "false, as all arms are equal: " * equal
            + (f"in {numbers.percent(wrong, 2)} of cases" if wrong else "in none of the rehearsals"),
        )
    )
    facts.append(("Refreshes", numbers.number(told["refreshes"]["value"], 2)))
    return {
        "headline": headline,
        "facts": facts,
        "rows": rows,
        "assumed": told["assumed"],
        "replications": found.replications,
        "text": text,
    }


def _traffic(found: Rehearsal) -> charts.Chart:
    """How traffic would move, averaged over the rehearsals."""
    mean = np.asarray(found.counts, float).mean(0)
    share = mean / np.maximum(mean.sum(1, keepdims=True), 1e-12)
    edges = found.edges.tolist()
    series = []
    for k, label in enumerate(found.labels):
        y = share[:, k].tolist()
        series.append(charts.Series(label, charts.Look(k), edges, [*y, y[-1]]))
    axis = scales.linear([0, found.units], zero=True, label=numbers.count)._replace(high=float(found.units))
    axis = axis._replace(ticks=[(v, text) for v, text in axis.ticks if v <= found.units])
    svg = charts.stacked(series, axis, about=("traffic", "Share of units that each arm would get."), y=scales.shares(), height=200)
    rows = [[edges[i + 1], *share[i].tolist()] for i in range(len(share))]
    table = Table(
        "traffic",
        "Share of units of each arm",
        [Column("units", "count"), *(Column(label, "share") for label in found.labels)],
        rows,
    )
    legend = [(label, charts.Look(k)) for k, label in enumerate(found.labels)]
    note = f"share of units, averaged over {found.replications} rehearsals; units from left to right"
    return charts.Chart("Where traffic would go", note, svg, legend, table, filled=True)
