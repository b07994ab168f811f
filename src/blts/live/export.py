"""All decisions as a table: what was decided, with which probabilities, and what came of it."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import json
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..compilation import give_back_memory
from ..errors import ConfigError, shown
from . import ledger, schema
from .conclusions.blocks import Propensities
from .damage import notices
from .entries import arms_of
from .metrics.summary import told_values, values_of
from .vectors import digest

if TYPE_CHECKING:
    from .experiment import Experiment

WAITING = "pending"
MOMENTS = {"asked_at", "told_at", "exposed_at"}
STATUSES = (WAITING, "told", "corrected", "aggregate", "default", "missing", "cancelled")
"""What became of a decision: nothing yet, or the kind of its last entry."""
FEEDBACK = {"told", "corrected", "aggregate"}
"""Those that somebody told; the others are what silence counts as."""


@dataclasses.dataclass(frozen=True)
class DecisionTable:
    """One entry a decision, in arrays: a million decisions take about 50 MB."""

    code: str
    """What their ids begin with."""
    arms: np.ndarray
    batches: np.ndarray
    policies: np.ndarray
    asked_at: np.ndarray
    exposed_at: np.ndarray
    """NaN where no exposure was told."""
    kinds: np.ndarray
    """What became of it: an index of `STATUSES`."""
    rewards: np.ndarray
    """NaN where there is none."""
    told_at: np.ndarray
    propensities: Propensities
    """Of all arms there have been."""
    labels: list[str]
    active: list[bool]
    contexts: list[dict[str, Any]] | None = None
    """What each decision was shown; None in an experiment without features."""
    available: list[list[int] | None] | None = None
    """Numbers of the arms that each could be; None for all active ones."""
    delays: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.float32))
    """Seconds from the decision to its first reward, told or in a total; NaN where there was none. A rehearsal has no times."""

    @property
    def t(self) -> np.ndarray:
        """Their numbers."""
        return np.arange(1, len(self.arms) + 1)

    @property
    def p(self) -> np.ndarray:
        """Their propensities as an array, [decisions, arms there have been]."""
        return self.propensities[:]

    @property
    def status(self) -> np.ndarray:
        """What became of them, in words."""
        return np.array(STATUSES)[self.kinds]

    def are(self, *statuses: str) -> np.ndarray:
        """Which of them have one of some statuses."""
        return having(self.kinds, *statuses)

    @property
    def ids(self) -> list[str]:
        return [f"{self.code}-{t}" for t in range(1, len(self.arms) + 1)]


def having(kinds: np.ndarray, *statuses: str) -> np.ndarray:
    """Which of some indices of `STATUSES` are those of these statuses."""
    return np.isin(kinds, [STATUSES.index(status) for status in statuses])


@notices
def table_of(experiment: Experiment) -> DecisionTable:
    """Every decision of an experiment."""
    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
        T, decisions, entries = row.t, 0, 0
        known = arms_of(c, experiment.id)
        laws = ledger.fetch(c, sa.select(schema.vectors).where(schema.vectors.c.experiment == experiment.id))
        arm, batch, policy, law = (np.empty(T, np.int32) for _ in range(4))
        at, exposed, reward, told = (np.full(T, np.nan) for _ in range(4))
        kinds, code = np.zeros(T, np.int8), {name: i for i, name in enumerate(STATUSES)}
        delays = np.full(T, np.nan, np.float32)
        place = {name: i for i, (_, name, _) in enumerate(laws)}
        table = schema.decisions
        columns = table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector, table.c.at
        for rows in ledger.pieces(c, columns, (table.c.t,), table.c.experiment == experiment.id):
            t, arms, batches, versions, names, times = zip(*rows, strict=True)
            i = _whole(t) - 1
            arm[i], batch[i], policy[i] = _whole(arms), _whole(batches), _whole(versions)
            law[i], at[i] = np.array([place[name] for name in names]), np.array(times)
            decisions += len(rows)
        table = schema.exposures
        for rows in ledger.pieces(c, (table.c.t, table.c.at), (table.c.t,), table.c.experiment == experiment.id):
            t, exposed_ = zip(*rows, strict=True)
            exposed[np.array(t) - 1] = exposed_
        table = schema.rewards
        columns = table.c.t, table.c.kind, table.c.reward, table.c.at
        for rows in ledger.pieces(c, columns, (table.c.position,), table.c.experiment == experiment.id):
            t, names, values, times = zip(*rows, strict=True)
            i = np.array(t) - 1  # where a decision comes twice, NumPy keeps the last
            kinds[i], reward[i], told[i] = [code[name] for name in names], np.array(values, float), np.array(times)
            _keep_first(delays, i, np.array([name in FEEDBACK for name in names]), np.maximum(np.array(times) - at[i], 0))
            entries += len(rows)
        shown = ledger.contexts_between(c, experiment.id, 0, T) if experiment.spec.features else None
    K = len(known)
    ledger.check_count("decisions", decisions, T)
    ledger.check_count("decisions of an arm", int(((arm >= 0) & (arm < K)).sum()), T)
    ledger.check_count("rewards", entries, row.entries)
    ledger.check_count("decisions with a reward", int((kinds > 0).sum()), row.settled)
    ledger.check_count("rewards", int(np.isfinite(reward).sum()), int((~having(kinds, WAITING, "missing", "cancelled")).sum()))
    ledger.check_count("propensity vectors", sum(digest(text) == name for _, name, text in laws), len(laws))
    if shown is not None:
        ledger.check_count("contexts", len(shown), T)
    vectors = np.zeros((max(len(laws), 1), K))
    for i, (_, _, text) in enumerate(laws):
        vector = json.loads(text)
        vectors[i, : len(vector)] = vector  # it has no entry for arms that came after it
    labels, active = [row.label for row in known], [row.retired is None for row in known]
    contexts = None if shown is None else [json.loads(text) for text, _ in shown]
    available = None if shown is None else [None if mask is None else json.loads(mask) for _, mask in shown]
    give_back_memory()  # what rows took
    decided = experiment.code, arm, batch, policy, at, exposed, kinds, reward, told, Propensities(vectors, law), labels, active
    return DecisionTable(*decided, contexts, available, delays)


def _keep_first(delays: np.ndarray, which: np.ndarray, feedback: np.ndarray, new: np.ndarray) -> None:
    """Note the delays of first rewards. Entries come in their order, a decision perhaps several times."""
    which, new = which[feedback][::-1], new[feedback][::-1]  # where a decision comes twice, NumPy keeps the last
    first = np.isnan(delays[which])
    delays[which[first]] = new[first]


def _whole(values: Sequence[Any]) -> np.ndarray:
    """Whole numbers as an array (`LookupError` where some are none)."""
    found = np.array(values)
    if found.dtype.kind != "i":
        raise LookupError("a value is not a whole number")
    return found


def columns_of(table: DecisionTable, metrics: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    """The columns that a file has; `metrics` has the values of each."""
    none = lambda x: [None if np.isnan(v) else float(v) for v in x]  # noqa: E731
    p = table.p
    fixed = {
        "decision_id": table.ids,
        "t": table.t.tolist(),
        "arm": [table.labels[a] for a in table.arms],
        "batch": table.batches.tolist(),
        "policy": table.policies.tolist(),
        "asked_at": _dates(table.asked_at),
        "status": table.status.tolist(),
        "reward": none(table.rewards),
        "told_at": _dates(table.told_at),
        "propensity": p[np.arange(len(table.arms)), table.arms].tolist(),
    }
    if not np.isnan(table.exposed_at).all():
        fixed["exposed_at"] = _dates(table.exposed_at)
    told: dict[str, list[Any]] = {f"metric: {name}": none(values) for name, values in metrics.items()}
    if table.contexts is not None:
        told |= {
            f"context: {name}": [one[name] for one in table.contexts] for name in (table.contexts[0] if table.contexts else ())
        }
        told["available"] = [None if mask is None else "; ".join(table.labels[k] for k in mask) for mask in table.available or ()]
    return fixed | told | {f"p: {label}": p[:, k].tolist() for k, label in enumerate(table.labels)}


def _dates(seconds: np.ndarray) -> list[str | None]:
    """Seconds since 1970 as dates and times in ISO 8601, UTC; None where there are none."""
    return [None if np.isnan(at) else iso_date(at) for at in seconds.tolist()]


def iso_date(at: float) -> str:
    """A moment in ISO 8601, UTC; outside the years 1 to 9999, which it cannot say, the seconds since 1970."""
    try:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return f"{at:g} s"


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
    counting = values_of(experiment.spec, table, told, experiment.session.now())  # with what silence counts as
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
    text = {"decision_id", "arm", "status", *MOMENTS}
    whole = {"t", "batch", "policy"}
    types = {name: pa.string() if name in text else pa.int64() if name in whole else pa.float64() for name in columns}
    shown = {
        name: pa.bool_() if isinstance(values[0], bool) else pa.string() if isinstance(values[0], str) else pa.float64()
        for name, values in columns.items()
        if name.startswith("context: ")
    }
    types |= shown | ({"available": pa.string()} if shown else {})
    written: dict[str, Any] = dict(columns)
    for name in MOMENTS & set(columns):
        with contextlib.suppress(ValueError):  # a year that no date has stays text
            written[name] = [None if at is None else datetime.datetime.fromisoformat(at) for at in columns[name]]
            types[name] = pa.timestamp("us", tz="UTC")
    parquet.write_table(pa.table({name: pa.array(values, types[name]) for name, values in written.items()}), place)
