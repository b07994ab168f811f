"""Tables, Markdown and the parts of figures."""

from __future__ import annotations

import numpy as np
import pytest

from blts import registry
from blts.drawing.labels import apart
from blts.drawing.style import looks
from blts.errors import ConfigError, UnknownName
from blts.report import insert, markdown_table, outcomes_of, tables_of
from blts.report.figures import KINDS
from blts.report.figures.zero_counts import distance
from blts.report.outcome import WITHOUT_PRIOR, Measured, Outcome
from blts.report.tables import axes, csv_rows, table
from blts.studies import Store, Study

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
        (  # a group is a problem, and all agents that played it are in it, also those with options
            [
                {"env": e, "batching": b} | agent
                for e in "ef"
                for b in "xy"
                for agent in ({"agent": "a"}, {"agent": "u", "scale": 1.0}, {"agent": "u", "scale": 2.0})
            ],
            (["agent", "scale"], ["batching"], ["env"]),
        ),
    ],
)
def test_rows_and_columns_of_tables(conditions, expected):
    outcome = outcome_of(conditions)
    assert axes(outcome) == expected
    found = table(outcome, "regret")
    assert len(found.entries()) == len(conditions)  # no condition hides another


def lines_of(conditions, **fields) -> list[tuple[str, list[str]]]:
    return [(g.label, [line.label for line in g.lines]) for g in table(outcome_of(conditions, **fields), "regret").groups]


def test_another_horizon_is_another_group_though_it_follows_from_the_agent():
    """Else a regret of 40 rounds stands beside one of 80, and looks like the winner."""
    conditions = [{"env": "e", "agent": a, "batching": "x", "horizon": T} for a, T in (("a", 80), ("b", 40))]
    expected = [("T = 80", ["a"]), ("T = 40", ["b"])]
    assert lines_of(conditions) == expected
    by_batching = [{"env": "e", "agent": "a", "batching": b, "horizon": T} for b, T in (("x", 80), ("y", 40))]
    assert lines_of(by_batching) == [("T = 80", ["x"]), ("T = 40", ["y"])]
    crossed = [{"env": "e", "agent": a, "batching": b, "horizon": T} for a in "ab" for b, T in (("x", 80), ("y", 40))]
    assert lines_of(crossed) == [("T = 80", ["a", "b"]), ("T = 40", ["a", "b"])]
    by_prior = [
        {"env": "e", "agent": a, "batching": b, "prior": p, "horizon": T}
        for a in "ab"
        for b in "xy"
        for p, T in (("u", 8), ("v", 4))
    ]
    assert [label for label, _ in lines_of(by_prior)] == ["u prior · T = 8", "v prior · T = 4"]
    assert lines_of(conditions, rows="setting", columns="env") == [("", ["a · T = 80", "b · T = 40"])]
    assert table(outcome_of(conditions, rows="env", columns="setting"), "regret").columns == ("a · T = 80", "b · T = 40")
    other = [{"env": e, "agent": a, "batching": "x"} for e, a in ("ea", "fb")]
    assert lines_of(other) == [("e", ["a"]), ("f", ["b"])]


def test_priors_samplers_and_options_that_follow_from_the_agent_are_said():
    thompson = {"agent": "thompson", "sampler": "barker", "prior": "power", "scale": 2.0}
    conditions = [{"env": "e", "batching": "x"} | own for own in ({"agent": "a", "prior": "plain", "scale": 1.0}, thompson)]
    assert lines_of(conditions) == [("", ["a · plain prior · scale = 1", "thompson · power prior · scale = 2 · barker"])]
    one = [{"env": "e", "batching": "x", "prior": "plain"} | own for own in ({"agent": "a"}, {"agent": "b", "scale": 1.0})]
    assert lines_of(one) == [("", ["a", "b"])]  # an option of one agent alone
    across = [{"env": e, "agent": a, "batching": "x", "prior": p} for e, p in ("eu", "fv") for a in "ab"]
    assert lines_of(across) == [("", ["a", "b"])]  # those that stand in one column are alike


def test_a_prior_that_is_not_read_is_not_said():
    conditions = [{"env": "e", "agent": a, "batching": "x", "prior": p} for a, p in (("blts", "flat"), ("ucb1", "informative"))]
    assert lines_of(conditions) == [("", ["blts", "ucb1"])]
    for own in ({"drawn": True}, {"stop": "evidence"}):
        assert lines_of([c | own for c in conditions]) == [("", ["blts · flat prior", "ucb1 · informative prior"])]
    assert set(WITHOUT_PRIOR) == {n for n in registry.entries("agent") if not registry.find("agent", n).about.get("prior", True)}


def test_one_condition_has_the_name_of_its_agent():
    (group,) = table(outcome_of([{"agent": "ucb1", "batching": "static"}]), "regret").groups
    assert [line.label for line in group.lines] == ["ucb1"]


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


def test_quantiles_are_beside_the_mean(written):
    outcome = next(o for o in outcomes_of(Store.open(written[0])) if o.study.name == "bandit")
    for row, m in zip(csv_rows(outcome, "regret"), outcome.measured, strict=True):
        assert [row["median"], row["q95"]] == np.quantile(m.values("regret"), (0.5, 0.95)).tolist()
    found = table(outcome, "regret")
    words = found.quantiles(next(e.summary for e in found.entries() if e.summary.sd))
    assert words.startswith("median ")
    assert words in (written[0] / "index.html").read_text()


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


@pytest.mark.parametrize("lines", [3, 4])
def test_many_lines_have_a_key_below_the_figure(lines):
    """Labels beside four lines or more would cover them."""
    row = {"block": "", "panel": "p", "quantity": "regret", "tail": "≥", "n": "2"}
    drawn = [
        row | {"line": f"agent {k}", "value": str(10 + k + i), "share": str(1 / (1 + i))} for k in range(lines) for i in range(2)
    ]
    figure = KINDS["distribution"].draw(drawn)
    beside = [text.get_text() for text in figure.axes[0].texts if text.get_text()]
    below = [text.get_text() for key in figure.legends for text in key.get_texts()]
    expected = [f"agent {k}" for k in range(lines)]
    assert (beside, below) == ((expected, []) if lines == 3 else ([], expected))
