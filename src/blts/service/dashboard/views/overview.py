"""Overview: who wins, by how much, what now."""

from __future__ import annotations

from typing import Any

from .. import charts, numbers, scales
from ..facts import Facts
from ..tables import Column, Table
from ..verdict import verdict
from .allocation import planned
from .base import Tile, View


def overview(facts: Facts) -> View:
    """The first page of an experiment."""
    report = facts.report
    traffic = planned(facts, 180)
    drawn = (means(facts),) if any(facts.mean(arm)["value"] is not None for arm in facts.arms) else ()
    drawn += () if traffic is None else (traffic,)
    values = {
        "verdict": verdict(facts),
        "tiles": _tiles(facts),
        "arms": [_arm(facts, arm) for arm in facts.arms],
        "control": facts.control,
        "todo": todo(facts),
        "metrics": [] if report is None else [_metric(facts, metric) for metric in report["metrics"]],
        "policies": [] if report is None else [_value(facts, one) for one in report.get("values", [])],
        "as_of": None if report is None else report["as_of"],
        "settings": _settings(facts),
    }
    return View("Overview", "overview", values, drawn, (_table(facts),) if report is not None else ())


def means(facts: Facts) -> charts.Chart:
    """The mean reward of each arm with its interval."""
    rows = []
    for arm in facts.arms:
        of = facts.mean(arm)
        label = arm["arm"] if arm["active"] else f"{arm['arm']} (retired)"
        rows.append(charts.Interval(label, facts.looks[arm["arm"]], of["value"], of["low"], of["high"], facts.interval(of)))
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    axis = scales.linear(ends, label=lambda v: numbers.reward(v, facts.unit))
    kind = "AIPW" if facts.contextual else "posterior"
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    svg = charts.intervals(rows, axis, about=("means", f"Mean reward of each arm with 95 % intervals: {said}."))
    columns = [Column("arm", "arm"), *(Column(name, facts.unit) for name in ("mean reward", "low", "high"))]
    table = Table("means", "Mean reward of each arm", columns, [[r.label, r.value, r.low, r.high] for r in rows])
    return charts.Chart("Mean reward of each arm", f"{kind}, 95 % intervals", svg, [], table)


def _tiles(facts: Facts) -> list[Tile]:
    """The numbers below the verdict."""
    status, report = facts.status, facts.report
    waiting = status["without_reward"]
    more = "" if report is None or not report["open"] else f"{numbers.count(report['open'])} more when their window ends"
    out = [
        Tile("Decisions", numbers.count(status["decisions"]), f"batch {numbers.count(status['batch'])}"),
        Tile("Rewards that count", numbers.NONE if report is None else numbers.count(report["rewards"]), more),
        Tile("Without a reward", numbers.count(waiting), _share_of(waiting, status["decisions"])),
    ]
    gain = None if report is None else report["value_against_equal"]
    if gain is not None and gain["per_unit"] is not None:
        note = f"{'conversions; ' if facts.unit == 'rate' else ''}{numbers.difference(gain['per_unit'], facts.unit)} a unit"
        if gain["low"] is not None and gain["low"] < 0 < (gain["high"] or 0.0):
            note += "; could be 0"
        total = numbers.NONE if gain["total"] is None else f"{'+' if gain['total'] > 0 else ''}{numbers.number(gain['total'])}"
        out.append(Tile("Gain over equal shares", total, note, "gain"))
    evidence = None if report is None or facts.contextual else report["evidence"]
    if evidence is not None and evidence["against"] and not status["stopped"]:
        other, least = min(evidence["against"].items(), key=lambda item: item[1])
        value = "> 1,000" if least > 1000 else numbers.number(least, 2)
        out.append(
            Tile("Evidence", value, f"{numbers.number(evidence['needed'])} needed against {numbers.short(other, 20)}", "evidence")
        )
    return out


def _share_of(part: int, whole: int) -> str:
    return f"{numbers.percent(part / whole, 2)} of decisions" if whole else ""


def _arm(facts: Facts, arm: dict[str, Any]) -> dict[str, Any]:
    """A row of the arms' table."""
    report, lift = facts.report, arm["lift"] or {"absolute": None, "relative": None}
    assert report is not None
    absolute, rel = lift["absolute"], lift["relative"]
    return {
        "arm": arm["arm"],
        "look": facts.looks[arm["arm"]],
        "active": arm["active"],
        "control": arm["arm"] == facts.control,
        "winner": arm["arm"] == facts.winner,
        "units": numbers.count(arm["units"]),
        "rewards": numbers.count(arm["rewards"]),
        "mean": facts.interval(facts.mean(arm)),
        "lift": None if absolute is None or absolute["value"] is None else numbers.difference(absolute["value"], facts.unit),
        "lift_sign": _sign(absolute),
        "lift_relative": None if rel is None or rel["value"] is None else _relative(rel),
        "p_best": arm["note"] if arm["p_best"] is None else numbers.chance(arm["p_best"], arm["posterior_error"]["p_best"]),
        "gauge": charts.gauge(arm["p_best"]),
        "loss": None if arm["expected_loss"] is None else _loss(arm["expected_loss"], facts.unit),
        "share": numbers.percent(arm["allocation"]),
        "share_gauge": charts.gauge(arm["allocation"]),
    }


def _sign(lift: dict[str, Any] | None) -> int:
    """1 where the whole interval is above 0, -1 where it is below, else 0."""
    if lift is None or lift["low"] is None or lift["high"] is None:
        return 0
    return int(lift["low"] > 0) - int(lift["high"] < 0)


def _relative(of: dict[str, Any]) -> str:
    text = numbers.relative(of["value"])
    return text if of["low"] is None else f"{text} [{numbers.number(of['low'], 2)}, {numbers.number(of['high'], 2)}]"


def _loss(loss: float, unit: str) -> str:
    if unit == "rate":
        return "< 0.01 points" if loss < 1e-4 else f"{numbers.number(100 * loss, 2)} points"
    return numbers.number(loss, 2)


def _table(facts: Facts) -> Table:
    """The same numbers for CSV."""
    columns = [Column("arm", "arm"), Column("active", "text"), Column("units", "count"), Column("rewards", "count")]
    columns += [
        Column(name) for name in ("mean reward", "low", "high", "P(best)", "expected loss", "lift", "lift low", "lift high")
    ]
    columns.append(Column("share from now on"))
    rows = []
    for arm in facts.arms:
        of, lift = facts.mean(arm), (arm["lift"] or {}).get("absolute") or {"value": None, "low": None, "high": None}
        known = [of["value"], of["low"], of["high"], arm["p_best"], arm["expected_loss"], lift["value"], lift["low"], lift["high"]]
        rows.append([arm["arm"], str(arm["active"]).lower(), arm["units"], arm["rewards"], *known, arm["allocation"]])
    return Table("arms", "Arms", columns, rows)


def _metric(facts: Facts, metric: dict[str, Any]) -> dict[str, Any]:
    """A table of a guardrail or of a secondary metric."""
    unit = "rate" if metric["model"] in ("conversions", "bernoulli") else "number"
    mine = Facts(facts.status, facts.report, unit, facts.now)
    rows = []
    for arm in metric["arms"]:
        of, gap = {"value": arm["mean"], "low": arm["low"], "high": arm["high"]}, arm["difference"]
        rows.append(
            {
                "arm": arm["arm"],
                "look": facts.looks.get(arm["arm"], charts.Look(0)),
                "n": numbers.count(arm["n"]),
                "mean": mine.interval(of),
                "difference": numbers.NONE if gap is None else numbers.difference(gap["value"], unit),
                "p_worse": numbers.chance(arm["p_worse"]),
                "alarm": arm["alarm"],
            }
        )
    margin = metric["margin"] if isinstance(metric["margin"], str) else numbers.difference(metric["margin"], unit, signed=False)
    about = f"{metric['role']} · {metric['better']} is better · tolerates {margin}"
    return {"name": metric["metric"], "about": about, "control": metric["control"], "rows": rows, "alarms": metric["alarms"]}


def _value(facts: Facts, one: dict[str, Any]) -> dict[str, Any]:
    """A policy of an experiment with contexts, and what it would have earned."""
    gap = one["difference"]
    return {
        "policy": one["policy"],
        "rewards": numbers.count(one["rewards"]),
        "value": facts.interval(one),
        "difference": numbers.NONE if gap is None or gap["value"] is None else numbers.difference(gap["value"], facts.unit),
    }


def todo(facts: Facts) -> list[dict[str, str]]:
    """What a person should look at, most urgent first: a tone, a sentence, and the page where it is dealt with."""
    status, report, out = facts.status, facts.report, []

    def add(tone: str, text: str, page: str) -> None:
        out.append({"tone": tone, "text": text, "page": page})

    if report is not None:
        for metric in report["metrics"]:
            for alarm in metric["alarms"]:
                add("bad", f"{alarm}.", "health")
        if report["stop"] is not None and not status["stopped"]:
            add("good", _sentence(report["stop"]), "stop")
    if status["last_refresh_failed"]:
        add("bad", f"The last refresh is not used: {'; '.join(status['last_refresh_failed'])}.", "policies")
    for warning in status["warnings"]:
        add("warn", warning, "health")
    if status["feedback_due"] and status["awaited"] and not status["stopped"]:
        add("info", f"A batch is closed; {numbers.plural(status['awaited'], 'reward')} of it can still come.", "feedback")
    if report is not None and report["as_of"]["later_entries"]:
        later = numbers.plural(report["as_of"]["later_entries"], "reward entry", "reward entries")
        add("info", f"{later} came since this report; the next refresh has them.", "policies")
    return out


def _sentence(stop: Any) -> str:
    return stop if isinstance(stop, str) else str(stop.get("sentence", stop))


def _settings(facts: Facts) -> list[tuple[str, str, str | None]]:
    """How the experiment was set up: name, value, and the word that explains it."""
    s = facts.status
    silence = "is left out" if s["default_reward"] is None else f"counts as {s['default_reward']:g}"
    rows: list[tuple[str, Any, str | None]] = [
        ("Rewards", s["rewards_in_words"], None),
        ("Prior", s["prior"], "posterior"),
        ("Sampler", "Thompson sampling" if s["sampler"] == "thompson" else s["sampler"], None),
        ("Batches", _batches(s["batching"]), "batch"),
        ("Control", s["control"], None),
        ("Floor", numbers.percent(s["floor"]) if s["floor"] else "none", "floor"),
        ("Control share", numbers.percent(s["control_share"]) if s["control_share"] else None, None),
        ("Burn-in", f"{numbers.count(s['burn_in'])} units an arm" if s["burn_in"] else None, None),
        ("Window", f"{numbers.duration(s['window'])}; silence {silence}" if s["window"] is not None else "none", "window"),
        ("Learns from", "rewards at once" if s["learn"] == "open" and s["window"] is not None else None, None),
        (
            "Exposure",
            "only decisions that were shown" if s["exposure"] == "explicit" else "every decision is assumed to be shown",
            None,
        ),
        ("Stops", _rule(s["stopping_rule"]), None),
        ("Contexts", "; ".join(s["features"]) if "features" in s else None, None),
        ("Created", numbers.moment(s["created_at"]), None),
        ("Last refresh", numbers.moment(s["refreshed_at"]) if s["policies"] > 1 else "none yet", None),
        ("Seed", str(s["seed"]), None),
    ]
    return [(name, value, term) for name, value, term in rows if value is not None]


def _batches(words: str) -> str:
    """When batches close, as people say it."""
    if words == "external":
        return "close when the worker or somebody refreshes"
    return f"close when the decisions of an arm have doubled ({words})" if words.startswith("doubling") else words


def _rule(rule: dict[str, Any] | None) -> str:
    if rule is None:
        return "by hand"
    words = {"p_best": "P(best) ≥ {}", "loss": "expected loss ≤ {}", "units": "{} units", "until": "{}"}
    said = [text.format(rule[name]) for name, text in words.items() if rule.get(name) is not None]
    return f"at {', '.join(said)}; then it {'promotes the winner' if rule.get('action') == 'promote' else 'recommends'}"
