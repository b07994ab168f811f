"""A report that can be looked at: the dictionary that it is, with a picture of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ConfigError, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .drawing.picture import Picture
    from .drawing.style import Look

MOST_ARMS = 30
"""More arms than that have no room in a picture; those with the largest P(best) are drawn."""


class Report(dict[str, Any]):
    """What `Experiment.report` returns: a dictionary that JSON can hold, with `plot`; printed, its arms and its recommendation.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B"], "conversions", batching="external", seed=3)
    >>> told = mail.tell([(decision.id, decision.arm == "B") for decision in mail.ask(20).decisions])
    >>> report = mail.report()
    >>> report["decisions"], [axes.get_title("left") for axes in report.plot().axes]
    (20, ['Mean reward', 'Allocation'])
    >>> print(report)
    mail: 20 decisions, 2 arms
    A: 9 units, mean 0.0915 [0.0026, 0.309], P(best) below 0.001
    B: 11 units, mean 0.923 [0.735, 0.998], P(best) above 0.999
    Keep on: 'A' has 9 rewards, and 10 are needed of every arm.
    """

    def __str__(self) -> str:
        lines = [f"{self['name']}: {counted(self['decisions'], 'decision')}, {counted(len(self['arms']), 'arm')}"]
        for arm in self["arms"][:MOST_ARMS]:
            line = f"{arm['arm']}: {counted(arm['units'], 'unit')}"
            if arm.get("posterior_low") is not None:
                line += f", mean {arm['posterior_mean']:.3g} [{arm['posterior_low']:.3g}, {arm['posterior_high']:.3g}]"
            if arm.get("p_best") is not None:
                p = arm["p_best"]
                line += f", P(best) {'below 0.001' if p < 0.001 else 'above 0.999' if p > 0.999 else f'{p:.3f}'}"
            lines.append(line)
        return "\n".join([*lines, self["recommendation"]])

    def plot(self) -> Picture:
        """The arms' mean rewards with their posterior intervals and P(best), and the allocation of every policy.

        Returns:
            A matplotlib figure, which notebooks show; `savefig("report.svg")` writes it. With contexts an arm has no one mean
            reward, and there is the allocation alone.

        Raises:
            ConfigError: matplotlib is not installed.
        """
        try:
            import matplotlib as matplotlib
        except ImportError:
            raise ConfigError('A picture needs matplotlib; install it with: pip install "blts[report]".') from None
        from .drawing.picture import drawn

        return drawn(self._picture)

    def _picture(self) -> Picture:
        from .drawing.labels import end_labels, spread
        from .drawing.style import grid, looks, settle

        arms = self._arms()
        look = looks([arm["arm"] for arm in arms])
        known = [arm for arm in arms if arm["posterior_low"] is not None]
        size = (4.6, max(2.6, 0.28 * len(arms) + 1.0))
        figure, panels = grid(2 if known else 1, panel=size)
        if known:
            _means(panels[0][0], known, look, self["level"])
        axes = panels[-1][0]
        ends = _allocations(axes, self["history"]["policies"], self["decisions"], look)
        marks = end_labels(axes, ends, look)
        settle(figure)
        spread(axes, marks)
        return figure

    def _arms(self) -> list[dict[str, Any]]:
        """The arms that are drawn, in the order of the report."""
        arms = self["arms"]
        first = sorted(arms, key=lambda arm: -(arm["p_best"] or 0.0))[:MOST_ARMS]
        return [arm for arm in arms if arm in first]


def _means(axes: Axes, arms: list[dict[str, Any]], look: dict[str, Look], level: float) -> None:
    """A line from the lower to the upper end of each arm's interval, with its median, the mean of its rewards, and P(best)."""
    for place, arm in enumerate(arms):
        colour = look[arm["arm"]].colour
        axes.plot([arm["posterior_low"], arm["posterior_high"]], [place, place], color=colour, linewidth=2.2)
        axes.plot(arm["posterior_median"], place, "o", color=colour, markersize=5)
        naive = (arm["naive"] or {}).get("value")
        if naive is not None:
            axes.plot(naive, place, "|", color="#333333", markersize=9, markeredgewidth=1.2)
        best = "" if arm["p_best"] is None else _probability(arm["p_best"])
        axes.annotate(
            best,
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.annotate("P(best)", (1.0, 1.0), xycoords="axes fraction", xytext=(4, 4), textcoords="offset points", fontsize=8.5)
    axes.set_yticks(range(len(arms)), [arm["arm"] for arm in arms])
    axes.set(ylim=(len(arms) - 0.5, -0.5), title="Mean reward", xlabel=f"{100 * level:g} % interval, median; | mean of the rewards")
    axes.grid(visible=False, axis="y")


def _allocations(axes: Axes, policies: dict[str, Any], decisions: int, look: dict[str, Look]) -> list[tuple[str, float, float]]:
    """The share of each arm under every policy, as steps; returns the ends of the lines."""
    last, ends = max(decisions, policies["t"][-1] + 1, 1), []
    for label in (label for label in policies["allocation"] if label in look):
        share = [0.0 if p is None else p for p in policies["allocation"][label]]
        axes.step([*policies["t"], last], [*share, share[-1]], where="post", color=look[label].colour, linestyle=look[label].dash)
        ends.append((label, float(last), share[-1]))
    axes.set(title="Allocation", xlabel="decisions", ylabel="probability", xlim=(0, last), ylim=(0, 1.02))
    return ends


def _probability(p: float) -> str:
    return ">0.999" if p > 0.999 else "<0.001" if p < 0.001 else f"{p:.3f}"
