"""`blts experiment`: the whole life of an experiment from a shell, and how it refuses."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import sqlite3
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError, ConfigError
from blts.live import schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXACT = ("--model", "gaussian", "--set", "sd=1.0", "--sampler", "exact", "--batching", "fixed", "--set", "size=6")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder with the default database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLTS_DB", raising=False)
    return tmp_path


def run(*arguments: str, code: int = 0, given: str | None = None) -> str:
    result = CliRunner().invoke(cli.app, ["experiment", *arguments], input=given, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def answer(*arguments: str, code: int = 0, given: str | None = None):
    return json.loads(run(*arguments, "--json", code=code, given=given))


def create(name: str = "mail", *options: str) -> dict:
    return answer("create", name, "--arm", "A", "--arm", "B", "--arm", "C", *EXACT, "--seed", "3", "--strict", *options)


def asked(n: int = 6, name: str = "mail") -> list[dict]:
    return answer("ask", name, "--n", str(n))["decisions"]


def csv_of(decisions, reward: float = 1.0) -> str:
    return "decision_id,reward\n" + "".join(f"{d['decision_id']},{reward}\n" for d in decisions)


def test_the_commands_of_a_whole_experiment(folder):
    assert create()["arms"] == ["A", "B", "C"]
    assert (folder / "blts.db").exists()
    assert create()["decisions"] == 0
    first = answer("ask", "mail", "--n", "50", "--request-id", "r1")
    assert first == answer("ask", "mail", "--n", "50", "--request-id", "r1")
    assert len(first["decisions"]) == 6
    assert first["feedback_due"]
    assert first["awaited"] == 6
    assert set(first["decisions"][0]["propensities"]) == {"A", "B", "C"}
    assert answer("refresh", "mail", code=3)["why"] == "batch 1 awaits 6 rewards"
    pathlib.Path("rewards.csv").write_text(csv_of(first["decisions"]))
    told = answer("tell", "mail", "rewards.csv")
    assert [told[k] for k in ("accepted", "duplicate", "conflict", "unknown", "invalid")] == [6, 0, 0, 0, 0]
    assert answer("tell", "mail", "rewards.csv")["duplicate"] == 6
    assert answer("refresh", "mail")["version"] == 2
    status = answer("status", "mail")
    assert status["policy"] == 2
    assert sum(status["allocation"].values()) == pytest.approx(1, abs=1e-5)
    assert answer("report", "mail", "--figures", "figures")["figures"] == [
        str(pathlib.Path("figures") / f"{name}.svg") for name in ("allocation", "posterior", "rewards")
    ]
    assert answer("export", "mail", "all.csv")["rows"] == 6
    assert answer("export", "mail", "all.parquet")["rows"] == 6
    assert answer("pause", "mail", "--reason", "lunch") == {"paused": True}
    assert answer("ask", "mail", code=3)["why"] == "the experiment is paused"
    assert answer("resume", "mail") == {"paused": False}
    assert answer("add-arm", "mail", "D")["policy_version"] == 3
    assert answer("retire-arm", "mail", "A")["policy_version"] == 4
    some = first["decisions"][0]["decision_id"]
    assert answer("correct", "mail", some, "2.5") == {"changed": True}
    assert answer("correct", "mail", some, "-2.5") == {"changed": True}
    assert answer("cancel", "mail", some) == {"cancelled": 1}
    assert [e["what"] for e in answer("audit", "mail")][-4:] == ["retire arm", "correct", "correct", "cancel"]
    assert answer("verify", "mail") == {"verified": True, "differences": []}
    assert answer("list") == ["mail"]
    assert answer("migrate") == {"before": schema.current(), "after": schema.current()}


def test_words_for_people():
    create()
    text = run("ask", "mail", "--n", "10")
    assert "6 of 10 decisions: batch 1 is closed and awaits 6 rewards." in text
    ids = re.findall(r"[0-9a-f]{16}-\d+", text)
    told = run("tell", "mail", "-", given="decision_id,reward\n" + "".join(f"{i},0.5\n" for i in ids) + "x,1\n")
    assert told.startswith("6 accepted, 0 duplicate, 0 conflict, 1 unknown, 0 invalid")
    assert "unknown: x" in told
    assert "version 2 is in use" in run("refresh", "mail")
    assert "Keep on" in run("report", "mail")
    for command in ("status", "audit"):
        assert re.search(r"mail.*20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", run(command, "mail"), re.DOTALL)
    assert "decisions in this batch" in run("status", "mail")
    assert "bit for bit" in run("verify", "mail")


def test_rewards_in_many_shapes():
    create()
    a, b, c, d, e, f = (x["decision_id"] for x in asked())
    assert (
        answer("tell", "mail", given=f'{{"decision_id": "{a}", "reward": 1}}\n\n{{"reward": true, "decision_id": "{b}"}}\n')[
            "accepted"
        ]
        == 2
    )
    assert answer("tell", "mail", given=json.dumps([{"decision_id": c, "reward": 0.5}]))["accepted"] == 1
    assert (
        answer("tell", "mail", given=f"\ufeffuser,reward,decision_id\r\n1,0.5,{d}\r\n2,,{e}\r\n3,x,{e}\r\n4,1_0,{e}\r\n5\r\n")[
            "invalid"
        ]
        == 3
    )
    assert answer("tell", "mail", given="", code=5)["accepted"] == 0
    assert answer("tell", "mail", given="decision_id,reward\n", code=5)["accepted"] == 0
    assert answer("tell", "mail", "--strict", given=f"decision_id,reward\n{f},nan\n", code=5)["invalid"] == 1
    assert answer("tell", "mail", given='{"decision_id": 3}\n[1]\n"x"\n', code=5)["accepted"] == 0
    pathlib.Path("bytes.csv").write_bytes(b"decision_id,reward\n\xff\x00\xfe,1\n")
    assert answer("tell", "mail", "bytes.csv", code=5)["unknown"] == 1  # nothing was accepted: that is not success


def test_options_go_to_the_part_that_has_them():
    status = create("x", "--set", "prior_sd=2.0", "--floor", "0.01", "--control-share", "0.1", "--burn-in", "2", "--cap", "9")
    assert status["model"] == "gaussian(sd=1.0, prior_sd=2.0)"
    assert status["batching"] == "fixed(size=6)"
    pathlib.Path("spec.toml").write_text('arms = ["A", "B"]\nmodel = "numbers"\nsampler = "exact"\nbatching = "external"\n')
    assert answer("create", "y", "--spec", "spec.toml")["batching"] == "external"
    totals = ("--total", "1.0", "--total-of-squares", "1.0", "--request-id", "day")
    arm = asked(1, "y")[0]["arm"]
    assert answer("tell-aggregate", "y", "--arm", arm, "--count", "1", *totals)["accepted"] == 1


REFUSED = {
    "no such experiment": ("ask", "nothing"),
    "no arms": ("create", "x", "--model", "gaussian"),
    "no model": ("create", "x", "--arm", "A"),
    "unknown model": ("create", "x", "--arm", "A", "--arm", "B", "--model", "gausian"),
    "no spread": ("create", "x", "--arm", "A", "--arm", "B", "--model", "gaussian"),
    "no such prior": ("create", "x", "--arm", "A", "--arm", "B", "--model", "conversions", "--prior", "8 apples"),
    "unknown option": ("create", "x", "--arm", "A", "--arm", "B", "--model", "gaussian", "--set", "colour=1"),
    "spec and options": ("create", "x", "--spec", "spec.toml", "--seed", "1"),
    "no spec": ("create", "x", "--spec", "nowhere.toml"),
    "no file": ("tell", "mail", "nowhere.csv"),
    "a file without columns": ("tell", "mail", "wrong.csv"),
    "not JSON": ("tell", "mail", "wrong.jsonl"),
    "other database": ("ask", "mail", "--db", "mysql://x/y"),
    "no database": ("ask", "mail", "--db", "nowhere.db"),
    "no server": ("ask", "mail", "--db", "postgresql://nobody@127.0.0.1:1/x"),
    "bad n": ("ask", "mail", "--n", "0"),
    "bad export": ("export", "mail", "all.xlsx"),
    "no folder": ("export", "mail", "nowhere/all.csv"),
    "no arm": ("retire-arm", "mail", "Z"),
    "no decision": ("correct", "mail", "x-1", "1"),
    "nothing to expose": ("expose", "mail"),
    "nobody to cancel": ("cancel", "mail", "x-1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_one_sentence(case):
    create()
    pathlib.Path("wrong.csv").write_text("id,value\n1,2\n")
    pathlib.Path("wrong.jsonl").write_text("{nonsense\n")
    with pytest.raises(BltsError) as refused:
        CliRunner().invoke(cli.app, ["experiment", *REFUSED[case]], catch_exceptions=False)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


def test_no_decisions_are_no_success():
    """A script must notice: 3 where decisions come later, and a refusal where they never come."""
    create()
    create("shop", "--seed", "4")
    run("ask", "mail", "--unit", "ann")
    asked(5)
    waits = answer("ask", "mail", "--n", "2", code=3)
    assert (waits["decisions"], waits["why"]) == ([], "batch 1 is closed and awaits 6 rewards")
    run("pause", "mail")
    assert "0 of 1 decision: the experiment is paused." in run("ask", "mail", code=3)
    assert "1 of 2 decisions: the experiment is paused." in run("ask", "mail", "--unit", "ann", "--unit", "bob")
    run("stop", "mail")
    for options in ((), ("--json",), ("--unit", "bob")):
        with pytest.raises(ConfigError, match="'mail' is stopped, and no arm was promoted: there are no more decisions"):
            run("ask", "mail", *options)
    kept = answer("ask", "mail", "--unit", "ann", "--unit", "bob")  # a unit keeps its decision
    assert (len(kept["decisions"]), kept["why"]) == (1, "the experiment is stopped")
    assert (kept["paused"], kept["stopped"]) == (False, True)
    status = answer("status", "mail")
    assert (status["paused"], status["stopped"], answer("report", "mail")["paused"]) == (False, True, False)
    for command in (("pause", "mail"), ("resume", "mail"), ("stop", "mail"), ("add-arm", "mail", "D"), ("retire-arm", "mail", "A")):
        with pytest.raises(ConfigError, match="'mail' is stopped"):
            run(*command)
    assert answer("verify", "mail")["verified"]
    refused = " ".join(run("refresh", "shop", code=3).split())
    assert refused == "Not refreshed: batch 1 is still open after 0 decisions. `--force` closes it now."
    run("pause", "shop")
    run("stop", "shop", "--promote", "B")
    assert {d["arm"] for d in asked(3, "shop")} == {"B"}  # it was paused, and is stopped now
    assert answer("verify", "shop")["verified"]


def test_verify_says_what_differs():
    create()
    decisions = asked()
    run("tell", "mail", given=csv_of(decisions))
    run("refresh", "mail")
    with sqlite3.connect("blts.db") as db:
        db.execute("DROP TRIGGER blts_rewards_no_update")
        db.execute("UPDATE blts_rewards SET reward = 7 WHERE t = 1")
    db.close()
    found = answer("verify", "mail", code=4)
    assert not found["verified"]
    assert found["differences"]


def live_commands(document: str) -> list[str]:
    text = (ROOT / document).read_text()
    lines = [line for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for line in block.splitlines()]
    live = [line for line in lines if line.startswith(("blts experiment ", "blts worker ", "python -c "))]
    return [line.split("  #")[0].strip() for line in live]


def typed(lines: list[str], folder: pathlib.Path) -> str:
    """What these lines print, in an empty folder; `> file` goes to the file, as in a shell."""
    printed = ""
    for line in lines:
        command, _, file = line.partition(" > ")
        if line.startswith("python "):
            done = subprocess.run(
                ["bash", "-c", f"{sys.executable} {command.removeprefix('python ')}"], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            out = done.stdout
        else:
            result = CliRunner().invoke(cli.app, shlex.split(command)[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output
            out = result.output
        if file:
            (folder / file).write_text(out)
        else:
            printed += out
    return printed


def test_the_howto_takes_twelve_commands_to_a_promoted_arm(folder):
    lines = live_commands("docs/howto-live.md")
    assert len(lines) == 12
    printed = typed(lines, folder)
    assert "every new decision is green" in " ".join(printed.split())
    assert "bit for bit" in printed
    assert (folder / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_the_howto_in_a_real_shell(folder):
    """Every command a process of its own, as a newcomer types them."""
    lines = "\n".join(live_commands("docs/howto-live.md"))
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", lines], env=os.environ | {"PATH": path}, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Note: no report names 'green' the winner")
    assert "bit for bit" in done.stdout


def test_the_commands_of_the_readme_run(folder):
    lines = live_commands("README.md")
    assert lines
    typed(lines, folder)
