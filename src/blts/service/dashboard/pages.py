"""Templates: how a view becomes HTML. Everything is escaped, and characters that cannot be seen are shown as numbers."""

from __future__ import annotations

import hashlib
import importlib.resources
from functools import lru_cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from . import numbers
from .terms import TERMS

FILES = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""What pages load."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy: scripts and styles from files of this service alone, and no request to any other host."""


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The templates, compiled once a process."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("blts.service.dashboard"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    found.filters |= {
        "ago": numbers.ago,
        "iso": numbers.iso,
        "moment": numbers.moment,
        "short": numbers.short,
        "raw": lambda value: escape(value),
        "sentence": _sentence,
    }
    found.globals["terms"] = TERMS
    return found


def load() -> None:
    """Compile all templates, so that the first page is as quick as the others."""
    for name in environment().list_templates():
        environment().get_template(name)


def _shown(value: Any) -> Any:
    """Every value that a template prints: text with its hidden characters visible."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else numbers.visible(value)


def _sentence(text: str) -> Markup:
    """A sentence with labels in it, which `verdict` puts between two isolating characters."""
    plain = Markup("").join(Markup("<bdi>") if c == "\u2068" else Markup("</bdi>") if c == "\u2069" else escape(c) for c in text)
    return plain


@lru_cache(maxsize=8)
def static(name: str) -> bytes:
    """The content of one of `FILES`."""
    return (importlib.resources.files("blts.service.dashboard") / "static" / name).read_bytes()


@lru_cache(maxsize=1)
def digest() -> str:
    """What changes when a file that pages load changes, so that browsers may keep files for ever."""
    return hashlib.sha256(b"".join(static(name) for name in sorted(FILES))).hexdigest()[:12]


def render(template: str, values: dict[str, Any]) -> str:
    """Fill a template.

    Args:
        template: its name, without its ending.
        values: its variables.

    Returns:
        The page.
    """
    return environment().get_template(f"{template}.html.jinja").render(values | {"digest": digest()})
