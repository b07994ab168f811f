"""All decisions as a table: what was decided, with which probabilities, and what came of it."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, shown
from . import ledger, schema
from .metrics.definition import told_values, values_of

if TYPE_CHECKING:
    from .experiment import Experiment

WAITING = "pending"
AT_ONCE = 100_000  # rows that are read at a time


@dataclasses.dataclass(frozen=True)
class DecisionTable:
    """One entry a decision, in arrays: a million decisions of three arms take about 150 MB."""

    code: str
    """What their ids begin with."""
    arms: np.ndarray
    batches: np.ndarray
    policies: np.ndarray
    asked_at: np.ndarray
    exposed_at: np.ndarray
    """NaN where no exposure was told."""
    status: np.ndarray
    """pending, told, corrected, aggregate, default, missing or cancelled."""
    rewards: np.ndarray
    """NaN where there is none."""
    told_at: np.ndarray
    p: np.ndarray
    """[decisions, arms there have been]."""
    labels: list[str]
    active: list[bool]

    @property
    def t(self) -> np.ndarray:
        """Their numbers."""
        return np.arange(1, len(self.arms) + 1)

    @property
    def ids(self) -> list[str]:
        return [f"{self.code}-{t}" for t in range(1, len(self.arms) + 1)]


def table_of(experiment: Experiment) -> DecisionTable:
    """Every decision of an experiment."""
    with experiment.database.read() as c:
        T = experiment.database.find(c, experiment.name).t
        known = c.execute(sa.select(schema.arms).where(schema.arms.c.experiment == experiment.id).order_by(schema.arms.c.arm)).all()
        laws = ledger.fetch(c, sa.select(schema.vectors).where(schema.vectors.c.experiment == experiment.id))
        arm, batch, policy, law = (np.empty(T, np.int64) for _ in range(4))
        at, exposed, reward, told = (np.full(T, np.nan) for _ in range(4))
        status = np.full(T, WAITING, "<U9")
        place = {name: i for i, (_, name, _) in enumerate(laws)}
        table = schema.decisions
        columns = table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector, table.c.at
        for rows in _pieces(c, table, columns, table.c.t, experiment.id):
            t, arms, batches, versions, names, times = zip(*rows, strict=True)
            i = np.array(t) - 1
            arm[i], batch[i], policy[i] = np.array(arms), np.array(batches), np.array(versions)
            law[i], at[i] = np.array([place[name] for name in names]), np.array(times)
        table = schema.exposures
        for rows in _pieces(c, table, (table.c.t, table.c.at), table.c.t, experiment.id):
            t, exposed_ = zip(*rows, strict=True)
            exposed[np.array(t) - 1] = exposed_
        table = schema.rewards
        columns = table.c.t, table.c.kind, table.c.reward, table.c.at
        for rows in _pieces(c, table, columns, table.c.position, experiment.id):
            t, kinds, values, times = zip(*rows, strict=True)
            i = np.array(t) - 1  # where a decision comes twice, NumPy keeps the last
            status[i], reward[i], told[i] = np.array(kinds), np.array(values, float), np.array(times)
    K = len(known)
    vectors = np.zeros((max(len(laws), 1), K))
    for i, (_, _, text) in enumerate(laws):
        vector = json.loads(text)
        vectors[i, : len(vector)] = vector  # it has no entry for arms that came after it
    labels, active = [row.label for row in known], [row.retired is None for row in known]
    return DecisionTable(experiment.code, arm, batch, policy, at, exposed, status, reward, told, vectors[law], labels, active)


def _pieces(
    c: sa.Connection, table: sa.Table, columns: tuple[sa.Column, ...], order: sa.Column, experiment: int
) -> Iterator[list[tuple]]:
    """The rows of an experiment, some at a time: Python rows take ten times the memory of arrays."""
    query = sa.select(*columns, order.label("place")).where(table.c.experiment == experiment).order_by(order).limit(AT_ONCE)
    last = 0
    while rows := ledger.fetch(c, query.where(order > last)):
        last = rows[-1][-1]
        yield [row[:-1] for row in rows]


def columns_of(table: DecisionTable, metrics: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    """The columns that a file has; `metrics` has the values of each."""
    none = lambda x: [None if np.isnan(v) else float(v) for v in x]  # noqa: E731
    fixed = {
        "decision_id": table.ids,
        "t": table.t.tolist(),
        "arm": [table.labels[a] for a in table.arms],
        "batch": table.batches.tolist(),
        "policy": table.policies.tolist(),
        "asked_at": table.asked_at.tolist(),
        "status": table.status.tolist(),
        "reward": none(table.rewards),
        "told_at": none(table.told_at),
        "propensity": table.p[np.arange(len(table.arms)), table.arms].tolist(),
    }
    if not np.isnan(table.exposed_at).all():
        fixed["exposed_at"] = none(table.exposed_at)
    told = {f"metric: {name}": none(values) for name, values in metrics.items()}
    return fixed | told | {f"p: {label}": table.p[:, k].tolist() for k, label in enumerate(table.labels)}


def write(experiment: Experiment, path: str | os.PathLike[str]) -> int:
    """A .csv or .parquet file; how many decisions it has."""
    try:
        place = pathlib.Path(path)
    except TypeError:
        raise ConfigError(f"An export is a .csv or a .parquet file; got {path!r}.") from None
    kind = place.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ConfigError(f"An export is a .csv or a .parquet file; got {place.name!r}.")
    table = table_of(experiment)
    with experiment.database.read() as c:
        told = told_values(experiment, c, len(table.arms))
    counting = values_of(experiment, table, experiment.context.now())  # with what silence counts as
    columns = columns_of(table, {name: np.where(np.isnan(values), counting[name], values) for name, values in told.items()})
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
