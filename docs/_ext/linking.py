"""Names of blts in `code` become links to their entries; so do types in signatures, where there is an entry."""

from __future__ import annotations

import functools
import re

import public
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

LEADING = re.compile(r"(?P<name>(?:blts\.)?[A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)
FUNCTIONS = ("simulate", "posterior", "from_functions", "from_link", "from_numpyro", "standardised", "sgld", "ula", "mala", "baoab")
"""Functions that are meant wherever their name is written alone; `array`, `plan` or `check` may be anything."""
ALREADY = (nodes.reference, nodes.title, nodes.term, addnodes.pending_xref, addnodes.desc_signature)
WRITTEN_BY_AUTODOC = (addnodes.desc_signature, nodes.field)


@functools.cache
def targets() -> dict[str, str]:
    """What may be written in code, and the entry that it means."""
    found: dict[str, str] = {}
    for name in public.names():
        short = name.rpartition(".")[2]
        found[name] = name
        if name.count(".") > 1:
            found[name.partition(".")[2]] = name  # contexts.features
        if short[0].isupper() or short in FUNCTIONS:
            found.setdefault(short, name)
    return found


@functools.cache
def origins() -> dict[str, str]:
    """Public names by where their objects are defined."""
    return public.origins()


def link(app: Sphinx, document: nodes.document) -> None:
    """Make a reference of every literal that is a public name, or a call of one."""
    own = {name for entry in document.findall(addnodes.desc_signature) for name in entry.get("ids", ())}
    for literal in list(document.findall(nodes.literal)):
        match = LEADING.fullmatch(literal.astext())
        target = targets().get(match["name"]) if match else None
        if target is None or any(isinstance(parent, ALREADY) for parent in _parents(literal)):
            continue
        if target in own and target in {i for parent in _parents(literal) for i in _ids(parent)}:
            continue  # within its own entry
        reference = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refdoc=app.env.docname, refexplicit=True, refwarn=True
        )
        literal.replace_self(reference)
        reference += literal


def resolved(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> nodes.Node | None:
    """Types that autodoc writes: a link to the public name, or plain text. References of authors are left to fail."""
    if node.get("refdomain") != "py" or not any(isinstance(parent, WRITTEN_BY_AUTODOC) for parent in _parents(node)):
        return None
    target = node["reftarget"]
    name = origins().get(target) or targets().get(target) or targets().get(target.rpartition(".")[2])
    if name is not None:
        found = env.get_domain("py").objects.get(name)  # type: ignore[attr-defined]
        if found is not None:
            uri = app.builder.get_relative_uri(node["refdoc"], found.docname)
            reference = nodes.reference("", "", internal=True, refuri=f"{uri}#{found.node_id}", reftitle=name)
            reference += content
            return reference
    return content


def _parents(node: nodes.Node) -> list[nodes.Node]:
    found, parent = [], node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def _ids(parent: nodes.Node) -> list[str]:
    first = parent.children[0] if isinstance(parent, addnodes.desc) and parent.children else None
    return list(first.get("ids", ())) if isinstance(first, nodes.Element) else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", link)
    app.connect("missing-reference", resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
