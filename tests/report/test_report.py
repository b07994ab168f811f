"""The report of stored studies: figures are their CSV files, rewriting changes nothing, and hostile names do no harm."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from blts.errors import ConfigError, UnknownName
from blts.report import insert, markdown_table, outcomes_of, tables_of, write
from blts.report.figures import KINDS, kind, render
from blts.report.figures.style import apart, looks
from blts.report.figures.zero_counts import distance
from blts.report.outcome import Measured, Outcome
from blts.report.page import inline
from blts.report.tables import axes, comparisons, table
from blts.studies import Cell, Result, Store, Study
from blts.studies.store import encode

TIMES = [1, 2, 4, 8, 16, 32, 64]
HOSTILE = "<script>alert('ü')</script> & \"q\" $x$ | *b* \\ `c`"


def played(cell: Cell, shift: float = 0.0) -> Result:
    """Results of a made-up bandit: regret like log T, other levels for other agents."""
    level = {"blts": 1.0, "exact-ts": 1.0, "ucb1": 1.6}.get(cell.condition["agent"], 1.3)
    draws = np.random.default_rng([cell.first, len(cell.condition["agent"])]).gamma(20.0, 1 / 20, size=(cell.replications, 1))
    curve = shift + 10 * level * draws * np.log2(2 * np.array(TIMES))
    due = {"static": np.log2(2 * np.array(TIMES)), "dynamic": 3 * np.log2(2 * np.array(TIMES))}[cell.condition["batching"]]
    batches = np.broadcast_to(due.astype(np.int32), curve.shape)
    arrays = {
        "curve": curve.astype(np.float32),
        "batches_by": batches,
        "regret": curve[:, -1],
        "batches": batches[:, -1],
        "reward": 5 - curve[:, -1] / 64,
        "switches": batches[:, -1] + 1,
        "finite": np.ones(cell.replications, bool),
    }
    about = {"times": TIMES, "actions": 5, "batches_bound": [5 * float(np.log2(t + 1)) for t in TIMES], "gain": 5.0}
    return Result(arrays, about, {})


def sampled(cell: Cell) -> Result:
    """Results of the tasks about samplers."""
    rng = np.random.default_rng(cell.first)
    if cell.task == "posterior":
        spread = 1 + 4 / cell.condition["n"] * cell.condition["minibatch"]
        return Result({"z": rng.normal(0, spread, cell.replications)}, {"bound": 1 / cell.condition["n"], "iterations": 9}, {})
    if cell.task == "rows":
        draws = rng.beta(0.5, 9, (2, cell.replications))
        return Result({"share": draws[0] * (1 + 1 / cell.condition["steps"]), "exact": draws[1]}, {}, {})
    return Result({"least": rng.uniform(0.5, 1, cell.replications)}, {}, {})


STUDY = Study(
    "bandit",
    conditions=tuple(
        {"env": "gaussian", "agent": agent, "batching": batching, "prior": "flat", "horizon": 64, "times": 7, "drawn": False}
        for agent in ("blts", "exact-ts", "ucb1")
        for batching in ("static", "dynamic")
    ),
    replications=30,
    block=20,
    title="A bandit",
    text="What *this* asks of `a < b`.\n\nAnd a second paragraph.",
    chapter="Bandits",
    metrics=("batches", "reward"),
    figures=("curves", "rewards", "batches", "tradeoff", "growth", "distribution", "dots", "switches"),
    labels={"blts": "Langevin TS"},
    printed=(
        {"agent": "blts", "batching": "static", "mean": 71.0, "sd": 16.0, "n": 10},
        {"agent": "ucb1", "metric": "regret", "mean": 71.0, "sd": 1.0, "n": 10},
        {"agent": "blts", "batching": "static", "metric": "batches", "mean": 7.0, "sd": 0.0, "n": 10},
    ),
)
SAMPLERS = (
    Study("law", task="posterior", conditions=tuple({"n": n, "minibatch": m} for m in (0, 8) for n in (10, 100)), replications=40),
    Study(
        "rows",
        task="rows",
        conditions=tuple({"sampler": "mld", "n": n, "alpha": 0.5, "steps": s} for n in (5, 50) for s in (1, 9)),
        replications=40,
    ),
    Study("counts", task="counts", conditions=({"agent": "blts", "batching": "dynamic"},), replications=40),
)


def fill(folder, *studies: Study, host: str = "here", skip: int = 0, of=None) -> Store:
    """A store with the results of studies, computed by a machine of the given name."""
    store = Store.create(folder)
    for study in studies:
        store.save(study)
        for i, cell in enumerate(study.cells()):
            result = (of or (played if study.task == "simulate" else sampled))(cell)
            provenance = {
                "blts": "0",
                "code": "c0de",
                "commit": "abc",
                "host": host,
                "seconds": len(host) + i,
                "at": f"2026-01-0{1 + len(host) % 9}",
            }
            if i >= skip:
                store.put(cell, encode(result._replace(provenance=provenance)))
    return store


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report with every kind of figure: its folder and the names of its files."""
    folder = tmp_path_factory.mktemp("store") / "results"
    fill(folder, STUDY, *SAMPLERS)
    return folder, [str(path.relative_to(folder)) for path in write(folder, title="All", lead="One *and* two.")]


def rows_of(path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


# Files


def test_every_kind_of_figure_is_there_and_the_page_is_last(written):
    folder, names = written
    made = {name for name in names if name.endswith(".svg")}
    assert {re.sub(r"figures/(bandit|law|rows|counts)-(.*)\.svg", r"\2", name) for name in made} == set(KINDS)
    assert names[-1] == "index.html"
    assert all((folder / name).is_file() for name in names)
    for name in made:
        ElementTree.parse(folder / name)


def test_a_report_is_written_again_only_where_something_changed(tmp_path):
    folder = tmp_path / "results"
    fill(folder, SAMPLERS[2])
    again = lambda lead="": write(folder, lead=lead)  # noqa: E731
    names = [str(path.relative_to(folder)) for path in again()]
    stamp = lambda: {name: (folder / name).stat().st_mtime_ns for name in names}  # noqa: E731
    before = stamp()
    assert [str(path.relative_to(folder)) for path in again()] == names
    assert stamp() == before
    (folder / "index.html").write_text("damaged")
    again()
    assert "damaged" not in (folder / "index.html").read_text()
    (folder / "figures" / "old.svg").write_text("of a study that is gone")
    record = json.loads((folder / "report.json").read_text())
    record["files"]["figures/old.svg"] = "x"
    (folder / "report.json").write_text(json.dumps(record))
    before = stamp()
    again("Other words.")
    assert stamp() != before
    assert not (folder / "figures" / "old.svg").exists()


def test_another_process_writes_the_same_bytes_without_jax(written):
    """All files anew in a process that hashes text in another order."""
    folder, names = written
    before = {name: (folder / name).read_bytes() for name in names}
    (folder / "report.json").unlink()  # what says that there is nothing to do
    lines = (
        "import sys, blts.report",
        "assert not {'jax', 'matplotlib', 'jinja2', 'scipy'} & set(sys.modules), 'too early'",
        f"blts.report.write({str(folder)!r}, title='All', lead='One *and* two.')",
        "assert 'jax' not in sys.modules and 'matplotlib' in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    for name in names:
        assert (folder / name).read_bytes() == before[name], name


def test_another_machine_changes_nothing_but_provenance(tmp_path):
    folder, other = tmp_path / "one", tmp_path / "two"
    for place, host in ((folder, "here"), (other, "another machine")):
        fill(place, renamed(figures=("dots",)), host=host)
        names = [str(path.relative_to(place)) for path in write(place)]
    for name in set(names) - {"provenance.json", "index.html"}:
        assert (other / name).read_bytes() == (folder / name).read_bytes(), name
    box = re.compile(r'<section class="box" id="provenance".*?</section>', re.DOTALL)
    pages = [(f / "index.html").read_text() for f in (folder, other)]
    assert box.sub("", pages[0]) == box.sub("", pages[1])
    assert pages[0] != pages[1]  # the box does differ
    assert (folder / "provenance.json").read_text() != (other / "provenance.json").read_text()


def test_a_figure_is_its_csv(written):
    """The SVG is what `render` makes of the CSV beside it, and of no other CSV."""
    folder, names = written
    for name in names:
        if name.endswith(".svg"):
            made = kind(re.sub(r"figures/[a-z]+-(.*)\.svg", r"\1", name))
            text = (folder / name).with_suffix(".csv").read_text()
            assert render(made, text)[0] == (folder / name).read_bytes()
    curves = (folder / "figures/bandit-curves.csv").read_text()
    assert render(KINDS["curves"], curves.replace(",64,", ",65,"))[0] != (folder / "figures/bandit-curves.svg").read_bytes()


def test_the_csv_of_curves_has_the_means_of_the_store(written):
    store = Store.open(written[0])
    outcome = {o.study.name: o for o in outcomes_of(store)}["bandit"]
    rows = rows_of(store.folder / "figures/bandit-curves.csv")
    assert len(rows) == 6 * len(TIMES)
    first = outcome.measured[0].arrays["curve"]
    assert len(first) == 30  # blocks of 20 and 10
    found = [float(row["mean"]) for row in rows if (row["line"], row["panel"]) == ("Langevin TS", "static")]
    np.testing.assert_allclose(found, first.astype(float).mean(0), rtol=1e-8)
    assert all(float(row["low"]) < float(row["mean"]) < float(row["high"]) for row in rows)


def test_results_are_strict_json_in_the_units_of_the_arrays(written):
    store = Store.open(written[0])

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    results = json.loads((store.folder / "results.json").read_text(), parse_constant=refuse)
    outcome = {o.study.name: o for o in outcomes_of(store)}["bandit"]
    rows = [row for row in results if row["study"] == "bandit"]
    assert len(rows) == 6 * 4
    first = rows[0]
    assert set(first) == {
        "study",
        "method",
        "batching",
        "prior",
        "env",
        "metric",
        "mean",
        "sd",
        "se",
        "n",
        "low",
        "high",
        "options",
        "paper",
    }
    assert (first["method"], first["batching"], first["metric"], first["n"]) == ("blts", "static", "regret", 30)
    np.testing.assert_allclose(first["mean"], outcome.measured[0].arrays["regret"].mean())
    assert first["paper"] == {"mean": 71.0, "sd": 16.0, "n": 10}
    assert first["options"] == {"horizon": 64, "times": 7, "drawn": False}
    assert next(row for row in rows if row["method"] == "exact-ts")["paper"] is None
    assert "here" not in (store.folder / "results.json").read_text()
    provenance = json.loads((store.folder / "provenance.json").read_text())
    assert provenance["hosts"] == ["here ()"]
    assert provenance["cells"] == 12 + 4 + 4 + 1


# Refusals


def test_missing_cells_are_counted_over_all_studies(tmp_path):
    fill(tmp_path / "s", STUDY, SAMPLERS[0], skip=3)
    with pytest.raises(ConfigError, match=rf"6 of 16 cells are missing; run `blts study resume {tmp_path / 's'}` first"):
        write(tmp_path / "s")
    assert not (tmp_path / "s" / "index.html").exists()


def test_a_folder_without_studies_is_refused(tmp_path):
    Store.create(tmp_path / "s")
    with pytest.raises(ConfigError, match="no studies yet"):
        write(tmp_path / "s")


def renamed(**fields) -> Study:
    return Study.from_json({**STUDY.to_json(), **fields})


def test_an_unknown_kind_of_figure_names_the_nearest(tmp_path):
    fill(tmp_path / "s", renamed(figures=("curve",)))
    with pytest.raises(UnknownName, match=r"no kind of figure named 'curve'\. Did you mean 'curves'"):
        write(tmp_path / "s")


def test_a_figure_of_arrays_that_are_not_there_is_refused(tmp_path):
    fill(tmp_path / "s", renamed(figures=("distance",)))
    with pytest.raises(ConfigError, match="'distance' of the study 'bandit' needs the array 'z'"):
        write(tmp_path / "s")


def test_an_unknown_metric_or_study_is_refused(tmp_path):
    fill(tmp_path / "s", renamed(metrics=("regrets",)))
    with pytest.raises(UnknownName, match="Did you mean 'regret'"):
        write(tmp_path / "s")
    with pytest.raises(UnknownName, match="Did you mean 'bandit'"):
        write(tmp_path / "s", order=["bandits"])


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named(tmp_path, monkeypatch, library):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == library else find(name, *rest))
    with pytest.raises(ConfigError, match=rf'{library}: pip install "blts\[report\]"'):
        write(tmp_path)


# What is shown


class Shown(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_hostile_names_are_text(tmp_path):
    """Names with markup, quotes, dollar signs and emoji come through as they are, in HTML, SVG, CSV, Markdown and JSON."""
    study = renamed(
        title=HOSTILE,
        text=HOSTILE,
        chapter=HOSTILE,
        labels={"blts": HOSTILE, "static": "\U0001f600 static", "regret": HOSTILE},
        figures=("curves", "dots"),
    )
    folder = tmp_path / "s"
    fill(folder, study)
    write(folder, title=HOSTILE, lead=HOSTILE)
    page = (folder / "index.html").read_text()
    assert "<script" not in page
    shown = Shown(page)
    assert shown.text.count("<script>alert('ü')</script>") >= 8
    images = [attributes for tag, attributes in shown.tags if tag == "img"]
    assert HOSTILE in (images[0]["alt"] or "")
    assert not any(name.startswith("on") for _, attributes in shown.tags for name in attributes)
    assert any(row["line"] == HOSTILE for row in rows_of(folder / "figures/bandit-curves.csv"))
    assert "<script" not in (folder / "figures/bandit-curves.svg").read_text()
    assert "<script" not in (folder / "tables.md").read_text()
    json.loads((folder / "results.json").read_text())


def test_inline_markup_is_code_and_emphasis_alone():
    assert inline("a *b c* `*d* <i>` 2*3*4 <b>") == "a <em>b c</em> <code>*d* &lt;i&gt;</code> 2*3*4 &lt;b&gt;"


def test_the_page_is_accessible_and_self_contained(written):
    page = (written[0] / "index.html").read_text()
    shown = Shown(page)
    tags = [tag for tag, _ in shown.tags]
    assert shown.tags[0] == ("html", {"lang": "en"})
    assert "script" not in tags
    assert tags.count("caption") == tags.count("table") >= 8
    assert all(attributes.get("scope") for tag, attributes in shown.tags if tag == "th")
    assert all((attributes.get("alt") or "") for tag, attributes in shown.tags if tag == "img")
    sources = [attributes["src"] or "" for tag, attributes in shown.tags if tag == "img"]
    assert len(sources) == 11
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "http" not in page.replace("http-equiv", "")
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_printed_numbers_have_verdicts_and_the_first_runs_beside_them(written):
    store = Store.open(written[0])
    outcome = {o.study.name: o for o in outcomes_of(store)}["bandit"]
    blts, ucb = outcome.measured[0], outcome.measured[4]
    printed = outcome.printed(blts, "regret")
    assert printed is not None
    assert printed.agreement is not None
    assert printed.first is not None
    assert printed.agreement.verdict == "agrees"
    np.testing.assert_allclose(printed.first.mean, blts.arrays["regret"][:10].mean())
    assert printed.first.mean != outcome.measured[0].arrays["regret"].mean()
    differs = outcome.printed(ucb, "regret")
    assert differs is not None
    assert differs.agreement is not None
    assert differs.agreement.verdict == "differs"
    assert outcome.printed(outcome.measured[2], "regret") is None  # another agent
    assert outcome.printed(blts, "reward") is None  # another metric
    text = Shown((store.folder / "index.html").read_text()).text
    assert "paper: 71 ± 16 (10 runs) agrees : ours less the paper's" in text
    assert f"ours, first 10 runs: {printed.first.mean:.1f} ± {printed.first.sd:.1f}" in text
    assert "paper: 7 ± 0 (10 runs) agrees : ours less the paper's 0, 99 % [0, 0]" in text
    row = rows_of(store.folder / "tables/bandit-regret.csv")[0]
    assert (row["verdict"], row["first_n"], row["paper_mean"]) == ("agrees", "10", "71")


def test_refreshes_that_were_not_finite_are_told(tmp_path):
    def broken(cell: Cell) -> Result:
        result = played(cell)
        bad = cell.condition["agent"] == "ucb1"
        arrays = result.arrays | {"finite": np.arange(cell.replications) >= 3 * bad}
        if bad:
            arrays["regret"] = np.where(np.arange(cell.replications) < 1, np.nan, arrays["regret"])
        return result._replace(arrays=arrays)

    fill(tmp_path / "s", renamed(figures=("curves", "dots", "distribution", "tradeoff")), of=broken)
    write(tmp_path / "s")
    text = Shown((tmp_path / "s" / "index.html").read_text()).text
    assert "ucb1 · static: 6 of 30 replications had a refresh that was not finite." in text
    assert "not finite" in (tmp_path / "s" / "tables.md").read_text()
    rows = json.loads((tmp_path / "s" / "results.json").read_text())
    assert [row["mean"] for row in rows if row["method"] == "ucb1" and row["metric"] == "regret"] == [None, None]


def test_numbers_that_are_all_not_finite_make_no_figure(tmp_path):
    def lost(cell: Cell) -> Result:
        result = played(cell)
        nothing = {name: np.full_like(result.arrays[name], np.nan) for name in ("regret", "curve")}
        return result._replace(arrays=result.arrays | nothing)

    fill(tmp_path / "s", renamed(figures=("curves", "tradeoff", "distribution", "dots", "batches")), of=lost)
    made = [path.name for path in write(tmp_path / "s") if path.suffix == ".svg"]
    assert made == ["bandit-batches.svg"]


def test_the_average_reward_is_the_gain_less_regret_a_round(written):
    rows = rows_of(written[0] / "figures/bandit-rewards.csv")
    curves = rows_of(written[0] / "figures/bandit-curves.csv")
    for row, curve in zip(rows, curves, strict=True):
        assert float(row["mean"]) == pytest.approx(5 - float(curve["mean"]) / float(row["time"]), rel=1e-6, abs=1e-6)


def test_the_bad_tail_of_a_reward_is_the_lower_one(tmp_path):
    for score, sign, worst in (("regret", "≥", max), ("reward", "≤", min)):
        folder = tmp_path / score
        outcome = outcomes_of(fill(folder, renamed(score=score, figures=("distribution",))))[0]
        write(folder)
        rows = [r for r in rows_of(folder / "figures/bandit-distribution.csv") if (r["line"], r["panel"]) == ("ucb1", "static")]
        assert {row["tail"] for row in rows} == {sign}
        assert [float(row["share"]) for row in rows] == pytest.approx([(30 - i) / 30 for i in range(30)])
        assert float(rows[-1]["value"]) == pytest.approx(worst(outcome.measured[4].arrays[score]))


def test_claims_stand_beside_what_was_measured(tmp_path):
    def claimed(cell: Cell) -> Result:
        result = played(cell)
        return result._replace(about=result.about | {"claims": {"regret": "O(log T)", "batches": "O(log T)"}})

    fill(tmp_path / "s", renamed(figures=("growth",)), of=claimed)
    write(tmp_path / "s")
    row = rows_of(tmp_path / "s" / "tables/bandit-growth.csv")[0]
    assert list(row) == ["method", "regret, claimed", "regret, measured", "batches, claimed", "batches, measured"]
    steps = "; last doubling 1.00 [1.00, 1.00]; before 1.00 [1.00, 1.00]; change 0.00 [0.00, 0.00]; no faster than claimed"
    assert row["batches, measured"].endswith(steps)
    figure = rows_of(tmp_path / "s" / "figures/bandit-growth.csv")
    assert {r["axes"] for r in figure} == {"log T"}
    late = [r for r in figure if r["quantity"] == "regret" and r["fit"]]
    assert {float(r["time"]) for r in late} == {8, 16, 32, 64}
    assert [float(r["fit"]) for r in late] == pytest.approx([float(r["mean"]) for r in late], rel=1e-5)  # a logarithm is a line


def test_a_metric_that_is_never_better_is_not_compared(written):
    outcomes = {o.study.name: o for o in outcomes_of(Store.open(written[0]))}
    found = comparisons(outcomes["bandit"])
    assert [c.label for c in found] == [
        "Langevin TS · dynamic",
        *(f"{a} · {b}" for a in ("exact-ts", "ucb1") for b in ("static", "dynamic")),
    ]
    assert {c.reference for c in found} == {"Langevin TS · static"}
    assert [c.verdict for c in found] == ["not told apart", *["not told apart"] * 2, "higher", "higher"]
    assert comparisons(outcomes["law"]) == []


# Layout of tables


def outcome_of(conditions, **fields) -> Outcome:
    values = {"regret": np.arange(4.0), "batches": np.arange(4)}
    study = Study("s", conditions=tuple(conditions), replications=4, **fields)
    return Outcome(study, [Measured(condition, values, {}) for condition in study.conditions])


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([{"agent": a, "batching": b} for a in "ab" for b in "xy"], (["agent"], ["batching"], [])),
        ([{"agent": a, "batching": b, "prior": p} for a in "ab" for b in "xy" for p in "uv"], (["agent"], ["batching"], ["prior"])),
        (
            [{"agent": "a", "batching": "x"}, {"agent": "b", "batching": "y"}],
            (["agent"], [], []),
        ),  # batching follows from the agent
        ([{"agent": "a", "batching": b, "gamma": g} for b in "xy" for g in (0.1, 1.0)], (["gamma"], ["batching"], [])),
        ([{"env": e, "agent": a, "batching": a, "horizon": len(e)} for e in ("e", "ff") for a in "ab"], (["agent"], ["env"], [])),
        ([{"agent": "a", "batching": "x"}], ([], [], [])),
        ([{"n": n, "sampler": s} for s in "ab" for n in range(5)], (["n"], ["sampler"], [])),
    ],
)
def test_rows_and_columns_of_tables(conditions, expected):
    outcome = outcome_of(conditions)
    assert axes(outcome) == expected
    found = table(outcome, "regret")
    assert len(found.entries()) == len(conditions)  # no condition hides another


def test_lines_of_samplers_that_never_ran_as_long_are_not_joined():
    """The steps of two samplers have no value in common, so that they tell the samplers apart; they are still two lines."""
    conditions = [
        {"sampler": s, "n": n, "steps": k} for s, steps in (("a", (1, 3)), ("b", (10, 30))) for n in (5, 50) for k in steps
    ]
    outcome = outcome_of(conditions)
    assert outcome.lines("steps") == ["sampler", "n"]
    assert outcome.keep(["steps"]) == ["n"]


def test_a_setting_is_all_that_varies():
    """Options that only some conditions have: their names make one label."""
    conditions = [
        {"env": "e", "agent": "a"},
        {"env": "e", "agent": "b"},
        {"env": "e", "agent": "b", "gamma": 2.0},
        {"env": "e", "agent": "b", "pool": 8},
    ]
    outcome = outcome_of(conditions, rows="setting", columns="env")
    lines = table(outcome, "regret").groups[0].lines
    assert [line.label for line in lines] == ["a", "b", "b · gamma = 2", "b · pool = 8"]
    across = table(outcome_of([{**c, "n": n} for c in conditions for n in range(3)], rows="n", columns="setting"), "regret")
    assert across.columns == ("a", "b", "b · gamma = 2", "b · pool = 8")
    assert [line.label for line in across.groups[0].lines] == ["n = 0", "n = 1", "n = 2"]


def test_the_reference_is_of_the_same_problem():
    conditions = [{"env": e, "agent": a, "batching": "x", "prior": p} for e in "ef" for a in "ab" for p in "uv"]

    def references(**names) -> list[dict]:
        outcome = outcome_of(conditions, reference=names)
        found = [outcome.reference(m) for m in outcome.measured]
        return [m.condition for m in found if m is not None]

    assert references(agent="b") == [{**c, "agent": "b"} for c in conditions]
    assert references(agent="b", env="e") == references(agent="b")  # a problem beside other names is not meant for the others
    assert {c["env"] for c in references(env="e")} == {"e"}
    assert references(agent="c") == []


# Markdown


def test_markdown_has_the_papers_numbers_on_lines_of_their_own(written):
    outcome = {o.study.name: o for o in outcomes_of(Store.open(written[0]))}["bandit"]
    lines = markdown_table(outcome, "batches").splitlines()
    assert lines == [
        "| agent | static | dynamic |",
        "|---|---|---|",
        "| Langevin TS | 7 | 21 |",
        "| … in the paper | 7 ± 0 |  |",
        "| exact-ts | 7 | 21 |",
        "| ucb1 | 7 | 21 |",
    ]
    assert set(tables_of([outcome])) == {"bandit-regret", "bandit-batches", "bandit-reward"}


def test_insert_replaces_what_stands_between_the_marks_and_nothing_else():
    text = "a\n<!-- table: one -->\nold\n\n| x |\n<!-- /table -->\nb\n<!-- table: two -->\n<!-- /table -->\nc"
    found = insert(text, {"one": "| 1 |\n", "two": "| 2 |\n"})
    assert found == "a\n<!-- table: one -->\n| 1 |\n<!-- /table -->\nb\n<!-- table: two -->\n| 2 |\n<!-- /table -->\nc"
    assert insert(found, {"one": "| 1 |\n", "two": "| 2 |\n"}) == found
    assert insert("no marks", {}) == "no marks"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- table: won -->\n<!-- /table -->", "Did you mean 'one'"),
        ("<!-- table: one -->\n", "'one' is not ended"),
        ("<!-- table: one -->\n<!-- table: one -->\n<!-- /table -->", "begins inside another"),
    ],
)
def test_insert_refuses_marks_that_do_not_match(text, message):
    with pytest.raises((ConfigError, UnknownName), match=message):
        insert(text, {"one": "| 1 |"})


# Parts


def test_labels_are_spread_as_little_as_needed():
    np.testing.assert_allclose(apart(np.array([50.0, 20, 52]), 10, 0, 100), [46, 20, 56])
    np.testing.assert_allclose(apart(np.array([99.0, 98, 100]), 10, 0, 100), [90, 80, 100])  # not above the top
    np.testing.assert_allclose(apart(np.array([5.0]), 10, 0, 100), [5])
    rng = np.random.default_rng(0)
    found = np.sort(apart(rng.uniform(0, 100, 8), 9, 0, 100))
    assert np.diff(found).min() >= 9 - 1e-9
    assert found[-1] <= 100


def test_no_two_lines_look_alike():
    found = looks([f"line {i}" for i in range(49)])
    assert len({(look.colour, look.dash) for look in found.values()}) == 49
    assert len({look.dash for look in list(found.values())[:7]}) == 7  # in grey as well


def test_wasserstein_distance_of_samples():
    x = np.random.default_rng(0).normal(size=100)
    assert distance(x, x[::-1] + 0.5) == pytest.approx(0.5)
    assert distance(x, np.concatenate([x, x]) + 0.5) == pytest.approx(0.5)
