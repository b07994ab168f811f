"""The look of all figures: fonts, colours and dashes that go together, panels, axes, and how an SVG is written."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .picture import Picture

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
STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # the one font that comes with matplotlib: the same shapes everywhere
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.5,
    "xtick.minor.pad": 5.0,  # labels of minor ticks in one line with the others
    "ytick.minor.pad": 5.0,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.solid_capstyle": "butt",
    "text.parse_math": False,  # labels are text, whatever signs they have
    "svg.fonttype": "path",
    "svg.hashsalt": "blts",
    "path.simplify_threshold": 0.2,
}


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
) -> tuple[Picture, list[list[Axes]]]:
    """A figure with `count` panels, each of `rows_each` axes one below the other; at most `across` beside each other."""
    from .picture import Picture

    wide = 2 if count == 4 and across == ACROSS else min(count, across)  # no panel alone in its row
    panel = panel or (PANEL if wide > 2 else WIDE)
    deep = -(-count // wide)
    figure = Picture(figsize=(panel[0] * wide + 0.3, panel[1] * deep * rows_each + 0.1), layout="constrained")
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


def to_svg(draw: Callable[[], Figure], *, text: bool = False) -> tuple[bytes, float]:
    """Draw a figure in this style and write it as SVG without a date, so that the same numbers give the same bytes.

    Args:
        draw: makes the figure; it is called with the style set.
        text: whether words are text, which can be found and copied and is shorter; otherwise they are shapes.

    Returns:
        The SVG, and its width in inches.
    """
    import matplotlib

    style: dict[Any, Any] = {**STYLE, "svg.fonttype": "none" if text else "path"}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a label may have signs that the font has not
        figure = draw()
        if text:
            _halo_by_style(figure)
        content = io.BytesIO()
        whole = figure.get_tightbbox().padded(0.06)  # labels beside the last panel may reach beyond the figure
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches=whole)
        svg = PATH.sub(_rounded, content.getvalue())
        return svg.replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif"), float(whole.width)


HALO = "halo"
"""What the ids of texts with a halo begin with, where a style sheet draws it."""


def _halo_by_style(figure: Figure) -> None:
    """Mark texts with an effect in place of drawing it: matplotlib draws such a text as a shape of some thousand bytes."""
    from matplotlib.text import Text

    for i, words in enumerate(found for found in figure.findobj(match=Text) if found.get_path_effects()):
        words.set(path_effects=[], gid=f"{HALO}{i}")


PATH = re.compile(rb' d="M[^"]*"')
LONG = re.compile(rb"-?\d+\.\d{3,}")


def _rounded(path: re.Match[bytes]) -> bytes:
    """A path with hundredths of a point: half the bytes, and nothing that can be seen."""
    return LONG.sub(lambda number: b"%.2f" % float(number[0]), path[0])
