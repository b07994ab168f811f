"""Names with a slash in them. In a path one is written as %2F, which must not be taken for the end of the name."""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.types import Scope

_WRITTEN = re.compile(rb"%2f", re.IGNORECASE)
_MARK = "\x00"
"""What stands for such a slash while the route is looked for; no name has it."""


def hidden(scope: Scope) -> Scope:
    """A request in whose path slashes of names are no slashes.

    Args:
        scope: of a request, as the server made it.

    Returns:
        What routes are looked for with.
    """
    written: bytes = scope.get("raw_path") or b""
    if b"%" not in written or _WRITTEN.search(written) is None:
        return scope
    return {**scope, "path": unquote(_WRITTEN.sub(b"%00", written).decode("latin-1"))}


def shown(scope: Scope) -> None:
    """Give the parts of a path their slashes back, once its route is found."""
    if _MARK in scope["path"]:
        scope["path"] = scope["path"].replace(_MARK, "/")
        scope["path_params"] = {name: part.replace(_MARK, "/") for name, part in scope["path_params"].items()}
