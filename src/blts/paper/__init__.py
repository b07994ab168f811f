"""The paper's experiments: a study file each in `studies/`, and its printed numbers in `printed.json`. No JAX here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from importlib import resources, util
from typing import Any

from ..errors import UnknownName
from ..studies.reading import parse
from ..studies.spec import Study

NAMES = (
    *("methods-bandits", "methods-mdps", "gaussian", "laplace", "riverswim"),
    *("theorem-1", "theorem-2", "lemma", "theorem-3", "theorem-4", "presets"),
    *("gamma", "minibatch", "chain-end", "zero-counts", "db-psrl"),
    *("tradeoff", "rand"),
    *("contexts-batches", "contexts-shared", "contexts-temperature", "contexts-kernels", "contexts-data"),
    *("late", "late-conversions", "drift", "agents", "agents-many", "agents-contexts", "privacy", "privacy-batches"),
    *("stopping", "budget"),
)
"""The order of the report, a line for each chapter; the studies name it."""
NEEDS = {"contexts-data": ("sklearn", "scikit-learn", "blts[datasets]")}
"""Studies of data that are not shipped: the module, the package in words, and what installs it."""
QUICK = ("gaussian", "laplace", "riverswim")
"""The paper's own tables: what a first look runs."""
TITLE = "Langevin Thompson Sampling with Logarithmic Communication, run again"
LEAD = """
{what} of Karbasi, Kuang, Ma and Mitra (ICML 2023), computed by the code of this version, with the paper's printed \
numbers beside ours, and a verdict on each.

Numbers are mean ± standard deviation over independent runs, with the standard error and a bootstrap 95 % interval. The conditions \
of a study run on the same seeds, so they are compared run by run. The paper states {runs} runs; our first {runs} stand \
beside them. What is said of the results, below a study's text and in the captions, is computed from them.
"""


def missing(names: Sequence[str]) -> dict[str, str]:
    """The studies whose package is not installed, each with a sentence that says so."""
    return {
        name: f"The study {name} is left out: its data are of {package}, which is not installed (pip install '{extra}')."
        for name, (module, package, extra) in NEEDS.items()
        if name in names and util.find_spec(module) is None
    }


def lead(names: Sequence[str] = NAMES) -> str:
    """What opens a report of some of the studies."""
    whole = set(names) >= set(NAMES)
    what = "Every table and figure" if whole else f"{len(set(names))} of the {len(NAMES)} studies that repeat and extend the paper"
    runs = {row["n"] for row in numbers()}
    return LEAD.format(what=what, runs=" or ".join(map(str, sorted(runs))))


def numbers() -> list[dict[str, Any]]:
    """All numbers that the paper prints and that ours stand beside."""
    return json.loads(resources.files("blts.paper").joinpath("printed.json").read_text())["numbers"]


def printed(study: str) -> tuple[dict[str, Any], ...]:
    """The paper's numbers for a study; those of its other tables come last, with the study that they belong to."""
    rows = numbers()
    own = [{key: x for key, x in row.items() if key != "study"} for row in rows if row["study"] == study]
    return (*own, *(row for row in rows if row["study"] != study)) if own else ()


def study(name: str) -> Study:
    """One of the paper's studies."""
    if name not in NAMES:
        raise UnknownName("study", name, NAMES)
    text = resources.files("blts.paper").joinpath("studies", f"{name}.toml").read_text(encoding="utf-8")
    return dataclasses.replace(parse(text, name), printed=printed(NUMBERS_OF.get(name, name)))


NUMBERS_OF = {"db-psrl": "riverswim", "gamma": "gaussian"}
"""Studies that stand beside the numbers of another."""
