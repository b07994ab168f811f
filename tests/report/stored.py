"""Stored studies to report on."""

from __future__ import annotations

import csv
import io

import numpy as np

from blts.report.figures import ALL, SPECIAL
from blts.studies import Cell, Result, Store, Study
from blts.studies.store import encode

TIMES = [1, 2, 4, 8, 16, 32, 64]
HOSTILE = "<script>alert('ü')</script> & \"q\" $x$ | *b* \\ `c`"


def played(cell: Cell, shift: float = 0.0) -> Result:
    """Results of a made-up bandit: regret like log T, other levels for other agents."""
    level = {"blts": 1.0, "exact-ts": 1.0, "ucb1": 1.6}.get(cell.condition["agent"], 1.3)
    draws = np.random.default_rng([cell.first, len(cell.condition["agent"])]).gamma(20.0, 1 / 20, size=(cell.replications, 1))
    curve = shift + 10 * level * draws * np.log2(2 * np.array(TIMES))
    due = {"static": np.log2(2 * np.array(TIMES)), "dynamic": 3 * np.log2(2 * np.array(TIMES))}[cell.condition["batching"]]
    batches = np.broadcast_to(due.astype(np.int32), curve.shape)
    arrays = {
        "curve": curve.astype(np.float32),
        "batches_by": batches,
        "regret": curve[:, -1],
        "batches": batches[:, -1],
        "reward": 5 - curve[:, -1] / 64,
        "switches": batches[:, -1] + 1,
        "finite": np.ones(cell.replications, bool),
    }
    about = {"times": TIMES, "actions": 5, "batches_bound": [5 * float(np.log2(t + 1)) for t in TIMES], "gain": 5.0}
    return Result(arrays, about, {})


def sampled(cell: Cell) -> Result:
    """Results of the tasks about samplers."""
    rng = np.random.default_rng(cell.first)
    if cell.task == "posterior":
        spread = 1 + 4 / cell.condition["n"] * cell.condition["minibatch"]
        return Result({"z": rng.normal(0, spread, cell.replications)}, {"bound": 1 / cell.condition["n"], "iterations": 9}, {})
    if cell.task == "rows":
        draws = rng.beta(0.5, 9, (2, cell.replications))
        return Result({"share": draws[0] * (1 + 1 / cell.condition["steps"]), "exact": draws[1]}, {}, {})
    if cell.task == "gradients":
        return Result({"gradients": cell.condition["condition_number"] + rng.integers(3, 9, cell.replications)}, {}, {})
    return Result({"least": rng.uniform(0.5, 1, cell.replications)}, {}, {})


STUDY = Study(
    "bandit",
    conditions=tuple(
        {"env": "gaussian", "agent": agent, "batching": batching, "prior": "flat", "horizon": 64, "times": 7, "drawn": False}
        for agent in ("blts", "exact-ts", "ucb1")
        for batching in ("static", "dynamic")
    ),
    replications=30,
    block=20,
    title="A bandit",
    text="What *this* asks of `a < b`.\n\nAnd a second paragraph.",
    chapter="Bandits",
    metrics=("batches", "reward"),
    figures=tuple(kind.name for kind in ALL if kind not in SPECIAL),
    labels={"blts": "Langevin TS"},
    printed=(
        {"agent": "blts", "batching": "static", "mean": 71.0, "sd": 16.0, "n": 10},
        {"agent": "ucb1", "metric": "regret", "mean": 71.0, "sd": 1.0, "n": 10},
        {"agent": "blts", "batching": "static", "metric": "batches", "mean": 7.0, "sd": 0.0, "n": 10},
    ),
)
SAMPLERS = (
    Study("law", task="posterior", conditions=tuple({"n": n, "minibatch": m} for m in (0, 8) for n in (10, 100)), replications=40),
    Study(
        "rows",
        task="rows",
        conditions=tuple({"sampler": "mld", "n": n, "alpha": 0.5, "steps": s} for n in (5, 50) for s in (1, 9)),
        replications=40,
    ),
    Study(
        "gradients",
        task="gradients",
        conditions=tuple({"kernel": kernel, "condition_number": k} for kernel in ("ula", "baoab") for k in (1, 100)),
        replications=40,
    ),
    Study("counts", task="counts", conditions=({"agent": "blts", "batching": "dynamic"},), replications=40),
)


def fill(folder, *studies: Study, host: str = "here", skip: int = 0, of=None) -> Store:
    """A store with the results of studies, computed by a machine of the given name."""
    store = Store.create(folder)
    for study in studies:
        store.save(study)
        for i, cell in enumerate(study.cells()):
            result = (of or (played if study.task == "simulate" else sampled))(cell)
            provenance = {
                "blts": "0",
                "code": "c0de",
                "commit": "abc",
                "host": host,
                "seconds": len(host) + i,
                "at": f"2026-01-0{1 + len(host) % 9}",
            }
            if i >= skip:
                store.put(cell, encode(result._replace(provenance=provenance)))
    return store


def rows_of(path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def renamed(**fields) -> Study:
    return Study.from_json({**STUDY.to_json(), **fields})
