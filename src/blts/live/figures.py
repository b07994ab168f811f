"""Figures of an experiment: allocation over batches, posterior densities, rewards with the fitted model, metrics."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from scipy import stats

from ..drawing.labels import Point, end_labels, place, spread
from ..drawing.style import COLOURS, GREY, Look, grid, looks, settle, to_svg
from ..errors import ConfigError
from ..models.support import support_of_likelihood
from . import schema
from .conclusions.delayed import delayed
from .conclusions.misfit import expected_rewards
from .conclusions.posterior import posterior
from .damage import notices
from .export import DecisionTable, table_of
from .metrics.summary import current_values, summary, tolerated
from .report import compared, model_and_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .experiment import Experiment
    from .session import Policy

BINS = 40
ZEROS = 0.05
"""Share of zeros among amounts from which they are written, not drawn."""
OTHERS = "other arms"


@notices
def draw(experiment: Experiment, folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Write allocation.svg, posterior.svg, rewards.svg, delays.svg and metrics.svg, those that exist for this experiment.

    Args:
        experiment: what to show.
        folder: where the files go; it is made where it does not exist.

    Returns:
        The files written.

    Raises:
        ConfigError: matplotlib is not installed, or a file cannot be written.
    """
    try:
        import matplotlib as matplotlib
    except ImportError:
        raise ConfigError('Figures need matplotlib; install it with: pip install "blts[report]".') from None
    with experiment.database.read() as c:
        current = compared(experiment, c)
        changes = _changes(c, experiment.id)
    table = table_of(experiment)
    look = _looks(table)
    drawings: dict[str, Callable[[], Figure]] = {}
    if len(table.t):
        drawings["allocation"] = lambda: _allocation(table, changes, look)
    if not experiment.spec.features:  # with contexts an arm has no one mean reward
        drawings |= _of_arms(experiment, table, current, look)
    if experiment.spec.delay is not None:
        learned = delayed(table, experiment.spec, experiment.session.now())
        if learned["conversions"]:
            drawings["delays"] = lambda: _delays(learned)
    metrics = summary(experiment.spec, table, current_values(experiment, table))
    compared_metrics = [metric for metric in metrics if any(arm["difference"] for arm in metric["arms"])]
    if compared_metrics:
        drawings["metrics"] = lambda: _metrics(compared_metrics, look)
    return [_write(pathlib.Path(folder) / f"{name}.svg", make) for name, make in drawings.items()]


def _of_arms(
    experiment: Experiment, table: DecisionTable, current: Policy, look: dict[str, Look]
) -> dict[str, Callable[[], Figure]]:
    """The posterior of the arms' mean rewards, and the rewards with those that the model expects."""
    model, data = model_and_data(experiment, table, current)
    draws, found = posterior(model, data.arms, data.rewards).draws, {}
    if np.isfinite(draws).any():
        found["posterior"] = lambda: _posterior(draws, current.labels, look)
    if len(data.rewards):
        fitted, counts = expected_rewards(model, data.arms, data.rewards), support_of_likelihood(model) in ("binary", "count")
        found["rewards"] = lambda: _rewards(data.rewards, fitted, counts=counts)
    return found


def _write(path: pathlib.Path, make: Callable[[], Figure]) -> pathlib.Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_svg(make)[0])
    except (OSError, ValueError) as error:  # NUL in a path
        raise ConfigError(f"{path} cannot be written ({getattr(error, 'strerror', error)}).") from None
    return path


def _changes(c: sa.Connection, experiment: int) -> list[int]:
    """The numbers of decisions after which another policy version came into use."""
    entries = schema.policies
    used = entries.c.experiment == experiment, entries.c.in_use == sa.true(), entries.c.version > 1
    return list(c.execute(sa.select(entries.c.t).where(*used).order_by(entries.c.version)).scalars())


def _looks(table: DecisionTable) -> dict[str, Look]:
    """A look for every arm, the same in all figures: colours for the arms played most, grey for the others."""
    plays = np.bincount(table.arms, minlength=len(table.labels))
    most = sorted(np.argsort(-plays, kind="stable")[: len(COLOURS)])
    chosen = looks([table.labels[k] for k in most])
    return {label: chosen.get(label, Look(GREY, "-", "o")) for label in table.labels}


def _coloured(labels: Sequence[str], look: dict[str, Look]) -> list[str]:
    return [label for label in labels if look[label].colour != GREY]


def _allocation(table: DecisionTable, changes: list[int], look: dict[str, Look]) -> Figure:
    """What share of each batch every arm had."""
    batches = np.unique(table.batches)
    played = np.array([np.bincount(table.arms[table.batches == b], minlength=len(table.labels)) for b in batches]).T
    share = dict(zip(table.labels, played / played.sum(0), strict=True))
    bands = {label: share[label] for label in _coloured(table.labels, look)}
    if len(bands) < len(share):
        bands[OTHERS] = np.sum([share[label] for label in share if label not in bands], axis=0)
    ends = np.array([table.t[table.batches == b][-1] for b in batches], float)
    figure, [[axes]] = grid(1)
    heights = np.hstack([(y := np.array(list(bands.values())))[:, :1], y])
    colours = [look[label].colour if label in look else GREY for label in bands]
    axes.stackplot(np.append(0, ends), heights, step="pre", colors=colours, edgecolor="white", linewidth=0.7, alpha=0.85)
    for t in changes:
        axes.axvline(t, color="white", linewidth=0.7)
    axes.set(xlabel="decisions", ylabel="share of the batch", title="Allocation over batches", xlim=(0, ends[-1]), ylim=(0, 1))
    axes.grid(visible=False)
    last = heights[:, -1]
    marks = end_labels(axes, [(label, ends[-1], y) for label, y in zip(bands, np.cumsum(last) - last / 2, strict=True)], look)
    settle(figure)
    spread(axes, marks)
    return figure


def _posterior(draws: np.ndarray, labels: Sequence[str], look: dict[str, Look]) -> Figure:
    """The density of every active arm's mean reward, smoothed from draws, [draws, arms]."""
    low, high = _bulk(draws)
    x = np.linspace(low, high, 400)
    figure, [[axes]] = grid(1)
    peaks, lines = [], []
    coloured = _coloured(labels, look)
    for label, drawn in zip(labels, draws.T, strict=True):
        mine = np.clip(drawn, 2 * low - high, 2 * high - low)  # what is far outside must not widen the kernel
        if np.ptp(mine) > 0:
            y, one = stats.gaussian_kde(mine)(x), look[label]
            thick = 1.5 if label in coloured else 0.7
            axes.plot(x, y, color=one.colour, linestyle=one.dash, linewidth=thick, zorder=2 if label in coloured else 1)
            lines += list(zip(x[::4], y[::4], strict=True))
            if label in coloured:
                peaks.append(Point(float(x[y.argmax()]), float(y.max()), label, one.ink))
    axes.set(xlabel="mean reward", ylabel="density", title="Posterior of the mean rewards", xlim=(low, high))
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
    settle(figure)
    place(axes, peaks, lines)
    _note_grey(axes, len(labels) - len(coloured))
    return figure


def _note_grey(axes: Axes, count: int) -> None:
    if count:
        axes.annotate(
            f"grey: {count} {OTHERS}", (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=8, color=GREY
        )


def _bulk(draws: np.ndarray) -> tuple[float, float]:
    """An interval with the bulk of every arm. A heavy tail, of which some draws are not even finite, does not set it."""
    finite = [some for some in (arm[np.isfinite(arm)] for arm in draws.T) if some.size]
    q = np.array([np.quantile(arm, [0.001, 0.25, 0.5, 0.75, 0.999]) for arm in finite]).T
    reach = 4 * (q[3] - q[1])
    return float(np.max([q[0], q[2] - reach], 0).min()), float(np.min([q[4], q[2] + reach], 0).max())


def _rewards(rewards: np.ndarray, fitted: np.ndarray | None, *, counts: bool) -> Figure:
    """Rewards of all active arms in grey, because colours are arms, and those that the fitted model expects."""
    from matplotlib.ticker import MaxNLocator

    title, zero = "Rewards and the fitted model", np.mean(rewards == 0)
    counts = counts and np.ptp(rewards) <= 10 * BINS
    if not counts and ZEROS < zero < 1:  # amounts, most of them zero: a bar at zero would hide the others
        expected = "" if fitted is None else f" (model: {100 * np.mean(fitted == 0):.1f} %)"
        title = f"Rewards other than zero; {100 * zero:.1f} % are zero{expected}"
        rewards, fitted = rewards[rewards != 0], None if fitted is None else fitted[fitted != 0]
    bins = np.arange(rewards.min() - 0.5, rewards.max() + 1.5) if counts else _bins(rewards)
    figure, [[axes]] = grid(1)
    axes.hist(rewards, bins=list(bins), density=True, color=GREY, alpha=0.45, label="observed")
    if fitted is not None and fitted.size:
        inside = np.histogram(fitted, bins)[0]
        axes.stairs(inside / fitted.size / np.diff(bins), bins, label="fitted model", color="black", linewidth=1.3)
    axes.set(xlabel="reward", ylabel="share" if counts else "density", title=title)
    if counts:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.legend(loc="upper right")
    settle(figure)
    return figure


def _bins(rewards: np.ndarray) -> np.ndarray:
    """Edges of equal bins; of one, where rewards differ by less than numbers of their size can be told apart."""
    count = min(BINS, math.ceil(2 * math.sqrt(rewards.size)))
    if np.ptp(rewards) <= 1e3 * count * np.spacing(np.abs(rewards).max()):
        middle = float(rewards.mean())
        half = 0.5 * max(1.0, 1e-6 * abs(middle))
        return np.array([middle - half, middle + half])
    return np.histogram_bin_edges(rewards, count)


def _delays(learned: Mapping[str, Any]) -> Figure:
    """Which share of conversions has come by which age of their decisions."""
    figure, [[axes]] = grid(1)
    curve, window = learned["curve"], learned["window"]
    unit, name = (86400.0, "days") if window >= 2 * 86400 else (3600.0, "hours") if window >= 7200 else (1.0, "seconds")
    x, y = [0.0, *curve["seconds"], window], [0.0, *curve["share"], 1.0]
    axes.step(np.array(x) / unit, y, where="post", color=COLOURS[0], linewidth=1.5)
    if learned["oldest"] < window:
        axes.axvline(learned["oldest"] / unit, color=GREY, linewidth=1.3, linestyle="--", label="age of the oldest decision")
        axes.legend(loc="lower right")
    axes.set(xlabel=f"{name} since the decision", ylabel="share of conversions", title="Delays of conversions, as learned so far")
    axes.set(xlim=(0, window / unit), ylim=(0, 1.02))
    settle(figure)
    return figure


def _metrics(metrics: Sequence[Mapping[str, Any]], look: dict[str, Look]) -> Figure:
    """How far every arm is from the control on each metric, with intervals, and what is tolerated."""
    figure, panels = grid(len(metrics))
    for metric, [axes] in zip(metrics, panels, strict=True):
        rows = [arm for arm in metric["arms"] if arm["difference"]]
        for y, arm in enumerate(rows):
            gap, one = arm["difference"], look[arm["arm"]]
            axes.plot([gap["low"], gap["high"]], [y, y], color=one.colour, linewidth=2.5, solid_capstyle="butt")
            axes.plot(gap["value"], y, marker="o", color=one.colour, markersize=6)
        axes.axvline(0, color="black", linewidth=0.8)
        limit = tolerated(metric)
        if limit is not None:
            axes.axvline(limit, color=GREY, linewidth=1.3, linestyle="--")
            above = ("data", "axes fraction")
            axes.annotate("tolerated", (limit, 1), xycoords=above, ha="center", va="bottom", fontsize=8, color=GREY)
        axes.set_yticks(range(len(rows)), [arm["arm"] for arm in rows])
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=f"minus {metric['control']} ({metric['better']} is better)")
        axes.set_title(metric["metric"], pad=14)
        axes.grid(visible=False, axis="y")
    settle(figure)
    return figure
