"""What a kind of figure is: rows from results, and a drawing from rows alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...drawing.style import ACROSS, to_svg
from ...errors import ConfigError
from ..csvs import Row, from_csv, groups, to_csv
from ..outcome import Measured, Outcome
from ..tables import axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CsvRows = Sequence[Mapping[str, str]]
"""Rows as read from a CSV file."""
PANELS = ("env", "batching", "prior", "horizon", "drawn")
"""Names that make panels; the others make lines."""


class Drawn(NamedTuple):
    """A figure as files: the CSV that it was drawn from, and the drawing."""

    kind: str
    csv: str
    svg: bytes
    caption: str
    alt: str
    width: float
    """In inches, as drawn."""


class Placed(NamedTuple):
    """A condition's place in a figure."""

    measured: Measured
    block: str
    """Panels of one block stand in one row where there is room."""
    panel: str
    label: str


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of figure. `rows` takes the results, `draw` nothing but the rows as they are stored."""

    name: str
    needs: tuple[str, ...]
    """Arrays that it shows."""
    rows: Callable[[Outcome], list[Row]]
    draw: Callable[[CsvRows], Figure]
    caption: Callable[[Outcome], str]
    alt: Callable[[Outcome], str]

    def make(self, outcome: Outcome) -> Drawn | None:
        """The figure of a study; None where no number of it is finite."""
        for name in self.needs:
            if not all(name in m.arrays for m in outcome.measured):
                raise ConfigError(
                    f"The figure {self.name!r} of the study {outcome.study.name!r} needs the array {name!r}, "
                    f"which the task {outcome.study.task!r} does not give; choose another figure."
                )
        rows = self.rows(outcome)
        if not rows:
            return None
        text = to_csv(rows)
        svg, width = render(self, text)
        return Drawn(self.name, text, svg, self.caption(outcome), self.alt(outcome), width)


def render(kind: Kind, csv: str) -> tuple[bytes, float]:
    """The drawing of a CSV as SVG, and its width in inches."""
    return to_svg(lambda: kind.draw(from_csv(csv)), text=True)


def thinned(times: Sequence[float], most: int = 100) -> list[int]:
    """Indices of at most so many recorded rounds, the first and the last among them."""
    step = max(1.0, (len(times) - 1) / (most - 1))
    return list(dict.fromkeys(min(len(times) - 1, round(i * step)) for i in range(most)))


def places(outcome: Outcome) -> list[Placed]:
    """Where conditions stand: panels by batching, prior and problem, lines by agent and options."""
    lines, panels = names(outcome)
    return placed(outcome, lines, panels)


def placed(outcome: Outcome, lines: list[str], panels: list[str]) -> list[Placed]:
    """The first name of panels goes across, the others down."""
    found = [
        Placed(m, outcome.label(m, panels[1:]), outcome.label(m, panels), outcome.label(m, lines, outcome.study.task))
        for m in outcome.measured
    ]
    blocks = list(dict.fromkeys(line.block for line in found))
    across = list(dict.fromkeys(line.panel for line in found))
    return sorted(found, key=lambda line: (blocks.index(line.block), across.index(line.panel)))


def names(outcome: Outcome) -> tuple[list[str], list[str]]:
    """The names that make lines and those that make panels."""
    rows, columns, others = axes(outcome)
    panels = [name for name in (*columns, *others) if name in PANELS or name == outcome.study.columns]
    return [name for name in (*rows, *columns, *others) if name not in panels], panels


def whom(outcome: Outcome) -> str:
    """The lines of a figure in words, for those who cannot see it."""
    found = list(dict.fromkeys(line.label for line in places(outcome)))
    return found[0] if len(found) == 1 else ", ".join(found[:-1]) + f" and {found[-1]}"


def across(rows: Sequence[Mapping[str, str]]) -> int:
    """How many panels go beside each other: those of one block, where all blocks have as many and there is room."""
    counts = {block: len(groups(found, "panel")) for block, found in groups(rows, "block").items()}
    each = set(counts.values())
    return each.pop() if len(counts) > 1 and len(each) == 1 and 2 <= max(each) <= ACROSS + 1 else ACROSS
