"""All decisions as a table: what was decided, with which probabilities, and what came of it."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, shown
from . import ledger, schema

if TYPE_CHECKING:
    from .experiment import Experiment

WAITING = "pending"


class DecisionTable(NamedTuple):
    """One entry a decision."""

    ids: list[str]
    t: np.ndarray
    arms: np.ndarray
    batches: np.ndarray
    policies: np.ndarray
    asked_at: np.ndarray
    status: list[str]
    """pending, told, corrected, aggregate, default, missing or cancelled."""
    rewards: np.ndarray
    """NaN where there is none."""
    told_at: np.ndarray
    p: np.ndarray
    """[decisions, arms there have been]."""
    labels: list[str]
    active: list[bool]


def table_of(experiment: Experiment) -> DecisionTable:
    """Every decision of an experiment."""
    decisions, vectors, rewards, arms = schema.decisions, schema.vectors, schema.rewards, schema.arms
    with experiment.database.read() as c:
        found = ledger.fetch(
            c,
            sa.select(decisions.c.t, decisions.c.arm, decisions.c.batch, decisions.c.policy, decisions.c.vector, decisions.c.at)
            .where(decisions.c.experiment == experiment.id)
            .order_by(decisions.c.t),
        )
        entries = ledger.fetch(
            c,
            sa.select(rewards.c.t, rewards.c.kind, rewards.c.reward, rewards.c.at)
            .where(rewards.c.experiment == experiment.id)
            .order_by(rewards.c.position),
        )
        known = c.execute(sa.select(arms).where(arms.c.experiment == experiment.id).order_by(arms.c.arm)).all()
        laws = {v: json.loads(p) for _, v, p in ledger.fetch(c, sa.select(vectors).where(vectors.c.experiment == experiment.id))}
    T, K = len(found), len(known)
    ts, arm, batch, policy, names, at = (np.array(list(x)) for x in zip(*found, strict=True)) if found else [np.zeros(0, int)] * 6
    status, reward, told = [WAITING] * T, np.full(T, np.nan), np.full(T, np.nan)
    for t, kind, value, when in entries:  # in the order of the ledger, so the last one stands
        status[t - 1] = kind
        reward[t - 1] = np.nan if value is None else value
        told[t - 1] = when
    padded = {name: np.array(law + [0.0] * (K - len(law))) for name, law in laws.items()}
    p = np.stack([padded[name] for name in names]) if T else np.zeros((0, K))
    ids = [f"{experiment.code}-{t}" for t in ts]
    labels, active = [row.label for row in known], [row.retired is None for row in known]
    return DecisionTable(ids, ts, arm.astype(int), batch, policy, at, status, reward, told, p, labels, active)


def columns_of(table: DecisionTable) -> dict[str, list[Any]]:
    """The columns that a file has."""
    none = lambda x: [None if np.isnan(v) else float(v) for v in x]  # noqa: E731
    fixed = {
        "decision_id": table.ids,
        "t": table.t.tolist(),
        "arm": [table.labels[a] for a in table.arms],
        "batch": table.batches.tolist(),
        "policy": table.policies.tolist(),
        "asked_at": [float(x) for x in table.asked_at],
        "status": table.status,
        "reward": none(table.rewards),
        "told_at": none(table.told_at),
        "propensity": [float(table.p[i, a]) for i, a in enumerate(table.arms)],
    }
    return fixed | {f"p: {label}": table.p[:, k].tolist() for k, label in enumerate(table.labels)}


def write(experiment: Experiment, path: str | os.PathLike[str]) -> int:
    """A .csv or .parquet file; how many decisions it has."""
    try:
        place = pathlib.Path(path)
    except TypeError:
        raise ConfigError(f"An export is a .csv or a .parquet file; got {path!r}.") from None
    kind = place.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ConfigError(f"An export is a .csv or a .parquet file; got {place.name!r}.")
    columns = columns_of(table_of(experiment))
    try:
        if kind == ".csv":
            with place.open("w", newline="", encoding="utf-8") as file:
                out = csv.writer(file)
                out.writerow(columns)
                out.writerows(zip(*columns.values(), strict=True))
        else:
            _parquet(columns, place)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{shown(str(place))} cannot be written ({error}).") from None
    return len(columns["t"])


def _parquet(columns: dict[str, list[Any]], place: pathlib.Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError('Parquet needs pyarrow; install it with: pip install "blts[parquet]", or export a .csv.') from None
    text = {"decision_id", "arm", "status"}
    whole = {"t", "batch", "policy"}
    types = {name: pa.string() if name in text else pa.int64() if name in whole else pa.float64() for name in columns}
    parquet.write_table(pa.table({name: pa.array(values, types[name]) for name, values in columns.items()}), place)
