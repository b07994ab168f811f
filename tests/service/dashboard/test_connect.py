"""The code of the page Connect is run as it is shown, against a service that listens: it decides, and its reward counts."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from blts.live import Experiment
from blts.live.database import Database
from blts.service.dashboard.frames import facts_now
from blts.service.dashboard.views import connect
from blts.service.dashboard.views.create import BY_PROGRAM
from blts.service.keys import Keys
from blts.service.roles import Role
from houses import experiment_in, listening, service_on

AGES = {"name": "age", "range": [18, 80]}
COUNTRIES = {"name": "country", "levels": ["Côte d'Ivoire", 'a "b"', "c"]}
SHORT = {"sampler": "exact", "batching": "external"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, str, str]]:
    """A database, the address of a service on it, and an app's key."""
    database = Database(str(tmp_path_factory.mktemp("connect") / "connect.db"))
    experiment_in(database, "mail")
    experiment_in(database, "it's a/b test", exposure="explicit")
    Experiment.create(database, "visits", ["A", "B", "C"], {"name": "counts", "a": 2.0, "b": 1.0}, **SHORT)
    options = {"prior_mean": 0.0, "prior_sd": 1.0}
    Experiment.create(
        database, "books", ["A", "B", "C"], {"name": "linear", "sd": 1.0, **options}, features=[AGES, COUNTRIES], **SHORT
    )
    service = service_on(database)
    key = service.keys.create("the shop", Role.app, by="test")[1]
    with listening(service) as address:
        yield database, address, key


def run(kind: str, code: str, key: str, folder: pathlib.Path) -> str:
    """What the code prints, run as somebody would who copied it."""
    environment = os.environ | {"BLTS_KEY": key}
    if kind == "curl":
        code = re.sub("^curl ", "curl -sS --fail-with-body ", re.sub("export BLTS_KEY=.*", "", code), flags=re.MULTILINE)
        command = ["bash", "-e", "-c", code]
    else:
        (folder / "copied.py").write_text(code)
        command = [sys.executable, str(folder / "copied.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_code_of_the_form_creates_an_experiment(place: tuple[Database, str, str], tmp_path: pathlib.Path) -> None:
    database, address, _ = place
    key = Keys(database).create("Anna", Role.admin, by="test")[1]
    run("python", f"import os\nos.environ['BLTS_URL'] = {address!r}\n{BY_PROGRAM}", key, tmp_path)
    features = Experiment.open(database, "front-page").spec.features or ()
    assert [feature.name for feature in features] == ["age", "country", "returning"]
    assert Experiment.open(database, "headline").status()["metrics"] == ["refunds", "pages"]


@pytest.mark.parametrize("kind", ["curl", "python", "openfeature-python"])
@pytest.mark.parametrize("name", ["mail", "it's a/b test", "visits", "books"])
def test_code_that_is_copied_works(place: tuple[Database, str, str], tmp_path: pathlib.Path, kind: str, name: str) -> None:
    if kind == "curl" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if kind.startswith("openfeature"):
        pytest.importorskip("openfeature")
        if "/" in name:
            pytest.skip("OpenFeature's provider does not escape names")
    database, address, key = place
    experiment = Experiment.open(database, name)
    (code,) = [one.code for one in connect.snippets(facts_now(experiment, 0.0), address) if one.id == kind]
    unit = f"visitor by {kind}"
    printed = run(kind, code.replace("user-17", unit), key, tmp_path)
    decision = experiment.decision(unit=unit)
    assert decision["reward"] == facts_now(experiment, 0.0).status["example_reward"]
    if kind == "python":
        assert printed.strip() == decision["arm"]
    if name == "books":
        assert decision["context"] == {"age": 49.0, "country": "Côte d'Ivoire"}
    if name == "it's a/b test":
        assert decision["exposed_at"] is not None
