"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import importlib.metadata
import io
import json
import pathlib
import subprocess
import sys

import pytest

from blts import registry
from blts.cli import study
from blts.cli.listing import KINDS
from blts.cli.simulate import announce
from blts.errors import BltsError
from running_cli import SMALL, blts, one_sentence, refused, simulate

AGENTS = ("blts", "thompson", "exact-ts", "ula-ts", "mala-ts", "baoab-ts", "ucb1", "bayes-ucb", "eps-greedy", "base", "uniform")
SCHEMES = ("sequential", "fixed", "static", "dynamic")


def test_json_has_the_promised_keys():
    found = simulate("--agent", "exact-ts", "--batching", "dynamic", "--prior", "informative", "--seed", "0")
    assert {"regret_mean", "regret_sd", "batches_mean", "batches_sd", "replications"} <= found.keys()
    assert found["replications"] == 3
    assert found["horizon"] == 20
    assert found["agent"] == "exact-ts"
    assert simulate("--agent", "exact-ts", "--seed", "0") == found
    assert simulate("--agent", "exact-ts", "--seed", "1")["regret_mean"] != found["regret_mean"]


def test_one_replication_is_valid_json():
    """A spread that does not exist is null, not NaN, which is not JSON."""
    found = simulate("--agent", "uniform", "--replications", "1")
    assert found["regret_sd"] is None


@pytest.mark.parametrize("agent", ["exact-ts", "ucb1", "bayes-ucb", "eps-greedy", "base", "uniform"])
def test_every_light_agent_runs(agent):
    assert simulate("--agent", agent)["regret_mean"] > 0


@pytest.mark.parametrize("batching", SCHEMES)
def test_every_batching_runs(batching):
    batches = simulate("--agent", "uniform", "--batching", batching)["batches_mean"]
    assert batches == {"sequential": 20, "fixed": 2, "static": 4}.get(batching, batches)


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("batching", SCHEMES)
def test_every_agent_runs_under_every_batching(agent, batching):
    assert simulate("--agent", agent, "--batching", batching)["regret_mean"] > 0


def test_the_words():
    text = blts("simulate", *SMALL, "--agent", "uniform")
    for word in ("uniform on gaussian", "3 replications of 20 rounds", "regret at the horizon", "batches"):
        assert word in text


def test_with_contexts_temperature_and_quantiles_are_said():
    """A few runs that never recover, and draws that are wider than the posterior, are not seen in a mean."""
    ask = ("--env", "linear-20d", "--agent", "lin-ts", "--set", "temperature=4")
    found, text = simulate(*ask), blts("simulate", *SMALL, *ask)
    assert "at temperature 4" in text
    assert f"Regret: median {found['regret_median']:.2f}, 95 % quantile {found['regret_q95']:.2f}" in text
    assert found["regret_median"] < found["regret_q95"]
    assert "median" not in blts("simulate", *SMALL, "--agent", "uniform")


def test_options_reach_the_agent():
    wide = simulate("--agent", "ucb1", "--set", "scale=50")
    assert wide["regret_mean"] > simulate("--agent", "ucb1")["regret_mean"]
    assert simulate("--agent", "uniform", "--batching", "fixed", "--batch-size", "5")["batches_mean"] == 4


def test_a_sampler_by_name_is_thompson_sampling_with_it():
    few = ("--set", "pool=4", "--set", "steps=3")
    found = simulate("--sampler", "baoab", *few)
    assert found == simulate("--agent", "thompson", "--set", "sampler=baoab", *few)
    assert found["agent"] == "thompson"
    assert found["regret_mean"] != simulate("--agent", "thompson", *few)["regret_mean"]


def test_list_shows_everything_registered():
    found = json.loads(blts("list", "--json"))
    words = blts("list")
    for kind, heading in KINDS.items():
        names = [item["name"] for item in found[heading]]
        assert names == list(registry.entries(kind))
        assert all(item["summary"].endswith(".") for item in found[heading])
        assert all(name in words for name in names)
    assert set(AGENTS) <= {item["name"] for item in found["agents"]}
    assert set(SCHEMES) <= {item["name"] for item in found["batching"]}
    known = {"informative", "uninformative", "gaussian", "uniform", "sparse", "own", "weak"}
    assert {item["name"] for item in found["priors"]} == known


def test_methods_name_registered_parts():
    for entry in registry.entries("method").values():
        method = entry.build()
        registry.find("agent", method.agent)
        registry.find("batching", method.batching)


# What is refused

BAD = {
    "unknown environment": (("--env", "gausian"), "no environment named 'gausian'. Did you mean 'gaussian'?"),
    "unknown agent": (("--agent", "exact"), "Did you mean 'exact-ts'?"),
    "unknown sampler": (("--sampler", "baoap"), "Did you mean 'baoab'?"),
    "a sampler of another agent": (
        ("--sampler", "baoab", "--agent", "ucb1"),
        "--sampler is for the agent thompson, and ucb1 has its own",
    ),
    "unknown batching": (("--batching", "dynamicc"), "Did you mean 'dynamic'?"),
    "unknown prior": (("--prior", "informativ"), "Did you mean 'informative'?"),
    "a horizon beyond 32 bits": (
        ("--horizon", "3000000000"),
        "horizon must be a whole number from 1 to 2147483647; got 3000000000.",
    ),
    "steps beyond 32 bits": (("--set", "steps=99999999999"), "steps must be at most 2147483647; got 99999999999."),
    "a minibatch beyond 32 bits": (("--set", "minibatch=99999999999"), "minibatch must be at most 2147483647"),
    "a batch beyond 32 bits": (("--batching", "fixed", "--batch-size", "99999999999"), "size must be at most 2147483647"),
    "replications beyond 32 bits": (("--agent", "uniform", "--replications", "3000000000"), "must be at most 2147483647"),
    "horizon 0": (("--horizon", "0"), "horizon must be a whole number from 1 to 2147483647; got 0."),
    "replications 0": (("--replications", "0"), "replications must be a whole number ≥ 1; got 0."),
    "replications -3": (("--replications", "-3"), "replications must be"),
    "an option twice": (("--set", "steps=5", "--set", "steps=6"), "--set gives steps twice"),
    "no agent": (("--agent", ""), "There is no agent named ''"),
    "no equals sign": (("--set", "steps"), "--set takes name=value"),
    "unknown option": (("--set", "stepz=3"), "Did you mean 'steps'?"),
    "an option that is not a number": (("--set", "step_size=fast"), "step_size"),
    "no steps": (("--set", "steps=0"), "steps must be a whole number ≥ 1"),
    "a fractional number of steps": (("--set", "steps=2.5"), "steps must be a whole number ≥ 1; got 2.5"),
    "fixed size 0": (("--batching", "fixed", "--batch-size", "0"), "size must be a whole number ≥ 1; got 0."),
    "a size for another batching": (("--batch-size", "5"), '"fixed"'),
    "exact draws of a Laplace model": (("--env", "laplace", "--agent", "exact-ts"), "no closed posterior"),
    "negative seed": (("--seed", "-1"), "seed must be a whole number from 0"),
    "chunk 0": (("--chunk", "0"), "chunk must be a whole number ≥ 1"),
    "recorded rewards drawn from a prior": (("--env", "rand-hie", "--drawn"), "leave out --drawn"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_code_two(name, capsys):
    arguments, words = BAD[name]
    err = refused(capsys, "simulate", *arguments)
    assert words in err
    one_sentence(err)


@pytest.mark.parametrize(
    "arguments", [("simulate", "--horizon", "many"), ("simulate", "--seed", "x"), ("simulat",), ("simulate", "--colour", "red")]
)
def test_what_the_parser_refuses_has_code_two(arguments, capsys):
    refused(capsys, *arguments)


def test_the_paper_command_refuses(capsys, tmp_path):
    assert "Did you mean 'laplace'?" in refused(capsys, "paper", "--only", "laplac")
    assert "replications must be ≥ 2" in refused(capsys, "paper", "--replications", "1", "--out", str(tmp_path))
    assert "--quick has 40 replications" in refused(capsys, "paper", "--quick", "--replications", "10", "--out", str(tmp_path))
    (tmp_path / "file").write_text("")
    assert "give another --out" in refused(capsys, "paper", "--out", str(tmp_path / "file"))


def test_the_paper_in_one_command(tmp_path):
    """One study of it, small; the second time nothing is computed."""
    out = tmp_path / "results"
    words = ("paper", "--only", "minibatch", "--replications", "20", "--out", str(out))
    assert "15 cells computed" in blts(*words)
    rows = json.loads((out / "results.json").read_text())
    assert {row["study"] for row in rows} == {"minibatch"}
    assert {row["n"] for row in rows} == {100}  # 2000 chains in proportion
    assert (out / "index.html").exists()
    assert "0 cells computed" in blts(*words)


def test_the_version():
    import blts as package

    assert blts("--version") == f"blts {package.__version__}\n"
    root = pathlib.Path(__file__).resolve().parents[2]
    assert importlib.metadata.version("blts") == package.__version__
    assert f"\nversion: {package.__version__}\n" in (root / "CITATION.cff").read_text()


def test_what_does_not_fit_into_memory_is_one_sentence(capsys):
    err = refused(capsys, "mdp", "solve", "riverswim", "--set", "states=99999999999999")
    assert "not enough memory" in err
    one_sentence(err)


def test_a_study_tells_a_file_how_far_it_is(tmp_path, monkeypatch):
    """Without a terminal there is no bar: a line at the start, then one when enough seconds have passed."""
    spec = tmp_path / "small.toml"
    spec.write_text("""
replications = 8
block = 4
figures = []
[[conditions]]
env = "gaussian"
agent = "uniform"
horizon = 12
times = 4
""")
    quiet = blts("study", "run", str(spec), "--out", str(tmp_path / "quiet")).splitlines()
    assert quiet[0] == "2 cells, of which 0 are stored; computing 2."
    assert not any("cells done" in line for line in quiet)
    monkeypatch.setattr(study, "EVERY", 0.0)
    out = str(tmp_path / "out")
    lines = blts("study", "run", str(spec), "--out", out).splitlines()
    assert lines[1].startswith("1 of 2 cells done after ")
    assert lines[2].startswith("2 of 2 cells done after ")
    assert "gaussian uniform" in lines[2]
    assert blts("study", "resume", out).splitlines()[0] == "2 cells, of which 2 are stored; computing 0."
    shorter = blts("study", "run", str(spec), "--replications", "4", "--out", out).splitlines()
    assert shorter[0] == "1 cell, of which 1 is stored; computing 0."
    assert "0 cells computed in" in shorter[-1]
    assert "1 was stored" in shorter[-1]


def test_what_takes_a_while_is_announced_on_a_terminal_only(monkeypatch):
    for terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stream)
        announce("Compiling …")
        assert stream.getvalue() == ("Compiling …\n" if terminal else "")


def test_the_list_of_studies():
    found = json.loads(blts("study", "list", "--json"))
    assert [row["study"] for row in found["studies"]][2:5] == ["gaussian", "laplace", "riverswim"]
    assert {row["task"] for row in found["tasks"]} >= {"simulate", "posterior", "rows", "counts"}
    assert "curves" in found["figures"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "gausian"), "Did you mean 'gaussian'?"),
        (("run", "nowhere.toml"), "cannot be read"),
        (("status", "nowhere"), "is not a folder of results"),
        (("resume", "nowhere"), "is not a folder of results"),
        (("report", "nowhere"), "is not a folder of results"),
        (("run", "gaussian", "--shard", "0/3"), "--shard takes i/n"),
        (("run", "gaussian", "--replications", "1"), "replications must be a whole number ≥ 2"),
        (("run", "gaussian", "--seed", "-1"), "seed must be a whole number ≥ 0"),
        (("run", "gaussian", "--engine", "ray"), "no engine named 'ray'"),
    ],
)
def test_studies_refuse_in_one_sentence(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, "study", *arguments)
    assert list(tmp_path.glob("**/cells")) == []


def test_help_does_not_import_jax():
    code = "import sys\nsys.argv = ['blts', '--help']\nfrom blts.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n"
    code += "    assert not end.code\nassert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for command in ("simulate", "list", "paper", "mdp"):
        assert command in run.stdout


@pytest.mark.parametrize("command", ["--help", "--unknown"])
def test_a_command_ends_without_looking_for_cycles(command):
    """That took a quarter of a second after a simulation. What is frozen is not looked at."""
    code = f"import gc, sys\nsys.argv = ['blts', '{command}']\nfrom blts.cli import main\nassert not gc.get_freeze_count()\n"
    code += "try:\n    main()\nexcept SystemExit:\n    assert gc.get_freeze_count() > 10_000"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_program_itself():
    """Once through a real process: one sentence, no traceback, code 2."""
    run = subprocess.run([sys.executable, "-m", "blts", "simulate", "--env", "gausian"], capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("blts: There is no environment named 'gausian'.")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-m", "blts", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "blts: no space is left where the output is written to; nothing more was written.\n"


def test_the_runner_raises_what_main_turns_into_a_sentence():
    with pytest.raises(BltsError):
        blts("simulate", "--env", "gausian")


def test_one_replication_has_no_spread():
    printed = blts("simulate", "--horizon", "20", "--replications", "1")
    assert "nan" not in printed
    assert "1 replication of 20 rounds" in printed


def test_an_effect_may_be_in_percentage_points(capsys):
    from blts.cli.plan import _number

    assert (_number("5%"), _number("0.05"), _number(" 2 ")) == (0.05, 0.05, 2.0)
    one_sentence(refused(capsys, "plan", "--model", "conversions", "--base", "20%", "--effect", "much"))


def test_the_figure_of_a_simulation(tmp_path, capsys):
    """The first picture needs no Python; what cannot be drawn is refused before anything is computed."""
    path = tmp_path / "new" / "regret.svg"
    plain = blts("simulate", *SMALL, "--agent", "uniform")
    assert blts("simulate", *SMALL, "--agent", "uniform", "--figure", str(path)) == plain
    assert path.read_bytes().startswith(b"<?xml")
    for options, sentence in (
        (("--figure", "regret.png"), "ends in .svg"),
        (("--figure", str(path), "--replications", "1"), "--replications must be at least 2"),
    ):
        said = refused(capsys, "simulate", "--agent", "uniform", *options)
        one_sentence(said)
        assert sentence in said


def test_set_names_the_option_of_its_own(capsys):
    """It used to ask "Did you mean 'horizon'?" of horizon."""
    for name, option in (("horizon", "--horizon"), ("batch-size", "--batch-size"), ("drawn", "--drawn")):
        said = refused(capsys, "simulate", "--set", f"{name}=100")
        one_sentence(said)
        assert f"given by itself: {option}." in said
