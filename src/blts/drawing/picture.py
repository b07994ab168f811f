"""A figure that notebooks show without pyplot."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TypeVar

import matplotlib
from matplotlib.figure import Figure

from .style import STYLE

P = TypeVar("P", bound=Figure)


class Picture(Figure):
    """A matplotlib figure; a notebook shows it where it is the last line of a cell, and `savefig` writes it."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            self.savefig(content, format="png", dpi=144, bbox_inches=self.get_tightbbox().padded(0.06))
        return content.getvalue()


def drawn(draw: Callable[[], P]) -> P:
    """What a function draws, in the style of all figures."""
    with matplotlib.rc_context(STYLE):
        return draw()
