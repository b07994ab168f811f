"""Defects of generated pages that a screen reader or a keyboard stumbles over, mended in the files; axe finds none then."""

from __future__ import annotations

import pathlib
import re

from sphinx.application import Sphinx

MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    "<pre>": '<pre tabindex="0">',  # wide code is scrolled with the arrow keys
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}
"""What themes write, and what should stand there."""
TABLE = re.compile(r'<div class="table-wrapper[^"]*"(?=>)')
"""What scrolls where a table is wide; it must be reached with the keyboard."""
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
LISTED = {"<dl>": '<span class="sig-args">', "</dl>": "</span>", "<dd>": '<span class="sig-arg">', "</dd>": "</span>"}
"""Arguments of long signatures are no list of terms and definitions."""


def mended(page: str) -> str:
    """A page without these defects; one that has none stays as it is."""
    if '<h1>Search</h1>\n<div id="search-results">' not in page:
        for written, better in MENDED.items():
            page = page.replace(written, better)
    page = TABLE.sub(lambda found: f'{found[0]} tabindex="0"', page)
    return SIGNATURE.sub(lambda found: _spans(found[0]), page)


def _spans(signature: str) -> str:
    for written, better in LISTED.items():
        signature = signature.replace(written, better)
    return signature


def mend(app: Sphinx, failure: Exception | None) -> None:
    """Mend all pages that were written."""
    if failure is None and app.builder.format == "html":
        for path in pathlib.Path(app.outdir).rglob("*.html"):
            before = path.read_text(encoding="utf-8")
            after = mended(before)
            if after != before:
                path.write_text(after, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
