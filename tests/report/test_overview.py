"""The first page: every sentence and verdict is computed, so results that change change the words."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from blts import paper
from blts.errors import ConfigError
from blts.report import outcomes_of, write
from blts.report.overview import MOST, best, overview
from blts.studies import Cell, Result, Study
from stored import TIMES, fill, played, renamed

CLAIM = {
    "find": "difference",
    "of": {"agent": "blts"},
    "than": {"agent": "ucb1"},
    "among": {"batching": "dynamic"},
    "expect": "lower",
    "claim": "Langevin loses less.",
    "first": 1,
}


def levels(**means: float):
    """Results in which agents lose so much, with the same noise of every seed for all."""

    def result(cell: Cell) -> Result:
        found = played(cell)
        noise = np.random.default_rng(cell.first).normal(0, 1, cell.replications)
        own = np.random.default_rng([cell.first, len(cell.condition["agent"])]).normal(0, 0.1, cell.replications)
        found.arrays["regret"] = means[cell.condition["agent"].replace("-", "_")] + noise + own
        return found

    return result


def seen(folder, study: Study, **means: float):
    return overview(outcomes_of(fill(folder, study, of=levels(**means))))


def test_a_swapped_winner_changes_sentence_and_verdict(tmp_path):
    study = renamed(findings=(CLAIM,))
    true = seen(tmp_path / "a", study, blts=10.0, exact_ts=10.0, ucb1=20.0)
    assert true.scorecard[0].mark == "holds"
    assert true.scorecard[0].finding.verdict == "borne out"
    assert "Langevin TS has a lower regret at T than ucb1 (" in true.sentences[0].text
    swapped = seen(tmp_path / "b", study, blts=20.0, exact_ts=10.0, ucb1=10.0)
    assert swapped.scorecard[0].mark == "fails"
    assert swapped.scorecard[0].finding.verdict == "contradicted in 1 of 1"
    assert swapped.sentences[0].text.startswith("Against the claim: ")
    assert "Langevin TS has a higher regret at T than ucb1 (" in swapped.sentences[0].text


def test_equal_agents_are_not_told_apart(tmp_path):
    equal = seen(tmp_path / "a", renamed(findings=(CLAIM,)), blts=10.0, exact_ts=10.0, ucb1=10.0)
    assert equal.scorecard[0].mark == "open"
    assert "Langevin TS and ucb1 are not told apart in regret at T (" in equal.sentences[0].text


def test_the_best_is_named_with_its_margin(tmp_path):
    """Without any finding: the best, by how much with an interval, and who is level with it."""
    study = renamed(findings=(), conditions=[c for c in renamed().conditions if c["batching"] == "static"])
    ahead = best(outcomes_of(fill(tmp_path / "a", study, of=levels(blts=5.0, exact_ts=9.0, ucb1=20.0)))[0])
    assert len(ahead) == 1
    assert "Langevin TS has the lowest regret at T, " in ahead[0]
    assert "All others have more; the nearest is exact-ts, by 3.97 [3.9" in ahead[0]
    behind = best(outcomes_of(fill(tmp_path / "b", study, of=levels(blts=9.0, exact_ts=5.0, ucb1=20.0)))[0])
    assert "Exact-ts has the lowest regret at T, " in behind[0]
    level = best(outcomes_of(fill(tmp_path / "c", study, of=levels(blts=9.0, exact_ts=9.0, ucb1=9.0)))[0])
    assert "It is not told apart from" in level[0]
    assert "more" not in level[0]


def test_the_best_of_a_reward_is_the_most(tmp_path):
    study = renamed(findings=(), score="reward", conditions=[c for c in renamed().conditions if c["batching"] == "static"])
    found = best(outcomes_of(fill(tmp_path / "a", study))[0])
    assert "has the highest average reward a round" in found[0]
    assert "Ucb1 has the highest" not in found[0]


def test_growth_and_bounds_are_judged(tmp_path):
    asked = (
        {"find": "growth", "metric": "regret", "among": {"agent": "blts"}, "claim": "The regret is O(log T).", "first": 1},
        {"find": "bound", "among": {"batching": "dynamic"}, "claim": "Batches stay below the bound.", "first": 2},
    )
    study = renamed(findings=asked, claims={"regret": "O(log T)"})
    good = overview(outcomes_of(fill(tmp_path / "a", study)))
    assert [score.mark for score in good.scorecard] == [
        "open",
        "holds",
    ]  # a growth that is not seen to be faster may be; a bound was kept or was not

    def worse(cell: Cell) -> Result:
        found = played(cell)
        found.arrays["curve"] = found.arrays["curve"] * np.array(TIMES)
        found.arrays["batches"] = found.arrays["batches"] * 10
        return found

    assert good.sentences[1].text.startswith("No run closed more batches than the bound; the one that came nearest closed ")
    bad = overview(outcomes_of(fill(tmp_path / "b", study, of=worse)))
    assert bad.sentences[1].text.startswith("Against the claim: Runs closed more batches than the bound in ")
    assert [score.mark for score in bad.scorecard] == ["fails", "fails"]


def test_published_numbers_that_do_not_agree_fail(tmp_path):
    asked = {"find": "printed", "metric": "regret", "among": {"agent": "ucb1"}, "claim": "As printed.", "first": 1}
    rows = [{"agent": "ucb1", "mean": 20.0, "sd": 1.0, "n": 10}]
    study = renamed(findings=(asked,), printed=rows)
    agrees = seen(tmp_path / "a", study, blts=1.0, exact_ts=1.0, ucb1=20.0)
    differs = seen(tmp_path / "b", study, blts=1.0, exact_ts=1.0, ucb1=30.0)
    assert (agrees.scorecard[0].mark, differs.scorecard[0].mark) == ("open", "fails")
    assert "none of the 2 published means differs from ours, by 99 % intervals (" in agrees.sentences[0].text
    assert "all 2 published means differ from ours, by 99 % intervals (" in differs.sentences[0].text


def test_a_claim_without_its_conditions_is_open(tmp_path):
    missing = {**CLAIM, "among": {"batching": "weekly"}}
    found = seen(tmp_path / "a", renamed(findings=(missing,)), blts=1.0, exact_ts=2.0, ucb1=3.0)
    assert found.scorecard[0].mark == "open"
    assert "No condition has batching = weekly." in found.sentences[0].text


def test_the_page_has_the_sentences_and_the_verdicts(tmp_path):
    folder = tmp_path / "s"
    fill(folder, renamed(findings=(CLAIM,)), of=levels(blts=20.0, exact_ts=10.0, ucb1=10.0))
    write(folder)
    page = (folder / "index.html").read_text()
    assert page.index("What we found") < page.index("Scorecard") < page.index("In one picture") < page.index('id="study-bandit"')
    assert '<span class="mark fails">contradicted in 1 of 1</span>' in page


def test_what_is_not_told_apart_is_neither_green_nor_red(tmp_path):
    folder = tmp_path / "s"
    fill(
        folder,
        renamed(findings=({**CLAIM, "than": {"agent": "exact-ts"}, "expect": "same"},)),
        of=levels(blts=10.0, exact_ts=10.0, ucb1=10.0),
    )
    write(folder)
    page = (folder / "index.html").read_text()
    assert '<span class="mark open">not told apart</span>' in page
    assert '<li class="open">' in page
    assert 'class="mark holds"' not in page


def test_the_paper_has_twelve_sentences_in_one_order():
    places = [f["first"] for name in paper.NAMES for f in paper.study(name).findings if "first" in f]
    assert sorted(places) == list(range(1, MOST + 1))


@pytest.mark.parametrize("wrong", [{"first": 0}, {"among": "dynamic"}])
def test_a_wrong_place_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        dataclasses.replace(renamed(), findings=({**CLAIM, **wrong},))


def test_the_first_page_loads_no_jax():
    code = "import sys, json, blts.report, blts.report.overview; print(json.dumps('jax' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
