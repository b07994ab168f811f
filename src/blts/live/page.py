"""A report as one HTML page, in the style of the reports of studies."""

from __future__ import annotations

import base64
import datetime
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from ..drawing.pages import render
from ..errors import ConfigError
from .conclusions.feedback_share import alarming
from .conclusions.words import not_counted_yet, probability, shares
from .damage import notices
from .durations import in_words
from .figures import draw
from .status import status, warnings

if TYPE_CHECKING:
    from .experiment import Experiment
    from .spec import Spec

FIGURES = {
    "posterior": "The posterior of each arm's mean reward",
    "allocation": "Which arms the decisions of each batch were",
    "rewards": "The rewards, and those that the fitted model expects",
    "delays": "Which share of conversions has come by the age of a decision, as learned from those so far",
    "metrics": "How far arms are from the control on each metric, with 95 % intervals",
}


@notices
def write(experiment: Experiment, report: dict[str, Any], path: str | os.PathLike[str]) -> pathlib.Path:
    """Write a report with its figures as one file that needs no other.

    Args:
        experiment: what it is about.
        report: as `Experiment.report` gives it.
        path: of the file.

    Returns:
        The path.

    Raises:
        ConfigError: a library for figures or pages is not installed, or the file cannot be written.
    """
    place = pathlib.Path(path)
    text = page(experiment, report)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{place} cannot be written ({error.strerror}).") from None
    return place


def page(experiment: Experiment, report: dict[str, Any]) -> str:
    """The HTML of a report."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = {path.stem: path.read_bytes() for path in draw(experiment, folder)}
    figures = [{"title": title, "svg": drawn[name]} for name, title in FIGURES.items() if name in drawn]
    arms, now = report["arms"], status(experiment.session)
    kinds = ("units", "pending", "observed", "defaulted", "missing", "cancelled")
    allocation = iter(shares([arm["allocation"] for arm in arms if arm["active"]], report.get("allocation_error")))
    return render(
        "blts.live",
        "page.html.jinja",
        {"data_uri": lambda svg: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"},
        report=report,
        as_of=_as_of(report),
        warnings=warnings(experiment.spec, {"misfit": report["misfit"], "feedback_share": alarming(report["feedback_share"])}),
        alarms=[alarm for metric in report["metrics"] for alarm in metric["alarms"] if alarm not in report["recommendation"]],
        metrics=[_metric(metric) for metric in report["metrics"]],
        posterior=[_posterior(arm) for arm in arms],
        contextual="features" in report,
        values=[[v["policy"], v["rewards"], _interval(v), _interval(v["difference"])] for v in report.get("values", [])],
        segments=[_segment(one) for one in report.get("segments", [])],
        evidence=_evidence(report),
        figures=figures,
        health=_health(report),
        estimates=[[arm["arm"], *(_interval(arm[kind]) for kind in ("naive", "ipw", "aipw"))] for arm in arms],
        delayed=[
            [arm["arm"], arm["conversions"], f"{arm['trials']:.1f}".removesuffix(".0"), _interval(arm)]
            for arm in report["delay"]["arms"]
        ]
        if "delay" in report
        else [],
        units=[[arm["arm"], *(arm[kind] for kind in kinds), _share(next(allocation) if arm["active"] else 0.0)] for arm in arms],
        settings=_settings(now, experiment.spec),
    )


def moment(at: float) -> str:
    """Seconds since 1970 as a date and time."""
    try:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return f"{at:g} s"


def _as_of(report: dict[str, Any]) -> str:
    as_of = report["as_of"]
    later = f"; {as_of['later_entries']} entries of rewards came since" if as_of["later_entries"] else ""
    return f"{report['decisions']:,} decisions, {report['rewards']:,} rewards that count, as of {moment(as_of['at'])}{later}"


def _share(p: float | None) -> str | None:
    return None if p is None else f"{100 * p:.3g} %"


def _interval(of: dict[str, Any] | None) -> str | None:
    if of is None or of["value"] is None:
        return None
    return (
        f"{of['value']:.3g}"
        if of["low"] is None or of["high"] is None
        else f"{of['value']:.3g} [{of['low']:.3g}, {of['high']:.3g}]"
    )


def _posterior(arm: dict[str, Any]) -> list[Any]:
    label = arm["arm"] if arm["active"] else f"{arm['arm']} (retired)"
    centre = arm["posterior_mean"] if arm["posterior_mean"] is not None else arm["posterior_median"]
    mean = {"value": centre, "low": arm["posterior_low"], "high": arm["posterior_high"]}
    best = arm["note"] if arm["p_best"] is None else probability(arm["p_best"], arm["posterior_error"]["p_best"] or 0.0)
    loss, lift = arm["expected_loss"], arm["lift"] or {"absolute": None, "relative": None}
    shown = [
        _interval(mean),
        best,
        None if loss is None else f"{loss:.2g}",
        _interval(lift["absolute"]),
        _interval(lift["relative"]),
    ]
    return [label, arm["units"], arm["rewards"], *shown]


def _segment(one: dict[str, Any]) -> list[Any]:
    earned = None if one["earned"] is None else f"{one['earned']:.3g}"
    return [f"{one['feature']}: {one['segment']}", one["rewards"], earned, *map(_interval, one["arms"])]


def _metric(metric: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for arm in metric["arms"]:
        mean = {"value": arm["mean"], "low": arm["low"], "high": arm["high"]}
        worse = None if arm["p_worse"] is None else probability(arm["p_worse"], 0.0)
        rows.append([arm["arm"], arm["n"], _interval(mean), _interval(arm["difference"]), worse])
    about = f"{metric['role']}, {metric['better']} is better, margin {metric['margin']}; 95 % intervals"
    return {"title": metric["metric"], "about": about, "control": metric["control"], "rows": rows}


def _evidence(report: dict[str, Any]) -> list[str]:
    found = report["evidence"]
    if not found or not found["against"]:
        return []
    against = ", ".join(f"{label} ({E:.2g})" for label, E in found["against"].items())
    return [
        f"Evidence E that {found['leader']} is better than {against}; a winner needs E ≥ {found['needed']:.3g} against every other "
        f"arm. {found['assumes']}"
    ]


def _health(report: dict[str, Any]) -> list[str]:
    """What was checked, in sentences."""
    ratio, gain, missing = report["sample_ratio"], report["value_against_equal"], report["missing_feedback_rate"]
    lines = [report["policy_in_use"], *report["notes"], *(report[name]["words"] for name in ("delay", "privacy") if name in report)]
    if ratio is not None and ratio["p_value"] is not None:
        fits = "ALARM: arms were not played as often" if ratio["alarm"] else "Arms were played about as often"
        lines.append(f"{fits} as their propensities say (p = {ratio['p_value']:.2g}).")
    if (share := report["feedback_share"]) is not None and not share["alarm"]:
        lines.append(f"Decisions of all arms count about equally often (p = {share['p_value']:.2g}).")
    silent = f"; {_share(missing)} of the others had no reward when their window ended." if missing else "."
    lines.append(f"{report['pending']:,} decisions have no reward yet{silent}")
    if report["open"]:
        lines.append(f"{not_counted_yet(report['open'])}.")
    if gain is not None and gain["per_unit"] is not None:
        value, more = {"value": gain["per_unit"], "low": gain["low"], "high": gain["high"]}, "more"
        if gain["per_unit"] < 0:
            turned = {"value": gain["per_unit"], "low": gain["high"], "high": gain["low"]}
            value, more = {key: None if x is None else -x for key, x in turned.items()}, "less"
        unknown = "" if value["low"] is not None else ", of which no interval can be given yet"
        lines.append(f"The allocation earned {_interval(value)} a unit {more} than equal shares would have{unknown}.")
    theory = [report["outside_theory"]] if report["outside_theory"] else []
    return [*lines, *([report["chains"]] if report["chains"] else []), *theory]


def _settings(now: dict[str, Any], spec: Spec) -> dict[str, Any]:
    names = ("model", "prior", "sampler", "batching", "floor", "control", "control_share", "burn_in", "window", "learn", "exposure")
    shown = {name.replace("_", " "): now.get(name) for name in names}
    shown["window"] = None if now["window"] is None else in_words(now["window"])
    shown["forgets after"] = None if spec.forget is None else in_words(spec.forget)
    shown["delays"] = spec.delay
    shown["privacy"] = (
        None if spec.privacy is None else f"ρ = {spec.privacy.rho:g}, rewards in [{spec.privacy.low:g}, {spec.privacy.high:g}]"
    )
    shown["silence counts as"] = None if spec.default_reward is None else f"{spec.default_reward:g}"
    rule = {} if spec.stop is None else {k: v for k, v in spec.stop._asdict().items() if v is not None}
    shown["stopping rule"] = ", ".join(f"{name} {value}" for name, value in rule.items()) or None
    shown |= {name.replace("_", " "): "; ".join(now[name]) for name in ("features", "arm_features") if name in now}
    shown |= {"θ": now["theta"]} if "theta" in now else {}
    return shown | {"created": moment(now["created_at"]), "last refresh": moment(now["refreshed_at"]), "seed": now["seed"]}
