"""Fixtures of several files."""

from __future__ import annotations

import pytest

from blts.studies import Store, Study, run
from blts.studies.planning import plan
from small import small


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Study, Store]:
    """The small study, run in this process."""
    store = Store.create(tmp_path_factory.mktemp("whole"))
    assert run([plan(small())], store)
    return store.studies()[0], store
