"""The result of a simulation: NumPy arrays, their summaries, and their printed form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from . import diagnosis, statistics
from .errors import FRAMES, ConfigError, counted, needs
from .record import Concluded, Diagnostics, Record

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

    from .drawing.picture import Picture

POINTS = 200  # of a curve in a picture


class RegretBand(NamedTuple):
    """A mean over replications with its confidence band, at each recorded time."""

    times: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __repr__(self) -> str:
        first, last = int(self.times[0]), int(self.times[-1])
        return (
            f"Mean regret and its band at {len(self.times)} rounds from {first} to {last}; "
            f"at round {last} {self.mean[-1]:.2f}, band from {self.low[-1]:.2f} to {self.high[-1]:.2f}."
        )


class Messages(NamedTuple):
    """What several agents sent one another by way of a server, of every replication (`batching.Exchanges`)."""

    up: np.ndarray
    """Messages to the server."""
    down: np.ndarray
    """Messages from the server."""
    numbers: np.ndarray
    """Numbers in all of them."""
    content: str
    """What the messages hold, in a sentence."""

    @property
    def total(self) -> np.ndarray:
        """Messages in both directions."""
        return self.up + self.down


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """The result of `simulate`. The first axis of every array is the replications.

    Two traces are equal if all of their numbers and descriptions are; NaN equals NaN.

    >>> from blts import UCB1, Bandit, Fixed, Gaussian, simulate
    >>> bandit = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
    >>> trace = simulate(0, bandit, UCB1(3), Fixed(10), horizon=40, replications=4)
    >>> trace.regret.shape, trace.plays.sum(1).tolist(), trace.batches.tolist()
    ((4, 40), [40, 40, 40, 40], [4, 4, 4, 4])
    >>> trace.replications, trace.engine
    (4, 'step')
    """

    times: np.ndarray
    """The rounds at which `regret` was recorded."""
    regret: np.ndarray
    """Cumulative regret, `[replications, times]`."""
    plays: np.ndarray
    """How often each action was played, `[replications, actions]`."""
    batches: np.ndarray
    """The number of batches that ended: how often rewards were collected. An unfinished last batch does not count."""
    ends: np.ndarray
    """The rounds with which batches ended, `[replications, largest number of batches]`, padded with 0."""
    best_share: np.ndarray
    """Fraction of rounds in which an optimal action was played."""
    mean_reward: np.ndarray
    """Mean reward per round."""
    actions: np.ndarray | None
    """Every action, `[replications, horizon]`, with `keep_actions=True`; else None."""
    diagnostics: Diagnostics
    """Diagnostics of the refreshes: R-hat, effective sample size, acceptance, stuck chains; see `diagnosis`."""
    horizon: int
    engine: str = "step"
    """How it was simulated: "step" (round by round) or "leap" (whole batches)."""
    env: str = ""
    agent: str = ""
    batching: str = ""
    world: str = ""
    """A digest of the environment, with all of its numbers: descriptions are shortened."""
    first: int = 0
    """The number of the first replication."""
    in_flight: np.ndarray | None = None
    """Where rewards are late, the plays whose rewards were not told by the end, of each replication; else None."""
    notes: tuple[str, ...] = ()
    """Further warnings of the simulation; part of `warnings`."""
    messages: Messages | None = None
    """What several agents sent one another; None where there is one. Exchanges are batches."""
    concluded: Concluded | None = None
    """The arm that each replication recommends, its simple regret, and the round after which the stopping rule held (0 where it did
    not): of agents with a `conclusion`, as `SequentialHalving` and those in a stopping rule; else None."""

    @staticmethod
    def of(records: Sequence[Record], times: np.ndarray, *, horizon: int, engine: str, names: tuple[str, str, str]) -> Trace:
        """Join the records of an engine.

        Args:
            records: one per chunk of replications, with the replications last.
            times: the rounds at which regret was recorded.
            horizon: the number of rounds.
            engine: "step" or "leap".
            names: descriptions of environment, agent and batching scheme.

        Returns:
            The trace of all replications.
        """
        most = max(record.ends.shape[0] for record in records)  # accelerators send no more than their replications used
        filled = [record._replace(ends=np.pad(record.ends, ((0, most - record.ends.shape[0]), (0, 0)))) for record in records]
        record: Any = jax.tree.map(lambda *parts: np.moveaxis(np.concatenate(parts, -1), -1, 0), *filled)
        kept = record.actions if record.actions.shape[1] else None
        used = max(1, int(record.batches.max()))
        return Trace(
            times,
            record.regret,
            record.plays,
            record.batches,
            record.ends[:, :used],
            record.best / horizon,
            (record.reward.high.astype(float) + record.reward.low) / horizon,
            kept,
            record.diagnostics,
            horizon,
            engine,
            *names,
            concluded=record.concluded or None,
            in_flight=None if isinstance(record.in_flight, tuple) else record.in_flight,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        mine, theirs = (jax.tree.leaves({field.name: getattr(trace, field.name) for field in FIELDS}) for trace in (self, other))
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))

    __hash__ = None  # type: ignore[assignment]

    @property
    def replications(self) -> int:
        """How many runs there are."""
        return self.batches.shape[0]

    @property
    def switches(self) -> np.ndarray:
        """The number of policies used: the first, and one after each batch that ended before the horizon."""
        return 1 + ((self.ends > 0) & (self.ends < self.horizon)).sum(1)

    @property
    def final_regret(self) -> np.ndarray:
        """Regret at the horizon, one number per replication."""
        return self.regret[:, -1]

    def conclusions(self) -> dict[str, np.ndarray]:
        """What the replications concluded, one number each; empty of agents that conclude nothing.

        Returns:
            `simple_regret`: what the recommended arm earns less a round than the best one. `wrong`: whether it is not the best.
            `stopped`: whether the stopping rule held. `wrong_stop`: whether it held for an arm that is not the best.
            `stop_round`: the round after which it held; the horizon where it did not.
        """
        if self.concluded is None:
            return {}
        _, rounds, lost = (np.asarray(part) for part in self.concluded)
        stopped, wrong = rounds > 0, lost > 0
        return {
            "simple_regret": lost,
            "wrong": wrong.astype(float),
            "stopped": stopped.astype(float),
            "wrong_stop": (stopped & wrong).astype(float),
            "stop_round": np.where(stopped, rounds, self.horizon),
        }

    def band(self, level: float = 0.95) -> RegretBand:
        """The mean regret over time, with a bootstrap sup-t band that covers the whole mean curve with probability `level`.

        With more than 256 recorded times, the critical value is computed on 256 of them.

        Args:
            level: between 0 and 1.

        Returns:
            A named tuple: `times, mean, low, high = trace.band()`.

        Raises:
            ConfigError: there are fewer than two replications, or a regret is not finite.
        """
        if not (isinstance(level, Real) and 0 < level < 1):
            raise ConfigError(f"level must be a number between 0 and 1; got {level!r}.")
        regret = np.asarray(self.regret, float)
        if not np.isfinite(regret).all():
            raise ConfigError("A band needs finite regrets; leave out the replications that are not.")
        some = np.unique(np.linspace(0, len(self.times) - 1, 256).round().astype(int))
        found = statistics.band(regret[:, some], level)
        mean, reach = regret.mean(0), found.critical * _standard_error(regret)
        return RegretBand(self.times, mean, mean - reach, mean + reach)

    def batches_by(self, times: ArrayLike | None = None) -> np.ndarray:
        """The number of batches that ended by some rounds.

        Args:
            times: the rounds; by default those at which regret was recorded.

        Returns:
            `[replications, times]`.
        """
        times = np.asarray(self.times if times is None else times)
        ends = np.where(self.ends == 0, np.iinfo(self.ends.dtype).max, self.ends)
        return np.stack([np.searchsorted(row, times, side="right") for row in ends])

    def summary(self) -> dict[str, float | int]:
        """Means, standard deviations and standard errors over replications, and the diagnostics.

        Returns:
            A dict, as `blts simulate --json` prints it: `regret_mean`, `regret_sd`, `regret_se`, `regret_median`, `regret_q95`
            (the 95 % quantile), `batches_mean`, … An interval of the mean regret is `regret_mean` ±
            `blts.statistics.student(replications)` · `regret_se`, at 95 %. Those of `conclusions` follow where there are any.
        """
        out: dict[str, float | int] = {"replications": self.replications, "horizon": self.horizon}
        sent = {} if self.messages is None else {"messages": self.messages.total, "numbers": self.messages.numbers}
        for name, values in {
            "regret": self.final_regret,
            "batches": self.batches,
            "best_share": self.best_share,
            "reward": self.mean_reward,
            "switches": self.switches,
            **sent,
            **self.conclusions(),
        }.items():
            values = np.asarray(values, float)
            out[f"{name}_mean"] = float(values.mean())
            out[f"{name}_sd"] = float(values.std(ddof=1)) if values.size > 1 else math.nan
            out[f"{name}_se"] = float(_standard_error(values))
        if self.in_flight is not None:
            out["in_flight_mean"] = float(np.mean(self.in_flight))
        out["regret_median"], out["regret_q95"] = (float(np.quantile(self.final_regret, q)) for q in (0.5, 0.95))
        out["refreshes_finite"] = bool(self.diagnostics.finite.all())
        out["refreshes"], out["refreshes_unsound"] = int(self.diagnostics.refreshes.sum()), int(self.diagnostics.unsound.sum())
        # The worst replication, not the mean: one failure must not be averaged away.
        worst = {"ess": np.min, "rhat": np.max, "stuck": np.max, "least": np.min}
        for name in ("acceptance", "ess", "rhat", "distance", "residual", "stuck", "least"):
            values = np.asarray(getattr(self.diagnostics, name))
            if name in worst and np.isfinite(values).any():
                out[name] = float(worst[name](values[np.isfinite(values)]))
            elif np.isfinite(values).all():
                out[name] = float(values.mean())
        return out

    @property
    def warnings(self) -> list[str]:
        """Reasons not to trust these numbers, one sentence each; empty if there are none."""
        s = self.summary()
        figures = (float(s.get(name, math.nan)) for name in ("rhat", "stuck", "least"))
        found = diagnosis.warnings(int(s["refreshes"]), int(s["refreshes_unsound"]), bool(s["refreshes_finite"]), *figures)
        if not np.isfinite(self.final_regret).all():
            found.append("the regret of some replications is not a finite number; check what the environment's step returns.")
        return [*self._unusable_rewards(), *self.notes, *found]

    def _unusable_rewards(self) -> list[str]:
        """A warning where rewards are NaN or infinite, or so large that their sum is."""
        wrong = self.mean_reward[~np.isfinite(self.mean_reward)]
        if not wrong.size:
            return []
        some = f"in {wrong.size} of {counted(self.replications, 'replication')} their mean is {wrong[0]}"
        return [
            f"the environment paid rewards that are not finite ({some}), and these numbers are of no use: mend its step, or sample "
            "of its model."
        ]

    @property
    def chains(self) -> str:
        """The diagnostics of the chains in a sentence; empty if there were no chains."""
        s = self.summary()
        return diagnosis.describe(*(float(s.get(name, math.nan)) for name in ("acceptance", "least", "rhat", "stuck", "ess")))

    def plot(self, scale: str = "linear") -> Picture:
        """The mean cumulative regret over time, with a band that covers the whole curve with probability 95 %.

        Args:
            scale: of the time, "linear" or "log", on which logarithmic growth is a straight line.

        Returns:
            A matplotlib figure, which notebooks show; `savefig("regret.svg")` writes it.

        Raises:
            ConfigError: matplotlib is not installed, or there are fewer than two replications.
        """
        return picture({"mean regret": self}, scale)

    def to_dataframe(self, *, curves: bool = True) -> DataFrame:
        """The numbers as a table of pandas.

        Args:
            curves: a row for each replication and recorded round; otherwise a row for each replication.

        Returns:
            A `DataFrame` with the columns `replication`, `round`, `regret`; or `replication`, `regret`, `reward`, `batches` and
            `best_share`.

        Raises:
            ConfigError: pandas is not installed.
        """
        pandas: Any = needs("pandas", "A data frame", FRAMES)
        every = self.first + np.arange(self.replications)
        if not curves:
            columns = {
                "regret": self.final_regret,
                "reward": self.mean_reward,
                "batches": self.batches,
                "best_share": self.best_share,
            }
            return pandas.DataFrame({"replication": every} | columns)
        rounds = len(self.times)
        columns = {
            "replication": np.repeat(every, rounds),
            "round": np.tile(self.times, self.replications),
            "regret": self.regret.ravel(),
        }
        return pandas.DataFrame(columns)

    def to_xarray(self) -> Dataset:
        """The numbers as a labelled data set of xarray.

        Returns:
            A `Dataset`: `regret` by `replication` and `round`, `plays` by `replication` and `action`, and `batches`, `reward` and
            `best_share` by `replication`.

        Raises:
            ConfigError: xarray is not installed.
        """
        xarray: Any = needs("xarray", "A labelled data set", FRAMES)
        one = "replication"
        fields = {
            "regret": ((one, "round"), self.regret),
            "plays": ((one, "action"), self.plays),
            "batches": ((one,), self.batches),
            "reward": ((one,), self.mean_reward),
            "best_share": ((one,), self.best_share),
        }
        about = {"env": self.env, "agent": self.agent, "batching": self.batching, "horizon": self.horizon}
        return xarray.Dataset(fields, {"round": self.times, one: self.first + np.arange(self.replications)}, about)

    def __repr__(self) -> str:
        s = self.summary()
        spread = f" ± {s['regret_sd']:.2f} (standard error {s['regret_se']:.2f})" if self.replications > 1 else ""
        said = ["", *([self.chains] if self.chains else []), *(f"WARNING: {warning}" for warning in self.warnings)]
        return (
            f"{counted(self.replications, 'replication')} of {self.horizon} rounds: regret {s['regret_mean']:.2f}{spread}, "
            f"{s['batches_mean']:.1f} batches, a best action in {100 * s['best_share_mean']:.0f} % of rounds."
            f"{self._concluded_in_words(s)}{' '.join(said)}"
        )

    def _concluded_in_words(self, s: dict[str, float | int]) -> str:
        if self.concluded is None:
            return ""
        words = f" Recommended: not the best arm in {100 * s['wrong_mean']:.1f} %, simple regret {s['simple_regret_mean']:.4g}."
        if not self.concluded.stopped.any():
            return words
        stops = f"{100 * s['stopped_mean']:.1f} %, at a wrong arm in {100 * s['wrong_stop_mean']:.1f} %"
        return f"{words} Stopped: {stops}, after {s['stop_round_mean']:.0f} rounds on average (the horizon where not)."

    def _repr_html_(self) -> str:
        s = self.summary()
        rows = "".join(
            f"<tr><th>{name}</th><td>{s[f'{name}_mean']:.4g}</td><td>{s[f'{name}_sd']:.3g}</td><td>{s[f'{name}_se']:.2g}</td></tr>"
            for name in ("regret", "batches", "best_share", "reward")
        )
        return f"<p>{self!r}</p><table><tr><th></th><th>mean</th><th>sd</th><th>standard error</th></tr>{rows}</table>"


FIELDS = dataclasses.fields(Trace)


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def _standard_error(values: np.ndarray) -> np.ndarray:
    n = values.shape[0]
    return values.std(0, ddof=1) / math.sqrt(n) if n > 1 else np.full(values.shape[1:], math.nan)


def picture(traces: Mapping[str, Trace], scale: str) -> Picture:
    """The mean cumulative regrets of traces over time, with their bands.

    Args:
        traces: by label.
        scale: of the time, "linear" or "log".

    Returns:
        The figure.
    """
    if scale not in ("linear", "log"):
        raise ConfigError(f'scale must be "linear" or "log"; got {scale!r}.')
    needs("matplotlib", "A picture", 'pip install "blts[report]"')
    from .drawing import curves
    from .drawing.picture import drawn

    found = []
    for label, trace in traces.items():
        band = trace.band()
        spaced = np.geomspace if scale == "log" else np.linspace
        some = np.unique(np.searchsorted(band.times, spaced(band.times[0], band.times[-1], POINTS).round()))
        found.append(curves.Curve(label, *(column[some].tolist() for column in band)))
    return drawn(lambda: curves.picture(found, scale, "mean cumulative regret"))
