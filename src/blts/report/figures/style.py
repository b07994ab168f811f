"""The look that figures share: colours and dashes that go together, panels, and labels that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..csvs import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

# Okabe and Ito's colours, without the yellow that vanishes on white. Dashes and markers tell lines apart in grey too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.2)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
    (0, (9, 3)),
    (0, (2.5, 2.5)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
PANEL = (3.35, 2.45)
"""Width and height of a panel in inches, with its labels."""
WIDE = (4.6, 2.9)
"""The same where no more than two stand beside each other."""
ACROSS = 3
GREY = "#666666"


class Look(NamedTuple):
    colour: str
    dash: Any
    marker: str

    @property
    def ink(self) -> str:
        """The colour for text: darker, for contrast on white."""
        channels = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return "#" + "".join(f"{int(0.72 * c):02x}" for c in channels)


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A look for each label; two share a colour only where there are more labels than colours, and then not the dash."""
    distinct = list(dict.fromkeys(labels))
    return {label: Look(COLOURS[i % 7], DASHES[(i + i // 7) % 7], MARKERS[i % 8]) for i, label in enumerate(distinct)}


def grid(
    count: int, rows_each: int = 1, *, across: int = ACROSS, panel: tuple[float, float] | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with `count` panels, each of `rows_each` axes one below the other; at most `across` beside each other."""
    from matplotlib.figure import Figure

    wide = 2 if count == 4 and across == ACROSS else min(count, across)  # no panel alone in its row
    panel = panel or (PANEL if wide > 2 else WIDE)
    deep = -(-count // wide)
    figure = Figure(figsize=(panel[0] * wide + 0.3, panel[1] * deep * rows_each + 0.1), layout="constrained")
    spec = figure.add_gridspec(deep * rows_each, wide)
    found = []
    for i in range(count):
        row, place = divmod(i, wide)
        found.append([figure.add_subplot(spec[row * rows_each + k, place]) for k in range(rows_each)])
    return figure, found


def settle(figure: Figure) -> None:
    """Fix the layout, so that labels can be moved by the pixel."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def leftmost(axes: Axes) -> bool:
    """Whether a panel is the first of its row, which has the label of the vertical axis."""
    spec = axes.get_subplotspec()
    return spec is None or spec.is_first_col()


def across(rows: Sequence[Mapping[str, str]]) -> int:
    """How many panels go beside each other: those of one block, where all blocks have as many and there is room."""
    counts = {block: len(groups(found, "panel")) for block, found in groups(rows, "block").items()}
    each = set(counts.values())
    return each.pop() if len(counts) > 1 and len(each) == 1 and 2 <= max(each) <= ACROSS + 1 else ACROSS


def end_labels(
    axes: Axes, ends: Sequence[tuple[str, float, float]], look: dict[str, Look], words: dict[str, str] | None = None
) -> list[Annotation]:
    """Labels beside the ends of lines, to be spread by `spread` when the layout is settled."""
    return [
        axes.annotate(
            (words or {}).get(label, label),
            (x, y),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=look[label].ink if label in look else GREY,
            fontsize=8.5,
            annotation_clip=False,
        )
        for label, x, y in ends
    ]


def spread(axes: Axes, labels: Sequence[Annotation], least: float = 11.0) -> None:
    """Move labels up and down until they are `least` points apart, as little as that takes, with a leader where one moved."""
    if not labels:
        return
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    wanted = np.array([axes.transData.transform(label.xy)[1] * scale for label in labels])
    low, high = (axes.bbox.y0 * scale, axes.bbox.y1 * scale)
    found = apart(np.clip(wanted, low, high), least, low, high)
    for label, want, got in zip(labels, wanted, found, strict=True):
        shift = float(got - want)
        label.set_position((10.0 if abs(shift) > 3 else 5.0, shift))
        if abs(shift) > 3:
            axes.annotate(
                "",
                label.xy,
                xytext=(9, shift),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": label.get_color(), "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1},
                annotation_clip=False,
            )


def apart(wanted: np.ndarray, least: float, low: float, high: float) -> np.ndarray:
    """The nearest places, in squares, that keep the order and are `least` apart: isotonic regression of wanted − least · rank.

    They stay below `high`, and above `low` where there is room for all.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []  # mean and size of pooled neighbours
    for rank, i in enumerate(order):
        blocks.append([float(wanted[i]) - least * rank, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    levels = np.repeat([mean for mean, _ in blocks], [int(n) for _, n in blocks])
    found = np.empty_like(wanted, dtype=float)
    ranks = np.arange(len(wanted))
    placed = np.maximum(levels + least * ranks, low + least * ranks)
    found[order] = np.minimum(placed, high - least * ranks[::-1])
    return found


def band(axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], look: Look) -> None:
    axes.fill_between(x, low, high, color=look.colour, alpha=0.16, linewidth=0)


def log_ticks(axes: Axes, axis: str = "x") -> None:
    """Powers of ten as plain numbers, as long as they are short."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for name in axis:
        which = axes.xaxis if name == "x" else axes.yaxis
        which.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
        low, high = sorted(which.get_view_interval())
        decades = np.log10(high / low) if low > 0 else 0.0
        powers = np.floor(np.log10(high)) - np.ceil(np.log10(low)) + 1 if low > 0 else 0.0
        if powers >= 2 and decades >= 1.2:
            which.set_minor_formatter(NullFormatter())
        else:
            shown = "235" if decades < 1.2 else "25"
            which.set_minor_formatter(FuncFormatter(lambda value, _, shown=shown: plain(value) if f"{value:e}"[0] in shown else ""))


def spans(values: Sequence[float], ratio: float = 4.0) -> bool:
    """Whether positive numbers lie so far apart that a linear axis would squeeze the small ones."""
    return min(values) > 0 and max(values) > ratio * min(values)


def plain(value: float) -> str:
    if value <= 0:
        return f"{value:g}"
    if 1e-4 <= value < 1e5:
        return f"{value:,.10g}".replace(",", " ")
    exponent = int(np.floor(np.log10(value) + 1e-9))
    digits = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    lead = value / 10.0**exponent
    return f"10{digits}" if abs(lead - 1) < 1e-9 else f"{lead:.3g}·10{digits}"
