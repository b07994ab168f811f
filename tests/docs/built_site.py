"""The documentation site, built as `make docs` builds it, and its links."""

from __future__ import annotations

import html.parser
import os
import pathlib
import subprocess
import sys
from urllib.parse import unquote, urlsplit

from documents import ROOT

DOCS = ROOT / "docs"


def build(source: pathlib.Path, out: pathlib.Path, *, notebooks: bool = False) -> subprocess.CompletedProcess[str]:
    """Run Sphinx with the settings of docs/conf.py: warnings are errors, and every reference must be found.

    Args:
        source: a folder of pages.
        out: where the site goes.
        notebooks: whether they are run; the default tests run each for itself, in tests/docs/test_notebooks.py.

    Returns:
        How it went.
    """
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--nitpicky", "--quiet"]
    command += ["--conf-dir", str(DOCS), "--doctree-dir", str(out.parent / "doctrees"), str(source), str(out)]
    command += [] if notebooks else ["--define", "notebooks_execute=0"]
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, encoding="utf-8")


class Page(html.parser.HTMLParser):
    """What a page of the site points to, and the places that it has."""

    def __init__(self, text: str):
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        """Scripts, styles and pictures, which a browser fetches by itself."""
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        if tag in ("script", "img", "iframe") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and "href" in values:
            self.loaded.append(values["href"])


def broken(site: pathlib.Path) -> list[str]:
    """Links within a site that lead nowhere: to no file, or to no place in it. Those to other hosts are not followed.

    Args:
        site: the folder.

    Returns:
        A sentence for each.
    """
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in [*page.targets, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.name}: {link} is no file.")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{path.name}: {link} has no such place.")
    return found


def from_elsewhere(site: pathlib.Path) -> list[str]:
    """What a browser would fetch from another host, so that the site would not open offline.

    Args:
        site: the folder.

    Returns:
        Addresses.
    """
    pages = [Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")]
    return [link for page in pages for link in page.loaded if urlsplit(link).netloc]
