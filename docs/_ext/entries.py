"""`:::{entries}` in a page becomes the reference of the names below it: a table, then signature, docstring and example of each.

:::{entries}
blts.Gaussian
blts.Laplace
:::
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import public
from sphinx.application import Sphinx

BLOCK = re.compile(r"^:::\{entries\}\n(?P<names>.*?)^:::$", re.DOTALL | re.MULTILINE)
ALIAS = "Alias for field number"


def listed(text: str) -> list[str]:
    """The names that a page has entries of."""
    return [name for block in BLOCK.finditer(text) for name in block["names"].split()]


def expanded(text: str) -> str:
    """A page with its entries written out, as tables of links and directives of autodoc."""
    known = public.names()
    return BLOCK.sub(lambda block: _written(block["names"].split(), known), text)


def summary(value: Any) -> str:
    """The first sentence of an object's docstring, on one line."""
    paragraph = (inspect.getdoc(value) or "").split("\n\n")[0]
    line = " ".join(paragraph.split())
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!et al)[.:;](?= [A-Z`]|$)", line)
    return (line[: end.start()] if end else line) + "."


def _written(names: list[str], known: dict[str, Any]) -> str:
    rows = [f"| {{py:obj}}`~{name}` | {_cell(summary(known[name]))} |" for name in names]
    table = "\n".join(["{.names}", "| name | what it is |", "|---|---|", *rows])
    entries = "\n".join(f".. {_directive(known[name])}:: {name}\n{_options(known[name])}\n" for name in names)
    return f"{table}\n\n```{{eval-rst}}\n{entries}\n```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _directive(value: Any) -> str:
    if not inspect.isclass(value):
        return "autofunction"
    return "autoexception" if issubclass(value, BaseException) else "autoclass"


def _options(value: Any) -> str:
    return "   :members:\n   :member-order: bysource\n" if inspect.isclass(value) else ""


def skipped(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields that the arguments describe already, and those of named tuples that nothing describes."""
    if what in ("class", "exception") and str(getattr(member, "__doc__", "")).startswith(ALIAS):
        return True
    return None


def readable(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are nearly reStructuredText: a | outside of code is itself, and an indented block stays as it is."""
    found: list[str] = []
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        begins = line.startswith("    ") and i > 1 and not lines[i - 1].strip() and lines[i - 2].strip() and lines[i - 2][0] != " "
        if begins and not example:
            found += [".. code-block:: text", ""]
        parts = line.split("`")
        found.append(line if example else "`".join(p if j % 2 else p.replace("|", "\\|") for j, p in enumerate(parts)))
    lines[:] = found


def plain(app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None) -> Any:
    """Signatures without types that say nothing."""
    return None if signature is None else (signature.replace(": Any", ""), None if returns in ("None", "Any") else returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expanded(source[0])))
    app.connect("autodoc-skip-member", skipped)
    app.connect("autodoc-process-signature", plain)
    app.connect("autodoc-process-docstring", readable, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
