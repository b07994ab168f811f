"""The frame of an experiment's pages: its facts, its title, its tabs."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from ... import registry
from ...live import Experiment, reports
from ...live.features import Feature
from ..state import Opened
from . import numbers
from .facts import Facts
from .views import health
from .views.base import View
from .visits import Visit

TABS = (
    ("", "Overview"),
    ("allocation", "Allocation"),
    ("estimates", "Estimates"),
    ("health", "Health"),
    ("feedback", "Feedback"),
    ("policies", "Policies"),
    ("decisions", "Decisions"),
    ("audit", "Audit"),
    ("connect", "Connect"),
)
OPEN_PAGES = {slug for slug, _ in TABS}


async def facts_of(visit: Visit) -> tuple[Opened, Facts]:
    """The experiment of the path, and what its pages are made of: its status and its last stored report."""
    opened = await visit.experiment()
    return opened, await visit.service.run(facts_now, opened.experiment, visit.now)


def facts_now(experiment: Experiment, now: float) -> Facts:
    """What pages are made of. Nothing here is linear in the number of decisions."""
    status, report = experiment.status(), reports.last(experiment)
    if report is not None:
        report["as_of"]["later_entries"] = status["entries"] - report["as_of"]["entries"]
    if experiment.spec.features:
        status["example_context"] = {feature.name: _example(feature) for feature in experiment.spec.features}
    part = experiment.spec.model
    status["model_name"] = part.said or part.name or "a model of your own"
    status["rewards_in_words"] = _rewards_in_words(experiment)
    support = experiment.session.single_model.support
    status["example_reward"] = {"binary": 1, "count": 2}.get(support, 12.5)
    unit = "rate" if support == "binary" else "number"
    return Facts(status, report, unit, now)


def _rewards_in_words(experiment: Experiment) -> str:
    """What is rewarded, as people say it, and the model's name; of a model of somebody's own, that alone."""
    part = experiment.spec.model
    if part.is_own or part.name is None:
        return part.words
    summary = registry.find("model", part.name).summary.rstrip(".").removeprefix("Rewards ")
    options = [f"{name.replace('_', ' ')} {_number(value)}" for name, value in part.options.items()]
    return f"{summary[:1].upper()}{summary[1:]} ({', '.join([part.said or part.name, *options])})"


def _number(value: Any) -> str:
    """An option of a model; equal numbers of a list are written once."""
    if isinstance(value, list | tuple) and len(value) > 1 and all(one == value[0] for one in value):
        return f"{_number(value[0])} for each of {len(value)}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _example(feature: Feature) -> float | str | bool:
    """A value that a feature may have."""
    if feature.range is not None:
        return (feature.range[0] + feature.range[1]) / 2
    return True if feature.levels is None else feature.levels[0]


async def framed(visit: Visit, view: View, facts: Facts, tab: str | None, status: int = 200, **more: Any) -> Response:
    """A page of an experiment, with its title and tabs."""
    alarms = sum(check.tone == "bad" for check in health.checks(facts))

    def page(*parts: str) -> str:
        return visit.url("experiments", facts.name, *(part for part in parts if part))

    title = f"{view.title} · {numbers.short(facts.name, 60)}"
    path = page("overview") if tab == "" else page(tab or "")
    report = 0 if facts.report is None else facts.report["as_of"]["version"]
    stand = [facts.status[name] for name in ("decisions", "entries", "policies", "paused", "stopped")]
    frame = {
        "stand": json.dumps([*stand, report], separators=(",", ":")),
        "facts": facts,
        "state": facts.state(),
        "tabs": TABS,
        "tab": tab,
        "alarms": alarms,
        "page": page,
        "open_pages": OPEN_PAGES,
    }
    return visit.render(view, status, **(frame | {"title": title, "here_path": path} | more))
