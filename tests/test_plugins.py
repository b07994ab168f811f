"""Parts of other packages: found through entry points, listed and run by name; broken ones are named and break nothing else."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from blts import cli, plugins, registry
from blts.errors import BltsError, ConfigError, UnknownName
from blts.studies import Study
from blts.studies.provenance import code_version, version_for
from documents import ROOT, blocks, example_parts

EXAMPLE = ROOT / "docs" / "extend"
PARTS = {"models": "cauchy", "samplers": "random-walk", "agents": "runner-up", "batching": "growing", "environments": "drifting"}
STUDY = """
replications = 4
[[conditions]]
env = "drifting"
agent = ["runner-up", "exact-ts"]
batching = "growing"
horizon = 20
"""
SCRIPT = """
import json, sys
from typer.testing import CliRunner
from blts import cli

for command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli.app, command, catch_exceptions=False)
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


def run(commands: list[list[str]], path: str, cwd: pathlib.Path) -> list[tuple[int, str, str]]:
    """What commands print, in a process that has these folders on its path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), path)), "COLUMNS": "160", "JAX_PLATFORMS": "cpu"}
    script = [sys.executable, "-c", SCRIPT, json.dumps(commands)]
    done = subprocess.run(script, env=environment, cwd=cwd, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_the_example_package(tmp_path):
    """Listed with its package, simulated by name, in a study, and in a live experiment."""
    path = example_parts(tmp_path / "site")
    (tmp_path / "mine.toml").write_text(STUDY)
    small = ["--horizon", "20", "--replications", "2", "--json"]
    commands = [
        ["list", "--json"],
        ["list"],
        ["simulate", "--agent", "runner-up", "--set", "share=0.25", *small],
        ["simulate", "--agent", "uniform", "--batching", "growing", *small],
        ["simulate", "--env", "drifting", "--set", "arms=3", "--set", "sd=0.1", *small],
        ["simulate", "--env", "gaussian-close", "--agent", "thompson", "--set", "sampler=random-walk", "--set", "pool=8", *small],
        ["simulate", "--env", "gaussian-close", "--prior", "cauchy", "--set", "scale=0.5", "--set", "steps=2", *small],
        ["study", "run", "mine.toml", "--out", "mine"],
        ["experiment", "create", "x", "--db", "x.db", "--arm", "A", "--arm", "B", "--model", "cauchy", "--set", "scale=2"],
        [
            "experiment",
            "create",
            "y",
            "--db",
            "x.db",
            "--arm",
            "A",
            "--arm",
            "B",
            "--model",
            "numbers",
            "--sampler",
            "random-walk",
            "--set",
            "pool=8",
        ],
    ]
    listed, words, *done = run(commands, path, tmp_path)
    assert [(code, errors) for code, _, errors in (listed, words, *done)] == [(0, "")] * len(commands)
    found = json.loads(listed[1])
    for heading, name in PARTS.items():
        packages = {item["name"]: item["package"] for item in found[heading]}
        assert packages.pop(name) == "blts-example-parts"
        assert set(packages.values()) == {"blts"}
    assert {item["name"]: item["options"] for item in found["agents"]}["runner-up"] == {"share": 0.5}  # no text stands for a belief
    assert " ".join(words[1].split()).count("from blts-example-parts") == len(PARTS)
    runner_up, growing, drifting, walk, cauchy = (json.loads(out) for _, out, _ in done[:5])
    assert runner_up["agent"] == "runner-up"
    assert growing["batches_mean"] == 7  # they end at 1, 2, 3, 5, 8, 12, 18
    assert drifting["prior"] == "uninformative"
    assert walk["refreshes_finite"]
    assert cauchy["prior"] == "cauchy"
    assert (tmp_path / "mine" / "results.json").exists()
    assert "2 arms, cauchy(scale=2)" in done[-2][1]
    assert "thompson(sampler=random-walk, pool=8)" in done[-1][1]


def test_help_imports_neither_jax_nor_the_packages(tmp_path):
    path = os.pathsep.join((str(ROOT / "src"), example_parts(tmp_path)))
    script = f"{SCRIPT}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, '[["--help"]]'],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.split(".")[0] for name in done.stdout.split("\n")[1].split()}
    assert "typer" in loaded
    assert loaded.isdisjoint({"jax", "numpy", "blts_example_parts"})


def test_the_howto_shows_the_files_of_the_package():
    shown = blocks((ROOT / "docs" / "howto-extend.md").read_text())
    for path in sorted((EXAMPLE / "blts_example_parts").glob("[a-z]*.py")):
        code = path.read_text().split('"""\n\n', 1)[1]
        assert code in [block.text for block in shown if block.language == "python"], path.name
        imports = [line for line in code.splitlines() if line.startswith(("import", "from"))]
        assert all(not line.startswith("from blts.") and " _" not in line for line in imports), path.name
    (settings,) = [block.text for block in shown if block.language == "toml"]
    assert settings in (EXAMPLE / "pyproject.toml").read_text()


# Broken packages


def install(folder: pathlib.Path, package: str, points: dict[str, dict[str, str]], code: str = "") -> None:
    """A package of one module, with its metadata, in a folder."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = (f"[blts.{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in points.items())
    (info / "entry_points.txt").write_text("\n".join(groups))
    (folder / f"{package}.py").write_text(code)


GOOD = '''
from blts import UCB1, Fixed, register

number = 3


class Timid(UCB1):
    """UCB1, as a class."""


def timid(on, scale=0.25):
    """UCB1 with a narrow bonus."""
    return UCB1(on.actions, scale)


@register("agent", "weekly", "UCB1 in weeks.", batching="static")
def weekly(on):
    return UCB1(on.actions)


def failing(on):
    return 1 / 0


class Mute(Exception):
    def __str__(self):
        return 1 / 0


def mute(on):
    raise Mute


def scheme(on):
    return Fixed(10)
'''


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path of this process; what is found there is forgotten afterwards."""
    registry.find("agent", "ucb1")  # fills the registry
    before = {kind: dict(entries) for kind, entries in registry._ENTRIES.items()}
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.all_offered.cache_clear()
    yield tmp_path
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)
    plugins.all_offered.cache_clear()
    for name in ("good", "other", "bad"):
        sys.modules.pop(name, None)


def test_a_class_and_a_function_are_built_in_their_setting(site):
    points = {"timid": "good:timid", "timid-class": "good:Timid", "weekly": "good:weekly"}
    install(site, "good", {"agents": points}, GOOD)
    from blts import condition

    assert registry.find("agent", "timid").options() == {"scale": 0.25}
    assert registry.find("agent", "timid-class").options() == {"scale": 1.0}
    for name in ("timid", "timid-class"):
        built = condition("gaussian", name, "static", options={"scale": 2.0}).agent
        assert (built.actions, float(built.scale)) == (15, 2.0)
    assert condition("gaussian", "weekly").names["batching"] == "static"
    assert registry.find("agent", "weekly").summary == "UCB1 in weeks."
    assert registry.unusable_parts() == []
    with pytest.raises(UnknownName, match="Did you mean 'timid'"):
        registry.find("agent", "timit")
    with pytest.raises(ConfigError, match=r"has no option 'scael'. Did you mean 'scale'"):
        registry.build("agent", "timid", None, scael=1)


BROKEN = {
    "missing-module": (
        "bad:agent",
        r"of the package good cannot be imported from 'bad:agent' \(ModuleNotFoundError: No module .*uninstall",
    ),
    "missing-name": ("good:nobody", r"cannot be imported from 'good:nobody' \(AttributeError: .*nobody"),
    "exits": ("bad:exits", r"cannot be imported from 'bad:exits' \(SystemExit: 7\); mend, update or uninstall good"),
    "mute": ("mute:x", r"cannot be imported from 'mute:x' \(Mute\); mend"),
    "wrong-type": ("good:number", "is the int 'good:number'; its entry point must name a class, or a function"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_point_is_named_and_breaks_nothing_else(site, name):
    value, words = BROKEN[name]
    if name == "exits":
        (site / "bad.py").write_text("import sys\nsys.exit(7)\n")
    (site / "mute.py").write_text("class Mute(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Mute\n")
    install(site, "good", {"agents": {"timid": "good:timid", name: value}}, GOOD)
    with pytest.raises(ConfigError, match=words):
        registry.find("agent", name)
    assert "timid" in registry.entries("agent")
    assert name not in registry.entries("agent")
    (sentence,) = registry.unusable_parts()
    assert sentence.startswith(f"The agent {name!r} of the package good ")
    assert sentence.endswith(".")
    listed = CliRunner().invoke(cli.app, ["list", "--json"], catch_exceptions=False)
    assert listed.exit_code == 0
    assert "timid" in [item["name"] for item in json.loads(listed.stdout)["agents"]]
    assert listed.stderr == f"blts: {sentence}\n"


def test_ctrl_c_while_a_package_is_imported_stops(site):
    install(site, "good", {"agents": {"slow": "good:slow"}}, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        plugins.chosen("agent", "slow").load()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("good:failing", r"The agent 'x' of the package good cannot be built \(ZeroDivisionError: division by zero\)\."),
        ("good:mute", r"The agent 'x' of the package good cannot be built \(Mute\)\."),
        ("good:scheme", r"The agent 'x' of the package good builds a Fixed; it must build an object of blts.Agent or"),
    ],
)
def test_a_part_that_cannot_be_built_is_named(site, value, words):
    install(site, "good", {"agents": {"x": value}}, GOOD)
    from blts import condition

    with pytest.raises(ConfigError, match=words):
        condition("gaussian", "x")


def test_names_that_are_taken(site):
    """blts keeps its own; of two packages neither wins."""
    own = registry._ENTRIES["agent"]["ucb1"]
    install(site, "good", {"agents": {"ucb1": "good:timid", "mine": "good:timid"}}, GOOD)
    install(site, "other", {"agents": {"mine": "other:timid"}}, GOOD)
    assert registry.find("agent", "ucb1") is own
    with pytest.raises(ConfigError, match="The packages good and other all have the agent 'mine', so none is used"):
        registry.find("agent", "mine")
    both, taken = sorted(registry.unusable_parts(), key=len)
    assert "'mine'" in both
    assert taken.startswith("The agent 'ucb1' of the package good is left out, because blts has a part of that name")
    with pytest.raises(ConfigError, match="The agent 'ucb1' is one of blts itself; register yours under another name"):
        registry.register("agent", "ucb1")(test_names_that_are_taken)


def test_results_depend_on_the_code_of_the_packages_that_a_study_uses(site):
    install(site, "good", {"agents": {"timid": "good:timid"}}, GOOD)
    points = site / "good-1.0.dist-info" / "entry_points.txt"
    plain = Study("plain", conditions=({"env": "gaussian", "agent": "ucb1"},))
    mine = Study("mine", conditions=({"env": "gaussian", "agent": "timid"},))
    assert version_for(plain) == code_version()
    before = version_for(mine)
    assert before not in ("", code_version())
    assert version_for(mine) == before
    points.write_text("[blts.agents]\ntimid = good:Timid\n")  # another part under that name
    plugins.all_offered.cache_clear()
    assert version_for(mine) != before
    points.write_text("[blts.agents]\ntimid = good:timid\n")
    plugins.all_offered.cache_clear()
    assert version_for(mine) == before
    (site / "good.py").write_text(GOOD.replace("scale=0.25", "scale=0.5"))
    importlib.invalidate_caches()
    assert version_for(mine) != before
    assert version_for(plain) == code_version()


def test_errors_of_packages_are_of_blts(site):
    """So the command line prints them as one sentence, without a traceback."""
    install(site, "good", {"agents": {"gone": "bad:agent"}})
    with pytest.raises(BltsError):
        registry.find("agent", "gone")
