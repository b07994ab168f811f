"""Contexts at the command line: declared as options, read from JSON or files, and what reports say by context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ConfigError, shown
from .output import interval, say, show_table
from .rewards import check_decimals, csv_rows, json_rows, number_of, read_text

if TYPE_CHECKING:
    from ...live.features import Encoding

UNIT, AVAILABLE = "unit", "available"
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Asked(NamedTuple):
    """What a request shows its decisions."""

    units: list[str] | None
    contexts: list[Any]
    available: list[Any] | None


def declared(options: list[str]) -> dict[str, Any]:
    """The features that options such as age=18..90, country=DE,FR and returning=boolean declare.

    Args:
        options: as they were given.

    Returns:
        What `Spec` takes.

    Raises:
        ConfigError: an option cannot be read.
    """
    found: dict[str, Any] = {}
    for option in options:
        name, equals, form = option.partition("=")
        if not equals or not form or name in found:
            raise ConfigError(f"--feature is name=18..90, name=DE,FR or name=boolean, each name once; got {option!r}.")
        low, dots, high = form.partition("..")
        try:
            found[name] = [float(low), float(high)] if dots else form.split(",") if "," in form else form
        except ValueError:
            raise ConfigError(f"--feature {name} needs a range such as 18..90; got {form!r}.") from None
    return found


def from_options(texts: list[str]) -> list[Any]:
    """Contexts from JSON.

    Args:
        texts: those of --context.

    Returns:
        One context for each.

    Raises:
        ConfigError: a text is not JSON.
    """
    try:
        return [json.loads(text) for text in texts]
    except (ValueError, RecursionError) as error:
        raise ConfigError(f'--context is JSON, such as {{"age": 31}}: {error}.') from None


def read_contexts(file: str, encoding: Encoding | None) -> Asked:
    """Decisions from a file: a CSV file with a header, or one JSON object a line.

    Args:
        file: its path, or "-".
        encoding: of the experiment, which says what the cells of a CSV file are.

    Returns:
        Units where the file has a column for them, contexts, and which arms are available where it says that.

    Raises:
        ConfigError: the file cannot be read, or says of some decisions alone whom they are for.
    """
    if encoding is None:
        raise ConfigError("This experiment declares no features; give --units with one unit a line.")
    text = read_text(file)
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        rows = json_rows(text)
    else:
        found, semicolons = csv_rows(text)
        for feature in encoding.features if semicolons else ():
            if feature.range is not None:
                check_decimals(row.get(feature.name, "") for row in found)
        rows = [_typed(row, encoding, semicolons) for row in found]
    if not rows:
        raise ConfigError(f"The file {file} has no contexts.")
    units = [row.pop(UNIT) for row in rows if UNIT in row]
    if units and len(units) < len(rows):
        raise ConfigError(f"The file {file} has units of {len(units)} of {len(rows)} rows; give all or none.")
    masks = [_labels(row.pop(AVAILABLE, None)) for row in rows]
    return Asked(units or None, rows, None if all(mask is None for mask in masks) else masks)


def _labels(mask: Any) -> Any:
    """The labels that text such as "A; B" names; nothing for all arms."""
    if not isinstance(mask, str):
        return mask
    return [label.strip() for label in mask.split(";")] if mask.strip() else None


def _typed(row: dict[str, str], encoding: Encoding, semicolons: bool) -> dict[str, Any]:
    """A row of a CSV file with the types of its features; what cannot be read stays text, and is refused by name.

    Args:
        row: its cells.
        encoding: has the features.
        semicolons: whether they separate cells, so that numbers may have decimal commas.

    Returns:
        The values.
    """
    kinds = {feature.name: feature for feature in encoding.features}
    out: dict[str, Any] = {}
    for name, value in row.items():
        feature = kinds.get(name)
        if feature is None or feature.levels is not None:
            out[name] = value
        elif feature.range is None:
            out[name] = WORDS.get(value.lower(), value)
        else:
            out[name] = number_of(value.replace(",", ".") if semicolons else value)
    return out


def show_values(found: dict[str, Any]) -> None:
    """Print what a report says of policies and segments."""
    of = lambda one: interval(one["value"], one["low"], one["high"])  # noqa: E731
    show_table(
        "\nwhat policies earn a unit (AIPW), 95 % intervals",
        ["policy", "rewards", "value", "this experiment less it"],
        [[v["policy"], v["rewards"], of(v), None if v["difference"] is None else of(v["difference"])] for v in found["values"]],
        words=("policy",),
    )
    if found["values"]:
        say(found["values_hold"])
    if found["segments"]:
        arms = [arm["arm"] for arm in found["segments"][0]["arms"]]
        show_table(
            "\nwhat arms earn a unit by segment (AIPW)",
            ["segment", "rewards", "earned", *arms],
            [[f"{s['feature']}: {s['segment']}", s["rewards"], s["earned"], *map(of, s["arms"])] for s in found["segments"]],
            words=("segment",),
        )
        say(
            f"Each of these {found['comparisons']} intervals has a level of {100 * found['segment_level']:.4g} %, "
            f"so that all together have {100 * found['level']:g} % (Bonferroni)."
        )


def refused(texts: list[str] | None, what: str) -> None:
    """Refuse two ways to say the same (`ConfigError`)."""
    if texts:
        raise ConfigError(f"Give --contexts with everything, or {what}, not both; got {shown(texts[0])} too.")
