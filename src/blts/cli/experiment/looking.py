"""What is known of an experiment: `status`, `report`, `export`, `audit`, `verify`."""

from __future__ import annotations

import json
import pathlib
from typing import Annotated, Any

import typer

from .base import DIFFERS, AsJson, Db, Name, app, opened
from .contexts import show_values
from .output import cell, done, in_words, interval, moment, percent, print_json, say, show_table

LONGEST = 300  # characters of an audit entry that are shown


@app.command()
def status(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Show where an experiment stands."""
    from ...live import durations
    from ...live.conclusions.words import shares

    found = opened(db, name).status()
    if as_json:
        print_json(found)
        return
    private = found.pop("privacy")
    allocation, alarms, stop = found.pop("allocation"), found.pop("alarms", []), found.pop("stop", None)
    error = found.pop("allocation_error")
    found["arms"], found["active"] = ", ".join(found["arms"]), ", ".join(found["active"])
    found["last_refresh_failed"] = "; ".join(found["last_refresh_failed"] or ["–"])
    found["created_at"], refreshed = moment(found["created_at"]), moment(found["refreshed_at"])
    found["refreshed_at"] = refreshed if found["policies"] > 1 else None  # the first policy is made with the experiment
    for key in ("window", "forget"):
        found[key] = None if found[key] is None else durations.in_words(found[key])
    found["metrics"] = ", ".join(found["metrics"]) or None
    rule = found["stopping_rule"] or {}
    if rule.get("action") == "recommend":
        del rule["otherwise"]  # what a worker would do
    found["stopping_rule"] = ", ".join(f"{key} {value}" for key, value in rule.items()) or None
    found["warnings"] = " ".join(found["warnings"]) or None
    for key in ("features", "arm_features"):
        if key in found:
            found[key] = "; ".join(found[key])
    labels = {
        "entries": "rewards recorded, with corrections",
        "without_reward": "decisions without a reward",
        "batch_size": "decisions in this batch",
        "awaited": "rewards awaited",
    }
    rows = [[labels.get(key, key.replace("_", " ")), value] for key, value in found.items() if key != "name"]
    show_table(name, ["", "value"], rows, words=("value",))
    if allocation:
        shown = shares(list(allocation.values()), error)
        show_table("allocation", ["arm", "probability"], [list(row) for row in zip(allocation, shown, strict=True)])
        if error is not None:
            say(_estimated(error))
    if private is not None:
        say(private["words"])
    for line in _alarms(alarms) + ([stop] if stop else []):
        say(line)


@app.command()
def report(
    name: Name,
    figures: Annotated[pathlib.Path | None, typer.Option(help="Also write figures into this folder.")] = None,
    html: Annotated[pathlib.Path | None, typer.Option(help="Also write one page with everything into this file.")] = None,
    version: Annotated[int | None, typer.Option(help="The report that the worker stored with this policy version.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute it now, however large the experiment is.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show what is known: posteriors, estimates, checks and a recommendation."""
    experiment = opened(db, name)
    found = experiment.report(version, fresh=fresh)
    if figures is not None:
        from ...live.figures import draw

        found["figures"] = [str(path) for path in draw(experiment, figures)]
    if html is not None:
        from ...live.page import write

        write(experiment, found, html)
    if as_json:
        print_json(found)
        return
    _show(found)
    written = [*found.get("figures", []), *([str(html)] if html is not None else [])]
    if written:
        say(f"\nWritten: {', '.join(written)}")


def _estimated(error: float) -> str:
    return f"The allocation is estimated from draws of the posterior, with a standard error of {error:.1g}."


def _show(found: dict[str, Any]) -> None:
    from ...live.conclusions.words import shares

    cap = "" if found["cap"] is None else f", cap on rewards {found['cap']:g}"
    title = f"{found['name']}: {in_words(found['decisions'], 'decision')}, policy version {found['policy']}{cap}"
    error = found.get("allocation_error")
    allocation = iter(shares([a["allocation"] for a in found["arms"] if a["active"]], error))
    kinds = ("arm", "units", "pending", "observed", "defaulted", "missing", "cancelled")
    show_table(
        title,
        [*kinds, "allocation"],
        [[*(a[kind] for kind in kinds), next(allocation) if a["active"] else 0] for a in found["arms"]],
    )
    if error is not None:
        say(_estimated(error))
    if "features" in found:
        show_values(found)
    else:
        show_table(
            "\nposterior mean rewards, 95 % intervals",
            ["arm", "rewards", "posterior", "P(best)", "expected loss"],
            [[a["arm"], a["rewards"], _posterior(a), _best(a), a["expected_loss"]] for a in found["arms"]],
        )
    if any(_infinite(a) for a in found["arms"]):
        say("* is a median: under so heavy a tail the posterior mean is infinite, and so is the expected loss.")
    if any(a["lift"] for a in found["arms"]):
        show_table(
            f"\nlift over {found['control']}, 95 % intervals",
            ["arm", "difference", "in %"],
            [[a["arm"], *_lift(a)] for a in found["arms"] if a["lift"]],
        )
    show_table(
        "\nestimates of the mean rewards, 95 % intervals",
        ["arm", "naive", "IPW", "AIPW"],
        [
            [a["arm"], *(interval(a[kind]["value"], a[kind]["low"], a[kind]["high"]) for kind in ("naive", "ipw", "aipw"))]
            for a in found["arms"]
        ],
    )
    if "delay" in found:
        show_table(
            "\nrates of all decisions, corrected for conversions to come, 95 % intervals",
            ["arm", "conversions", "trials", "rate"],
            [[a["arm"], a["conversions"], a["trials"], interval(a["value"], a["low"], a["high"])] for a in found["delay"]["arms"]],
        )
        say(found["delay"]["words"])
    say("\n" + "\n".join(_notes(found)))
    show_metrics(found)
    ratio, gain = found["sample_ratio"], found["value_against_equal"]
    silent = found["missing_feedback_rate"]
    passed = f"; {percent(silent)} of the others had no reward when their window ended" if silent else ""
    lines = [f"{in_words(found['pending'], 'decision')} pending (no reward yet, and no window that has ended){passed}"]
    if ratio and ratio["p_value"] is not None:
        lines.append(f"sample ratio: p = {cell(ratio['p_value'])}{', ALARM' if ratio['alarm'] else ''}")
    if share := found.get("feedback_share"):
        lines.append(f"share of decisions that count, by arm: p = {cell(share['p_value'])}{', ALARM' if share['alarm'] else ''}")
    if gain and gain["per_unit"] is not None:
        unknown = "" if gain["low"] is not None else " (no interval can be given yet)"
        lines.append(f"against equal allocation: {interval(gain['per_unit'], gain['low'], gain['high'])} a unit{unknown}")
    if found["cap"] is not None:
        lines.append(f"{found['capped_rewards']} rewards are above the cap of {found['cap']:g} and count as that much here")
    if found["chains"]:
        lines.append(found["chains"])
    say("\n" + "\n".join(lines))
    if "privacy" in found:
        say("\n" + found["privacy"]["words"])
    say("\n" + found["why_estimates_differ"])
    if found["outside_theory"]:
        say(found["outside_theory"])
    alarms = [alarm for metric in found["metrics"] for alarm in metric["alarms"] if alarm not in found["recommendation"]]
    say("\n" + "\n".join([*_alarms(alarms), found["recommendation"]]))


def _alarms(alarms: list[str]) -> list[str]:
    return [f"ALARM: {alarm}." for alarm in alarms]


def show_metrics(found: dict[str, Any]) -> None:
    """Print the metrics of a report, one table each."""
    from ...live.conclusions.words import probability

    for metric in found["metrics"]:
        about = f"{metric['role']}, {metric['better']} is better, margin {metric['margin']}, {metric['model']}"
        rows = []
        for arm in metric["arms"]:
            gap = arm["difference"] or {"value": None, "low": None, "high": None}
            mean = interval(arm["mean"], arm["low"], arm["high"])
            worse = None if arm["p_worse"] is None else probability(arm["p_worse"])
            rows.append([arm["arm"], arm["n"], mean, interval(gap["value"], gap["low"], gap["high"]), worse])
        columns = ["arm", "units", "mean", f"minus {metric['control']}", "P(worse)"]
        show_table(f"\n{metric['metric']} ({about}), 95 % intervals", columns, rows)
    if found["metrics"]:
        say("\n" + found["why_metrics"])


def _notes(found: dict[str, Any]) -> list[str]:
    """What was counted, and how."""
    from ...live.conclusions.words import not_counted_yet

    lines = [f"features: {'; '.join(found['features'])}; {found['theta']}"] if "features" in found else []
    if not lines:
        lines.append(f"posterior of all {found['rewards']} rewards that count: {found['posterior'] or 'none yet'}")
    if found["open"]:
        lines.append(not_counted_yet(found["open"]))
    without = [a["arm"] for a in found["arms"] if a["active"] and not a["rewards"]]
    if without and found["rewards"] and "features" not in found:
        lines.append(f"P(best) is among the arms with data, without {', '.join(without)}")
    if found["evidence"] and found["evidence"]["against"]:
        e = found["evidence"]
        against = ", ".join(f"{label} {E:.2g}" for label, E in e["against"].items())
        lines += [f"evidence E that {e['leader']} is better than: {against} (a winner needs {e['needed']:.3g})", e["assumes"]]
    return [*lines, *found["misfit"], found["policy_in_use"]]


def _best(arm: dict[str, Any]) -> str | None:
    from ...live.conclusions.words import probability

    p = arm["p_best"]
    return arm["note"] if p is None else probability(p, arm["posterior_error"]["p_best"] or 0.0)


def _lift(arm: dict[str, Any]) -> list[str | None]:
    kinds = [arm["lift"][kind] for kind in ("absolute", "relative")]
    return [None if x is None else interval(x["value"], x["low"], x["high"]) for x in kinds]


def _infinite(arm: dict[str, Any]) -> bool:
    return arm["posterior_mean"] is None and arm["posterior_median"] is not None


def _posterior(arm: dict[str, Any]) -> str:
    centre = arm["posterior_median"] if _infinite(arm) else arm["posterior_mean"]
    return interval(centre, arm["posterior_low"], arm["posterior_high"]) + "*" * _infinite(arm)


@app.command()
def export(
    name: Name,
    file: Annotated[pathlib.Path, typer.Argument(help="A .csv or .parquet file.")],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Write every decision with its propensities and reward. Units are not in it: only hashes of them are stored."""
    rows = opened(db, name).export(file)
    sentence = f"{in_words(rows, 'decision')} in {file}, by decision id: of units only hashes are stored."
    done(as_json, {"rows": rows, "file": str(file)}, sentence)


@app.command()
def audit(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Show everything that was done, in order."""
    found = opened(db, name).audit()
    if as_json:
        print_json(found)
        return
    rows = [[e["position"], moment(e["at"]), e["actor"], e["what"], _in_words(e["detail"])] for e in found]
    show_table(name, ["position", "at", "actor", "what", "detail"], rows, words=("actor", "what", "detail"))


def _in_words(detail: dict[str, Any]) -> str:
    """What an entry of the audit log says, without what says nothing; --json has all of it."""
    said = _said(detail.get("spec", detail))
    said.pop("digest", None)
    lines = [f"{key.replace('_', ' ')} {_value(value)}" for key, value in said.items()]
    words = ("\n" if "spec" in detail else ", ").join(line if len(line) <= LONGEST else line[:LONGEST] + " …" for line in lines)
    return words


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing. A default reward of 0 says something."""
    kept = lambda key, value: value not in (None, "", 0, [], {}, False) or (key == "default_reward" and value is not None)  # noqa: E731
    return {key: value for key, value in values.items() if kept(key, value)}


def _value(value: Any) -> str:
    """A value of an audit entry: lists with commas, a part by the name that was given, tables as key=value."""
    if isinstance(value, list):
        separator = "; " if any(isinstance(one, dict) and len(_said(one)) > 1 for one in value) else ", "
        return separator.join(map(_value, value))
    if isinstance(value, dict):
        said = _said(value)
        if {"name", "said"} & set(said) and set(said) <= {"name", "options", "said", "built"}:
            options = ", ".join(f"{key}={one}" for key, one in said.get("options", {}).items())
            return str(said.get("said") or said["name"]) + (f"({options})" if options else "")
        return str(said["label"]) if set(said) == {"label"} else ", ".join(f"{key}={_value(one)}" for key, one in said.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@app.command()
def verify(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Replay the ledger and compare it, bit for bit, with what is stored."""
    experiment = opened(db, name)
    found = experiment.verify()
    if as_json:
        print_json({"verified": not found, "differences": found})
    else:
        say("The ledger replays to what is stored, bit for bit." if not found else "\n".join(found))
    if found:
        raise typer.Exit(DIFFERS)
