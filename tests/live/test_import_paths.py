"""Parts by import path: a model in a file of one's own, at the command line."""

from __future__ import annotations

import json
import sys

import pytest

from blts.errors import ConfigError
from blts.registry import build, find
from blts.studies import Study
from blts.studies.planning import plan
from blts.studies.provenance import version_for
from experiments import written_module
from test_live_cli import folder, run  # noqa: F401

MODELS = '''
from blts.models import Gaussian

class Tenfold(Gaussian):
    """A Gaussian whose rewards are paid tenfold."""

    def mean_reward(self, theta, context, action):
        return 10 * theta[0]

wide = Gaussian(prior_sd=50.0, sd=20.0)

def made():
    return wide
'''


@pytest.fixture
def module(folder):  # noqa: F811
    yield from written_module(folder, MODELS)


def test_an_experiment_with_a_model_of_ones_own(module):
    arms = ["--arm", "A", "--arm", "B"]
    run("create", "prices", *arms, "--model", f"{module}:wide", "--sampler", "exact", "--seed", "3")
    asked = json.loads(run("ask", "prices", "--n", "40", "--json"))["decisions"]
    rewards = {"A": 10.0, "B": 90.0}
    given = "decision_id,reward\n" + "".join(f"{d['decision_id']},{rewards[d['arm']] + i % 7}\n" for i, d in enumerate(asked))
    run("tell", "prices", given=given)
    run("refresh", "prices", "--force")
    report = json.loads(run("report", "prices", "--json"))
    mine = [d for d in asked if d["arm"] == "A"]
    mean = sum(10.0 + i % 7 for i, d in enumerate(asked) if d["arm"] == "A") / len(mine)
    shrunk = mean * 50.0**2 / (50.0**2 + 20.0**2 / len(mine))
    assert report["arms"][0]["posterior_mean"] == pytest.approx(shrunk, rel=1e-3)
    run("verify", "prices")
    run("create", "tenfold", *arms, "--model", f"{module}:Tenfold", "--set", "sd=2.5")
    assert json.loads(run("status", "tenfold", "--json"))["decisions"] == 0


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{}:made", "no class and no object of blts.Model"),
        ("os:system", "no class and no object of blts.Model"),
        ("no_such_module:Model", "cannot be imported"),
        ("{}:Other", "cannot be imported"),
        ("a b:c", "write it as module:Name"),
        ("{}:", "write it as module:Name"),
    ],
)
def test_what_is_no_model_is_refused(module, path, words):
    with pytest.raises(ConfigError, match=words):
        run("create", "prices", "--arm", "A", "--arm", "B", "--model", path.format(module))


def test_a_class_has_options_and_an_object_has_none(module):
    assert build("model", f"{module}:Tenfold", sd=3.0).sd == 3.0
    assert build("model", f"{module}:wide") == getattr(sys.modules[module], "wide")  # noqa: B009
    with pytest.raises(ConfigError, match="no option 'sd'"):
        build("model", f"{module}:wide", sd=3.0)
    with pytest.raises(ConfigError, match="no class and no object of"):
        find("batching", f"{module}:Tenfold")


def test_a_study_is_computed_again_when_the_file_changes(module, folder):  # noqa: F811
    study = plan(
        Study(
            name="mine",
            conditions=({"agent": "exact-ts", "env": "gaussian", "prior": f"{module}:wide", "horizon": 20},),
            replications=2,
        )
    )
    first = version_for(study)
    assert first == version_for(study)
    (folder / f"{module}.py").write_text(MODELS.replace("20.0", "30.0"))
    assert version_for(study) != first
