"""The ledger replayed: every decision made again, every refresh computed again, and compared with what is stored.

First come checks that compute nothing: the types of values, the hash chain, and what follows from the audit log. Only a ledger that
passes them is replayed, which takes as long as the experiment's own decisions and refreshes did.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreError
from . import arms as changing
from . import encoding, ledger, policy, refreshing, releases, reports, schema
from .chain import Unreadable, check_chain, read
from .damage import Damaged
from .database import DbRow, record
from .deciding import decide
from .delays import weighed
from .metrics import objective
from .showing import observed
from .vectors import Vectors, digest

if TYPE_CHECKING:
    from .private import Privacy
    from .session import Policy, Session

MOST = 100  # differences that are named


class _Made(NamedTuple):
    """Stored decisions."""

    t: np.ndarray
    arms: np.ndarray
    batch: np.ndarray
    policy: np.ndarray
    vector: np.ndarray


def differences(session: Session, *, replayed: bool = True) -> list[str]:
    """Compare what is stored with the hash chain, the audit log and a replay.

    Args:
        session: the experiment.
        replayed: whether to compute decisions and refreshes again, which takes as long as they took.

    Returns:
        A sentence for each difference; nothing where all is well. What cannot even be read is a difference too.
    """
    with session.database.read() as c:
        driver = session.database.engine.dialect.loaded_dbapi.Error
        try:
            found = list(_stored(c, session.id)) or (_Replay(session, c).run() if replayed else [])
        except Unreadable as error:
            return [str(error)]
        except Damaged as error:
            return [error.what]
        except (StoreError, MemoryError):
            raise
        except (SQLAlchemyError, driver) as error:
            if "decode" not in str(error):
                raise
            return [f"a text is not UTF-8 ({str(error).splitlines()[0]})"]
        except Exception as error:  # values that blts does not write can fail anywhere
            return [f"what is stored cannot be replayed ({type(error).__name__}: {str(error)[:200]})"]
    return found[:MOST]


# Without computing


def _stored(c: sa.Connection, experiment: int) -> Iterator[str]:
    """Differences within what is stored, the deeper checks only where the ones before find nothing."""
    own = read(c, experiment, schema.experiments, schema.experiments.columns.keys())
    row = DbRow(**{name: values[0] for name, values in own.items()})
    log = read(c, experiment, schema.audit, ("position", "what", "detail", "chain"), "position")
    found = [*_counts(c, row, log), *_digests(c, experiment, log)] or check_chain(c, experiment, row)
    found = found or [*_folded(c, row, log), *_vectors(c, experiment), *_reports(c, row)]
    yield from found


def _counts(c: sa.Connection, row: DbRow, log: dict[str, list[Any]]) -> Iterator[str]:
    """No entry of the ledger is missing, and none is there twice."""
    policies = read(c, row.id, schema.policies, ("version", "position"), "version")
    rewards = read(c, row.id, schema.rewards, ("position", "t"))
    positions = sorted({*policies["position"], *log["position"], *rewards["position"]})
    if not _numbered(positions, row.position):
        yield f"the ledger has {len(positions)} entries up to position {row.position}"
    decisions = read(c, row.id, schema.decisions, ("t",), "t")["t"]
    if not _numbered(decisions, row.t):
        yield f"there are {len(decisions)} decisions, and {row.t} were made"
    if not _numbered(policies["version"], row.versions):
        yield "policy versions are missing"
    shown = read(c, row.id, schema.contexts, ("t",), "t")["t"]
    if not _numbered(shown, row.t if json.loads(row.spec).get("features") else 0):
        yield f"there are {len(shown)} contexts of {row.t} decisions"


def _numbered(numbers: list[int], count: int) -> bool:
    """Whether these are 1, 2, … count."""
    return len(numbers) == count and numbers == list(range(1, len(numbers) + 1))


def _digests(c: sa.Connection, experiment: int, log: dict[str, list[Any]]) -> Iterator[str]:
    """Every operation's reward entries are those that it wrote; for operations before there was a chain."""
    if all(log["chain"]):
        return
    columns = read(c, experiment, schema.rewards, ("position", "t", "kind", "reward"), "position")
    entries, before = list(zip(*columns.values(), strict=True)), 0
    for position, what, detail, linked in zip(*log.values(), strict=True):
        start, end = np.searchsorted(columns["position"], [before + 1, position])
        if not linked and json.loads(detail).get("digest", ledger.digest([])) != ledger.digest(entries[start:end]):
            yield f"the entries of the {what} at position {position} were changed"
        before = position


def _folded(c: sa.Connection, row: DbRow, log: dict[str, list[Any]]) -> Iterator[str]:
    """What the row of the experiment and those of its arms say of the audit log and the policies."""
    rewards = read(c, row.id, schema.rewards, ("t",))["t"]
    promoted = [json.loads(detail)["promote"] for what, detail in zip(log["what"], log["detail"], strict=True) if what == "stop"]
    stopped = promoted[0] or "" if promoted else None
    toggles = [what for what in log["what"] if what in ("pause", "resume")]
    again = {
        "settled": len(set(rewards)),
        "entries": len(rewards),
        "stopped": stopped,
        "paused": toggles[-1:] == ["pause"] or stopped == "",
    }
    for name, value in again.items():
        if getattr(row, name) != value:
            yield f"the experiment has {name} {getattr(row, name)!r}, and its audit log {value!r}"
    arms = read(c, row.id, schema.arms, ("arm", "label", "added", "retired"), "arm")
    policies = read(c, row.id, schema.policies, ("version", "arms"), "version")
    retired: dict[int, Any] = {}
    before: list[int] = []
    for version, text in zip(*policies.values(), strict=True):
        active = json.loads(text)
        retired |= dict.fromkeys(set(before) - set(active), version)
        before = active
    for arm, label, added, when in zip(*arms.values(), strict=True):
        if when != retired.get(arm):
            yield f"the arm {label!r}, added with version {added}, has retired {when!r}, and the policies {retired.get(arm)!r}"


def _vectors(c: sa.Connection, experiment: int) -> Iterator[str]:
    """Propensity vectors are named by their digests, and those of all decisions are there."""
    vectors = read(c, experiment, schema.vectors, ("vector", "probabilities"))
    if any(digest(text) != name for name, text in zip(*vectors.values(), strict=True)):
        yield "a propensity vector was changed"
    if set(read(c, experiment, schema.decisions, ("vector",))["vector"]) - set(vectors["vector"]):
        yield "a propensity vector is missing"


def _reports(c: sa.Connection, row: DbRow) -> Iterator[str]:
    """Stored reports carry their own digests."""
    stored = read(c, row.id, schema.reports, ("version", "report", "at", "digest"), "version")
    for version, text, at, own in zip(*stored.values(), strict=True):
        if reports.digest(row.code, version, text, at) != own or not 1 <= version <= row.versions:
            yield f"the stored report of version {version} was changed"


# The replay


class _Replay:
    def __init__(self, session: Session, c: sa.Connection):
        self.session, self.c = session, c
        self.found: list[str] = []
        self.row = session.row(c)
        self.fold = ledger.Fold(session.id, encoding=session.spec.encoding)
        self.totals, self.limits = releases.Totals(), cast("releases.Limits | None", None)
        """Of the last refresh, where refreshes are private."""
        names = ("t", "arm", "batch", "policy", "vector")
        self.made = _Made(*map(np.array, read(c, session.id, schema.decisions, names, "t").values()))
        self.shown = ledger.contexts_between(c, session.id, 0, self.row.t)

    def run(self) -> list[str]:
        """Everything again, from the first version on; what differs."""
        me, table = self.session, schema.policies
        stored = self.c.execute(sa.select(table).where(table.c.experiment == me.id).order_by(table.c.version))
        entries = [record(row) for row in stored]
        self.found += objective.differences(self.session, self.c)
        current = me.load(self.c, 1)
        state = policy.start(me.key, current.built.agent)
        current = current._replace(frozen=policy.freeze(current.built.agent, state, me.spec.draw, current.built.obs))
        self._compare(entries[0], current)
        ticks = policy.start_clock(me.key, current.built.batching, len(current.active))
        batch, began, closing, last = 1, 0, 0, 0
        for entry, following in zip(entries, [*entries[1:], None], strict=True):
            if entry.version > 1:
                if entry.kind == "refresh":
                    made = self._refreshed(current, entry)
                    ticks = ticks._replace(due=jnp.zeros((), bool))
                    batch, began, closing = batch + 1, closing or entry.t, 0
                else:
                    stored = me.load(self.c, entry.version)
                    built = me.build(stored.active, stored.arms, current.prior)
                    before = changing.Held(current.active, current.frozen.state, ticks)
                    frozen, ticks = changing.carried(me.key, before, stored.active, built, entry.version, me.spec.draw)
                    made = stored._replace(built=built, frozen=frozen, prior=current.prior)
                self._compare(entry, made)
                if entry.in_use:
                    current = made._replace(version=entry.version)
            end = self.row.t if following is None else following.t
            ticks, closes = self._decided(current, ticks, batch, last, end)
            closing = closing or closes
            last = end
        self._check_row(current, ticks, batch, began, closing)
        return self.found

    def _say(self, sentence: str) -> None:
        self.found.append(sentence)

    def _refreshed(self, current: Policy, entry: DbRow) -> Policy:
        about = json.loads(entry.about)
        if (said := self.session.spec.privacy) is not None:
            return self._released(said, current, entry, about)
        known = about.get("known", entry.t)  # decisions that were made while it was computed came later
        self.fold = self.fold.until(self.c, entry.watermark, known)
        explicit, since, weighed_at = self.session.spec.exposure == "explicit", about.get("since"), about.get("weighed_at")
        if weighed_at is not None:
            rows = weighed(self.fold, explicit, weighed_at, self.session.spec.window or 0.0, since)
        else:
            rows = self.fold.rows(explicit, about.get("cutoff"), since)
        if rows.digest() != entry.data:
            self._say(f"version {entry.version} learned from other rewards than the ledger has up to {entry.watermark}")
        return refreshing.learned(self.session, current, rows, known, about["repeat"])[0]

    def _released(self, said: Privacy, current: Policy, entry: DbRow, about: dict[str, Any]) -> Policy:
        """A refresh of a private experiment: the rows that no version before it covered, and the noise on their sums."""
        explicit, limits = self.session.spec.exposure == "explicit", releases.Limits.of(entry.watermark, about)
        before = np.zeros(0, bool) if self.limits is None else releases.covered(self.fold, explicit, self.limits.cutoff)
        self.fold, self.limits = self.fold.until(self.c, limits.watermark, limits.known), limits
        arms = releases.Arms(current.active, current.labels, current.built.agent)
        new = releases.new_rows(self.fold.rows(explicit, limits.cutoff), before)
        again = releases.step(self.session.pepper, said, arms, self.totals, new, limits, entry.version)
        self.totals = again.totals
        if again.digest != entry.data:
            self._say(f"version {entry.version} released other rewards than the ledger has up to {entry.watermark}")
        if again.about != about.get("privacy"):
            self._say(f"version {entry.version} released other sums than its replay")
        return refreshing.privately_learned(self.session, current, again.totals, limits.known, about["repeat"])[0]

    def _compare(self, entry: DbRow, made: Policy) -> None:
        for what, stored, again in (
            ("prior", json.loads(entry.about).get("prior", {}), made.prior),
            ("state", entry.state, encoding.encode(made.frozen.state)),
            ("propensities", entry.law, encoding.encode([made.frozen.law])),
        ):
            if stored != again:
                self._say(f"version {entry.version} has another {what} than its replay")
        if bool(entry.by_law) != bool(made.frozen.by_law):
            self._say(f"version {entry.version} draws its arms otherwise than its replay")

    def _decided(self, current: Policy, ticks: policy.Clock, batch: int, first: int, last: int) -> tuple[policy.Clock, int]:
        """Decisions first + 1 … last again: the clock after them, and the decision that closed the batch, or 0."""
        if last == first:
            return ticks, 0
        obs = observed(self.session.spec, current, self.shown[first:last])
        after, arms, laws, closing = decide(self.session, current, ticks, last - first, obs)
        made = _Made(*(column[first:last] for column in self.made))
        arms = np.array([current.active[a] for a in arms])
        if len(arms) < last - first:
            self._say(f"batch {batch} ended after {first + len(arms)} decisions, and {last} were made")
            return after, 0
        wrong = np.flatnonzero(arms != made.arms)
        if wrong.size:
            self._say(f"decision {first + 1 + wrong[0]} and {wrong.size - 1} more played another arm than their replay")
        if not ((made.batch == batch).all() and (made.policy == current.version).all()):
            self._say(f"decisions {first + 1} to {last} have another batch or policy than their replay")
        if not (np.array(Vectors(current, laws).of_decisions) == made.vector).all():
            self._say(f"decisions {first + 1} to {last} have other propensities than their replay")
        return after, 0 if closing is None else first + closing

    def _check_row(self, current: Policy, ticks: policy.Clock, batch: int, began: int, closing: int) -> None:
        last = closing or self.row.t
        settled = set(read(self.c, self.session.id, schema.rewards, ("t",))["t"])
        again = {
            "version": current.version,
            "batch": batch,
            "began": began,
            "due": bool(ticks.due),
            "closing": closing,
            "awaited": last - began - sum(began < t <= last for t in settled),
            "clock": encoding.clock_text(ticks),
        }
        for name, value in again.items():
            if getattr(self.row, name) != value:
                self._say(f"the experiment has {name} {getattr(self.row, name)!r}, and its replay {value!r}")
