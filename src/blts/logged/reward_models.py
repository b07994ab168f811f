"""Models of the reward given context and action, fitted to one part of a log and applied to the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ConfigError, shown, type_and_message, whole
from .log import Log

RewardModel = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Callable[[np.ndarray], np.ndarray]]
"""`fit(contexts, actions, rewards, K)` returns a function from contexts to predictions `[rows, K]`."""
SEED = 20230608


def ridge(
    contexts: np.ndarray, actions: np.ndarray, rewards: np.ndarray, K: int, penalty: float = 1.0
) -> Callable[[np.ndarray], np.ndarray]:
    """A linear regression for each action, with a penalty on the slopes of standardised contexts.

    Args:
        contexts: `[rows, features]`.
        actions: from 0 to K - 1.
        rewards: of these rows.
        K: the number of actions; one without rows is predicted to earn the mean of all.
        penalty: added to the squares of the slopes, in units of one row.

    Returns:
        A function from contexts to predictions `[rows, K]`.

    >>> import numpy as np
    >>> from blts.logged import ridge
    >>> predict = ridge(np.zeros((4, 0)), np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 5.0, 5.0]), 2)
    >>> predict(np.zeros((1, 0))).tolist()
    [[2.0, 5.0]]
    """
    centre, scale = contexts.mean(0), contexts.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    d, z = contexts.shape[1], (contexts - centre) / scale
    weights = np.zeros((K, d))
    intercepts = np.full(K, rewards.mean() if len(rewards) else 0.0)
    for a in range(K):
        x, y = z[actions == a], rewards[actions == a]
        if not len(y):
            continue
        middle = x.mean(0)
        weights[a] = np.linalg.solve((x - middle).T @ (x - middle) + penalty * np.eye(d), (x - middle).T @ (y - y.mean()))
        intercepts[a] = y.mean() - middle @ weights[a]
    return lambda new: intercepts + (new - centre) / scale @ weights.T


def cross_fitted(log: Log, model: RewardModel, folds: int) -> np.ndarray:
    """Predictions for every row and action, from a model that did not see the row.

    Args:
        log: the rows.
        model: fitted once for each fold.
        folds: parts of the log, at random and always the same.

    Returns:
        `[rows, actions]`.

    Raises:
        ConfigError: the model failed or predicted something else.
    """
    n, K = len(log), len(log.labels)
    folds = min(whole("folds", folds, 2), n)
    if folds < 2:
        raise ConfigError("A log needs at least two rows to be evaluated.")
    fold = np.random.default_rng(SEED).permutation(n) % folds
    q = np.empty((n, K))
    for k in range(folds):
        here, there = fold == k, fold != k
        q[here] = _predicted(model, (log.contexts[there], log.actions[there], log.rewards[there], K), log.contexts[here])
    return q


def _predicted(model: RewardModel, data: tuple[Any, ...], contexts: np.ndarray) -> np.ndarray:
    try:
        found = np.asarray(model(*data)(contexts), float)
    except Exception as error:
        raise ConfigError(f"The model of rewards failed ({type_and_message(error)}).") from error
    if found.shape != (len(contexts), data[-1]) or not np.isfinite(found).all():
        what = shown(found.shape) if found.shape != (len(contexts), data[-1]) else "numbers that are not finite"
        raise ConfigError(f"The model of rewards must predict finite numbers of shape {(len(contexts), data[-1])}; got {what}.")
    return found
