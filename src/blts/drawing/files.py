"""Figures as files."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .style import to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(path: str | os.PathLike[str], figure: Callable[[], Figure]) -> pathlib.Path:
    """Write a figure as SVG.

    Args:
        path: of the file; its folder is made where it does not exist.
        figure: makes the figure; it is called with the style set.

    Returns:
        The path.

    Raises:
        ConfigError: matplotlib is not installed, the name does not end in .svg, or the file cannot be written.
    """
    place = svg_path(path)
    try:
        import matplotlib as matplotlib
    except ImportError:
        raise ConfigError('Figures need matplotlib; install it with: pip install "blts[report]".') from None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(to_svg(figure)[0])
    except OSError as error:
        raise ConfigError(f"{place} cannot be written ({error.strerror}).") from None
    return place


def svg_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a figure, refused where its name does not end in .svg: before anything is computed for it."""
    place = pathlib.Path(path)
    if place.suffix.lower() != ".svg":
        raise ConfigError(f"The figure is an SVG file; give it a name that ends in .svg instead of {str(path)!r}.")
    return place
