"""The reference has an entry of every public name, and every docstring an example, its arguments and what it returns."""

from __future__ import annotations

import ast
import collections
import doctest
import functools
import importlib
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
PARSER = doctest.DocTestParser()


class Finder(doctest.DocTestFinder):
    """What pytest collects, without looking for line numbers."""

    def _find_lineno(self, obj: Any, source_lines: Any) -> int:
        return 0


@functools.cache
def collected() -> set[str]:
    """Where objects are defined whose examples the tests run, as `blts.agents.thompson.Thompson`."""
    modules = {value.__module__ for value in NAMES.values()}
    found = [Finder().find(importlib.import_module(module), module) for module in sorted(modules)]
    return {test.name for tests in found for test in tests if test.examples}


def words(annotation: Any) -> set[str]:
    return set(re.findall(r"\w+", annotation if isinstance(annotation, str) else str(getattr(annotation, "__name__", annotation))))


@functools.cache
def makers() -> dict[str, set[str]]:
    """By the name of a class, what gives an object of it: functions, methods and fields, by their annotations."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for full, value in NAMES.items():
        if not inspect.isclass(value):
            for word in words(inspect.unwrap(value).__annotations__.get("return", "")):
                found[word].add(full.rsplit(".", 1)[1])
            continue
        for base in (base for base in value.__mro__ if base.__module__.startswith("blts")):
            for name, annotation in vars(base).get("__annotations__", {}).items():
                for word in words(annotation):
                    found[word].add(name)
            for name, member in vars(base).items():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                annotations = getattr(inspect.unwrap(function), "__annotations__", {}) if callable(function) else {}
                for word in words(annotations.get("return", "")):
                    found[word].add(name)
    return found


def without_example(names: dict[str, Any]) -> dict[str, str]:
    """Objects without an example, or with one that shows nothing: each with what is wrong with it.

    An example must be run by the tests, print something, and use the object, or for a class what gives an object of it. A name that
    is imported is not used.
    """
    wrong = {}
    for full, value in names.items():
        examples, own = PARSER.get_examples(inspect.getdoc(value) or ""), full.rsplit(".", 1)[-1]
        nodes = [node for example in examples for node in ast.walk(ast.parse(example.source))]
        used = {node.id for node in nodes if isinstance(node, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        shown = {word for example in examples for word in words(example.want)}
        if not examples:
            wrong[full] = "none"
        elif any(example.options.get(doctest.SKIP) for example in examples):
            wrong[full] = "skipped"
        elif not any(example.want.strip() for example in examples):
            wrong[full] = "prints nothing"
        elif not {own, *makers()[own]} & used and own not in shown:
            wrong[full] = "does not use it"
        elif full in NAMES and f"{value.__module__}.{value.__qualname__}" not in collected():
            wrong[full] = "is not run"
    return wrong


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
    """The tests run it, as every docstring; it uses the name and prints something."""
    assert without_example(NAMES) == {}
    assert all(value.__module__.startswith("blts") for value in NAMES.values())


def test_every_public_function_describes_its_arguments_and_what_it_returns():
    functions = {name: value for name, value in NAMES.items() if not inspect.isclass(value)}
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
    assert without_example({"silent": silent}) == {"silent": "none"}
    assert entries.listed(":::{entries}\nblts.Thompson\nblts.UCB1\n:::\n") == ["blts.Thompson", "blts.UCB1"]
    assert entries.listed("`blts.Thompson`") == []


@pytest.mark.parametrize(
    ("example", "wrong"),
    [
        (">>> from blts import UCB1", "prints nothing"),
        (">>> from blts import UCB1\n>>> 1 + 1\n2", "does not use it"),
        (">>> import blts\n>>> agent = blts.UCB1(3)", "prints nothing"),
        (">>> import blts\n>>> blts.UCB1(3).actions  # doctest: +SKIP\n3", "skipped"),
        ("UCB1(3).actions is 3", "none"),
        (">>> import blts\n>>> blts.UCB1(3).actions\n3", None),
        (">>> import blts\n>>> blts.condition('gaussian', 'ucb1').agent\nUCB1(15)", None),
    ],
)
def test_an_example_that_shows_nothing_does_not_count(example, wrong):
    """The mutants of the test of examples."""
    shown = type("UCB1", (), {"__doc__": f"Best of bounds.\n\n{example}\n"})
    assert without_example({"UCB1": shown}).get("UCB1") == wrong


def test_an_example_that_no_test_runs_does_not_count(monkeypatch):
    monkeypatch.setitem(NAMES, "blts.UCB1", type("UCB1", (), {"__doc__": ">>> import blts\n>>> blts.UCB1(3).actions\n3\n"}))
    assert without_example(NAMES) == {"blts.UCB1": "is not run"}
