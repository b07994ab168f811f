"""`Experiment`: ask for decisions, tell rewards, refresh. Every method that changes something is one transaction.

What an experiment knows is a fold over its ledger: decisions, rewards, policy versions. The row of the experiment and
its clock are that fold, kept so that nobody has to read the ledger for the next decision.
"""

from __future__ import annotations

import getpass
import hashlib
import importlib.metadata
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from ..agents import Pool, Thompson
from ..errors import ConfigError, UnknownName
from . import aggregate, ledger, policy, schema
from .spec import EXTERNAL, Arm, Built, Spec, check_metadata, check_text, outside
from .store import Record, Store, insert, record

MOST_AT_ONCE = 1_000_000  # decisions of one request
TRIES = 3  # refreshes computed outside the lock before one is computed inside it


class Decision(NamedTuple):
    id: str
    arm: str
    batch: int
    policy: int
    """The version of the policy that made it."""
    propensities: dict[str, float]
    """With which probability each arm would have been played."""


class Answer(NamedTuple):
    decisions: tuple[Decision, ...]
    feedback_due: bool
    """The batch is closed: no more decisions before its rewards are in and `refresh` was called."""
    awaited: int
    """Rewards that this batch waits for."""
    paused: bool = False
    why: str | None = None
    """Why there are fewer decisions than were asked for."""


class Told(NamedTuple):
    """How many rows had which fate; `ids` has those that were not accepted, with a reason where they are invalid."""

    accepted: int
    duplicate: int
    conflict: int
    unknown: int
    invalid: int
    ids: dict[str, list[Any]]
    awaited: int
    feedback_due: bool


class Refreshed(NamedTuple):
    refreshed: bool
    version: int
    """Of the policy that was written, or else of the one in use."""
    in_use: bool
    batch: int
    """The batch that runs now."""
    why: str | None
    """Why nothing was refreshed, or why the new version is kept out of use."""
    awaited: int
    diagnostics: dict[str, Any]


class Policy(NamedTuple):
    """A version in use, ready to decide."""

    version: int
    active: tuple[int, ...]
    arms: tuple[Arm, ...]
    """All arms there have been."""
    built: Built
    frozen: policy.Frozen


class Experiment:
    """A live experiment in a database.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "bernoulli", sampler="exact", batching="fixed", seed=3)
    >>> answer = mail.ask(20)
    >>> len(answer.decisions), answer.feedback_due, answer.awaited
    (10, True, 10)
    >>> mail.tell([(d.id, d.arm == "B") for d in answer.decisions]).accepted
    10
    >>> mail.refresh().version
    2
    """

    def __init__(self, store: Store, name: str, spec: Spec, row: Record, clock: Callable[[], float], actor: str | None):
        self.store, self.name, self.spec = store, name, spec
        self.id, self.code = row.id, row.code
        self.actor = _who() if actor is None else check_text("actor", actor)
        self._now = clock
        self._key = policy.root_key(spec.seed)
        self._cached: Policy | None = None
        self._built: tuple[Any, Built] | None = None
        self._like: tuple[Built, Any] | None = None
        self._compiled: set[tuple[int, int]] = set()

    def __repr__(self) -> str:
        return f"Experiment({self.store.url.render_as_string()!r}, {self.name!r})"

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back. What was answered is stored already."""
        self.store.close()

    # Beginning

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str] | None,
        name: str,
        arms: Any = None,
        model: Any = None,
        sampler: Any = "blts",
        batching: Any = "doubling",
        *,
        spec: Spec | None = None,
        clock: Callable[[], float] = time.time,
        actor: str | None = None,
        **settings: Any,
    ) -> Experiment:
        """A new experiment. The same call again is the same experiment; another one under its name is refused.

        Args:
            url: a database URL or a path of a SQLite file; None takes the variable BLTS_DB, or blts.db.
            arms: labels, or a mapping from labels to what is known of them.
            model: a registered model by name, a mapping with its name and options, or a model object.
            sampler: a registered agent (sgld, exact, ula and mala are short for Thompson sampling with them), or a belief.
            batching: a registered scheme, or "external".
            settings: seed, floor, control, control_share, burn_in, window, default_reward, cap, rhat, draw, horizon.
        """
        check_text("An experiment's name", name)
        if spec is None:
            if arms is None or model is None:
                raise ConfigError("An experiment needs arms and a model, or a specification that has them.")
            spec = Spec.of(arms, model, sampler, batching, **settings)
        elif arms is not None or model is not None or settings:
            raise ConfigError("Give a specification, or arms and a model, not both.")
        store = Store(url)
        text, now = spec.to_json(), _time(clock)
        key, active = policy.root_key(spec.seed), tuple(range(len(spec.arms)))
        built = spec.build(active, spec.arms)
        state = policy.start(key, built.agent)
        frozen = policy.freeze(built.agent, state, spec.draw)
        _arms_in_front(state, len(active))
        ticks = policy.start_clock(key, built.batching, len(active))
        with store.write() as c:
            if store.sqlite is False:
                c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")  # two creations of one name
            row = c.execute(sa.select(schema.experiments).where(schema.experiments.c.name == name)).first()
            if row is None:
                taken = set(c.execute(sa.select(schema.experiments.c.code)).scalars())
                number = c.execute(
                    sa.insert(schema.experiments).values(
                        name=name,
                        code=_code(name, taken),
                        spec=text,
                        created_at=now,
                        paused=False,
                        position=2,
                        t=0,
                        batch=1,
                        began=0,
                        due=False,
                        awaited=0,
                        version=1,
                        versions=1,
                        clock=_clock_text(ticks),
                    )
                ).inserted_primary_key[0]  # type: ignore[index]
                _insert_arms(c, number, spec.arms, 0, 1)
                me = _who() if actor is None else check_text("actor", actor)
                _insert_audit(c, number, 1, "create", {"spec": json.loads(text)}, me, now)
                nothing = ledger.Rows(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
                about = _about(spec, spec.arms, active, built, state, nothing, {"finite": True}, 0)
                _insert_policy(c, number, 1, "start", 1, 0, 2, 0, active, frozen, nothing, about, [], now)
                row = c.execute(sa.select(schema.experiments).where(schema.experiments.c.name == name)).one()
            elif row.spec != text:
                raise ConfigError(f"There is an experiment named {name!r} already, with another specification; take another name.")
        return cls(store, name, spec, record(row), clock, actor)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | None,
        name: str,
        *,
        clock: Callable[[], float] = time.time,
        actor: str | None = None,
        model: Any = None,
        sampler: Any = None,
        batching: Any = None,
    ) -> Experiment:
        """An experiment that exists. Parts made of functions, which no database holds, are given again."""
        store = Store(url, create=False)
        with store.read() as c:
            row = store.find(c, name)
        spec = Spec.from_json(row.spec, model=model, sampler=sampler, batching=batching)
        return cls(store, name, spec, row, clock, actor)

    # Decisions

    def ask(self, n: int = 1, request_id: str | None = None) -> Answer:
        """Up to n decisions, stored before they are returned. The same `request_id` returns the same decisions."""
        _whole("n", n, 1, MOST_AT_ONCE)
        if self.spec.batching.name == EXTERNAL:
            self._catch_up()
        self._compile(n)
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            known = self._known(c, request_id, f"ask {n}")
            if known is not None:
                return self._answer(c, row, range(known["first"], known["first"] + known["count"]), n)
            if row.paused or row.due:
                return self._answer(c, row, range(0), n)
            current = self._policy(c, row.version)
            ticks, arms, laws = self._decide(current, self._clock(row, current), n)
            count, now = len(arms), _time(self._now)
            position, first = row.position + 1, row.t + 1
            vectors = self._insert_vectors(c, current, laws)
            columns = {
                "experiment": self.id,
                "t": list(range(first, first + count)),
                "arm": [current.active[a] for a in arms],
                "batch": row.batch,
                "policy": current.version,
                "vector": vectors,
                "position": position,
                "at": now,
            }
            insert(c, schema.decisions, columns, count)
            self._insert_request(c, request_id, f"ask {n}", {"first": first, "count": count})
            self._audit(c, position, "ask", {"n": n, "first": first, "count": count, "request": request_id}, now)
            self._update(
                c,
                position=position,
                t=row.t + count,
                awaited=row.awaited + count,
                due=bool(ticks.due),
                clock=_clock_text(ticks),
            )
            row = self.store.find(c, self.name)
            return self._answer(c, row, range(first, first + count), n)

    def _decide(self, current: Policy, ticks: policy.Clock, n: int) -> tuple[policy.Clock, list[int], np.ndarray]:
        """Decisions until n or the end of the batch."""
        arms, laws, left = [], [], n
        while left > 0:
            size = policy.chunk_size(left)
            built = current.built
            ticks, decided = policy.decide(
                self._key,
                built.agent,
                built.batching,
                current.frozen,
                ticks,
                built.mixture,
                jnp.asarray(min(left, size)),
                size=size,
            )
            count = int(np.asarray(decided.live).sum())
            arms += np.asarray(decided.arms)[:count].tolist()
            laws.append(np.asarray(decided.propensities)[:count])
            left -= count
            if bool(ticks.due) or count == 0:
                break
        return ticks, arms, np.concatenate(laws)

    def _compile(self, n: int) -> None:
        """Compile what the next `ask` runs before others have to wait for it."""
        size = policy.chunk_size(n)
        if self._cached is not None and (len(self._cached.active), size) in self._compiled:
            return
        with self.store.read() as c:
            row = self.store.find(c, self.name)
            current = self._policy(c, row.version)
        if (len(current.active), size) not in self._compiled:
            built, ticks = current.built, self._clock(row, current)
            policy.decide(self._key, built.agent, built.batching, current.frozen, ticks, built.mixture, jnp.asarray(0), size=size)
            self._compiled.add((len(current.active), size))

    def _insert_vectors(self, c: sa.Connection, current: Policy, laws: np.ndarray) -> list[str]:
        """The names of the propensity vectors of some decisions; those not seen before are stored."""
        same = bool((laws == laws[:1]).all())
        distinct, which = (laws[:1], np.zeros(len(laws), int)) if same else np.unique(laws, axis=0, return_inverse=True)
        texts = [json.dumps(_whole_vector(law, current)) for law in distinct]
        names = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]
        table = schema.vectors
        known: set[str] = set()
        for start in range(0, len(names), 500):
            query = sa.select(table.c.vector).where(table.c.experiment == self.id, table.c.vector.in_(names[start : start + 500]))
            known |= set(c.execute(query).scalars())
        new = {name: text for name, text in zip(names, texts, strict=True) if name not in known}
        columns = {"experiment": self.id, "vector": list(new), "probabilities": list(new.values())}
        insert(c, table, columns, len(new))
        return [names[i] for i in which.reshape(-1)]

    def _answer(self, c: sa.Connection, row: Record, ts: range, asked: int) -> Answer:
        found = decisions_of(c, self.id, self.code, ts) if len(ts) else ()
        why = None
        if len(found) < asked:
            if row.due:
                why = f"batch {row.batch} is closed and " + (
                    f"awaits {_rewards(row.awaited)}" if row.awaited else "can be refreshed"
                )
            if row.paused:
                why = "the experiment is paused"
        return Answer(found, bool(row.due), row.awaited, bool(row.paused), why)

    # Rewards

    def tell(self, rewards: Iterable[Any], request_id: str | None = None) -> Told:
        """Record (decision id, reward) pairs. Nothing raises for a bad row: the answer says what became of each."""
        rows = [_parsed(row, self.code, self._model()) for row in rewards]
        what = (
            ""
            if request_id is None
            else "tell " + hashlib.sha256(repr([(row.id, row.reward, row.invalid) for row in rows]).encode()).hexdigest()[:24]
        )
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            known = self._known(c, request_id, what)
            if known is not None:
                return Told(**known)
            told, accepted = self._sorted(c, row, rows)
            now, position = _time(self._now), row.position
            awaited = row.awaited - sum(new and t > row.began for t, _, new in accepted)
            ts, values = [t for t, _, _ in accepted], [value for _, value, _ in accepted]
            digest = self._insert_rewards(c, position, ts, "told", values, now)
            answer = Told(
                len(accepted),
                *(len(told[name]) for name in ("duplicate", "conflict", "unknown", "invalid")),
                ids={name: ids for name, ids in told.items() if ids},
                awaited=awaited,
                feedback_due=bool(row.due),
            )
            position += len(accepted) + 1
            counts = {name: value for name, value in answer._asdict().items() if name not in ("ids", "feedback_due")}
            self._audit(c, position, "tell", counts | {"request": request_id, "digest": digest}, now)
            self._insert_request(c, request_id, what, answer._asdict())
            self._update(c, position=position, awaited=awaited)
        if self.spec.batching.name == EXTERNAL:
            self._catch_up()
        return answer

    def _sorted(
        self, c: sa.Connection, row: Record, rows: list[_Row]
    ) -> tuple[dict[str, list[Any]], list[tuple[int, float, bool]]]:
        """The fate of every row, and the accepted ones as (t, reward, whether it is the decision's first entry)."""
        fates: dict[str, list[Any]] = {"duplicate": [], "conflict": [], "unknown": [], "invalid": []}
        mine = {r.t for r in rows if r.t is not None and r.t <= row.t}
        stands = ledger.standings(c, self.id, list(mine)) if mine else {}
        accepted: list[tuple[int, float, bool]] = []
        for r in rows:
            if r.t is None or r.t not in mine:
                fates["invalid" if r.malformed else "unknown"].append([r.id, r.invalid] if r.malformed else r.id)
            elif r.invalid is not None:
                fates["invalid"].append([r.id, r.invalid])
            else:
                standing = stands.get(r.t)
                if standing is None or standing.kind in ("default", "missing"):
                    accepted.append((r.t, r.reward, standing is None))
                    stands[r.t] = ledger.Standing("told", r.reward)
                elif standing.kind in ("told", "corrected") and standing.reward == r.reward:
                    fates["duplicate"].append(r.id)
                else:
                    fates["conflict"].append(r.id)
        return fates, accepted

    def tell_aggregate(
        self,
        arm: str,
        count: int,
        *,
        request_id: str,
        total: float | None = None,
        total_of_squares: float | None = None,
        positive: int | None = None,
        total_of_logs: float | None = None,
        total_of_squared_logs: float | None = None,
    ) -> Told:
        """Totals of `count` rewards of an arm, which settle its oldest waiting decisions.

        There are no decision ids to make a retry harmless, so a request id is required.
        """
        if request_id is None:
            raise ConfigError("A total has no decision ids that make a retry harmless; give a request_id.")
        _whole("count", count, 1, MOST_AT_ONCE)
        totals = {
            "total": total,
            "total_of_squares": total_of_squares,
            "positive": positive,
            "total_of_logs": total_of_logs,
            "total_of_squared_logs": total_of_squared_logs,
        }
        values = aggregate.rows(self._model(), count, totals)
        what = "aggregate " + json.dumps([arm, count, totals])
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            known = self._known(c, request_id, what)
            if known is not None:
                return Told(**known)
            index = self._arm(c, arm)
            ts = ledger.waiting(c, self.id, arm=index, limit=count).t
            if len(ts) < count:
                raise ConfigError(f"The arm {arm!r} has {len(ts)} decisions that wait for a reward, and the total is for {count}.")
            awaited = row.awaited - sum(t > row.began for t in ts)
            now, position = _time(self._now), row.position
            digest = self._insert_rewards(c, position, ts, "aggregate", values, now)
            answer = Told(count, 0, 0, 0, 0, {}, awaited, bool(row.due))
            position += count + 1
            given = {name: value for name, value in totals.items() if value is not None}
            self._audit(
                c, position, "aggregate", {"arm": arm, "count": count, "request": request_id, "digest": digest} | given, now
            )
            self._insert_request(c, request_id, what, answer._asdict())
            self._update(c, position=position, awaited=awaited)
        if self.spec.batching.name == EXTERNAL:
            self._catch_up()
        return answer

    def correct(self, decision_id: str, reward: float, reason: str = "") -> bool:
        """Replace a reward by a new entry; the next refresh learns from it. False where it stood so already."""
        parsed = _parsed((decision_id, reward), self.code, self._model())
        if parsed.invalid is not None:
            raise ConfigError(f"{decision_id}: {parsed.invalid}.")
        return self._supersede([(decision_id, parsed.t)], "corrected", parsed.reward, reason) > 0

    def cancel(self, decision_ids: Sequence[str], reason: str = "") -> int:
        """Decisions whose unit was never exposed: they count for nothing. How many were not cancelled before."""
        if isinstance(decision_ids, str):
            decision_ids = [decision_ids]
        return self._supersede([(i, _index_of(i, self.code)) for i in decision_ids], "cancelled", None, reason)

    def _supersede(self, ids: Sequence[tuple[Any, int | None]], kind: str, reward: float | None, reason: str) -> int:
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            unknown = [i for i, t in ids if t is None or t > row.t]
            if unknown:
                raise ConfigError(f"There is no decision {unknown[0]!r} in the experiment {self.name!r}.")
            ts = sorted({t for _, t in ids if t is not None})
            stands = ledger.standings(c, self.id, ts) if ts else {}
            new = [t for t in ts if stands.get(t) is None or stands[t] not in ((kind, reward), ("told", reward))]
            if not new:
                return 0
            now, position = _time(self._now), row.position
            digest = self._insert_rewards(c, position, new, kind, [reward] * len(new), now)
            position += len(new) + 1
            names = [f"{self.code}-{t}" for t in new]
            detail = {"decisions": names, "before": [stands.get(t) for t in new], "reason": reason, "digest": digest}
            self._audit(c, position, {"corrected": "correct", "cancelled": "cancel"}[kind], detail | {"reward": reward}, now)
            self._update(c, position=position, awaited=row.awaited - sum(t > row.began and t not in stands for t in new))
            return len(new)

    # Learning

    def refresh(self, *, force: bool = False) -> Refreshed:
        """Close the batch and write a new policy version, if all its rewards are in, their window has passed, or forced.

        The costly part is computed on a snapshot, while others go on asking and telling; what they told meanwhile
        enters the next refresh.
        """
        for attempt in range(TRIES + 1):
            if attempt == TRIES:
                with self.store.write() as c:
                    plan = self._plan(c, self.store.find(c, self.name, lock=True), force)
                    return plan if isinstance(plan, Refreshed) else self._commit(c, plan)
            with self.store.read() as c:
                plan = self._plan(c, self.store.find(c, self.name), force)
            if isinstance(plan, Refreshed):
                return plan
            with self.store.write() as c:
                row = self.store.find(c, self.name, lock=True)
                # What a window settled is written right behind what was read, so then nothing may have come between.
                unchanged = (row.versions, row.t) == (plan.row.versions, plan.row.t)
                if unchanged and (row.position == plan.row.position or not plan.silent.t):
                    return self._commit(c, plan._replace(row=row))
        raise AssertionError  # the last attempt holds the lock

    def _plan(self, c: sa.Connection, row: Record, force: bool) -> _Plan | Refreshed:
        """What a refresh would write, or why there is none."""
        now = _time(self._now)
        silent = ledger.Waiting([], [])
        if self.spec.window is not None:
            silent = ledger.waiting(c, self.id, asked_before=now - self.spec.window)
        awaited = row.awaited - sum(t > row.began for t in silent.t)
        if not force:
            why = None
            if not row.due:
                why = f"batch {row.batch} is still open after {row.t - row.began} decisions"
            elif awaited:
                why = f"batch {row.batch} awaits {_rewards(awaited)}"
            if why:
                return Refreshed(False, row.version, True, row.batch, why, row.awaited, {})
        current = self._policy(c, row.version)
        rows = ledger.rows_until(c, self.id, row.position)
        if self.spec.default_reward is not None:
            rows = rows.plus(silent.t, silent.arms, self.spec.default_reward)
        made, info = self._learned(current, rows, row.t, _repeats(c, self.id, row.t))
        failings = policy.failings(made, info, policy.is_fixed(current.built.agent), self.spec.rhat)
        return _Plan(row, current, row.position + len(silent.t), silent, rows, made, info, failings, force, now)

    def _learned(self, current: Policy, rows: ledger.Rows, t: int, repeat: int) -> tuple[policy.Frozen, dict[str, Any]]:
        agent = current.built.agent
        state, info = policy.learn(self._key, agent, current.frozen.state, rows.data.of(current.active), t=t, repeat=repeat)
        return policy.freeze(agent, state, self.spec.draw), policy.diagnostics(info)

    def _commit(self, c: sa.Connection, plan: _Plan) -> Refreshed:
        row, current = plan.row, plan.current
        position = row.position
        kind = "missing" if self.spec.default_reward is None else "default"
        settled = [self.spec.default_reward] * len(plan.silent.t)
        digest = self._insert_rewards(c, position, plan.silent.t, kind, settled, plan.now)
        position += len(plan.silent.t) + 1
        version, in_use = row.versions + 1, not plan.failings
        repeat = _repeats(c, self.id, row.t)
        about = _about(
            self.spec, current.arms, current.active, current.built, plan.made.state, plan.rows, plan.info, repeat, plan.force
        )
        _insert_policy(
            c,
            self.id,
            version,
            "refresh",
            row.batch,
            row.t,
            position,
            plan.watermark,
            current.active,
            plan.made,
            plan.rows,
            about,
            plan.failings,
            plan.now,
        )
        detail = {"version": version, "in_use": in_use, "failings": plan.failings, "force": plan.force, kind: len(plan.silent.t)}
        self._audit(c, position, "refresh", detail | {"batch": row.batch, "digest": digest}, plan.now)
        ticks = self._clock(row, current)._replace(due=jnp.zeros((), bool))
        self._update(
            c,
            position=position,
            versions=version,
            version=version if in_use else row.version,
            batch=row.batch + 1,
            began=row.t,
            due=False,
            awaited=0,
            clock=_clock_text(ticks),
        )
        why = None if in_use else f"version {version} is kept out of use: {'; '.join(plan.failings)}"
        return Refreshed(True, version, in_use, row.batch + 1, why, 0, plan.info)

    def _catch_up(self) -> None:
        """Under external batching: refresh when rewards were told since the last refresh."""
        with self.store.read() as c:
            seen = c.execute(sa.select(sa.func.max(schema.policies.c.watermark)).where(schema.policies.c.experiment == self.id))
            last = c.execute(sa.select(sa.func.max(schema.rewards.c.position)).where(schema.rewards.c.experiment == self.id))
            stale = (last.scalar() or 0) > (seen.scalar() or 0)
        if stale:
            self.refresh(force=True)

    # Arms

    def add_arm(self, label: str, metadata: dict[str, Any] | None = None, **options: float) -> int:
        """A new arm from the next decision on; `options` are its own numbers of the model. The policy version it makes."""
        check_text("An arm's label", label)
        arm = Arm(label, check_metadata(metadata or {}), dict(options))
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            current = self._policy(c, row.version)
            if label in [a.label for a in current.arms]:
                raise ConfigError(f"There is an arm {label!r} already; take another label.")
            active = (*current.active, len(current.arms))
            if self.spec.floor * len(active) + self.spec.control_share >= 1:
                raise ConfigError(f"With {len(active)} arms the floors and the control share leave nothing to the agent.")
            version = self._rearm(c, row, current, (*current.arms, arm), active, "add arm", {"arm": label, "options": options})
            _insert_arms(c, self.id, [arm], len(current.arms), version)
            return version

    def retire_arm(self, label: str, reason: str = "") -> int:
        """No more decisions for an arm; what it earned stays. The policy version it makes."""
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            current = self._policy(c, row.version)
            labels = [current.arms[i].label for i in current.active]
            if label not in labels:
                raise UnknownName("active arm", label, labels)
            if len(labels) == 1:
                raise ConfigError(f"{label!r} is the last active arm; pause the experiment instead.")
            index = current.active[labels.index(label)]
            active = tuple(i for i in current.active if i != index)
            version = self._rearm(c, row, current, current.arms, active, "retire arm", {"arm": label, "reason": reason})
            table = schema.arms
            c.execute(sa.update(table).where(table.c.experiment == self.id, table.c.arm == index).values(retired=version))
            return version

    def _rearm(
        self,
        c: sa.Connection,
        row: Record,
        current: Policy,
        arms: tuple[Arm, ...],
        active: tuple[int, ...],
        what: str,
        detail: dict[str, Any],
    ) -> int:
        version, position, now = row.versions + 1, row.position + 1, _time(self._now)
        built = self.spec.build(active, arms)
        frozen, ticks = self._carried(current, self._clock(row, current), active, built, version)
        watermark = c.execute(
            sa.select(schema.policies.c.watermark).where(
                schema.policies.c.experiment == self.id, schema.policies.c.version == current.version
            )
        ).scalar_one()
        nothing = ledger.Rows(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
        about = _about(self.spec, arms, active, built, frozen.state, nothing, {"finite": True}, 0)
        _insert_policy(c, self.id, version, "arms", row.batch, row.t, position, watermark, active, frozen, nothing, about, [], now)
        self._audit(c, position, what, detail | {"version": version}, now)
        self._update(c, position=position, versions=version, version=version, clock=_clock_text(ticks))
        return version

    def _carried(
        self, current: Policy, ticks: policy.Clock, active: tuple[int, ...], built: Built, version: int
    ) -> tuple[policy.Frozen, policy.Clock]:
        """The state and the clock of other arms, with all that is known of those that stay."""
        fresh = policy.start_grown(self._key, built.agent, version)
        state = policy.carry(current.frozen.state, fresh, current.active, active)
        zero = policy.start_clock(self._key, built.batching, len(active))
        moved = policy.carry((ticks.plays, ticks.batching), (zero.plays, zero.batching), current.active, active)
        return policy.freeze(built.agent, state, self.spec.draw), policy.Clock(ticks.t, moved[0], moved[1], ticks.due)

    # Stopping and looking

    def pause(self, reason: str = "") -> None:
        """No decisions until `resume`; rewards are still accepted."""
        self._set_paused(True, reason)

    def resume(self, reason: str = "") -> None:
        self._set_paused(False, reason)

    def _set_paused(self, paused: bool, reason: str) -> None:
        with self.store.write() as c:
            row = self.store.find(c, self.name, lock=True)
            if bool(row.paused) == paused:
                return
            self._audit(c, row.position + 1, "pause" if paused else "resume", {"reason": reason}, _time(self._now))
            self._update(c, position=row.position + 1, paused=paused)

    def status(self) -> dict[str, Any]:
        """Where the experiment stands, as JSON could hold it."""
        with self.store.read() as c:
            row = self.store.find(c, self.name)
            current = self._policy(c, row.version)
            entry = _policy_row(c, self.id, row.version)
            last = entry if row.versions == row.version else _policy_row(c, self.id, row.versions)
            counts = c.execute(sa.select(sa.func.count()).select_from(schema.rewards).where(schema.rewards.c.experiment == self.id))
            entries = counts.scalar_one()
        law = np.asarray(current.frozen.law, float)
        return {
            "name": self.name,
            "paused": bool(row.paused),
            "arms": [a.label for a in current.arms],
            "active": [current.arms[i].label for i in current.active],
            "decisions": row.t,
            "entries": entries,
            "batch": row.batch,
            "batch_size": row.t - row.began,
            "feedback_due": bool(row.due),
            "awaited": row.awaited,
            "policy": row.version,
            "policies": row.versions,
            "allocation": None
            if not policy.is_fixed(current.built.agent)
            else dict(zip([current.arms[i].label for i in current.active], self._mixed(current, law), strict=True)),
            "last_refresh_failed": None if last.in_use else json.loads(last.failings),
            "model": self.spec.model.words,
            "sampler": self.spec.sampler.words,
            "batching": self.spec.batching.words,
            "seed": self.spec.seed,
            "created_at": row.created_at,
            "refreshed_at": entry.at,
        }

    def _mixed(self, current: Policy, law: np.ndarray) -> list[float]:
        """The propensities after burn-in."""
        added = np.asarray(current.built.mixture.added, float)
        return [float(x) for x in added + (1 - added.sum()) * law]

    def audit(self) -> list[dict[str, Any]]:
        """Everything that was done, in order."""
        table = schema.audit
        with self.store.read() as c:
            found = c.execute(sa.select(table).where(table.c.experiment == self.id).order_by(table.c.position)).all()
        return [
            {"position": r.position, "at": r.at, "actor": r.actor, "what": r.what, "detail": json.loads(r.detail)} for r in found
        ]

    def policy(self, version: int | None = None) -> dict[str, Any]:
        """A policy version as it was written; by default the one in use."""
        with self.store.read() as c:
            row = self.store.find(c, self.name)
            entry = _policy_row(c, self.id, row.version if version is None else version)
        return {
            "version": entry.version,
            "kind": entry.kind,
            "batch": entry.batch,
            "t": entry.t,
            "watermark": entry.watermark,
            "in_use": bool(entry.in_use),
            "failings": json.loads(entry.failings),
            "at": entry.at,
            "data": entry.data,
            **json.loads(entry.about),
        }

    def verify(self) -> list[str]:
        """Replay the ledger and compare, bit for bit; the differences, of which there should be none."""
        from .verify import differences

        return differences(self)

    def report(self) -> Any:
        """What is known: estimates, checks and a recommendation."""
        from .report import report_of

        return report_of(self)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Every decision with its propensities and reward, to a .csv or .parquet file; how many there are."""
        from .export import write

        return write(self, path)

    # Inside

    def _model(self) -> Any:
        """The model, for what all its arms share: its support and its statistics."""
        if not hasattr(self, "_any_model"):
            self._any_model = self.spec.build(tuple(range(len(self.spec.arms))), self.spec.arms).model
        return self._any_model

    def _policy(self, c: sa.Connection, version: int) -> Policy:
        if self._cached is not None and self._cached.version == version:
            return self._cached
        self._cached = self._load(c, version)
        return self._cached

    def _load(self, c: sa.Connection, version: int) -> Policy:
        """A version from what is stored of it."""
        entry = _policy_row(c, self.id, version)
        table = schema.arms
        found = c.execute(
            sa.select(table).where(table.c.experiment == self.id, table.c.added <= version).order_by(table.c.arm)
        ).all()
        arms = tuple(Arm(a.label, json.loads(a.metadata), json.loads(a.options)) for a in found)
        active = tuple(json.loads(entry.arms))
        built = self._build(active, arms)
        if self._like is None or self._like[0] is not built:  # tracing takes longer than the rest of a small request
            self._like = built, jax.eval_shape(built.agent.init, self._key)
        state = policy.decode(entry.state, self._like[1])
        (law,) = policy.decode(entry.law, [0])
        return Policy(version, active, arms, built, policy.Frozen(state, law, jnp.asarray(bool(entry.by_law))))

    def _build(self, active: tuple[int, ...], arms: tuple[Arm, ...]) -> Built:
        """The objects that decide, built once for each set of arms."""
        if self._built is None or self._built[0] != (active, len(arms)):
            self._built = (active, len(arms)), self.spec.build(active, arms)
        return self._built[1]

    def _clock(self, row: Record, current: Policy) -> policy.Clock:
        return clock_of(row, current, self._key)

    def _arm(self, c: sa.Connection, label: str) -> int:
        table = schema.arms
        labels = {a.label: a.arm for a in c.execute(sa.select(table).where(table.c.experiment == self.id))}
        if label not in labels:
            raise UnknownName("arm", label, labels)
        return labels[label]

    def _known(self, c: sa.Connection, request_id: str | None, what: str) -> dict[str, Any] | None:
        """The answer of a request that was answered before."""
        if request_id is None:
            return None
        check_text("request_id", request_id)
        table = schema.requests
        row = c.execute(sa.select(table).where(table.c.experiment == self.id, table.c.request == request_id)).first()
        if row is None:
            return None
        if row.what != what:
            raise ConfigError(f"The request {request_id!r} was for something else ({row.what.split()[0]}); take another id.")
        return json.loads(row.answer)

    def _insert_request(self, c: sa.Connection, request_id: str | None, what: str, answer: dict[str, Any]) -> None:
        if request_id is not None:
            columns = {"experiment": self.id, "request": request_id, "what": what, "answer": json.dumps(answer)}
            insert(c, schema.requests, columns, 1)

    def _insert_rewards(self, c: sa.Connection, position: int, ts: list[int], kind: str, values: list[Any], now: float) -> str:
        """Entries behind a position; a digest of them, for the audit log."""
        positions = list(range(position + 1, position + 1 + len(ts)))
        columns = {"experiment": self.id, "position": positions, "t": ts, "kind": kind, "reward": values, "at": now}
        insert(c, schema.rewards, columns, len(ts))
        return ledger.digest(zip(positions, ts, [kind] * len(ts), values, strict=True))

    def _audit(self, c: sa.Connection, position: int, what: str, detail: dict[str, Any], now: float) -> None:
        _insert_audit(c, self.id, position, what, detail, self.actor, now)

    def _update(self, c: sa.Connection, **values: Any) -> None:
        c.execute(sa.update(schema.experiments).where(schema.experiments.c.id == self.id).values(**values))


class _Plan(NamedTuple):
    row: Record
    current: Policy
    watermark: int
    """The ledger was read up to here, with what the window settles."""
    silent: ledger.Waiting
    """Decisions whose window has passed without a word."""
    rows: ledger.Rows
    made: policy.Frozen
    info: dict[str, Any]
    failings: list[str]
    force: bool
    now: float


class _Row(NamedTuple):
    """A told row, read."""

    id: Any
    t: int | None
    reward: float
    invalid: str | None
    malformed: bool = False


def _parsed(row: Any, code: str, model: Any) -> _Row:
    try:
        decision, reward = row
    except (TypeError, ValueError):
        return _Row(_shown(row), None, math.nan, "a row is a decision id and a reward", True)
    t = _index_of(decision, code)
    number, invalid = _number(reward)
    if invalid is None:
        invalid = outside(model, number)
    return _Row(decision if isinstance(decision, str) else _shown(decision), t, number, invalid)


def _number(reward: Any) -> tuple[float, str | None]:
    if isinstance(reward, str | bytes) or reward is None:
        return math.nan, "a reward must be a number"
    try:
        return float(reward), None
    except (TypeError, ValueError, OverflowError):
        return math.nan, "a reward must be a number"


def _shown(value: Any) -> str:
    return repr(value)[:100]


_ID = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,17})", re.ASCII)


def _index_of(decision: Any, code: str) -> int | None:
    """The number of a decision of this experiment, from its id."""
    match = _ID.fullmatch(decision) if isinstance(decision, str) else None
    return int(match[2]) if match is not None and match[1] == code else None


def decisions_of(c: sa.Connection, experiment: int, code: str, ts: range) -> tuple[Decision, ...]:
    """Decisions as they were answered."""
    table, vector = schema.decisions, schema.vectors
    query = (
        sa.select(table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector)
        .where(table.c.experiment == experiment, table.c.t.between(ts[0], ts[-1]))
        .order_by(table.c.t)
    )
    found = ledger.fetch(c, query)
    names = sorted({v for *_, v in found})
    labels = list(
        c.execute(
            sa.select(schema.arms.c.label).where(schema.arms.c.experiment == experiment).order_by(schema.arms.c.arm)
        ).scalars()
    )
    laws: dict[str, dict[str, float]] = {}
    for start in range(0, len(names), 500):
        query = sa.select(vector).where(vector.c.experiment == experiment, vector.c.vector.in_(names[start : start + 500]))
        for row in c.execute(query):
            laws[row.vector] = dict(zip(labels, json.loads(row.probabilities), strict=False))
    return tuple(Decision(f"{code}-{t}", labels[arm], batch, version, laws[v]) for t, arm, batch, version, v in found)


def clock_of(row: Record, current: Policy, key: Any) -> policy.Clock:
    """The clock that is stored in an experiment's row."""
    plays, state = json.loads(row.clock)
    like = policy.start_clock(key, current.built.batching, len(current.active))
    batching = policy.decode(json.dumps(state), like.batching)
    return policy.Clock(jnp.asarray(row.t), jnp.asarray(plays, int), batching, jnp.asarray(bool(row.due)))


def _clock_text(ticks: policy.Clock) -> str:
    return json.dumps([np.asarray(ticks.plays).tolist(), json.loads(policy.encode(ticks.batching))])


def _whole_vector(law: np.ndarray, current: Policy) -> list[float]:
    """Probabilities of all arms there have been, from those of the active ones."""
    out = [0.0] * len(current.arms)
    for i, p in zip(current.active, law, strict=True):
        out[i] = float(p)
    return out


def _insert_arms(c: sa.Connection, experiment: int, arms: Sequence[Arm], first: int, version: int) -> None:
    columns = {
        "experiment": experiment,
        "arm": list(range(first, first + len(arms))),
        "label": [arm.label for arm in arms],
        "metadata": [json.dumps(arm.metadata) for arm in arms],
        "options": [json.dumps(arm.options) for arm in arms],
        "added": version,
    }
    insert(c, schema.arms, columns, len(arms))


def _insert_audit(c: sa.Connection, experiment: int, position: int, what: str, detail: Any, actor: str, now: float) -> None:
    columns = {
        "experiment": experiment,
        "position": position,
        "what": what,
        "detail": json.dumps(detail),
        "actor": actor,
        "at": now,
    }
    insert(c, schema.audit, columns, 1)


def _insert_policy(
    c: sa.Connection,
    experiment: int,
    version: int,
    kind: str,
    batch: int,
    t: int,
    position: int,
    watermark: int,
    active: tuple[int, ...],
    frozen: policy.Frozen,
    rows: ledger.Rows,
    about: dict[str, Any],
    failings: list[str],
    now: float,
) -> None:
    columns = {
        "experiment": experiment,
        "version": version,
        "kind": kind,
        "batch": batch,
        "t": t,
        "position": position,
        "watermark": watermark,
        "in_use": not failings,
        "failings": json.dumps(failings),
        "arms": json.dumps(active),
        "state": policy.encode(frozen.state),
        "law": policy.encode([frozen.law]),
        "by_law": bool(frozen.by_law),
        "data": rows.digest(),
        "about": json.dumps(about),
        "at": now,
    }
    insert(c, schema.policies, columns, 1)


def _policy_row(c: sa.Connection, experiment: int, version: int) -> Record:
    table = schema.policies
    row = c.execute(sa.select(table).where(table.c.experiment == experiment, table.c.version == version)).first()
    if row is None:
        raise ConfigError(f"There is no policy version {version}.")
    return record(row)


def _repeats(c: sa.Connection, experiment: int, t: int) -> int:
    """How many refreshes there were since the last decision."""
    table = schema.policies
    query = sa.select(sa.func.count()).select_from(table)
    return c.execute(query.where(table.c.experiment == experiment, table.c.t == t, table.c.kind == "refresh")).scalar_one()


def _about(
    spec: Spec,
    arms: Sequence[Arm],
    active: tuple[int, ...],
    built: Built,
    state: Any,
    rows: ledger.Rows,
    info: dict[str, Any],
    repeat: int,
    force: bool = False,
) -> dict[str, Any]:
    """What a person may want to know of a policy version later."""
    counts = np.bincount(rows.arms, minlength=len(arms)) if len(rows.arms) else np.zeros(len(arms), int)
    labels = [arms[i].label for i in active]
    theta = None
    if isinstance(built.agent, Thompson) and hasattr(state, "theta"):
        theta = np.asarray(state.theta, float)
    elif isinstance(built.agent, Thompson) and isinstance(built.agent.belief, Pool):
        theta = np.asarray(state.thetas, float).mean(1)
    return {
        "n": {arms[i].label: int(counts[i]) for i in active},
        "theta": None if theta is None else {label: _finite(x) for label, x in zip(labels, theta, strict=True)},
        "sampler": str(built.agent),
        "model": spec.model.words,
        "seed": spec.seed,
        "repeat": repeat,
        "force": force,
        "diagnostics": info,
        "versions": {"blts": importlib.metadata.version("blts"), "jax": jax.__version__, "numpy": np.__version__},
        "precision": str(policy.empty_dtype()),
        "platform": jax.default_backend(),
    }


def _finite(x: np.ndarray) -> list[float | None]:
    return [float(v) if math.isfinite(v) else None for v in x]


def _arms_in_front(state: Any, arms: int) -> None:
    """Every array of a state has its arms in front; that is what lets arms come and go."""
    for leaf in jax.tree.leaves(state):
        if jnp.ndim(leaf) == 0 or jnp.shape(leaf)[0] != arms:
            raise ConfigError("This agent keeps numbers that are not one for each arm; use one of the registered agents.")


def _code(name: str, taken: set[str]) -> str:
    """Eight characters that decision ids of this experiment begin with."""
    for salt in range(1000):
        code = hashlib.sha256(f"{name}\n{salt}".encode()).hexdigest()[:8]
        if code not in taken:
            return code
    raise ConfigError("There are too many experiments in this database.")


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} must be a whole number from {least} to {most}; got {value!r}.")


def _rewards(count: int) -> str:
    return f"{count} reward{'' if count == 1 else 's'}"


def _time(clock: Callable[[], float]) -> float:
    return float(clock())


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
