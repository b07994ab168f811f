"""Pages made of what the code says: command line, HTTP API, glossary. A page has `:::{generated} commands` and `:::` for it."""

from __future__ import annotations

import pathlib
import re

import commands
import glossary
import http_api
from sphinx.application import Sphinx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = {"commands": commands.page, "http-api": http_api.page, "glossary": glossary.page}
PLACE = re.compile(r"^:::\{generated\} (?P<name>[\w-]+)\n:::$", re.MULTILINE)


def expanded(text: str) -> str:
    """A page with its generated part written out."""
    return PLACE.sub(lambda place: PAGES[place["name"]](ROOT), text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expanded(source[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
