"""The reference has an entry of every public name, and every docstring an example, its arguments and what it returns."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import pytest

pytest.importorskip("openfeature", reason='the reference imports every module: pip install "blts[all]"')
pytest.importorskip("sphinx", reason='the site needs Sphinx: pip install "blts[docs]"')

from documents import PAGES, ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import entries
import public

NAMES = public.names()
OURS = {name: value for name, value in NAMES.items() if value.__module__.startswith("blts")}
"""All but `random.split` and `random.fold_in`, which are JAX's; the docstring of `blts.random` has an example of them."""


def without_example(names: dict[str, Any]) -> list[str]:
    return [name for name, value in names.items() if ">>> " not in (inspect.getdoc(value) or "")]


def undescribed(function: Any) -> list[str]:
    """Arguments of a function that its docstring does not describe, and "returns" where it returns something unsaid."""
    doc = inspect.getdoc(function) or ""
    arguments = [
        name
        for name in inspect.signature(function).parameters
        if not re.search(rf"^\s+[\w, *]*\b{name}\b[\w, ]*:", doc, re.MULTILINE)
    ]
    returns = function.__annotations__.get("return") not in (None, "None") and "Returns:" not in doc
    return arguments + ["returns"] * returns


def test_every_public_name_has_one_entry():
    listed = [name for path in PAGES for name in entries.listed(path.read_text(encoding="utf-8"))]
    assert sorted(listed) == sorted(NAMES)
    assert len(listed) > 200


def test_every_public_name_has_an_example():
    """The tests run it, as every docstring."""
    assert without_example(OURS) == []
    assert {name for name in NAMES if name not in OURS} == {"blts.random.fold_in", "blts.random.split"}


def test_every_public_function_describes_its_arguments_and_what_it_returns():
    functions = {name: value for name, value in OURS.items() if not inspect.isclass(value)}
    assert {name: found for name, value in functions.items() if (found := undescribed(inspect.unwrap(value)))} == {}
    assert len(functions) > 60


def test_what_is_missing_is_found():
    """The mutants of the three tests above."""

    def silent(first: int, second: int) -> int:
        """A sum.

        Args:
            first: a number.
        """
        return first + second

    assert undescribed(silent) == ["second", "returns"]
    assert without_example({"silent": silent}) == ["silent"]
    assert entries.listed(":::{entries}\nblts.Thompson\nblts.UCB1\n:::\n") == ["blts.Thompson", "blts.UCB1"]
    assert entries.listed("`blts.Thompson`") == []
