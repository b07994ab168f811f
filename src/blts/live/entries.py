"""What a change writes, inside its transaction: rewards, policy versions, answers to requests, the audit log."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import sqlalchemy as sa

from .._typing import Tree
from ..agents import Agent
from ..agents.beliefs.perturb import PerturbState
from ..declared import provides
from ..errors import ConfigError
from . import database, encoding, ledger, schema
from .checks import check_text
from .database import DbRow, insert, record
from .learning import empty_dtype

if TYPE_CHECKING:
    from .context import Context
    from .parts import Arm
    from .policy import Frozen
    from .spec import Built


def answered(ctx: Context, c: sa.Connection, request_id: str | None, what: str) -> dict[str, Any] | None:
    """The answer of a request that was answered before."""
    if request_id is None:
        return None
    check_text("request_id", request_id)
    table = schema.requests
    row = c.execute(sa.select(table).where(table.c.experiment == ctx.id, table.c.request == request_id)).first()
    if row is None:
        return None
    if row.what != what:
        raise ConfigError(f"The request {request_id!r} was for something else ({row.what.split()[0]}); take another id.")
    return json.loads(row.answer)


def add_request(ctx: Context, c: sa.Connection, request_id: str | None, what: str, answer: dict[str, Any]) -> None:
    if request_id is not None:
        columns = {"experiment": ctx.id, "request": request_id, "what": what, "answer": json.dumps(answer)}
        insert(c, schema.requests, columns, 1)


def add_rewards(
    ctx: Context, c: sa.Connection, position: int, ts: list[int], kind: str, values: Sequence[float | None], now: float
) -> str:
    """Append reward entries behind a position; return a digest of them, for the audit log."""
    positions = list(range(position + 1, position + 1 + len(ts)))
    columns = {"experiment": ctx.id, "position": positions, "t": ts, "kind": kind, "reward": list(values), "at": now}
    insert(c, schema.rewards, columns, len(ts))
    return ledger.digest(zip(positions, ts, [kind] * len(ts), values, strict=True))


def add_audit(ctx: Context, c: sa.Connection, position: int, what: str, detail: dict[str, Any], now: float) -> None:
    columns = {
        "experiment": ctx.id,
        "position": position,
        "what": what,
        "detail": json.dumps(detail),
        "actor": ctx.actor,
        "at": now,
    }
    insert(c, schema.audit, columns, 1)


def add_arms(ctx: Context, c: sa.Connection, arms: Sequence[Arm], first: int, version: int) -> None:
    columns = {
        "experiment": ctx.id,
        "arm": list(range(first, first + len(arms))),
        "label": [arm.label for arm in arms],
        "metadata": [json.dumps(arm.metadata) for arm in arms],
        "options": [json.dumps(arm.options) for arm in arms],
        "added": version,
    }
    insert(c, schema.arms, columns, len(arms))


def labels(ctx: Context, c: sa.Connection) -> list[str]:
    """Those of all arms there have been."""
    table = schema.arms
    return list(c.execute(sa.select(table.c.label).where(table.c.experiment == ctx.id).order_by(table.c.arm)).scalars())


def update(ctx: Context, c: sa.Connection, **values: Any) -> None:
    """The experiment's row: the fold over the ledger, one step further."""
    database.update(c, schema.experiments, ctx.id, values)


def add_policy(
    ctx: Context,
    c: sa.Connection,
    *,
    version: int,
    kind: str,
    batch: int,
    t: int,
    position: int,
    watermark: int,
    active: tuple[int, ...],
    frozen: Frozen,
    about: dict[str, Any],
    now: float,
    rows: ledger.Rewards = ledger.NO_REWARDS,
    failings: Sequence[str] = (),
) -> None:
    columns = {
        "experiment": ctx.id,
        "version": version,
        "kind": kind,
        "batch": batch,
        "t": t,
        "position": position,
        "watermark": watermark,
        "in_use": not failings,
        "failings": json.dumps(failings),
        "arms": json.dumps(active),
        "state": encoding.encode(frozen.state),
        "law": encoding.encode([frozen.law]),
        "by_law": bool(frozen.by_law),
        "data": rows.digest(),
        "about": json.dumps(about),
        "at": now,
    }
    insert(c, schema.policies, columns, 1)


def policy_row(c: sa.Connection, experiment: int, version: int) -> DbRow:
    table = schema.policies
    row = c.execute(sa.select(table).where(table.c.experiment == experiment, table.c.version == version)).first()
    if row is None:
        raise ConfigError(f"There is no policy version {version}.")
    return record(row)


def about(
    ctx: Context,
    arms: Sequence[Arm],
    active: tuple[int, ...],
    built: Built,
    state: Tree,
    *,
    rows: ledger.Rewards = ledger.NO_REWARDS,
    diagnostics: dict[str, Any] | None = None,
    prior: dict[str, float] | None = None,
    repeat: int = 0,
    force: bool = False,
) -> dict[str, Any]:
    """What a person may want to know of a policy version later.

    Args:
        ctx: the experiment.
        arms: all arms there have been.
        active: places of the active ones among them.
        built: the agent and its parts.
        state: the agent's state in this version.
        rows: the rewards that it learned from.
        diagnostics: of the refresh; None where there was none.
        prior: numbers of the model's prior that were learned.
        repeat: refreshes there were since the last decision.
        force: whether the batch was closed before its rewards were in.

    Returns:
        A table that JSON can hold, for the column `about` of the policies.
    """
    counts = np.bincount(rows.arms, minlength=len(arms))
    labels = [arms[i].label for i in active]
    theta = _theta(built.agent, state)
    return {
        "n": {arms[i].label: int(counts[i]) for i in active},
        "theta": None if theta is None else {label: _finite(x) for label, x in zip(labels, theta, strict=True)},
        "sampler": str(built.agent),
        "model": ctx.spec.model.words,
        "prior": prior or {},
        "seed": ctx.spec.seed,
        "repeat": repeat,
        "force": force,
        "diagnostics": {"finite": True} if diagnostics is None else diagnostics,
        "versions": {"blts": importlib.metadata.version("blts"), "jax": jax.__version__, "numpy": np.__version__},
        "precision": str(empty_dtype()),
        "platform": jax.default_backend(),
    }


def _theta(agent: Agent, state: Tree) -> np.ndarray | None:
    """Each arm's parameters where the agent keeps any: the chain's end, or the mean of a pool's."""
    if not agent.holds_posterior:
        return None
    if provides(agent.belief, "members"):
        return np.asarray(agent.belief.members(state), float).mean(1)
    return np.asarray(state.theta, float) if isinstance(state, PerturbState) else None


def _finite(x: np.ndarray) -> list[float | None]:
    return [float(v) if math.isfinite(v) else None for v in x]
