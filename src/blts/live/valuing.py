"""What a policy would earn a unit, on the contexts that an experiment has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

from .._typing import Array, Tree
from ..agents import Agent
from ..declared import provides
from ..errors import ConfigError, UnknownName, shown
from .conclusions import values
from .conclusions.comparing import Seen
from .conclusions.counted import counted
from .conclusions.posterior import LEVEL
from .conclusions.words import number
from .export import DecisionTable, table_of
from .features import Observed
from .session import Session

if TYPE_CHECKING:
    from .experiment import Experiment

SIZE = 256  # decisions of a compiled chunk


def value(experiment: Experiment, policy: str | Callable[[dict[str, Any]], Any] | Experiment) -> dict[str, Any]:
    """What a policy would earn, by AIPW; see `Experiment.value`."""
    if not experiment.spec.features:
        raise ConfigError("Values of policies are for experiments that declare features; the report compares the arms of others.")
    with experiment.database.read() as c:
        current = experiment.session.policy(c, experiment.session.row(c).version)
    table = table_of(experiment)
    known = counted(table, experiment.spec, experiment.session.now())
    has = ~np.isnan(known.rewards)
    if not has.any():
        raise ConfigError("There are no rewards that count yet.")
    seen = Seen(table, known, experiment.spec, current.built.model)
    pi, p = _probabilities(experiment, policy, table)[has], seen.p[:]
    beyond = np.flatnonzero(((pi > 0) & (p <= 0)).any(1))
    if len(beyond):
        k = int(np.argmax((pi > 0) & (p <= 0), axis=1)[beyond[0]])
        where = f"in {len(beyond)} contexts where this experiment could not"
        raise ConfigError(f"The policy plays {table.labels[k]!r} {where}; nothing is known of that.")
    first = slice(1, None)  # before the first decision nothing is known
    found = values.of_policy(*(x[first] for x in (pi, seen.arms, seen.rewards, p, seen.predicted)))
    one = values.interval(found, LEVEL)[0]
    return {key: number(x) for key, x in one.items()} | {"level": LEVEL, "rewards": seen.n, "why": found.why[0] or None}


def _probabilities(experiment: Experiment, policy: Any, table: DecisionTable) -> np.ndarray:
    """With which probability the policy plays each arm in each context, `[decisions, arms]`."""
    if isinstance(policy, str):
        return np.array([_row(policy, table)] * len(table.arms))
    if callable(policy):
        return np.array([_row(policy(dict(context)), table) for context in table.contexts or []])
    session = getattr(policy, "session", None)
    if not isinstance(session, Session):
        raise ConfigError(f"A policy is an arm's label, a function of a context, or another experiment; got {shown(policy)}.")
    if session.code == experiment.code:
        raise ConfigError("This experiment's policy has learned from these very rewards; its report says what it earned.")
    return _of_experiment(policy, table)


def _row(given: Any, table: DecisionTable) -> np.ndarray:
    """The probabilities that a policy gives: of one arm, or a mapping from labels to probabilities."""
    chosen = {given: 1.0} if isinstance(given, str) else given
    if not isinstance(chosen, Mapping):
        raise ConfigError(f"A policy gives an arm's label, or probabilities by label; got {shown(given)}.")
    for label in chosen:
        if label not in table.labels:
            raise UnknownName("arm", label, table.labels)
    row = np.array([chosen.get(label, 0.0) for label in table.labels], float)
    if not ((row >= 0).all() and abs(row.sum() - 1) < 1e-6):
        raise ConfigError(f"The probabilities of a policy are at least 0 and have the sum 1; got {shown(given)}.")
    return row


def _of_experiment(other: Experiment, table: DecisionTable) -> np.ndarray:
    """The propensities of another experiment's policy in use, after burn-in."""
    encoding = other.spec.encoding
    with other.database.read() as c:
        current = other.session.policy(c, other.session.row(c).version)
    if encoding is None or not provides(current.built.agent, "propensities"):
        raise ConfigError(f"The experiment {other.name!r} has no propensities that depend on contexts.")
    names, labels = [feature.name for feature in encoding.features], current.labels
    for label in labels:
        if label not in table.labels:
            raise UnknownName("arm", label, table.labels)
    rows, masks = [], []
    for i, context in enumerate(table.contexts or []):
        own = {name: context[name] for name in names if name in context}
        rows.append(encoding.encoded(encoding.checked(own, f"The context of decision {i + 1}")))
        mask = (table.available or [])[i]
        masks.append([mask is None or table.labels.index(label) in mask for label in labels])
    obs, laws = Observed(np.array(rows), np.array(masks)), []
    for start in range(0, len(rows), SIZE):
        stop = min(start + SIZE, len(rows))
        laws.append(np.asarray(_laws(current.built.agent, current.frozen.state, obs.part(start, stop, SIZE)))[: stop - start])
    added = np.where(obs.available, np.asarray(current.built.mixture.added, float), 0.0)
    law = np.where(obs.available, np.concatenate(laws).astype(float), 0.0)
    law = added + (1 - added.sum(1, keepdims=True)) * law / law.sum(1, keepdims=True)
    out = np.zeros((len(rows), len(table.labels)))
    out[:, [table.labels.index(label) for label in labels]] = law
    return out


@jax.jit
def _laws(agent: Agent, state: Tree, obs: Tree) -> Array:
    return lax.map(lambda one: agent.propensities(state, one), obs)
