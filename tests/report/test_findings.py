"""What a report says of results is computed from them: other data, other words. Static text asks, describes and quotes."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from blts import paper
from blts.errors import BltsError
from blts.report.figures import KINDS
from blts.report.findings import findings
from blts.report.outcome import Measured, Outcome
from blts.studies import Study
from blts.studies.planning import plan

N = 60
TIMES = np.unique(np.geomspace(1, 4096, 40).round())


def outcome_of(measured: list[tuple[dict, dict]], about=None, **fields) -> Outcome:
    study = Study("s", conditions=tuple(c for c, _ in measured), replications=N, **fields)
    return Outcome(study, [Measured(c, arrays, dict(about or {})) for c, arrays in measured])


def scores(*levels: float) -> list[np.ndarray]:
    """Regret around levels, on common seeds."""
    rng = np.random.default_rng(0)
    common = rng.normal(0, 5, N)
    return [common + rng.normal(level, 1, N) for level in levels]


# Sentences


@pytest.mark.parametrize(
    ("gap", "expect", "verdict", "words"),
    [
        (0.0, "same", "not told apart", "not told apart in 1 of 1"),
        (2.0, "same", "contradicted in 1 of 1", "higher in 1 of 1"),
        (-2.0, "same", "contradicted in 1 of 1", "lower in 1 of 1"),
        (2.0, "higher", "borne out", "higher in 1 of 1"),
        (-2.0, "higher", "contradicted in 1 of 1", "lower in 1 of 1"),
        (0.0, "higher", "not told apart", "not told apart"),
        (0.0, "no higher", "not told apart", "not told apart"),
        (-2.0, "no higher", "borne out", "lower in 1 of 1"),
        (2.0, "no higher", "contradicted in 1 of 1", "higher in 1 of 1"),
    ],
)
def test_a_claim_is_judged_by_the_data(gap, expect, verdict, words):
    """The same study with other data has another verdict."""
    ours, theirs = scores(gap, 0.0)
    asked = {"find": "difference", "of": {"agent": "a"}, "than": {"agent": "b"}, "expect": expect, "claim": "As they say."}
    outcome = outcome_of([({"agent": "a"}, {"regret": ours}), ({"agent": "b"}, {"regret": theirs})], findings=(asked,))
    (found,) = findings(outcome)
    assert (found.claim, found.verdict) == ("As they say.", verdict)
    assert found.sentence.startswith("Regret at T with simultaneous 95 % intervals, a less b: ")
    assert words in found.sentence
    numbers = re.search(r"\((\S+) \[(\S+), (\S+)\]\)", found.sentence.replace("−", "-"))
    assert numbers is not None
    mean, low, high = map(float, numbers.groups())
    assert mean == pytest.approx(float((ours - theirs).mean()), abs=0.01)
    assert (low > 0 or high < 0) == ("told apart" not in found.sentence)  # one procedure


@pytest.mark.parametrize(
    ("gap", "expect", "margin", "verdict"),
    [
        (0.0, "same", 1.0, "borne out within ±1.0"),
        (0.0, "same", 0.1, "not told apart"),  # the interval is wider than that
        (0.8, "same", 2.0, "borne out within ±2.0"),  # told apart, and small
        (2.0, "same", 1.0, "contradicted in 1 of 1"),
        (0.0, "same", "10%", "borne out within ±10%"),
        (0.0, "same", "0.1%", "not told apart"),
        (0.0, "no higher", 1.0, "borne out within 1.0"),
        (2.0, "no higher", 1.0, "contradicted in 1 of 1"),
        (-2.0, "no lower", 1.0, "contradicted in 1 of 1"),
        (0.8, "no higher", 1.0, "not told apart"),
    ],
)
def test_equality_is_shown_within_a_margin_and_not_by_an_interval_around_zero(gap, expect, margin, verdict):
    ours, theirs = scores(10.0 + gap, 10.0)
    asked = {"find": "difference", "of": {"agent": "a"}, "than": {"agent": "b"}, "expect": expect, "claim": "c", "margin": margin}
    outcome = outcome_of([({"agent": "a"}, {"regret": ours}), ({"agent": "b"}, {"regret": theirs})], findings=(asked,))
    (found,) = findings(outcome)
    assert found.verdict == verdict
    assert found.holds is {"b": True, "n": None, "c": False}[verdict[0]]


def test_identical_runs_are_the_same_without_a_margin():
    (same,) = scores(1.0)
    asked = {"find": "difference", "of": {"agent": "a"}, "than": {"agent": "b"}, "expect": "same", "claim": "c"}
    (found,) = findings(outcome_of([({"agent": "a"}, {"regret": same}), ({"agent": "b"}, {"regret": same})], findings=(asked,)))
    assert (found.verdict, found.holds) == ("borne out", True)


def test_a_short_sentence_has_the_extremes_of_many_differences():
    levels = scores(*(float(i) for i in range(6)), 10.0)
    named = [({"agent": "a", "size": i}, {"regret": x}) for i, x in enumerate(levels[:6])] + [
        ({"agent": "b"}, {"regret": levels[6]})
    ]
    (found,) = findings(outcome_of(named, findings=({"find": "difference", "of": {"agent": "a"}, "than": {"agent": "b"}},)))
    assert found.short.startswith("A has a lower regret at T than b in all 6 comparisons (least size = 5: ")
    assert "; most size = 0: " in found.short
    assert "size = 2" not in found.short
    assert found.measured.startswith("lower in 6 of 6 (least size = 5: ")
    assert "size = 2" in found.sentence  # the study's section has all


def test_conditions_are_compared_with_what_is_otherwise_alike():
    a1, a2, b1, b2 = scores(3.0, 0.0, 0.0, 0.0)
    named = [({"env": e, "agent": g}, {"regret": x}) for (e, g), x in zip(["ea", "fa", "eb", "fb"], (a1, a2, b1, b2), strict=True)]
    asked = {"find": "difference", "of": {"agent": "a"}, "than": {"agent": "b"}}
    (found,) = findings(outcome_of(named, findings=(asked,)))
    assert re.search(r"higher in 1 of 2 \(e 3\.\d+ \[.*\]\), not told apart in 1 of 2 \(f ", found.sentence)
    (others,) = findings(outcome_of(named, findings=({"find": "difference", "of": {}, "than": {"agent": "b"}},)))
    assert "the others less b: " in others.sentence


def printed(mean: float, sd: float = 1.0, n: int = 10, **names) -> dict:
    return {"agent": "a", "metric": "regret", "mean": mean, "sd": sd, "n": n, **names}


def test_published_numbers_are_counted_and_looked_for_elsewhere():
    first, second = scores(100.0, 120.0)
    named = [({"agent": "a", "prior": "p"}, {"regret": first}), ({"agent": "a", "prior": "q"}, {"regret": second})]
    said = [
        findings(outcome_of(named, findings=({"find": "printed"},), printed=(printed(mean, prior="p"),)))[0].sentence
        for mean in (100.0, 120.0, 140.0)
    ]
    assert "1 of 1 comparisons agree" in said[0]
    assert "differ" not in said[0]
    assert "0 of 1 comparisons agree" in said[1]
    assert "120 agrees with ours of q prior" in said[1]
    assert "140 agrees with none of ours" in said[2]


def test_means_that_cannot_be_of_the_stated_runs():
    """The paper's 15.33 and 22.93; and means that are possible."""
    study = paper.study("riverswim")
    outcome = Outcome(dataclasses.replace(study, findings=({"find": "runs"},)), [Measured({}, {"reward": np.ones(5)}, {})])
    assert {"find": "runs"} in study.findings
    (found,) = findings(outcome)
    assert found.sentence == (
        "15.33 (Table 3, policies used of DB-PSRL) and 22.93 (Table 2, batches of Langevin TS (SGLD) dynamic) cannot be means of "
        "10 whole numbers; of at most 20 runs both can be of 15 (230/15, 344/15)."
    )
    fair = [({"agent": "a"}, {"regret": np.ones(N)})]
    rows = tuple(printed(mean, metric="batches") for mean in (15.3, 22.9))
    assert "All 2 published means" in findings(outcome_of(fair, findings=({"find": "runs"},), printed=rows))[0].sentence
    rows = (printed(15.33, metric="batches", n=10), printed(0.001, metric="switches", n=10))
    assert (
        "no number of runs up to 20 admits them all"
        in findings(outcome_of(fair, findings=({"find": "runs"},), printed=rows))[0].sentence
    )


@pytest.mark.parametrize(
    ("finding", "message"),
    [
        ({"find": "gap"}, "find one of difference, printed, growth, bound, runs"),
        ({"find": "printed", "of": {}}, "a 'printed' has no 'of'; it takes metric"),
        ({"find": "difference", "of": {"agent": "a"}}, "needs the tables of and than"),
        ({"find": "difference", "of": {}, "than": {"agent": "a"}, "claim": "x"}, "a claim needs expect"),
        (
            {"find": "difference", "of": {}, "than": {"agent": "a"}, "claim": "x", "expect": "equal"},
            "expect must be one of .* got 'equal'",
        ),
        (
            {"find": "difference", "of": {}, "than": {"agent": "a"}, "claim": "x", "expect": "same", "margin": "wide"},
            "margin must be",
        ),
        (
            {"find": "difference", "of": {}, "than": {"agent": "a"}, "claim": "x", "expect": "higher", "margin": 1.0},
            "a margin goes with",
        ),
        ({"find": "difference", "of": {}, "than": {"agent": "nobody"}}, r"No condition matches than = \{'agent': 'nobody'\}"),
        ({"find": "printed", "metric": "regrets"}, "Did you mean 'regret'"),
    ],
)
def test_a_finding_that_cannot_be_is_refused_before_anything_runs(finding, message):
    condition = {"env": "gaussian", "agent": "ucb1", "batching": "static", "horizon": 10}
    with pytest.raises(BltsError, match=message):
        plan(Study("s", conditions=(condition,), findings=(finding,)))


# Captions


def grown(power: float | None, claims: dict[str, str]) -> str:
    """The caption of curves that are a logarithm or a power of T."""
    level = np.random.default_rng(0).gamma(20.0, 1 / 20, size=(N, 1))
    curve = level * (np.log2(2 * TIMES) if power is None else TIMES**power)
    outcome = outcome_of([({"agent": "a"}, {"curve": curve, "regret": curve[:, -1]})], {"times": TIMES.tolist()}, claims=claims)
    axes = {row["axes"] for row in KINDS["growth"].rows(outcome)}
    caption = KINDS["growth"].caption(outcome)
    assert ("against log T, where" in caption) == (axes == {"log T"})  # what is drawn is what the caption says
    assert ("on log–log axes" in caption) == (axes == {"log–log"})
    return caption


def test_growth_is_drawn_on_the_axes_of_its_claim_and_judged_by_the_data():
    logarithm, root = {"regret": "O(log T)"}, {"regret": "O(√T)"}
    assert "Regret against log T, where the claimed O(log T) is a straight line." in grown(None, logarithm)
    assert "grows no faster than claimed in 1 of 1" in grown(None, logarithm)
    assert "in 0 of 1 conditions; faster: " in grown(0.5, logarithm)
    assert "the claimed O(√T) is a straight line" in grown(0.5, root)
    assert "grows no faster than claimed in 1 of 1" in grown(0.4, root)
    assert re.search(r"in 0 of 1 conditions; faster: .*T\^0\.80 \[0\.80, 0\.80\], claimed T\^0\.50", grown(0.8, root))
    assert "no growth is claimed there" in grown(0.5, {})
    assert "faster" not in grown(0.5, {})


def test_counts_that_are_staircases_are_not_faster_than_they_are_claimed():
    """Every replication has the same counts, so that intervals have no width; three quarters of T more is faster."""

    def caption(power: float, claim: str) -> str:
        batches = np.tile(np.floor(TIMES**power / 5), (N, 1))
        arrays = {"curve": batches, "batches_by": batches, "regret": batches[:, -1]}
        outcome = outcome_of([({"agent": "a"}, arrays)], {"times": TIMES.tolist()}, claims={"batches": claim})
        return KINDS["growth"].caption(outcome)

    assert "batches grow no faster than claimed in 1 of 1" in caption(1.0, "O(T/H)")
    assert "batches grow no faster than claimed in 0 of 1" in caption(1.0, "O(√T)")


def test_theorem_3_is_drawn_against_log_t():
    assert paper.study("theorem-3").claims == {"regret": "O(log T)", "batches": "O(log T)"}


def test_the_lemmas_caption_counts_what_is_below_one_half():
    def caption(least: float) -> str:
        return KINDS["ratio"].caption(outcome_of([({"batching": "dynamic"}, {"least": np.append(np.full(N - 1, 0.6), least)})]))

    assert "There is no such replication." in caption(0.5)
    assert "There are such replications for all (1 of 60)." in caption(0.49)


def test_the_caption_of_batches_says_where_the_bound_is_passed():
    def caption(last: int) -> str:
        batches = np.tile(np.array([1, 2, last]), (N, 1))
        about = {"times": [1, 2, 4], "batches_bound": [1.0, 2.0, 3.0]}
        return KINDS["batches"].caption(outcome_of([({"batching": "dynamic"}, {"batches_by": batches})], about))

    assert "No replication closes more under dynamic." in caption(3)
    assert "Some replication closes more under dynamic (1 of 1 conditions)." in caption(4)


def test_the_caption_of_distances_says_where_the_bound_is_passed_and_the_spread():
    z = np.random.default_rng(0).normal(size=2000)

    def caption(spread: float) -> str:
        study = [({"n": n}, {"z": z * (spread if n == 64 else 1.0)}) for n in (8, 64)]
        return KINDS["distance"].caption(outcome_of(study, {"bound": 1.0}))

    assert "above the bound at none of 2 points" in caption(1.5)
    assert "above the bound at 1 of 2 points: chain, n = 64 (2 for 1)" in caption(3.0)
    assert re.search(r"At n = 64 the sd is 3 \[2\.\d+, 3\.\d+\] \(chain\)", caption(3.0))


def test_the_caption_of_zero_counts_has_the_steps_that_are_needed():
    rng = np.random.default_rng(0)
    exact, again = rng.beta(0.5, 9, (2, 4000))

    def caption(shift: float) -> str:
        study = [({"n": 5, "steps": k}, {"share": again + (shift if k < 9 else 0.0), "exact": exact}) for k in (1, 3, 9)]
        return KINDS["zero-counts"].caption(outcome_of(study))

    assert "draws 1." in caption(0.0)
    assert "draws 9." in caption(0.1)


def test_the_caption_of_a_trade_off_counts_its_conditions_and_names_its_front():
    def caption(first: float) -> str:
        levels = {("a", "x"): (first, 5.0), ("b", "x"): (20.0, 5.0), ("b", "y"): (30.0, 9.0)}
        study = [
            ({"agent": a, "batching": b}, {"regret": scores(regret)[0], "batches": np.full(N, batches)})
            for (a, b), (regret, batches) in levels.items()
        ]
        return KINDS["tradeoff"].caption(outcome_of(study))

    assert "3 conditions (2 agents and 2 batching schemes), a point each" in caption(10.0)
    assert caption(10.0).endswith("beat on both: a x.")
    assert caption(90.0).endswith("beat on both: b x.")
    two = [
        ({"env": env, "agent": a, "batching": b}, {"regret": scores(regret)[0], "batches": np.full(N, batches)})
        for env in ("e", "f")
        for a, b, regret, batches in (("a", "x", 10.0, 5.0), ("b", "x", 20.0, 5.0), ("b", "y", 5.0 if env == "f" else 30.0, 9.0))
    ]
    assert KINDS["tradeoff"].caption(outcome_of(two)).endswith("beat on both: a x (e); a x and b y (f).")
    assert "a x, e (" in KINDS["tradeoff"].alt(outcome_of(two))


# Static text

FOUND = re.compile(
    r"\b(loses?|earns?|beats?|wins?|holds?|fails?|reproduc\w+|agrees?|differs?|contradict\w*|grows?|costs?|suffers?|settles?|passes|"
    r"better|worse|best|worst|least|most|heavy|wide margin|far (?:less|more|too|fewer)|fewer|as many as|as much as|too \w+|cannot|"
    r"needs?|matters?|plays like|as good as|nearly|not told apart|significan\w+|every method|all methods|never|always)\b",
    re.IGNORECASE,
)
"""Words by which results are stated."""
QUOTED = re.compile(r"\?$|\b(?:paper|Theorem|theorem|theorems|theorem's|lemma|claims?|theory|Table \d)\b|\bO\(")
"""What a sentence with such a word must have: it asks, or says whose statement it is."""
MEASURED = re.compile(r"\d\.\d")


def stated(text: str) -> list[str]:
    """Sentences that state a result, or give a number that was measured, on nobody's authority."""
    sentences = re.split(r"(?<=[.?!;])\s+", " ".join(text.split()))
    return [s for s in sentences if (FOUND.search(s) or MEASURED.search(s)) and not QUOTED.search(s.rstrip(";"))]


ALLOWED = {
    "A fifth to a third of the people spend nothing, and few spend most of it.",  # of the data set, not of a result
}


@pytest.mark.parametrize("name", paper.NAMES)
def test_the_text_of_a_study_states_no_result(name):
    study = paper.study(name)
    for text in (study.title, study.text, study.chapter):
        assert not [s for s in stated(text) if s not in ALLOWED], name


def test_what_opens_the_report_states_no_result_and_counts_its_studies():
    assert stated(paper.lead()) == []
    assert "Every table and figure" in paper.lead()
    assert f"3 of the {len(paper.NAMES)} studies" in paper.lead(paper.QUICK)
    assert "The paper states 10 runs" in paper.lead()


OLD = (
    "Only γ matters for the regret here; the step and the number of steps cost time.",
    "Every method and batching scheme on the Gaussian bandit, one point each.",
    "Regret against batches, all methods",
    "Bayes-UCB is the row that does not reproduce.",
    "With us dynamic doubling earns *more* than static doubling.",
    "γ: 1 gives the numbers, 0.01 is far too cautious",
    "It holds from the round after an arm's first play.",
    "Good play closes far fewer, because plays go to one arm.",
    "A pool of chains plays like exact draws once it is large enough.",
    "The chain has an optimal average reward of about 7.5.",
    "Also, 15.33 cannot be the mean of ten whole numbers.",
)


@pytest.mark.parametrize("text", OLD)
def test_text_that_states_a_result_is_found(text):
    """The mutants of the walk above: what studies once said."""
    assert stated(text)
