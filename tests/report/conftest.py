"""Fixtures of several files."""

from __future__ import annotations

import pytest

from blts.report import write
from stored import SAMPLERS, STUDY, fill


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report with every kind of figure: its folder and the names of its files."""
    folder = tmp_path_factory.mktemp("store") / "results"
    fill(folder, STUDY, *SAMPLERS)
    return folder, [str(path.relative_to(folder)) for path in write(folder, title="All", lead="One *and* two.")]
