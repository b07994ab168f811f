"""SVG inside a page: a fifth of the bytes, in colours that the page's style sheet sets, so that dark pages have dark figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from .style import COLOURS, GREY, HALO, Look

TOLERANCE = 0.12
"""A point of a line is left out where the line passes it this close, in points of 1/72 inch: a sixth of a hair."""
SHARED = {"#ffffff": "--page", "#000000": "--ink", "#e2e2e2": "--grid", GREY: "--grey", "#808080": "--grey"}
NUMBER = re.compile(r"-?\d+\.\d+")


def variables() -> dict[str, str]:
    """Colours of figures and the style sheet's names of them: `--c0` to `--c6` for lines, `--t0` to `--t6` for their labels.

    >>> from blts.drawing.inline import variables
    >>> variables()["#0072b2"], variables()["#ffffff"]
    ('--c0', '--page')
    """
    found = dict(SHARED)
    for i, colour in enumerate(COLOURS):
        found.setdefault(colour.lower(), f"--c{i}")
        found.setdefault(Look(colour, "-", "o").ink, f"--t{i}")
    return found


def inline(svg: bytes, number: int) -> str:
    """A figure of `to_svg(…, text=True)` as an element of a page.

    Args:
        svg: the file.
        number: which figure of the page it is; its ids begin with it.

    Returns:
        The `svg` element, for a wrapper that names it: it is hidden from screen readers.
    """
    text = svg.decode()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r' d="([^"]*)"', lambda d: f' d="{_path(d[1])}"', text)
    text = re.sub(r' (x|y|transform|width|height|viewBox)="[^"]*"', lambda a: NUMBER.sub(_short, a[0]), text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text).replace("rotate(-0 ", "rotate(0 ")
    text = re.sub(r' transform="rotate\(0 [^"]*"', "", text)
    known = variables()
    text = re.sub(r"(?<=[: ])#[0-9a-f]{6}(?=[;\"])", lambda c: f"var({known[c[0]]})" if c[0] in known else c[0], text)
    text = re.sub(r'style="([^"]*)"', lambda s: f'style="{s[1].replace(": ", ":").replace("; ", ";")}"', text)
    text = re.sub(rf'<g id="{HALO}\d+">', f'<g class="{HALO}">', text)
    used = set(re.findall(r"(?<=#)[\w-]+", text))
    text = re.sub(r' id="([^"]+)"', lambda i: f' id="f{number}-{i[1]}"' if i[1] in used else "", text)
    text = re.sub(r'(url\(|xlink:href=")#', rf"\1#f{number}-", text).replace("xlink:href", "href")
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.S)
    text = re.sub(r">\s+<", "><", text)
    for _ in range(4):  # groups of nothing but a name
        text = re.sub(r"<g>((?:<(?:path|use|text)\b[^>]*/>)*)</g>", r"\1", text)
    text = re.sub(r' (xmlns(:xlink)?|version)="[^"]*"', "", text)
    return text.strip().replace("<svg", '<svg aria-hidden="true"', 1)


def _path(d: str) -> str:
    """A path with tenths of a point and without points that cannot be seen; curves and glyphs only lose digits."""
    words = d.split()
    if set(filter(str.isalpha, words)) <= {"M", "L", "z"}:
        pieces = re.findall(r"[ML] [^Mz]*z?|z", " ".join(words))
        return "".join(_line(piece) for piece in pieces)
    return NUMBER.sub(_short, " ".join(words))


def _line(piece: str) -> str:
    numbers = [float(word) for word in re.findall(r"-?[\d.]+(?:e-?\d+)?", piece)]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    tenths = [(round(10 * x), round(10 * y)) for x, y in simplified(points)]
    steps = [v for (x0, y0), (x1, y1) in pairwise(tenths) for v in (x1 - x0, y1 - y0)]
    path = "M" + _joined(tenths[0]) + ("l" + _joined(steps) if steps else "")
    return path + ("z" if piece.endswith("z") else "")


def _joined(tenths: Sequence[int]) -> str:
    """Tenths as SVG writes numbers: no zero before the point, and no blank before a minus.

    >>> _joined([5, -3, 120])
    '.5-.3 12'
    """
    words = [f"{n / 10:g}".replace("0.", ".", 1) if abs(n) < 10 and n else f"{n / 10:g}" for n in tenths]
    return " ".join(words).replace(" -", "-")


def simplified(points: list[tuple[float, float]], tolerance: float = TOLERANCE) -> list[tuple[float, float]]:
    """A polyline without the points that lie within `tolerance` of it (Douglas and Peucker, 1973).

    >>> from blts.drawing.inline import simplified
    >>> simplified([(0.0, 0.0), (1.0, 0.01), (2.0, 0.0), (2.0, 5.0)])
    [(0.0, 0.0), (2.0, 0.0), (2.0, 5.0)]
    """
    keep, open_ends = {0, len(points) - 1}, [(0, len(points) - 1)]
    while open_ends:
        first, last = open_ends.pop()
        (x0, y0), (x1, y1) = points[first], points[last]
        dx, dy = x1 - x0, y1 - y0
        length = dx * dx + dy * dy
        worst, where = tolerance**2, 0
        for i in range(first + 1, last):
            px, py = points[i][0] - x0, points[i][1] - y0
            along = min(1.0, max(0.0, (px * dx + py * dy) / length)) if length else 0.0
            gap = (px - along * dx) ** 2 + (py - along * dy) ** 2
            if gap > worst:
                worst, where = gap, i
        if where:
            keep.add(where)
            open_ends += [(first, where), (where, last)]
    return [points[i] for i in sorted(keep)]


def _short(number: re.Match[str]) -> str:
    return _tenth(float(number[0])) if abs(float(number[0])) >= 2 else f"{float(number[0]):.3g}"


def _tenth(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
