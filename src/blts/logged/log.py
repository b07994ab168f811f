"""A log: rows of context, action, the probability that it had, and reward."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, did_you_mean, shown, whole
from .tables import columns, numbers

LARGEST = 1e60
"""Of rewards and contexts: fourth powers of rewards are summed after weighting."""
LEAST = 1e-15
"""Of propensities: (LARGEST / LEAST)⁴ can still be written."""
DIGITS = 19
"""A whole number with as many digits is no number of an action."""
MISSING = ("", "None", "nan", "NaN", "NaT", "<NA>")
"""How an action that is missing is written."""


@dataclasses.dataclass(frozen=True, eq=False)
class Log:
    """Decisions that were made, with what came of them. `read_log` makes one.

    Attributes:
        contexts: what was known before each decision, `[rows, features]`; without features, `[rows, 0]`.
        actions: what was played, whole numbers from 0.
        rewards: what it earned.
        propensities: the probability that the action had when it was played.
        labels: the names of the actions.
        features: the names of the context's columns.

    >>> from blts import logged
    >>> log = logged.read_log({"action": ["a", "b"] * 20, "reward": [0, 1] * 20}, propensity=0.5)
    >>> log, len(log), log.labels
    (Log(40 rows, actions a, b), 40, ('a', 'b'))
    """

    contexts: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    propensities: np.ndarray
    labels: tuple[str, ...]
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        for name in ("contexts", "rewards", "propensities"):
            try:
                object.__setattr__(self, name, _read_only(np.array(getattr(self, name), float)))
            except (TypeError, ValueError):
                raise ConfigError(f"The {name} of a log must be numbers; got {shown(getattr(self, name))}.") from None
            if not np.isfinite(getattr(self, name)).all():
                raise ConfigError(f"The {name} of a log must be finite; leave other rows out.")
        object.__setattr__(self, "actions", _read_only(np.array(self.actions)))
        n = self.rewards.shape[0] if self.rewards.ndim else 0
        shapes = {name: getattr(self, name).shape for name in ("actions", "rewards", "propensities")}
        if any(shape != (n,) for shape in shapes.values()) or self.contexts.ndim != 2 or len(self.contexts) != n:
            told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ConfigError(
                f"A log has one entry a row, and contexts [rows, features]; got {told}, contexts {self.contexts.shape}."
            )
        if not n:
            raise ConfigError("The log has no rows.")
        if np.abs(self.rewards).max() > LARGEST:
            raise ConfigError(f"A reward of {np.abs(self.rewards).max():.3g} is too large to be squared and summed; scale rewards.")
        if np.abs(self.contexts).max(initial=0.0) > LARGEST:
            raise ConfigError(
                f"A context of {np.abs(self.contexts).max():.3g} is too large to be squared and summed; scale contexts."
            )
        if self.actions.dtype.kind not in "iu" or not (0 <= self.actions.min() <= self.actions.max() < len(self.labels)):
            raise ConfigError(
                f"The actions of a log are whole numbers from 0 to {len(self.labels) - 1}, one for each of its labels."
            )
        wrong = np.flatnonzero(~((self.propensities > 0) & (self.propensities <= 1)))
        if len(wrong):
            p = self.propensities[wrong[0]]
            raise ConfigError(f"A propensity is a probability above 0 and at most 1; row {wrong[0] + 1} is {p:g}.")
        if self.propensities.min() < LEAST:
            raise ConfigError(f"A propensity of {self.propensities.min():.3g} is too small to divide by; leave such rows out.")

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        about = f"{len(self)} rows, actions {', '.join(self.labels)}"
        return f"Log({about}{', contexts ' + ', '.join(self.features) if self.features else ''})"

    def split(self, fraction: float = 0.5, seed: int = 0) -> tuple[Log, Log]:
        """Two logs of different rows, each in the order of this one: to learn from one, and evaluate on the other.

        Args:
            fraction: how much of the rows is in the first log; at least one row is in each.
            seed: of the choice.

        Returns:
            Both logs.

        Raises:
            ConfigError: the fraction is not between 0 and 1, or there is one row only.

        >>> from blts import logged
        >>> log = logged.read_log({"action": [0, 1] * 20, "reward": [0, 1] * 20}, propensity=0.5)
        >>> [len(part) for part in log.split(0.75)]
        [30, 10]
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
            raise ConfigError(f"split: fraction must be between 0 and 1; got {shown(fraction)}.")
        if len(self) < 2:
            raise ConfigError("split: a log of one row has no two parts.")
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        first = np.random.default_rng(whole("split: seed", seed, 0)).permutation(len(self)) < size
        return self._rows(first), self._rows(~first)

    def _rows(self, which: np.ndarray) -> Log:
        columns = ("contexts", "actions", "rewards", "propensities")
        return dataclasses.replace(self, **{name: getattr(self, name)[which] for name in columns})

    @property
    def plays(self) -> np.ndarray:
        """How often each action was played."""
        return np.bincount(self.actions, minlength=len(self.labels))


def read_log(
    source: str | os.PathLike[str] | Mapping[str, Any] | Any,
    *,
    reward: str = "reward",
    action: str = "action",
    propensity: str | float = "propensity",
    context: Sequence[str] = (),
    actions: Sequence[Any] | None = None,
) -> Log:
    """Read a log, and check it.

    Args:
        source: the path of a .csv or .parquet file, a dictionary of arrays, or a data frame.
        reward: the column of rewards.
        action: the column of actions: whole numbers from 0, or labels.
        propensity: the column of the probabilities that the actions had, or one number for all rows.
        context: the columns of the context, which have numbers.
        actions: the labels of all actions; None for those in the log, in their order (for whole numbers, from 0 to the largest).

    Returns:
        The log.

    Raises:
        ConfigError: what is wrong with it.

    >>> from blts import logged
    >>> columns = {"action": ["a", "b", "a"], "reward": [1, 0, 0], "propensity": [0.5, 0.5, 0.5], "age": [31, 54, 27]}
    >>> logged.read_log(columns, context=["age"])
    Log(3 rows, actions a, b, contexts age)
    """
    if isinstance(context, str):
        raise ConfigError(f"context is a list of columns; write context=[{context!r}].")
    twice = next((name for name in context if list(context).count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"The context names {twice!r} twice; name each column once.")
    one = not isinstance(propensity, str)
    leaks = next((name for name in context if name in (reward, action)), None)
    if leaks is not None:
        raise ConfigError(f"The context is what was known before the decision; leave {leaks!r} out of it.")
    if isinstance(propensity, bool):
        raise ConfigError(f"propensity is a column or a probability; got {propensity}.")
    if len({reward, action, *([] if one else [propensity])}) < 3 - one:
        raise ConfigError("A log has a column each for rewards, actions and propensities; two of them are the same one here.")
    found = columns(source, [reward, action, *context, *([] if one else [str(propensity)])])
    rewards = numbers(reward, found[reward])
    p = np.full(len(rewards), propensity, float) if one else numbers(str(propensity), found[str(propensity)])
    wrong = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(wrong):
        where = "it" if one else f"row {wrong[0] + 1}"
        raise ConfigError(f"A propensity is a probability above 0 and at most 1; {where} is {p[wrong[0]]:g}.")
    played, labels = _actions(action, found[action], actions)
    contexts = np.stack([numbers(name, found[name]) for name in context], 1) if context else np.zeros((len(rewards), 0))
    return Log(contexts, played, rewards, p, labels, tuple(context))


def _actions(name: str, column: np.ndarray, labels: Sequence[Any] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Actions as indices of their labels."""
    entries = column.tolist()
    strange = next((x for x in entries if isinstance(x, list | dict | bytes | np.ndarray)), None)
    if strange is not None:
        raise ConfigError(f"Column {name!r} must have whole numbers or labels; got {shown(strange)}.")
    texts = [_text(x) for x in entries]
    missing = [i for i, text in enumerate(texts) if text in MISSING]
    if missing:
        raise ConfigError(f"Column {name!r} has no action in row {missing[0] + 1}; leave such rows out.")
    if labels is None:
        if column.dtype.kind == "f" and (column != np.floor(column)).any():
            raise ConfigError(f"Column {name!r} must have whole numbers or labels; got {shown(float(column[column % 1 != 0][0]))}.")
        numbered = all(re.fullmatch(r"-?[0-9]+", text) for text in texts)
        negative = next((text for text in texts if text.startswith("-")), None)
        if numbered and negative is not None:
            raise ConfigError(f"Actions are numbered from 0; column {name!r} has {negative[:DIGITS]}.")
        longest = max(texts, key=len)  # compared before it is read: Python refuses to read thousands of digits
        largest = max(map(int, texts)) if numbered and len(longest) < DIGITS else 0
        if numbered and (len(longest) >= DIGITS or largest >= 10 * len(set(texts)) + 100):
            most = shown(longest) if len(longest) >= DIGITS else largest
            raise ConfigError(f"Column {name!r} has numbers up to {most}; give the labels of the actions with actions=[…].")
        known = [str(k) for k in range(largest + 1)] if numbered else sorted(set(texts))
    else:
        known = [_text(label) for label in labels]
        if len(set(known)) < len(known):
            raise ConfigError(f"Every action needs a label of its own; got {', '.join(known)}.")
    index = {label: i for i, label in enumerate(known)}
    strange = next((i for i, text in enumerate(texts) if text not in index), None)
    if strange is not None:
        hint = did_you_mean(texts[strange], known)
        raise ConfigError(f"Row {strange + 1} plays {texts[strange]!r}, which is not among the actions {', '.join(known)}.{hint}")
    return np.array([index[text] for text in texts]), tuple(known)


def _read_only(values: np.ndarray) -> np.ndarray:
    """An array that a policy or a model cannot change by accident."""
    values.flags.writeable = False
    return values


def _text(entry: Any) -> str:
    return str(int(entry)) if isinstance(entry, float) and entry.is_integer() else str(entry)
