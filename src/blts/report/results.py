"""All numbers of a report as data, and where they come from: results are the same on every machine, provenance is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .outcome import Outcome

NAMES = ("env", "agent", "batching", "prior")
PRECISE = 12
"""Digits of a number in results.json."""


def results(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row for each study, condition and metric, in the units of the results."""
    return [_row(outcome, m, metric) for outcome in outcomes for m in outcome.measured for metric in outcome.metrics()]


def _row(outcome: Outcome, measured: Any, metric: str) -> dict[str, Any]:
    condition, summary, printed = measured.condition, measured.summary(metric), outcome.printed(measured, metric)
    return {
        "study": outcome.study.name,
        "method": condition.get("agent"),
        "batching": condition.get("batching"),
        "prior": condition.get("prior"),
        "env": condition.get("env"),
        "metric": metric,
        **{field: _short(getattr(summary, field, None)) for field in ("mean", "sd", "se")},
        "n": len(measured.values(metric)),
        **{field: _short(getattr(summary, field, None)) for field in ("low", "high")},
        "options": {name: value for name, value in condition.items() if name not in NAMES},
        "paper": {"mean": printed.mean, "sd": printed.sd, "n": printed.n} if printed else None,
    }


def provenance(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Versions, commits, hosts, seeds and time spent, as the cells have them."""
    cells = {address: p for outcome in outcomes for m in outcome.measured for address, p in m.provenance.items()}
    found = list(cells.values())  # a cell that two studies share counts once
    skipped = {"cell", "seconds", "at", "host", "machine"}
    versions = sorted({name for p in found for name in p} - skipped)
    when = sorted(str(p["at"]) for p in found if "at" in p)
    return {
        "versions": {name: sorted({str(p[name]) for p in found if p.get(name)}) for name in versions},
        "hosts": sorted({f"{p['host']} ({p.get('machine', '')})" for p in found if "host" in p}),
        "studies": [
            {"study": o.study.name, "conditions": len(o.measured), "seed": o.study.seed, "replications": o.study.replications}
            for o in outcomes
        ],
        "cells": len(found),
        "seconds": round(sum(float(p.get("seconds", 0.0)) for p in found), 3),
        "from": when[0] if when else None,
        "to": when[-1] if when else None,
    }


def strict(content: Any) -> str:
    """JSON as the standard has it: no NaN, no infinity."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{PRECISE}g}")
