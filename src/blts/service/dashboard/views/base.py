"""What a view is."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..charts import Chart
from ..tables import Table


class View(NamedTuple):
    """What a page shows."""

    title: str
    template: str
    """A file of `templates`, without its ending."""
    values: dict[str, Any]
    """The template's variables."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()

    def table(self, name: str) -> Table | None:
        """The table with an id, of a chart or by itself, for its CSV file."""
        every = [chart.table for chart in self.charts] + list(self.tables)
        return next((table for table in every if table.id == name), None)


class Tile(NamedTuple):
    """A number that is shown large."""

    name: str
    value: str
    note: str = ""
    term: str | None = None
    """The word of the glossary that explains it."""
