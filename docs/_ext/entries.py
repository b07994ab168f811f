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
ARGUMENT = re.compile(r"^    (\w+):", re.MULTILINE)
MIXED = ("Experiment",)
"""Classes of which some methods are those of mixins that have no entry."""
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
    """Members of a class, without the fields that its arguments describe already."""
    if not inspect.isclass(value):
        return ""
    described = ARGUMENT.findall((inspect.getdoc(value) or "").partition("\nArgs:\n")[2].partition("\n\n")[0])
    without = f"   :exclude-members: {', '.join(described)}\n" if described else ""
    inherited = "   :inherited-members: Contract\n" if value.__name__ in MIXED else ""
    return f"   :members:\n   :member-order: bysource\n{without}{inherited}"


def skipped(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of named tuples that nothing describes."""
    return True if what in ("class", "exception") and str(getattr(member, "__doc__", "")).startswith(ALIAS) else None


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
    # A first line with a colon would be read as a type and what it is for; an escaped blank has none, and is not shown.
    lines[:] = ["\\ ", *found] if what in ("attribute", "property") and ":" in found[0] else found


def plain(app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None) -> Any:
    """Signatures without types that say nothing."""
    return None if signature is None else (re.sub(r": ~?(typing\.)?Any\b", "", signature), None if returns == "None" else returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expanded(source[0])))
    app.connect("autodoc-skip-member", skipped)
    app.connect("autodoc-process-signature", plain)
    app.connect("autodoc-process-docstring", readable, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
