"""Odd values everywhere: every method and every command answers or refuses in a sentence, and nothing is half recorded."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError
from blts.live import Experiment
from blts.live.database import Database
from experiments import Hand, created
from odd_values import Chance, distinct, explained

CODES = {0, 2, 3, 4, 5}
"""Exit codes that a command may have; 1 would be an error of ours."""


def call(experiment: Experiment, chance: Chance, arms: int):
    """One call of a public method with odd arguments: its name and a function."""
    c, e = chance, experiment
    reason = c.maybe("why")
    match c.randrange(18):
        case 0 | 1:
            n, request = c.size(), c.maybe(None)
            return "ask", lambda: e.ask(n, request)
        case 2:
            units = c.maybe([c.maybe(c.choice(c.units)) for _ in range(c.randrange(4))])
            n = c.choice((None, None, 1, c.size()))
            return "ask units", lambda: e.ask(n, units=units)
        case 3 | 4 | 5:
            rows, request = c.maybe([c.row() for _ in range(c.randrange(5))]), c.maybe(None)
            return "tell", lambda: e.tell(rows, request)
        case 6:
            unit, reward = c.maybe("ann"), c.value()
            return "tell unit", lambda: e.tell(unit=unit, reward=reward)
        case 7:
            arm, count, request = c.maybe("A"), c.choice((1, c.size())), c.maybe(c.text())
            names = ("total", "total_of_squares", "positive", "total_of_logs", "total_of_squared_logs")
            totals = {"total": c.maybe(1.0), "total_of_squares": c.maybe(2.0)} if c.random() < 0.7 else {c.choice(names): c.value()}
            return "aggregate", lambda: e.tell_aggregate(arm, count, request_id=request, **totals)
        case 8:
            decision, reward = c.maybe(c.text()), c.maybe(2.0)
            return "correct", lambda: e.correct(decision, reward, reason)
        case 9:
            ids = c.maybe([c.text() for _ in range(c.randrange(3))])
            return "cancel", lambda: e.cancel(ids, reason)
        case 10:
            ids, units = c.maybe([c.text()]), c.maybe([c.choice(c.units)])
            return "expose", lambda: e.expose(ids, units=units)
        case 11:
            force = c.choice((False, False, True, c.value()))
            return "refresh", lambda: e.refresh(force=force)
        case 12:
            label, metadata = (c.value() if arms > 3 else c.maybe("D")), c.maybe({"a": 1})
            options = {c.choice(("prior_mean", "prior_sd", "sd", "x y", "")): c.value()} if c.random() < 0.9 or arms > 3 else {}
            return "add arm", lambda: e.add_arm(label, metadata, **options)
        case 13:
            label = c.value()
            return "retire", lambda: e.retire_arm("x" if isinstance(label, str) and len(label) == 1 else label, reason)
        case 14:
            return "pause", lambda: (e.pause(reason), e.resume(reason))
        case 15:
            version = c.choice((1, None, c.value()))
            return "policy", lambda: (e.policy(version), e.status())
        case 16:
            version = c.value()
            return "stored report", lambda: e.report(version)
        case _:
            promote = c.choice((object(), 5, "nobody", "\ud800", [], b"A"))
            return "stop", lambda: e.stop(promote, reason)


def counters(place: Database, name: str) -> tuple[int, int, int, int]:
    with place.read() as c:
        row = place.find(c, name)
    return row.position, row.t, row.entries, row.versions


def new_ids(place: Database, name: str) -> tuple[str, ...]:
    with place.read() as c:
        row = place.find(c, name)
    return tuple(f"{row.code}-{t}" for t in range(max(1, row.t - 30), row.t + 1))


def fuzz_methods(url, seed: int, count: int) -> list[str]:
    """Random calls: what failed otherwise than with a sentence, or recorded something that it did not say."""
    chance, clock, failed = Chance(seed), Hand(), []
    settings = {"exposure": "explicit", "window": 50.0, "default_reward": 0.0, "strict": False, "clock": clock}
    experiment = created(url, **settings)
    place = experiment.database
    for i in range(count):
        clock.now += chance.choice((0.0, 1.0, 30.0, -40.0))
        if i % 10 == 0:
            chance.ids = new_ids(place, "mail")
        what, run = call(experiment, chance, len(experiment.session.cached.arms) if experiment.session.cached else 3)
        before = counters(place, "mail")
        try:
            answer = run()
        except BltsError as error:
            if counters(place, "mail") != before and what != "pause":
                failed.append(f"{what} was refused and recorded: {error}")
            if "\n" in str(error).strip() and "\n" not in repr(chance.ids):
                failed.append(f"{what}: more than a sentence: {error}")
            continue
        except Exception as error:
            failed.append(explained(what, [cell.cell_contents for cell in run.__closure__ or ()], error))
            continue
        after = counters(place, "mail")
        if what.startswith("ask") and after[1] - before[1] > len(answer.decisions):
            failed.append(f"{what}: more decisions are stored than were answered")
        if what.startswith("tell") and after[2] - before[2] not in (answer.accepted, 0):
            failed.append(f"{what}: {answer.accepted} accepted, {after[2] - before[2]} stored")
        if what in ("cancel", "correct") and after[2] - before[2] != int(answer):
            failed.append(f"{what}: {answer} answered, {after[2] - before[2]} stored")
    assert experiment.status()["decisions"] > count / 50
    failed += experiment.verify()
    experiment.close()
    return failed


# Commands


def command(chance: Chance, folder) -> tuple[list[str], bytes | None]:
    """A command line with odd arguments, and what comes on standard input."""
    c, given = chance, None
    t, name = c.text, "mail" if c.random() < 0.85 else c.text()
    number = lambda: c.choice(("1", "2", "0", "-1", "1.5", "nan", "inf", "1e400", "-0.0", "9" * 400, "9" * 5000, t()))  # noqa: E731
    match c.randrange(16):
        case 0:
            out = [
                "ask",
                name,
                *c.choice(([], ["--n", c.choice(("1", "0", "x", "9" * 400, "9" * 5000, t()))], ["--unit", t()], ["--units", "-"])),
            ]
            given = stdin(c)
        case 1 | 2 | 3 | 4:
            out, given = ["tell", name, *c.choice((["-"], ["-"], [], [t()], ["odd.csv"]))], stdin(c)
            (folder / "odd.csv").write_bytes(stdin(c))
        case 5:
            totals = [x for option in ("--total", "--total-of-squares") for x in (option, number())]
            out = [
                "tell-aggregate",
                name,
                "--arm",
                c.choice(("A", t())),
                "--count",
                c.choice(("1", "0", "9" * 400, t())),
                "--request-id",
                t(),
                *totals,
            ]
        case 6:
            out = ["expose", name, t(), "--unit", t()]
        case 7:
            out = ["refresh", name, *c.choice(([], ["--force"]))]
        case 8:
            out = ["correct", name, c.choice((*c.ids, t())), number(), "--reason", t()]
        case 9:
            out = ["cancel", name, t(), t(), "--reason", t()]
        case 10:
            out = ["add-arm", name, t(), "--set", c.choice((f"prior_mean={number()}", f"sd={t()}", t()))]
            out = out if c.random() < 0.5 else ["retire-arm", name, t()]
        case 11:
            out = [c.choice(("pause", "resume")), name, "--reason", t()]
        case 12:
            out = c.choice(
                (["status", name], ["audit", name], ["export", name, c.choice((t(), t() + ".csv", "x.csv"))], ["list"], ["migrate"])
            )
        case 13:
            return [
                "experiment",
                "status",
                name,
                "--db",
                c.choice((t(), "sqlite:///" + t(), "x" * 5000, "mysql://a/b", t() + "://")),
            ], None
        case 14:
            return ["experiment", "create", t(), *c.choice((spec_file(c, folder), options(c, number))), "--db", "odd.db"], None
        case _:
            out = ["stop", name, "--promote", c.choice(("nobody", "", "\ud800"))]
    if c.random() < 0.4:
        out.append("--json")
    return ["experiment", *out], given


def options(c: Chance, number) -> list[str]:
    names = (
        "--seed",
        "--floor",
        "--control",
        "--control-share",
        "--burn-in",
        "--window",
        "--default-reward",
        "--learn",
        "--exposure",
        "--cap",
    )
    own = [x for _ in range(c.randrange(1, 4)) for x in (c.choice(names), number())]
    return [
        "--arm",
        "A",
        "--arm",
        c.text(),
        "--model",
        c.choice(("gaussian", c.text())),
        *own,
        "--set",
        c.choice((c.text(), f"sd={number()}")),
    ]


def spec_file(c: Chance, folder) -> list[str]:
    """A specification that is a JSON file of odd values, or no JSON at all."""
    deep = "[" * 100_000
    data = {
        "arms": c.choice((["A", "B"], c.value())),
        "model": c.choice(("gaussian", c.value())),
        c.choice(("seed", "floor", "window", "x")): c.value(),
    }
    try:
        text = json.dumps(data, default=repr, skipkeys=True)
    except (ValueError, RecursionError):
        text = deep
    text = c.choice((text, text, deep, '{"arms": ["A", "B"], "model": ' + "9" * 5000 + "}", c.text()))
    name = c.choice(("spec.json", "spec.toml"))
    (folder / name).write_bytes(text.encode(errors="surrogatepass"))
    return ["--spec", c.choice((name, name, name, c.text()))]


def stdin(c: Chance) -> bytes:
    """CSV, JSON lines, a JSON list, or bytes."""
    kind = c.randrange(6)
    if kind == 0:
        return c.randbytes(c.randrange(60))
    if kind == 1:
        return c.choice(
            (
                b"",
                b"[" * 100_000,
                b"{",
                b"\xff\xfe",
                b"decision_id,reward",
                b'"',
                b"[1, 2]",
                b"null",
                b"{}",
                b"[" + b"9" * 5000 + b"]",
            )
        )
    good = c.choice(c.ids or ("x",))
    if kind in (2, 3):
        pairs = [(c.choice((good, c.text())), c.choice(("1", "0.5", c.text()))) for _ in range(c.randrange(4))]
        lines = [c.choice(("decision_id,reward", "unit,reward", "reward,decision_id", "x,y")), *(f"{a},{b}" for a, b in pairs)]
        return "\n".join(lines).encode(errors="surrogatepass")
    rows = [
        {"decision_id": c.choice((good, c.text())), "reward": c.choice((1, 0.5, 10**400, True, None, c.text()))}
        for _ in range(c.randrange(4))
    ]
    rows += [c.choice(({"unit": c.text(), "reward": 1}, {"reward": 1}, [], 5, None, {"decision_id": {"a": []}, "reward": [1]}))]
    return "\n".join(json.dumps(row) for row in rows).encode() if kind == 4 else json.dumps(rows).encode()


def fuzz_commands(folder, seed: int, count: int) -> list[str]:
    """Random command lines: those that end with a traceback, or record something and say that they did not."""
    chance, failed, runner = Chance(seed), [], CliRunner()
    experiment = created(folder / "blts.db", strict=False, exposure=chance.choice(("assumed", "explicit")))
    experiment.ask(units=list(chance.units))
    place = experiment.database
    for i in range(count):
        if i % 10 == 0:
            chance.ids = new_ids(place, "mail")
        arguments, given = command(chance, folder) if chance.random() > 0.01 else (["worker", "--once"], None)
        before = counters(place, "mail")
        result = runner.invoke(cli.app, arguments, input=given)
        refused = isinstance(result.exception, BltsError)
        if not refused and result.exit_code not in CODES:
            failed.append(explained("command", (arguments, given), result.exception or SystemExit(result.exit_code)))
        if (refused or result.exit_code == 2) and counters(place, "mail") != before:
            failed.append(f"{arguments} was refused and recorded")
    failed += experiment.verify()
    experiment.close()
    return failed


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder with the default database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLTS_DB", raising=False)
    return tmp_path


def test_methods_refuse_odd_values_in_a_sentence(url):
    failed = fuzz_methods(url, 1, 150)
    assert not failed, distinct(failed)


def test_commands_refuse_odd_values_in_a_sentence(folder):
    failed = fuzz_commands(folder, 2, 100)
    assert not failed, distinct(failed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_odd_values_of_methods(url, seed):
    failed = fuzz_methods(url, 100 + seed, 1000)
    assert not failed, distinct(failed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_odd_values_of_commands(folder, seed):
    failed = fuzz_commands(folder, 200 + seed, 600)
    assert not failed, distinct(failed)
