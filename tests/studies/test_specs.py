"""Studies and their normal form; bad files are one sentence."""

from __future__ import annotations

import importlib
import json
import pathlib

import pytest

from blts import condition as build
from blts import paper
from blts.errors import BltsError, ConfigError
from blts.studies import Shard, Study, plan_file, read
from blts.studies.planning import plan
from blts.studies.provenance import code_version, version_for
from small import SMALL, TOML, small, written

# Specs


def test_lists_are_grids():
    study = Study("s", conditions=({"agent": ["a", "b"], "x": [1, 2]}, {"agent": "c"}))
    assert study.expanded() == [{"agent": a, "x": x} for a in "ab" for x in (1, 2)] + [{"agent": "c"}]


def test_the_normal_form_fills_in_defaults_and_is_its_own():
    study = plan(small())
    assert study.conditions[0] == {
        "env": "gaussian", "agent": "ucb1", "batching": "static", "prior": "informative", "horizon": 12, "times": 4, "drawn": False,
        "scale": 1.0,
    }  # fmt: skip
    assert plan(study) == study
    assert Study.from_json(json.loads(json.dumps(study.to_json()))).conditions == study.conditions


def test_conditions_that_compute_the_same_are_run_once():
    """UCB1 has no prior; an option left at what it is by default is another condition only in name."""
    table = {**SMALL, "agent": ["ucb1", "exact-ts"], "prior": ["informative", "uninformative"]}
    assert [(c["agent"], c["prior"]) for c in plan(small(conditions=(table,))).conditions] == [
        ("ucb1", "informative"), ("exact-ts", "informative"), ("exact-ts", "uninformative"),
    ]  # fmt: skip


def test_a_method_names_its_parts():
    (condition,) = plan(small(conditions=({**SMALL, "method": "karbasi-2021"},))).conditions
    assert (condition["agent"], condition["batching"], condition["method"]) == ("exact-ts", "dynamic", "karbasi-2021")


def test_a_prior_may_be_the_name_of_a_model():
    """With the model's options; priors of the environment come first, and MDPs have no other."""
    for agent in ("exact-ts", "ucb1"):
        (condition,) = plan(small(conditions=({**SMALL, "agent": agent, "prior": "bernoulli", "a": 3.0},))).conditions
        assert (condition["prior"], condition["a"]) == ("bernoulli", 3.0)
    assert float(build("gaussian", "exact-ts", prior="gaussian", options={"sd": 0.25}).agent.model.sd[0]) == 0.25
    for env, prior, words in (("rand-hie", "gaussian", "no option 'sd'"), ("gaussian", "gaussain", "no prior named")):
        with pytest.raises(BltsError, match=words):
            build(env, "thompson", prior=prior, options={"sd": 0.5} if prior == "gaussian" else {})
    with pytest.raises(BltsError, match="no prior named 'gaussian'"):
        build("riverswim", "psrl", prior="gaussian")


def test_a_longer_study_begins_with_the_same_cells():
    cells = [list(plan(small(replications=n, block=4)).cells()) for n in (8, 12)]
    assert {c.address() for c in cells[0]} < {c.address() for c in cells[1]}
    assert [c.replications for c in plan(small(replications=9)).cells()] == [4, 4, 1] * 2


def test_the_address_is_of_all_that_decides_the_numbers_and_of_nothing_else():
    cell = next(plan(small()).cells())
    assert cell.address() == cell._replace(source="elsewhere.py").address()
    changed = [
        cell._replace(seed=1), cell._replace(first=4), cell._replace(replications=5), cell._replace(task="counts"),
        cell._replace(code="abc"), cell._replace(version="abc"), cell._replace(condition={**cell.condition, "horizon": 13}),
    ]  # fmt: skip
    assert len({cell.address(), *(c.address() for c in changed)}) == 1 + len(changed)
    assert len(code_version()) == 16
    assert plan(small(title="Other words", figures=("dots",))).conditions == plan(small()).conditions


def test_the_papers_studies_are_planned():
    chapters = []
    for name in (name for name in paper.NAMES if name not in paper.missing(paper.NAMES)):
        study = plan(paper.study(name))
        assert study.title
        assert plan(study) == study
        chapters += [study.chapter] if study.chapter not in chapters[-1:] else []
    assert len(chapters) == len(set(chapters)) == 6  # studies of one chapter stand together
    assert set(paper.NAMES) == {p.stem for p in (pathlib.Path(paper.__file__).parent / "studies").glob("*.toml")}


def test_every_printed_number_has_a_condition():
    """All cells of the paper's two tables of results: four methods and the batches under three schemes; nine of RiverSwim."""
    for name, count in (("gaussian", 15), ("riverswim", 9)):
        study = plan(paper.study(name))
        own = [row for row in study.printed if "study" not in row]
        assert len(own) == count
        assert len(study.printed) == 24
        for row in own:
            names = {key: x for key, x in row.items() if key not in ("metric", "mean", "sd", "n", "where")}
            assert any(names.items() <= condition.items() for condition in study.conditions), row


# Bad input

FINDING = """[[findings]]
find = "difference"
metric = "regret"
of = { agent = "ucb1" }
than = { agent = "exact-ts" }
claim = "Nobody loses more than 'exact-ts' does."
expect = "equal"

"""


BAD = {
    "not TOML": ("x = = 1", "is not valid TOML: Invalid value (at line 1"),
    "unknown field": (TOML.replace("replications", "replicatons"), "line 3: A study has no field 'replicatons'. Did you"),
    "a condition's name": (TOML.replace("horizon = 12", "horizons = 12"), "no option 'horizons'. Did you mean 'horizon'?"),
    "expectation": (TOML + FINDING, "line 20: findings: expect must be one of same, higher, lower, no higher"),
    "nobody": (TOML + FINDING.replace("ucb1", "ucb2").replace("equal", "same"), "line 17: No condition matches of = {'agent': 'u"),
    "too few": (TOML.replace("replications = 8", "replications = 1"), "line 3: replications must be a whole number ≥ 2; got 1."),
    "no conditions": ("replications = 4", "line 1: A study needs conditions"),
    "conditions not tables": ('conditions = "all"', "line 1: conditions must be a list of tables"),
    "unknown agent": (TOML.replace('"ucb1"', '"ucb11"'), "line 9: There is no agent named 'ucb11'. Did you mean 'ucb1'?"),
    "unknown option": (TOML.replace("scale =", "scal ="), "line 10: There is no option 'scal'. Did you mean 'scale'?"),
    "bad horizon": (TOML.replace("horizon = 12", "horizon = 0"), "line 12: horizon must be a whole number ≥ 1; got 0."),
    "a number for a name": (TOML.replace('batching = "static"', "batching = 3"), "line 11: batching must be a name; got 3."),
    "unknown task": ('task = "simulat"\n' + TOML, "There is no task named 'simulat'. Did you mean 'simulate'?"),
    "unknown metric": ('metrics = ["batchs"]\n' + TOML, "line 1: There is no metric named 'batchs'. Did you mean 'batches'?"),
    "no such reference": ('reference = { agent = "blts" }\n' + TOML, "No condition matches the reference"),
    "metrics not a list": ("metrics = 3\n" + TOML, "line 1: metrics must be a list of names; got 3."),
    "conditions a number": ("conditions = 3", "line 1: conditions must be a list of tables"),
    "text for a flag": (TOML + 'drawn = "no"\n', "line 14: drawn must be true or false; got 'no'."),
    "parts that do not go together": (
        TOML + 'silence = "zero"\ndelay = 3\n',
        "Zeros are never told here",
    ),
    "a horizon beyond 32 bits": (TOML.replace("horizon = 12", "horizon = 3000000000"), "line 12: horizon must be a whole"),
    "no agent": (TOML.replace('agent = "ucb1"', ""), "A condition to simulate needs 'agent'"),
    "a bad name": ('name = "a/b"\n' + TOML, "A study's name has letters, digits, '-' and '_' only"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence_with_its_line(name, tmp_path):
    text, words = BAD[name]
    with pytest.raises(BltsError) as caught:
        plan_file(written(tmp_path, text))
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert str(tmp_path / "small.toml") in message


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["0/2", "3/2", "a/b", "1", "1/0", "-1/2"])
def test_bad_shards_are_refused(text):
    with pytest.raises(ConfigError, match="--shard takes i/n"):
        Shard.of(text)


# What a study's file imports


MINE = """
from blts.registry import register
from blts.studies import Study
from {package}.eps import Bold

register("agent", "bold-{package}")(lambda on: Bold(on.actions))
study = Study("mine", conditions=({{"env": "gaussian", "agent": "bold-{package}", "horizon": 12, "times": 4}},), replications=4)
"""


def test_results_depend_on_the_modules_that_a_studys_file_imports(tmp_path):
    """On those beside it, as on installed ones, and on those that these import in turn."""
    package, helper = tmp_path / "blts_test_bold", tmp_path / "blts_test_scale.py"
    package.mkdir()
    eps = "from blts import UCB1\nfrom blts_test_scale import SCALE\n\nclass Bold(UCB1):\n    scale: float = SCALE\n"
    (package / "eps.py").write_text(eps)
    helper.write_text("SCALE = 2.0\n")
    mine = tmp_path / "mine.py"
    mine.write_text(MINE.format(package=package.name))
    (study,) = plan_file(mine)
    first = version_for(study)
    assert first == version_for(study) != code_version()
    helper.write_text("SCALE = 3.0\n")
    second = version_for(study)
    (package / "eps.py").write_text(eps.replace("= SCALE", "= 2 * SCALE"))
    assert len({first, second, version_for(study)}) == 3
    (tmp_path / "unused.py").write_text("x = 1\n")
    mine.write_text(MINE.format(package=package.name) + "import math, jax, numpy, blts\n")
    assert version_for(study) == version_for(plan_file(mine)[0])


def test_results_depend_on_the_module_that_registered_a_part(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "blts_test_shy.py"
    text = 'from blts import UCB1, register\nregister("agent", "shy")(lambda on: UCB1(on.actions, 0.1))\n'
    module.write_text(text)
    importlib.import_module(module.stem)
    study = plan(small(conditions=({**SMALL, "agent": "shy"},)))
    first = version_for(study)
    module.write_text(text.replace("0.1", "0.2"))
    assert first != version_for(study)
    assert version_for(plan(small())) == code_version()
