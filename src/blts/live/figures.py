"""Figures of an experiment: allocation over batches, posterior densities, rewards with the fitted model."""

from __future__ import annotations

import json
import math
import os
import pathlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa
from scipy import stats

from .. import _random
from ..declared import provides
from ..errors import ConfigError
from . import encoding, schema
from .export import Table, table_of
from .report import posterior_draws

if TYPE_CHECKING:
    from .context import Policy
    from .experiment import Experiment

BINS = 40
PREDICTED = 4096


def draw(experiment: Experiment, folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Write allocation.svg, posterior.svg and rewards.svg, those that exist for this experiment."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError('Figures need matplotlib; install it with: pip install "blts[report]".') from None
    place = pathlib.Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {place} cannot be made ({error.strerror}).") from None
    with experiment.store.read() as c:
        row = experiment.store.find(c, experiment.name)
        current = experiment.context.policy(c, row.version)
        rows = allocations(experiment, c)
    table = table_of(experiment)
    written = []
    for name, paint in (
        ("allocation", lambda axes: _allocation(axes, rows, table)),
        ("posterior", lambda axes: _posterior(axes, current)),
        ("rewards", lambda axes: _rewards(axes, table, current)),
    ):
        figure = Figure(figsize=(7, 4), layout="constrained")
        if paint(figure.subplots()):
            path = place / f"{name}.svg"
            figure.savefig(path)
            written.append(path)
    return written


def allocations(experiment: Experiment, c: sa.Connection) -> list[tuple[int, list[int], list[float]]]:
    """(decisions made before it, its arms, their propensities) for every version that was used."""
    entries = schema.policies
    query = sa.select(entries.c.t, entries.c.arms, entries.c.law).where(
        entries.c.experiment == experiment.id, entries.c.in_use == sa.true()
    )
    out = []
    for t, arms, law in c.execute(query.order_by(entries.c.version)):
        (p,) = encoding.decode(law, [0])
        out.append((t, json.loads(arms), np.asarray(p, float).tolist()))
    return out


def _allocation(axes: Any, rows: list[tuple[int, list[int], list[float]]], table: Table) -> bool:
    """What share of each batch every arm had."""
    if not len(table.t):
        return False
    batches = np.unique(table.batches)
    shares = np.array([[np.mean(table.arms[table.batches == b] == k) for b in batches] for k in range(len(table.labels))])
    ends = np.array([table.t[table.batches == b][-1] for b in batches], float)
    axes.stackplot(np.append(0, ends), np.hstack([shares[:, :1], shares]), labels=table.labels, step="pre", alpha=0.8)
    for t, _, _ in rows[1:]:
        axes.axvline(t, color="white", lw=0.5)
    axes.set(xlabel="decisions", ylabel="share of the batch", title="Allocation over batches", xlim=(0, ends[-1]), ylim=(0, 1))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return True


def _posterior(axes: Any, current: Policy) -> bool:
    draws = posterior_draws(current)
    if draws is None:
        return False
    # Every arm's bulk is shown whole; a heavy tail, of which some draws are not even finite, does not set the axis.
    finite = [some for some in (arm[np.isfinite(arm)] for arm in draws.T) if some.size]
    if not finite:
        return False
    q = np.array([np.quantile(arm, [0.001, 0.25, 0.5, 0.75, 0.999]) for arm in finite]).T
    reach = 4 * (q[3] - q[1])
    low, high = np.max([q[0], q[2] - reach], 0).min(), np.min([q[4], q[2] + reach], 0).max()
    x = np.linspace(low, high, 400)
    for k, label in enumerate(current.labels):
        mine = np.clip(draws[:, k], 2 * low - high, 2 * high - low)  # what is far outside must not widen the kernel
        if np.ptp(mine) > 0:
            axes.plot(x, stats.gaussian_kde(mine)(x), label=label)
    axes.set(xlabel="mean reward", ylabel="density", title="Posterior of the mean rewards")
    axes.legend()
    return True


def _rewards(axes: Any, table: Table, current: Policy) -> bool:
    """Rewards of all arms, with rewards drawn from the posterior in the arms' own proportions."""
    has = ~np.isnan(table.rewards) & np.isin(table.arms, current.active)
    if not has.any():
        return False
    rewards = table.rewards[has]
    counts = current.built.model.support in ("binary", "count") and np.ptp(rewards) <= 10 * BINS
    bins = (
        np.arange(rewards.min() - 0.5, rewards.max() + 1.5)
        if counts
        else np.histogram_bin_edges(rewards, min(BINS, math.ceil(2 * math.sqrt(rewards.size))))
    )
    axes.hist(rewards, bins=bins, density=True, alpha=0.5, label="observed")
    predicted = predictive(current, np.array([current.active.index(a) for a in table.arms[has]]))
    if predicted is not None:
        inside = predicted[(predicted >= bins[0]) & (predicted <= bins[-1])]
        if inside.size:
            share = inside.size / predicted.size
            heights, edges = np.histogram(inside, bins, density=True)
            axes.stairs(heights * share, edges, label="fitted model", color="black")
    axes.set(xlabel="reward", ylabel="share" if counts else "density", title="Rewards and the fitted model")
    axes.legend()
    return True


def predictive(current: Policy, arms: np.ndarray) -> np.ndarray | None:
    """Rewards of the posterior, in the given arms' proportions; None where the model cannot be sampled."""
    agent = current.built.agent
    if not agent.holds_posterior or not provides(agent.model, "sample"):
        return None
    chosen = arms[np.linspace(0, len(arms) - 1, PREDICTED).astype(int)]
    return np.asarray(_predict(agent, current.frozen.state, jnp.asarray(chosen)), float)


@jax.jit
def _predict(agent: Any, state: Any, arms: jax.Array) -> jax.Array:
    def one(x):
        i, arm = x
        key_theta, key_reward = _random.split(_random.fold_in(_random.as_key(1), i))
        theta = agent.belief.draw(key_theta, agent.model, state)
        sample = lambda single, th, a, k: single.sample(k, th, (), a)  # noqa: E731
        everyone = jax.vmap(sample)(agent.model, theta, jnp.arange(agent.actions), _random.split(key_reward, agent.actions))
        return everyone[arm]

    return jax.lax.map(one, (jnp.arange(arms.shape[0]), arms), batch_size=256)
