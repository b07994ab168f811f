"""Agents compared on the same replications: mean differences with intervals and a verdict, a table, and a picture.

`paired` compares two traces, `compare` several. Interval, p-value and verdict come from one procedure (`statistics.differences`).
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import FRAMES, ConfigError, counted, did_you_mean, needs, shown
from .statistics import Difference, Summary, differences, summarise
from .trace import Trace, picture

if TYPE_CHECKING:
    from pandas import DataFrame

    from .drawing.picture import Picture

WORDS = {"reward": "reward a round", "batches": "the number of batches", "best_share": "the share of rounds with a best action"}
"""What a difference says of a quantity; "regret" says enough."""
QUANTITIES = {"regret": "final_regret", "reward": "mean_reward", "batches": "batches", "best_share": "best_share"}
"""What can be compared, and the field of a trace that has it for each replication."""


def paired(ours: Trace, reference: Trace, quantity: str = "regret") -> Difference:
    """Compare two agents in the same environment, replication by replication.

    With the same key, replications of one number have the same instance and the same rewards to draw from, so that the difference
    has less noise than either mean. With other keys the interval is as valid, and wider.

    Args:
        ours: the trace of one agent.
        reference: that of the other one, of as many replications and rounds in the same environment.
        quantity: "regret", "reward" (its mean per round), "batches" or "best_share".

    Returns:
        The mean of ours less the reference's, with a 95 % interval, a p-value and a verdict.

    Raises:
        ConfigError: the traces cannot be compared.

    >>> from blts import DoublingCounts, Sequential, condition, paired, simulate
    >>> env, agent, *_ = condition("gaussian", "exact-ts", "sequential")
    >>> batched, sequential = (simulate(0, env, agent, b, horizon=100, replications=50) for b in (DoublingCounts(), Sequential()))
    >>> paired(batched, sequential, "batches").verdict
    'lower'
    """
    if not (isinstance(ours, Trace) and isinstance(reference, Trace)):
        wrong = reference if isinstance(ours, Trace) else ours
        raise ConfigError(f"paired compares two traces, the results of simulate; got {shown(wrong, 60)}.")
    _check_alike("The traces", reference, ours)
    return Comparison({"reference": reference, "ours": ours}).differences(quantity)["ours"]


def compare(traces: Mapping[str, Trace] | Sequence[Trace]) -> Comparison:
    """Compare the traces of several agents or batching schemes in one environment.

    Args:
        traces: by name, or in a list, where each is named by its agent and batching scheme. The others are compared with the first.

    Returns:
        A table when printed, with `plot()`, `differences()` and `to_dataframe()`.

    Raises:
        ConfigError: there are none, two have one name, or they are not of the same environment, rounds and replications.

    >>> from blts import DoublingCounts, Sequential, compare, condition, simulate
    >>> env, agent, *_ = condition("gaussian", "exact-ts", "sequential")
    >>> run = lambda batching: simulate(0, env, agent, batching, horizon=100, replications=50)
    >>> compare({"sequential": run(Sequential()), "doubling": run(DoublingCounts())}).names
    ['sequential', 'doubling']
    """
    if not isinstance(traces, Mapping):
        listed = list(traces)
        if not all(isinstance(trace, Trace) for trace in listed):
            raise ConfigError('compare takes traces by name, such as {"BLTS": trace}; got ' + shown(traces, 60) + ".")
        agents = [trace.agent.splitlines()[0].rstrip(".") if trace.agent else "" for trace in listed]
        names = [
            trace.batching.rstrip(".") if len(set(agents)) == 1 else agent for agent, trace in zip(agents, listed, strict=True)
        ]
        if len(set(names)) < len(names):
            raise ConfigError('Two of the traces have the same description; name them: compare({"one": trace, "two": other}).')
        traces = dict(zip(names, listed, strict=True))
    if not traces or not all(isinstance(trace, Trace) for trace in traces.values()):
        raise ConfigError('compare takes traces by name, such as {"BLTS": trace}; got ' + shown(traces, 60) + ".")
    (first, reference), *others = traces.items()
    for name, trace in others:
        _check_alike(f"{shown(first, 40)} and {shown(name, 40)}", reference, trace)
    return Comparison(dict(traces))


def _check_alike(both: str, reference: Trace, trace: Trace) -> None:
    """Refuse traces of which one has another environment, horizon or number of replications (`ConfigError`)."""
    rounds, replications = ("horizon", "number of rounds"), ("replications", "number of replications")
    for what, words in (("env", "environment"), ("world", "environment"), rounds, replications):
        if getattr(trace, what) != getattr(reference, what):
            raise ConfigError(f"{both} differ in their {words}; compare traces that share it.")
    if trace.replications < 2:
        raise ConfigError("A comparison needs at least 2 replications; simulate with replications=100, for example.")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Traces of one environment side by side: the result of `compare`.

    Args:
        traces: by name; the first is the reference.

    >>> from blts import UCB1, Bandit, Fixed, Gaussian, compare, simulate
    >>> bandit = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
    >>> run = lambda scale: simulate(0, bandit, UCB1(3, scale=scale), Fixed(10), horizon=40, replications=4)
    >>> found = compare({"narrow": run(0.5), "wide": run(2.0)})
    >>> found.names, list(found.differences())
    (['narrow', 'wide'], ['wide'])
    """

    traces: dict[str, Trace]
    """By name; the first is the reference."""

    @property
    def names(self) -> list[str]:
        """The names, the reference first."""
        return list(self.traces)

    def differences(self, quantity: str = "regret") -> dict[str, Difference]:
        """What each loses or gains against the first, as one family: all intervals cover together with probability 95 %.

        Args:
            quantity: "regret", "reward", "batches" or "best_share".

        Returns:
            A difference for each name but the first.
        """
        reference, *others = (self._values(name, quantity) for name in self.traces)
        found = differences(others, [reference] * len(others))
        said = [difference._replace(quantity=WORDS.get(quantity, quantity)) for difference in found]
        return dict(zip(self.names[1:], said, strict=True))

    def summary(self, quantity: str = "regret") -> dict[str, Summary]:
        """The mean of each with its 95 % interval, and quantiles.

        Args:
            quantity: "regret", "reward", "batches" or "best_share".

        Returns:
            A summary for each name.
        """
        return {name: summarise(self._values(name, quantity)) for name in self.traces}

    def plot(self, scale: str = "linear") -> Picture:
        """The mean cumulative regrets over time, each with a band that covers its whole curve with probability 95 %.

        Args:
            scale: of the time, "linear" or "log".

        Returns:
            A matplotlib figure, which notebooks show; `savefig("regret.svg")` writes it.
        """
        return picture(self.traces, scale)

    def to_dataframe(self) -> DataFrame:
        """All final numbers, a row for each name and replication.

        Returns:
            A pandas `DataFrame` with the columns `name`, `replication`, `regret`, `reward`, `batches`, `best_share`.
        """
        pandas: Any = needs("pandas", "A data frame", FRAMES)
        return pandas.concat(
            [trace.to_dataframe(curves=False).assign(name=name) for name, trace in self.traces.items()], ignore_index=True
        )[["name", "replication", *QUANTITIES]]

    def _values(self, name: str, quantity: str) -> np.ndarray:
        if quantity not in QUANTITIES:
            raise ConfigError(
                f"quantity must be one of {', '.join(QUANTITIES)}; got {quantity!r}{did_you_mean(quantity, QUANTITIES)}."
            )
        return np.asarray(getattr(self.traces[name], QUANTITIES[quantity]), float)

    def _rows(self) -> list[list[str]]:
        lost = self.differences() if len(self.traces) > 1 else {}
        batches = self.summary("batches")
        rows = [["", "regret", "95 % interval", "batches", f"against {self.names[0]}" if lost else ""]]
        for name, s in self.summary().items():
            d = lost.get(name)
            said = "" if d is None else f"{d.mean:+.4g} ({d.low:+.4g} to {d.high:+.4g}): {d.verdict}"
            rows.append([str(name), f"{s.mean:.4g}", f"{s.low:.4g} to {s.high:.4g}", f"{batches[name].mean:.1f}", said])
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(w) if i in (0, 4) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, wide, strict=True)))
            for row in rows
        ]
        trace = next(iter(self.traces.values()))
        together = "; intervals of the differences cover together with probability 95 %" if len(self.traces) > 1 else ""
        said = f"{counted(trace.replications, 'replication')} of {trace.horizon} rounds{together}."
        warned = [f"WARNING: {name}: {warning}" for name, trace in self.traces.items() for warning in trace.warnings]
        return "\n".join([line.rstrip() for line in lines] + [said] + warned)

    def _repr_html_(self) -> str:
        head, *rows = ([html.escape(cell) for cell in row] for row in self._rows())
        body = "".join(f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows)
        said = "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).splitlines()[len(rows) + 1 :])
        return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{body}</table>{said}"
