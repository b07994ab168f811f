"""The paper's experiments: a study file each in `studies/`, and its printed numbers in `printed.json`. No JAX here."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any

from ..errors import UnknownName
from ..studies.reading import parse
from ..studies.spec import Study

NAMES = (
    *("methods-bandits", "methods-mdps", "gaussian", "laplace", "riverswim"),
    *("theorem-1", "theorem-2", "lemma", "theorem-3", "theorem-4", "presets"),
    *("gamma", "minibatch", "chain-end", "zero-counts", "db-psrl"),
    *("tradeoff", "rand"),
)
"""The order of the report, a line for each chapter; the studies name it."""
QUICK = ("gaussian", "laplace", "riverswim")
"""The paper's own tables: what a first look runs."""
TITLE = "Langevin Thompson Sampling with Logarithmic Communication, run again"
LEAD = """
Every table and figure of Karbasi, Kuang, Ma and Mitra (ICML 2023), computed by the code of this version, with the paper's printed \
numbers beside ours. Where they differ, the tables say so.

Numbers are mean ± standard deviation over independent runs, with the standard error and a bootstrap 95 % interval. All methods \
of a study run on the same seeds, so differences between them are paired. The paper has 10 runs; our first 10 stand beside them.
"""


def printed(study: str) -> tuple[dict[str, Any], ...]:
    """The paper's numbers for a study."""
    numbers = json.loads(resources.files("blts.paper").joinpath("printed.json").read_text())["numbers"]
    return tuple({key: x for key, x in row.items() if key not in ("study", "where")} for row in numbers if row["study"] == study)


def study(name: str) -> Study:
    """One of the paper's studies."""
    if name not in NAMES:
        raise UnknownName("study", name, NAMES)
    text = resources.files("blts.paper").joinpath("studies", f"{name}.toml").read_text(encoding="utf-8")
    return dataclasses.replace(parse(text, name), printed=printed(NUMBERS_OF.get(name, name)))


NUMBERS_OF = {"db-psrl": "riverswim"}
"""Studies that stand beside the numbers of another."""
