"""What a report shows, with hostile names and numbers that are not finite."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from blts.report import outcomes_of, write
from blts.report.page import inline
from blts.report.tables import comparisons
from blts.studies import Cell, Result, Store
from stored import HOSTILE, fill, played, renamed, rows_of

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
    images = [attributes for _, attributes in shown.tags if attributes.get("role") == "img"]
    assert HOSTILE in (images[0]["aria-label"] or "")
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
    drawn = [attributes for _, attributes in shown.tags if attributes.get("role") == "img"]
    assert len(drawn) == tags.count("svg") == 12
    assert all(attributes["aria-label"] for attributes in drawn)
    assert not {"img", "iframe", "link"} & set(tags) - {"link"}
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = set(re.findall(r'(?:href="|url\()#([^")]+)', page))
    assert references <= set(ids)
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
