"""Whether rewards spread around a linear model's predictions as much as it says."""

from __future__ import annotations

import numpy as np
from scipy import special

from ...models import Linear, Model

FEWEST = 30  # rewards beyond the numbers of θ that they fit
LARGEST = 1.5  # ratio of the spread found to the stated one that does no harm
ALARM = 1e-3


def wrong_spread(model: Model, features: np.ndarray, arms: np.ndarray, rewards: np.ndarray) -> list[str]:
    """Compare the residuals of a linear model at its posterior mean with its sd.

    A wrong sd makes the policy too bold or too timid. A prior that keeps θ away from the rewards leaves large residuals too.

    Args:
        model: stacked; others than `Linear`, and those that standardise the features themselves, are not checked.
        features: what each reward depends on, `[rows, dim]`.
        arms: whose θ it depends on.
        rewards: as many.

    Returns:
        A sentence where the spread is far from the stated one and that is no chance; else nothing.
    """
    if not isinstance(model, Linear) or any(getattr(model, name, None) is not None for name in ("alpha", "centre", "scale")):
        return []
    mean, prior_sd, sd = (np.asarray(x, float) for x in (model.prior_mean, model.prior_sd, model.sd))
    total, free = 0.0, 0.0
    for a in range(len(sd)):
        x, r = features[arms == a].astype(float), rewards[arms == a]
        gram, prior = x.T @ x / sd[a] ** 2, np.eye(x.shape[1]) / prior_sd[a] ** 2
        theta = mean[a] + np.linalg.solve(prior + gram, x.T @ (r - x @ mean[a]) / sd[a] ** 2)
        total += float(np.square((r - x @ theta) / sd[a]).sum())
        free += len(r) - float(np.trace(np.linalg.solve(prior + gram, gram)))
    if free < FEWEST:
        return []
    ratio, z = np.sqrt(total / free), (total - free) / np.sqrt(2.0 * free)
    if 1 / LARGEST <= ratio <= LARGEST or 2 * special.ndtr(-abs(z)) > ALARM:
        return []
    said = f"sd={sd[0]:g}" if (sd == sd[0]).all() else "its sd"
    return [
        f"Rewards are {ratio:.2g} times as far from the model's predictions as {said} says; state another sd, or a wider prior_sd "
        "or another prior_mean if rewards are far from zero."
    ]
