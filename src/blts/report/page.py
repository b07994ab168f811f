"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..drawing.inline import inline as inline_svg
from ..drawing.pages import render
from ..errors import ConfigError
from .figures import Drawn
from .findings import Finding
from .outcome import Outcome
from .overview import Overview, overview
from .tables import Comparison, Table, unfinished
from .words import decimals, fixed, interval, metric_of, p_value


class Section(NamedTuple):
    """A study as it is shown."""

    outcome: Outcome
    tables: tuple[Table, ...]
    comparisons: tuple[Comparison, ...]
    figures: tuple[Drawn, ...]
    growth: tuple[dict[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        return self.outcome.study.name

    @property
    def title(self) -> str:
        return self.outcome.study.title or self.name

    @property
    def paragraphs(self) -> list[str]:
        return [p for p in re.split(r"\n\s*\n", self.outcome.study.text.strip()) if p]

    @property
    def warnings(self) -> list[str]:
        return unfinished(self.outcome)

    @property
    def score(self) -> str:
        return metric_of(self.outcome.score, self.outcome.study.labels).words

    def compared(self) -> dict[str, list[dict[str, str]]]:
        """The comparisons in words, by what they are with."""
        scale = metric_of(self.outcome.score, self.outcome.study.labels).scale
        places = decimals((c.difference for c in self.comparisons), scale)
        found: dict[str, list[dict[str, str]]] = {}
        for c in self.comparisons:
            row = {
                "label": c.label,
                "mean": fixed(c.difference.mean * scale, places),
                "interval": interval(c.difference.low * scale, c.difference.high * scale, places),
                "p": p_value(c.difference.p),
                "verdict": c.verdict,
            }
            found.setdefault(c.reference, []).append(row)
        return found


class Chapter(NamedTuple):
    title: str
    sections: tuple[Section, ...]


def chapters(sections: Sequence[Section]) -> list[Chapter]:
    """Studies of one chapter together, chapters in the order of their first study."""
    found: dict[str, list[Section]] = {}
    for section in sections:
        found.setdefault(section.outcome.study.chapter, []).append(section)
    return [Chapter(title, tuple(held)) for title, held in found.items()]


def page(sections: Sequence[Section], provenance: dict[str, Any], *, title: str, lead: str) -> str:
    """The HTML of a report."""
    try:
        import jinja2 as jinja2
        import markupsafe
    except ImportError:
        raise needed("jinja2") from None
    numbers = itertools.count(1)
    filters = {
        "inline": lambda text: markupsafe.Markup(inline(text)),
        "svg": lambda svg: markupsafe.Markup(inline_svg(svg, next(numbers))),
        "fixed": fixed,
        "p": p_value,
        "duration": duration,
    }
    paragraphs = [p for p in re.split(r"\n\s*\n", lead.strip()) if p]
    filled = {"title": title, "lead": paragraphs, "chapters": chapters(sections), "provenance": provenance}
    seen = overview([section.outcome for section in sections])
    filled |= {"overview": seen, "story": story(sections, seen), "titles": {section.name: section.title for section in sections}}
    return render("blts.report", "page.html.jinja", filters, **filled)


def story(sections: Sequence[Section], seen: Overview) -> tuple[Section, Drawn] | None:
    """The figure of the first page: the first of the study that the first sentence is about, else of any."""
    leading = [sentence.study for sentence in seen.sentences[:1]]
    ordered = sorted((s for s in sections if s.figures), key=lambda s: s.name not in leading)
    return (ordered[0], ordered[0].figures[0]) if ordered else None


def inline(text: str) -> str:
    """Text as HTML: `code` and *emphasis* are marked up, all else is escaped.

    >>> from blts.report.page import inline
    >>> inline("*All* of `a < b`, 2 * 3 * 4")
    '<em>All</em> of <code>a &lt; b</code>, 2 * 3 * 4'
    """
    import html

    pieces = re.split(r"`([^`\n]+)`", text)
    for i, piece in enumerate(pieces):
        safe = html.escape(piece)
        pieces[i] = f"<code>{safe}</code>" if i % 2 else re.sub(r"(?<!\w)\*(?=\S)([^*\n]+?)(?<=\S)\*(?!\w)", r"<em>\1</em>", safe)
    return "".join(pieces)


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds < 120:
        return f"{seconds:.1f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def needed(library: str) -> ConfigError:
    return ConfigError(f'A report needs {library}: pip install "blts[report]".')
