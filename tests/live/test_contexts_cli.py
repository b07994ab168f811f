"""Contexts at the command line: declared, asked with, reported; and how mistakes are refused."""

from __future__ import annotations

import json
import pathlib

import pytest
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError

FEATURES = ("--feature", "age=18..90", "--feature", "country=DE,FR,US", "--feature", "returning=boolean")
MODEL = ("--model", "linear", "--set", "sd=1.0", "--sampler", "exact", "--batching", "external", "--seed", "3")
ANN = {"age": 31, "country": "FR", "returning": True}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """A folder with an experiment that has learned from 60 rewards."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cli")
        patch.chdir(path)
        patch.delenv("BLTS_DB", raising=False)
        run("create", "people", "--arm", "A", "--arm", "B", "--arm", "C", *MODEL, *FEATURES)
        rows = [
            f"u{i},{18 + i},{('DE', 'FR', 'US')[i % 3]},{('yes', 'no')[i % 2]},{'A; B' if i % 5 == 0 else ''}" for i in range(60)
        ]
        (path / "visitors.csv").write_text("unit,age,country,returning,available\n" + "\n".join(rows) + "\n")
        (path / "visitors.jsonl").write_text("".join(json.dumps(ANN | {"age": 20 + i}) + "\n" for i in range(3)))
        decisions = answer("ask", "people", "--contexts", "visitors.csv")["decisions"]
        assert [d["unit"] for d in decisions] == [f"u{i}" for i in range(60)]
        assert all(d["propensities"]["C"] == 0 for d in decisions[::5])
        told = "unit,reward\n" + "".join(f"{d['unit']},{float(d['arm'] == 'B') + 0.01 * i}\n" for i, d in enumerate(decisions))
        run("tell", "people", "-", given=told)
        run("refresh", "people")
        yield path


def run(*arguments: str, code: int = 0, given: str | None = None) -> str:
    result = CliRunner().invoke(cli.app, ["experiment", *arguments], input=given, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def answer(*arguments: str):
    return json.loads(run(*arguments, "--json"))


def test_contexts_as_json_and_from_files():
    first = answer("ask", "people", "--unit", "ann", "--context", json.dumps(ANN))["decisions"]
    assert answer("ask", "people", "--unit", "ann", "--context", json.dumps(ANN))["decisions"] == first
    assert len(answer("ask", "people", "--contexts", "visitors.jsonl")["decisions"]) == 3
    one = ("--context", json.dumps(ANN), "--available", "A")
    assert answer("ask", "people", *one, *one[:2])["decisions"][0]["arm"] == "A"
    again = answer("ask", "people", "--contexts", "visitors.csv")["decisions"]
    assert again[0]["unit"] == "u0"
    kept = ("ask", "people", "--unit", "ann", "--context", json.dumps(ANN), "--available", "C" if first[0]["arm"] != "C" else "B")
    assert answer(*kept)["decisions"] == [first[0] | {"available": False}]
    assert "a unit keeps its decision" in " ".join(run(*kept).split())
    assert answer("verify", "people")["verified"]


def test_status_and_report_say_what_is_known():
    said = " ".join(run("status", "people").split())
    assert "[18, 90] to [-1, 1]" in said
    assert "prior_mean 0 and prior_sd 1 for each of the 5 numbers of θ" in said
    printed = " ".join(run("report", "people", "--html", "report.html", "--figures", "figures").split())
    for words in ("always B", "US", "Bonferroni", "Nothing is recommended", "AIPW"):
        assert words in printed
    assert "P(best)" not in printed
    page = pathlib.Path("report.html").read_text()
    assert "always B" in page
    assert "country: FR" in page
    assert "P(best)" not in page
    assert answer("report", "people")["winner"] is None
    run("export", "people", "all.csv")
    assert "context: country" in pathlib.Path("all.csv").read_text().splitlines()[0]


def test_a_report_without_rewards():
    run("create", "empty", "--arm", "A", "--arm", "B", *MODEL[:-1], "4", *FEATURES, "--shared")
    assert "too few rewards" in " ".join(run("report", "empty", "--html", "empty.html").split())


def test_a_file_may_declare_everything():
    text = 'model = {name = "linear", sd = 1.0}\nshared = true\nseed = 7\n'
    text += 'arms = [{label = "A", metadata = {price = 1}}, {label = "B", metadata = {price = 5}}]\n'
    text += '[features]\nage = [18, 90]\nreturning = "boolean"\n[arm_features]\nprice = [0, 10]\n'
    pathlib.Path("spec.toml").write_text(text)
    found = answer("create", "priced", "--spec", "spec.toml")
    assert found["arm_features"] == ["price: from [0, 10] to [-1, 1]"]
    assert "products" in found["theta"]


REFUSED = {
    "no range": ("create", "x", "--arm", "A", "--arm", "B", *MODEL, "--feature", "age=18..x"),
    "no form": ("create", "x", "--arm", "A", "--arm", "B", *MODEL, "--feature", "age"),
    "no features": ("create", "x", "--arm", "A", "--arm", "B", *MODEL),
    "no context": ("ask", "people"),
    "not JSON": ("ask", "people", "--context", "{age: 31}"),
    "out of range": ("ask", "people", "--context", '{"age": 3, "country": "FR", "returning": true}'),
    "unknown column": ("ask", "people", "--contexts", "wrong.csv"),
    "a word for a number": ("ask", "people", "--contexts", "words.csv"),
    "both": ("ask", "people", "--contexts", "visitors.csv", "--unit", "ann"),
    "no file": ("ask", "people", "--contexts", "nowhere.csv"),
    "no rows": ("ask", "people", "--contexts", "nothing.csv"),
    "totals": ("tell-aggregate", "people", "--arm", "A", "--count", "1", "--total", "1", "--request-id", "t"),
    "a rehearsal": ("rehearse", "one.toml", "--arm", "A=1±1", "--arm", "B=1±1", "--units", "100"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_one_sentence(case):
    pathlib.Path("wrong.csv").write_text("age,country,returning,height\n31,FR,yes,2\n")
    pathlib.Path("words.csv").write_text("age,country,returning\nold,FR,yes\n")
    pathlib.Path("nothing.csv").write_text("age,country,returning\n")
    pathlib.Path("one.toml").write_text('arms = ["A", "B"]\nmodel = {name = "linear", sd = 1.0}\nfeatures = {age = [18, 90]}\n')
    with pytest.raises(BltsError) as refused:
        CliRunner().invoke(cli.app, ["experiment", *REFUSED[case]], catch_exceptions=False)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


def test_cells_are_read_as_those_of_rewards():
    """A decimal comma between semicolons; a mask as text for its own row alone; and no digits in groups."""
    run("ask", "people", "--contexts", "-", given="age;country;returning\n40,5;FR;yes\n")
    run("export", "people", "all.csv")
    assert "40.5,FR,True" in pathlib.Path("all.csv").read_text().splitlines()[-1]
    rows = [json.dumps(ANN | {"available": arm}) for arm in ("A", "C", "A; B")]
    made = json.loads(run("ask", "people", "--contexts", "-", "--json", given="\n".join(rows)))["decisions"]
    assert [d["arm"] for d in made[:2]] == ["A", "C"]
    assert made[2]["propensities"]["C"] == 0
    with pytest.raises(BltsError, match="with a comma"):
        run("ask", "people", "--contexts", "-", given="age;country;returning\n40,5;FR;yes\n40.123;FR;yes\n")
    with pytest.raises(BltsError, match="got '4_0'"):
        run("ask", "people", "--contexts", "-", given="age,country,returning\n4_0,FR,yes\n")
