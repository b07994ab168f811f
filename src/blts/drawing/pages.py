"""How pages look, for reports of studies and of live experiments alike: one style sheet, one way to fill a template."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigError


def render(package: str, template: str, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """Fill a template.

    Args:
        package: the package whose folder has it.
        template: its file.
        filters: functions that it may call; what they return as `markupsafe.Markup` is not escaped.
        values: its variables; `style` is added.

    Returns:
        The page.

    Raises:
        ConfigError: Jinja is not installed.
    """
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise ConfigError('Pages need jinja2; install it with: pip install "blts[report]".') from None
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters |= dict(filters)
    text = (importlib.resources.files(package) / template).read_text(encoding="utf-8")
    style = (importlib.resources.files(__package__ or "blts.drawing") / "page.css").read_text(encoding="utf-8")
    return environment.from_string(text).render(style=markupsafe.Markup(style), **values) + "\n"
