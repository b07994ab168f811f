"""Regret and batches against T, on axes on which the claimed growth is a straight line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import band, grid, log_ticks, looks, settle
from ...statistics import band as band_of
from ..csvs import Row, column, groups
from ..growth import FASTER, LOGARITHM, NO_FASTER, Estimate, Growth, last_half
from ..outcome import Measured, Outcome
from ..words import capital, fixed, interval, listed
from .base import CsvRows, Kind, names, places, thinned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARRAYS = {"regret": "curve", "batches": "batches_by"}


def rows(outcome: Outcome) -> list[Row]:
    found: list[Row] = []
    for quantity, array in ARRAYS.items():
        for m, block, panel, label in places(outcome):
            grown = m.growth(array) if array in m.arrays else None
            if grown is None:
                continue
            claim, times = claim_of(outcome, m, quantity), np.asarray(m.about["times"], float)
            straight = _axes(claim)
            chosen = thinned(m.about["times"])
            bands = band_of(m.arrays[array][:, chosen])
            fitted = _fit(times[chosen], bands.mean, straight)
            for k, i in enumerate(chosen):
                found.append(
                    {
                        "quantity": quantity,
                        "axes": straight,
                        "claim": claim,
                        "block": block,
                        "panel": panel,
                        "line": label,
                        "measured": _short(grown, straight),
                        "time": int(times[i]),
                        "mean": float(bands.mean[k]),
                        "low": float(bands.low[k]),
                        "high": float(bands.high[k]),
                        "fit": fitted[k],
                    }
                )
    return found


def table(outcome: Outcome) -> list[dict[str, str]]:
    """Claimed and measured growth of every condition; where nothing is claimed, what is measured."""
    lines, panels = names(outcome)
    claimed = any(claim_of(outcome, m, quantity) for m in outcome.measured for quantity in ARRAYS)
    found = []
    for m in outcome.measured:
        row = {"method": outcome.label(m, [*lines, *panels], "all")}
        for quantity, array in ARRAYS.items():
            grown, claim = m.growth(array) if array in m.arrays else None, claim_of(outcome, m, quantity)
            if claimed:
                row[f"{quantity}, claimed"] = claim or "–"
            row[f"{quantity}, measured"] = _long(grown, claim) if grown else "not finite"
        found.append(row)
    return found


def claim_of(outcome: Outcome, measured: Measured, quantity: str) -> str:
    """How a quantity is claimed to grow: by the method that was run, or else by the study."""
    return (measured.about.get("claims") or outcome.study.claims).get(quantity, "")


def _axes(claim: str) -> str:
    """A logarithm is straight on log T; powers are on log–log, and what nobody claimed is drawn there too."""
    return "log T" if claim == LOGARITHM else "log–log"


def _fit(times: np.ndarray, mean: np.ndarray, straight: str) -> list[float | None]:
    """The least-squares line over the last half of log T."""
    late = times >= last_half(times)
    y = mean[late]
    if straight == "log–log" and (y <= 0).any():
        return [None] * len(times)
    y = np.log(y) if straight == "log–log" else y
    a, b = np.polyfit(np.log(times[late]), y, 1)
    line = a * np.log(times) + b
    line = np.exp(line) if straight == "log–log" else line
    return [float(v) if use else None for v, use in zip(line, late, strict=True)]


def _short(grown: Growth, straight: str) -> str:
    if straight == "log T":
        return f"+{grown.last.value:.3g} a doubling"
    return f"T^{grown.exponent.value:.2f}" if grown.exponent else "not a power"


def _long(grown: Growth, claim: str) -> str:
    exponent = f"T^{_words(grown.exponent, 2)}" if grown.exponent else "no exponent (not positive)"
    places = _places(grown.last, grown.before)
    steps = (
        f"last doubling {_words(grown.last, places)}; before {_words(grown.before, places)}; change {_words(grown.change, places)}"
    )
    return "; ".join(filter(None, (exponent, steps, grown.judged(claim))))


def _places(*estimates: Estimate) -> int:
    """Decimals that show three digits of the largest."""
    scale = max(1e-12, *(abs(estimate.value) for estimate in estimates))
    return int(np.clip(2 - np.floor(np.log10(scale)), 0, 4))


def _words(estimate: Estimate, places: int) -> str:
    return f"{fixed(estimate.value, places)} {interval(estimate.low, estimate.high, places)}"


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "quantity")
    panels = {
        (q, p, a): f
        for q, some in panels.items()
        for p, held in groups(some, "panel").items()
        for a, f in groups(held, "axes").items()
    }
    look = looks([row["line"] for row in rows])
    wide = min(3, max(2, len({panel for _, panel, _ in panels})))
    figure, axes = grid(len(panels), across=wide, panel=(5.3, 3.1) if wide == 2 else (4.0, 2.9))
    marks = []
    for ((quantity, panel, straight), found), (ax,) in zip(panels.items(), axes, strict=True):
        ends, words = [], {}
        for label, line in groups(found, "line").items():
            shown = [row for row in line if straight == "log T" or float(row["mean"]) > 0]
            if not shown:
                continue
            t, mean = column(shown, "time"), column(shown, "mean")
            low = column(shown, "low")
            low = low if straight == "log T" else [max(a, b / 10) for a, b in zip(low, mean, strict=True)]
            band(ax, t, low, column(shown, "high"), look[label])
            ax.plot(t, mean, color=look[label].colour, linestyle=look[label].dash, linewidth=1.5)
            fit = [row for row in shown if row["fit"]]
            ax.plot(column(fit, "time"), column(fit, "fit"), color="black", linestyle=":", linewidth=0.9)
            words[label] = f"{label}: {line[-1]['measured']}"
            ends.append((label, t[-1], mean[-1]))
        ax.set_xscale("log")
        if straight == "log–log":
            ax.set_yscale("log")
        log_ticks(ax, "xy" if straight == "log–log" else "x")
        ax.set_xlim(min(column(found, "time")), max(column(found, "time")))
        marks.append((ax, end_labels(ax, ends, look, words)))
        ax.set_title(" · ".join(filter(None, (quantity, panel, straight if len({a for _, _, a in panels}) > 1 else ""))))
        ax.set_xlabel("T, log scale")
        ax.set_ylabel(
            "mean "
            + ("cumulative regret" if quantity == "regret" else "batches closed")
            + (", log scale" if straight == "log–log" else "")
        )
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def caption(outcome: Outcome) -> str:
    return " ".join(
        (
            *(_on(quantity, straight, claims) for (quantity, straight), claims in _drawn(outcome).items()),
            "Means with simultaneous 95 % bands; dotted: a least-squares line over the last half of log T, its slope in the label.",
            *filter(None, (_against(outcome, quantity) for quantity in ARRAYS)),
        )
    )


def _drawn(outcome: Outcome) -> dict[tuple[str, str], list[str]]:
    """Quantities and the axes they are drawn on, with the claims that are drawn there."""
    found: dict[tuple[str, str], list[str]] = {}
    for quantity, array in ARRAYS.items():
        for m in outcome.measured:
            if array in m.arrays and m.growth(array) is not None:
                claim = claim_of(outcome, m, quantity)
                held = found.setdefault((quantity, _axes(claim)), [])
                held += [claim] if claim and claim not in held else []
    return found


def _on(quantity: str, straight: str, claims: list[str]) -> str:
    """What is a straight line on these axes."""
    if straight == "log T":
        return f"{capital(quantity)} against log T, where the claimed {LOGARITHM} is a straight line."
    exact = [claim for claim in claims if "log" not in claim]
    if exact:
        are = "is a straight line" if len(exact) == 1 else "are straight lines"
        return f"{capital(quantity)} on log–log axes, where the claimed {listed(exact)} {are}."
    nothing = "" if claims else "; no growth is claimed there"
    return f"{capital(quantity)} on log–log axes, where powers of T are straight lines{nothing}."


def _against(outcome: Outcome, quantity: str) -> str:
    """How many conditions grow no faster than claimed, and which do."""
    lines, panels = names(outcome)
    verdicts: dict[str, list[str]] = {}
    for m in outcome.measured:
        grown, claim = m.growth(ARRAYS[quantity]) if ARRAYS[quantity] in m.arrays else None, claim_of(outcome, m, quantity)
        verdict = grown.judged(claim) if grown else ""
        if grown and verdict:
            verdicts.setdefault(verdict, []).append(f"{outcome.label(m, [*lines, *panels], 'all')} ({why(grown, claim)})")
    total = sum(map(len, verdicts.values()))
    if not total:
        return ""
    faster = verdicts.get(FASTER, [])
    which = f"; faster: {'; '.join(faster)}" if faster else ""
    grow = "grow" if quantity == "batches" else "grows"
    return f"Over that half, {quantity} {grow} {NO_FASTER} in {total - len(faster)} of {total} conditions{which}."


def why(grown: Growth, claim: str) -> str:
    """The interval that a verdict is from."""
    if claim == LOGARITHM:
        return f"the last doubling added {_words(grown.change, _places(grown.change))} more than the one before"
    return f"T^{_words(grown.exponent, 2)}, claimed T^{grown.claimed(claim):.2f}" if grown.exponent else ""


def alt(outcome: Outcome) -> str:
    words = [f"{row['method']}: {'; '.join(f'{k} {v}' for k, v in row.items() if 'measured' in k)}" for row in table(outcome)]
    return f"Line charts of regret and batches against T. {' '.join(words)}"


GROWTH = Kind("growth", ("curve",), rows, draw, caption, alt)
