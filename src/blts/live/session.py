"""What every function of an experiment works on: its database, its definition, and what was built from them before."""

from __future__ import annotations

import copy
import dataclasses
import getpass
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from ..compilation import keep_programs
from ..errors import ConfigError, shown
from ..models import Model
from . import asking, encoding, entries, ledger, marks, policy, priors
from .checks import check_text
from .combining import Combiner
from .database import Database, DbRow
from .parts import EXTERNAL, Arm, single_model
from .policy import Built
from .spec import Spec


class Policy(NamedTuple):
    """A version in use, ready to decide."""

    version: int
    active: tuple[int, ...]
    arms: tuple[Arm, ...]
    """All arms there have been."""
    built: Built
    frozen: policy.Frozen
    prior: dict[str, float]
    """Numbers of the model's prior that were learned; none where nothing was."""

    @property
    def labels(self) -> list[str]:
        """Those of the active arms."""
        return [self.arms[i].label for i in self.active]


@dataclasses.dataclass
class _Kept:
    """What was costly to read or build. Threads replace it at any time, so each attribute is read once for one use."""

    fold: ledger.Fold
    ticks: tuple[tuple[str, int, bool, tuple[int, ...]], policy.Clock] | None = None
    current: Policy | None = None
    built: tuple[Any, Built] | None = None
    like: tuple[Any, Any] | None = None
    model: Model | None = None
    single_model: Model | None = None


class Session:
    """One experiment in one database, with what is costly to build kept between calls."""

    def __init__(self, database: Database, name: str, spec: Spec, row: DbRow, clock: Callable[[], float], actor: str | None):
        self.database, self.name, self.spec = database, name, spec
        self.id, self.code, self.pepper = row.id, row.code, row.pepper
        self.actor = _who() if actor is None else _checked_actor(actor)
        keep_programs()
        self.key = policy.root_key(spec.seed or 0)
        self.external = spec.batching.name == EXTERNAL
        self.compiled: set[tuple[int, int]] = set()
        """Numbers of arms and sizes of chunks for which `policy.decide_many` is compiled."""
        self.compiled_laws: set[int] = set()
        """Numbers of arms for which `policy.freeze` is compiled."""
        self.stored_vectors: set[str] = set()
        """Propensity vectors that are known to be in the database."""
        self.asks: Combiner[Any, Any] = Combiner(lambda group: asking.ask_groups(self, group))
        """Where the requests of many threads come together."""
        self.expected: frozenset[str] | None = None
        """The marks of the experiment with one of which it may be changed; None for any."""
        self._clock = clock
        self._kept = _Kept(ledger.Fold(self.id, encoding=spec.encoding))

    def acting(self, actor: str) -> Session:
        """The same session for somebody else (`ConfigError` where that is no name): what is kept is kept for both."""
        other = copy.copy(self)
        other.actor = _checked_actor(actor)
        return other

    def expecting(self, expected: frozenset[str]) -> Session:
        """The same session for changes of an experiment with one of these marks alone."""
        other = copy.copy(self)
        other.expected = expected
        return other

    @property
    def fold(self) -> ledger.Fold:
        """The rewards that the last refresh learned from: the next one reads only what came since."""
        return self._kept.fold

    @fold.setter
    def fold(self, fold: ledger.Fold) -> None:
        self._kept.fold = fold

    def now(self) -> float:
        return time_of(self._clock)

    def row(self, c: sa.Connection, *, lock: bool = False) -> DbRow:
        """The experiment as it stands, and where asked nobody else's until the end of the transaction."""
        row = self.database.find(c, self.name, lock=lock)
        if lock and self.expected is not None:
            marks.check(self, c, row, self.expected)
        return row

    @property
    def model(self) -> Model:
        """The model, for what all its arms share: its support and its statistics."""
        self.database.check_process()
        found = self._kept.model
        if found is None:
            found = self._kept.model = self.spec.build(tuple(range(len(self.spec.arms))), self.spec.arms).model
        return found

    @property
    def cached(self) -> Policy | None:
        """The version that was asked for last."""
        return self._kept.current

    def policy(self, c: sa.Connection, version: int) -> Policy:
        current = self._kept.current
        if current is None or current.version != version:
            current = self._kept.current = self.load(c, version)
        return current

    def load(self, c: sa.Connection, version: int) -> Policy:
        """A version from what is stored of it."""
        entry = entries.policy_row(c, self.id, version)
        found = [arm for arm in entries.arms_of(c, self.id) if arm.added <= version]
        arms = tuple(Arm(a.label, json.loads(a.metadata), json.loads(a.options)) for a in found)
        active = tuple(json.loads(entry.arms))
        prior = json.loads(entry.about).get("prior", {})
        built = self.build(active, arms, prior)
        like = self._kept.like
        if like is None or like[0] != (active, arms):  # tracing takes longer than the rest of a small request
            like = self._kept.like = (active, arms), jax.eval_shape(built.agent.init, self.key)
        state = encoding.decode(entry.state, like[1])
        (law,) = encoding.decode(entry.law, [0])
        return Policy(version, active, arms, built, policy.Frozen(state, law, jnp.asarray(bool(entry.by_law))), prior)

    def prior(self, current: dict[str, float], arms: np.ndarray, rewards: np.ndarray) -> dict[str, float]:
        """The numbers of the prior for some rewards: where it is learned, those that fit them; elsewhere the present ones."""
        if self.spec.prior is None or not self.spec.prior.learned:
            return current
        return priors.fitted(self.single_model, arms, rewards)

    @property
    def single_model(self) -> Model:
        """The model as it was given."""
        found = self._kept.single_model
        if found is None:
            found = self._kept.single_model = single_model(self.spec.model)
        return found

    def build(self, active: tuple[int, ...], arms: tuple[Arm, ...], prior: dict[str, float]) -> Built:
        """The objects that decide, kept for the same arms and the same learned prior."""
        built = self._kept.built
        if built is None or built[0] != (active, arms, prior):
            built = self._kept.built = (active, arms, prior), self.spec.build(active, arms, prior)
        return built[1]

    def ticks(self, row: DbRow, current: Policy) -> policy.Clock:
        """The clock that the experiment's row holds."""
        ticks = self._kept.ticks
        if ticks is not None and ticks[0] == (row.clock, row.t, bool(row.due), current.active):
            return ticks[1]
        return encoding.clock_from(row.clock, row.t, bool(row.due), self.key, current.built.batching, len(current.active))

    def keep_ticks(self, text: str, t: int, due: bool, current: Policy, ticks: policy.Clock) -> None:
        """A clock that was just written as `text`, for whoever reads it next."""
        self._kept.ticks = (text, t, due, current.active), ticks


def time_of(clock: Callable[[], float]) -> float:
    """Seconds since 1970, as a clock has them (`ConfigError` where it gives something else)."""
    now = clock()
    if not isinstance(now, int | float) or not -1e15 < now < 1e15:
        raise ConfigError(f"The clock must give seconds since 1970; it gave {shown(now)}.")
    return float(now) + 0.0  # not every database keeps the sign of -0.0


def _checked_actor(actor: str) -> str:
    check_text("actor", actor)
    return actor


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
