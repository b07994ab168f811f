"""What somebody types into the form of a new experiment: read, checked field by field, and made a specification."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...errors import BltsError, ConfigError
from ...live import Spec
from ...live.checks import check_labels, check_text
from ...live.durations import seconds_of

LONGEST = 20_000  # characters of one field


class Draft(NamedTuple):
    """A form as it was sent, and what can be made of it."""

    given: dict[str, str]
    spec: Spec | None
    """None where something is wrong."""
    errors: dict[str, str]
    """By field, one sentence each; those that are about no field are under ""."""
    assumed: dict[str, Any]
    """What a rehearsal is told: truth, units, per_day, delay."""


DEFAULTS = {
    "name": "",
    "arms": "",
    "model": "conversions",
    "window": "1d",
    "silence": "zero",
    "control": "",
    "floor": "5",
    "burn_in": "0",
    "prior": "",
    "batching": "doubling",
    "refresh_every": "",
    "exposure": "assumed",
    "stop_p": "0.95",
    "stop_units": "",
    "stop_until": "",
    "stop_action": "recommend",
    "metric": "",
    "metric_model": "conversions",
    "metric_better": "lower",
    "metric_margin": "1%",
    "truth": "",
    "units": "2000",
    "per_day": "250",
    "delay": "exponential 6h",
}
"""Every field of the form, as it is when somebody opens it."""
_BLAMED = (
    ("control", re.compile("control", re.I)),
    ("stop_p", re.compile("p_best|stopping rule", re.I)),
    ("floor", re.compile("floor", re.I)),
    ("silence", re.compile("default reward", re.I)),
    ("prior", re.compile("prior|rate|spread", re.I)),
    ("metric", re.compile("metric", re.I)),
    ("arms", re.compile("arm", re.I)),
)
"""Whose fault a sentence is that `Spec` writes, by its words."""


def labels_of(text: str) -> list[str]:
    """The arms of a text, one a line."""
    return [line.strip() for line in text.replace("\r", "").split("\n") if line.strip()]


def read(form: Mapping[str, str]) -> Draft:
    """A form as a draft.

    Args:
        form: what the browser sent; fields that are not there are as in an empty form.

    Returns:
        The draft, with one sentence for each field that is wrong.
    """
    given = {name: str(form.get(name, default)).strip()[:LONGEST] for name, default in DEFAULTS.items()}
    errors: dict[str, str] = {}
    spec = None

    def attempt(field: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except BltsError as error:
            errors.setdefault(field, str(error))
            return None

    attempt("name", lambda: check_name(given["name"]))
    labels = labels_of(given["arms"])
    attempt("arms", lambda: check_labels(labels))
    settings = _settings(given, attempt)
    if not errors:
        try:
            spec = Spec.of(labels, given["model"], batching=given["batching"], **settings)
        except BltsError as error:
            blamed = next((field for field, words in _BLAMED if words.search(str(error))), "")
            errors[blamed] = str(error)
    return Draft(given, spec, errors, _assumed(given, labels, attempt))


def check_name(name: str) -> None:
    """Refuse names that do not fit into addresses and flags (`ConfigError`)."""
    check_text("The name", name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,99}", name):
        raise ConfigError("The name must be lower-case letters, digits, dots, dashes or underscores, such as checkout-button.")


def _settings(given: dict[str, str], attempt: Callable[[str, Callable[[], Any]], Any]) -> dict[str, Any]:
    """The settings of a specification; fields that were left empty are left out."""
    out: dict[str, Any] = {"exposure": given["exposure"]}
    if given["window"]:
        out["window"] = attempt("window", lambda: seconds_of("The window", given["window"]))
        if given["silence"] == "zero":
            out["default_reward"] = 0.0
    if given["control"]:
        out["control"] = given["control"]
    out["floor"] = attempt("floor", lambda: share_of("The floor", given["floor"])) if given["floor"] else 0.0
    out["burn_in"] = attempt("burn_in", lambda: whole_of("The burn-in", given["burn_in"])) if given["burn_in"] else 0
    if given["prior"]:
        out["prior"] = given["prior"]
    if given["refresh_every"]:
        out["refresh_seconds"] = attempt("refresh_every", lambda: seconds_of("The cadence", given["refresh_every"]))
    stop = _stop(given, attempt)
    if stop:
        out["stop"] = stop
    if given["metric"]:
        margin = given["metric_margin"] or "0"
        metric: dict[str, Any] = {"name": given["metric"], "model": given["metric_model"], "better": given["metric_better"]}
        metric["margin"] = (
            margin.replace(" ", "") if margin.endswith("%") else attempt("metric_margin", lambda: number_of("The margin", margin))
        )
        out["metrics"] = [metric]
    return out


def _stop(given: dict[str, str], attempt: Callable[[str, Callable[[], Any]], Any]) -> dict[str, Any]:
    stop: dict[str, Any] = {}
    if given["stop_p"]:
        stop["p_best"] = attempt("stop_p", lambda: number_of("P(best)", given["stop_p"]))
    if given["stop_units"]:
        stop["units"] = attempt("stop_units", lambda: whole_of("The number of units", given["stop_units"]))
    if given["stop_until"]:
        stop["until"] = given["stop_until"]
    return stop | {"action": given["stop_action"]} if stop else {}


def _assumed(given: dict[str, str], labels: list[str], attempt: Callable[[str, Callable[[], Any]], Any]) -> dict[str, Any]:
    """What a rehearsal assumes; what was not said is left out."""
    truth: dict[str, str] = {}
    for line in labels_of(given["truth"]):
        label, equals, value = line.rpartition("=")
        label = label.strip()
        if not equals or label not in labels:
            attempt("truth", lambda: _refuse(f"Write one line for each arm, such as {labels[0] if labels else 'A'} = 10 %."))
            continue
        truth[label] = value.strip()
    units = attempt("units", lambda: whole_of("The number of units", given["units"]))
    per_day = attempt("per_day", lambda: number_of("Units a day", given["per_day"]))
    return {"truth": truth, "units": units, "per_day": per_day, "delay": given["delay"] or None}


def _refuse(sentence: str) -> None:
    raise ConfigError(sentence)


def number_of(what: str, text: str) -> float:
    """A number that somebody typed; `ConfigError` where it is none."""
    try:
        return float(text.replace(",", "").replace("\u202f", ""))
    except ValueError:
        raise ConfigError(f"{what} must be a number, such as 0.95; got {text[:40]!r}.") from None


def whole_of(what: str, text: str) -> int:
    """A whole number that somebody typed; `ConfigError` where it is none."""
    plain = text.replace(",", "").replace(" ", "")
    if not re.fullmatch(r"\d{1,12}", plain, re.ASCII):
        raise ConfigError(f"{what} must be a whole number, such as 500; got {text[:40]!r}.")
    return int(plain)


def share_of(what: str, text: str) -> float:
    """A share that somebody typed in per cent; `ConfigError` where it is none."""
    return number_of(what, text.rstrip("% \u202f")) / 100
