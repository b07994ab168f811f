"""What somebody tries on a first day: each mistake has one sentence that says what to do, and what can be meant is understood."""

from __future__ import annotations

import datetime
import json

import pytest
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError, ConfigError
from blts.live import Experiment, Spec
from blts.live.conclusions.delayed import _pending
from blts.live.report import _why_wide
from blts.live.spec import from_mapping


def mail(**settings) -> Experiment:
    return Experiment.create("sqlite://", "mail", ["A", "B"], "conversions", seed=3, **settings)


# In Python


def test_a_decision_stands_for_its_id():
    experiment = mail()
    first, second = experiment.ask(2).decisions
    assert experiment.tell([(first, 1)]).accepted == 1
    assert experiment.tell([(first.id, 1), (second, 0)]) == (1, 1, 0, 0, 0, {"duplicate": [first.id]}, 0, False, ())


@pytest.mark.parametrize("rewards", ["some-id", {"some-id": 1.0}, b"x", 3])
def test_rewards_are_a_list_of_rows(rewards):
    """A text or a mapping was a list of bad rows, which nobody looks at."""
    with pytest.raises(ConfigError, match=r"tell takes a list of rows, .* such as \[\(decision.id, 1.0\)\]; got "):
        mail().tell(rewards)


def test_durations_are_also_weeks_and_timedeltas():
    spec = Spec.of(["A", "B"], "conversions", window="2 weeks", forget=datetime.timedelta(days=90))
    assert (spec.window, spec.forget) == (14 * 86400.0, 90 * 86400.0)
    with pytest.raises(ConfigError, match="such as 30min, 6h or 1d"):
        Spec.of(["A", "B"], "conversions", window=datetime.timedelta(days=-1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Experiment.create("mail", "sqlite://", ["A", "B"], "conversions"), "database URL, which comes first"),
        (lambda: mail(prior="8 to 12"), 'for percentages write "8% to 12%"'),
        (lambda: mail(batching="extrnal"), "Did you mean 'external'"),
        (lambda: mail(window=-3), 'a number of seconds ≥ 0, or a duration such as "1d"; got -3'),
        (lambda: from_mapping({"arms": ["A", "B"], "modell": "counts"}), "no 'model'. Is it meant by 'modell'?"),
        (lambda: from_mapping({"model": "counts"}), "no 'arms'."),
    ],
)
def test_mistakes_are_one_sentence(make, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BltsError) as refused:
        make()
    assert sentence in str(refused.value)
    assert not list(tmp_path.iterdir())  # nothing was created on the way


def test_a_report_is_printed_for_people():
    experiment = mail(batching="external")
    assert "A: 0 units" in str(experiment.report())
    experiment.tell([(decision, decision.arm == "B") for decision in experiment.ask(1).decisions])
    report = experiment.report()
    printed = str(report)
    assert printed.endswith(report["recommendation"])
    assert all(f"\n{arm['arm']}: {arm['units']} unit" in printed for arm in report["arms"])
    assert dict(report) == json.loads(json.dumps(report))


def test_equal_probabilities_have_no_favourite():
    experiment = mail(batching="external")
    assert "it plays all active arms with the same probability" in experiment.report()["policy_in_use"]
    experiment.tell([(decision, decision.arm == "B") for decision in experiment.ask(40).decisions])
    experiment.refresh()
    assert "it plays 'B' most" in experiment.report()["policy_in_use"]


# In a shell


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Runs `blts experiment …` in an empty folder: its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLTS_DB", raising=False)

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, ["experiment", *arguments])
        if isinstance(result.exception, BltsError):
            return 2, str(result.exception)
        return result.exit_code, " ".join(result.output.split())

    assert run("create", "mail", "--arm", "A", "--arm", "B", "--model", "conversions", "--seed", "3")[0] == 0
    return run


def test_units_that_are_not_utf_8_are_refused(shell, tmp_path):
    """Two names that differ in bytes which cannot be read were one unit, and had one decision."""
    (tmp_path / "latin.txt").write_bytes("anna\nMüller\nMöller\n".encode("latin-1"))
    assert shell("ask", "mail", "--units", "latin.txt") == (
        2,
        "Line 2 of the file latin.txt is not text in UTF-8; save it as UTF-8.",
    )
    (tmp_path / "utf8.txt").write_text("anna\nMüller\nMöller\n", encoding="utf-8")
    code, output = shell("ask", "mail", "--units", "utf8.txt", "--json")
    assert code == 0
    assert [d["unit"] for d in json.loads(output)["decisions"]] == ["anna", "Müller", "Möller"]


def test_what_spreadsheets_call_unicode_text_is_read(shell, tmp_path):
    assert shell("ask", "mail", "--unit", "Müller")[0] == 0
    (tmp_path / "rewards.csv").write_bytes("unit,reward\nMüller,1\n".encode("utf-16"))
    code, output = shell("tell", "mail", "rewards.csv")
    assert (code, output.startswith("1 accepted")) == (0, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"unit": "u1", "reward": 1}\n{oops\n', "Line 2 of the file is not a JSON object: "),
        (b"\xff\xfe\x00bad\n", "The file is not text in UTF-8; save it as CSV in UTF-8."),
        (b"user,val\nu1,1\n", "needs the columns decision_id (or unit) and reward (or value); it has user, val."),
    ],
)
def test_a_bad_file_says_where_it_is_bad(shell, tmp_path, content, sentence):
    (tmp_path / "rewards.csv").write_bytes(content)
    code, output = shell("tell", "mail", "rewards.csv")
    assert code == 2
    assert sentence in output
    assert output.count("JSON") <= 1


def test_external_is_among_the_batchings(shell):
    code, output = shell("create", "x", "--arm", "A", "--arm", "B", "--model", "conversions", "--batching", "extrnal")
    assert (code, "Did you mean 'external'?" in output) == (2, True)
    assert " doubling," in output


def test_a_specification_that_is_not_text(shell, tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xd2\xff")
    assert shell("create", "x", "--spec", "bad.toml") == (2, "The specification bad.toml is not text in UTF-8.")


def test_a_correction_names_the_decision(shell):
    assert shell("correct", "mail", "--unit", "u1", "--reward", "0")[0] == 2
    code, output = shell("correct", "mail", "--unit", "u1")
    assert (code, "names the decision: correct mail DECISION_ID REWARD" in output) == (2, True)
    assert shell("correct", "mail", "x-1", "two") == (2, "A reward must be a number; got 'two'.")


def test_a_refresh_that_waits_says_how_to_go_on(shell):
    code, output = shell("refresh", "mail")
    assert code == 3
    assert output == "Not refreshed: batch 1 is still open after 0 decisions. `--force` closes it now."
    assert "refreshed at –" in shell("status", "mail")[1]
    assert shell("refresh", "mail", "--force")[0] == 0
    assert "refreshed at –" not in shell("status", "mail")[1]


def test_durations_and_counts_of_one_are_words(shell):
    """`forget` was a number of seconds without its unit, and one reward "do not count"."""
    told = ("create", "once", "--arm", "A", "--arm", "B", "--model", "conversions", "--window", "1d", "--default-reward", "0")
    assert shell(*told, "--forget", "30d")[0] == 0
    assert "forget 30 days" in shell("status", "once")[1]
    assert shell("ask", "once", "--unit", "u1")[0] == 0
    assert "still open after 1 decision." in shell("refresh", "once")[1]
    assert shell("tell", "once", "--unit", "u1", "--reward", "1")[0] == 0
    report = shell("report", "once")[1]
    assert "1 reward does not count yet, because its window is open" in report
    assert "the window of 1 is still open." in report


def test_wide_intervals_have_a_reason():
    arms = [{"active": True, "smallest_propensity": 0.0004}, {"active": True, "smallest_propensity": None}]
    assert "a probability of 0.0004, which makes their intervals wide" in _why_wide(arms)
    assert _why_wide([{"active": True, "smallest_propensity": 0.05}, {"active": False, "smallest_propensity": 1e-9}]) == ""


def test_without_pending_decisions_nothing_is_expected_of_them():
    found = {"pending": 0, "expected": 0.0, "share_to_come": 0.0}
    assert _pending(found) == "no decision is pending"
    assert _pending(found | {"pending": 3, "expected": 0.25}).startswith("3 decisions are pending, and about 0.2 of them")
    assert _pending(found | {"pending": 1, "expected": 0.25}).startswith(
        "1 decision is pending, and will convert with probability 0.25"
    )
