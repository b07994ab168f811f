"""Charts: points are where their numbers are, every chart is described, and nothing hostile becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from blts.service.dashboard import charts, scales
from blts.service.dashboard.charts import Bar, Interval, Look, Series
from blts.service.dashboard.views import allocation, estimates, feedback, health, overview
from houses import HOSTILE, SCRIPT, facts_of

VIEWS = (overview.overview, allocation.allocation, estimates.estimates, health.health, feedback.feedback)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def test_a_line_goes_through_its_points_and_breaks_where_there_are_none():
    axis = scales.linear([0, 10], zero=True)
    line = Series("A", Look(0), [0, 5, 10], [0.0, 10.0, 5.0])
    gap = Series("B", Look(1), [0, 5, 10], [10.0, None, 0.0])
    root = parsed(charts.lines([line, gap], axis, axis, about=("c", "words")))
    paths = [one.get("d") for one in of_class(root, "line")]
    assert paths == ["M0 1000L500 0L1000 500", "M0 0M1000 1000"]
    steps = parsed(charts.lines([line], axis, axis, about=("c", "words"), steps=True))
    assert of_class(steps, "line")[0].get("d") == "M0 1000H500V0H1000V500"


def test_areas_stand_on_each_other():
    axis = scales.linear([0, 2], zero=True, most=2)
    parts = [Series("A", Look(0), [0, 1, 2], [0.25, 0.5, 0.5]), Series("B", Look(1), [0, 1, 2], [0.75, 0.5, 0.5])]
    root = parsed(charts.stacked(parts, axis, about=("c", "words"), y=scales.shares()))
    first, second = (one.get("d") or "" for one in of_class(root, "area"))
    assert first == "M0 750H500V500H1000V500L1000 1000V1000H500V1000H0z"
    assert second == "M0 0H500V0H1000V0L1000 500V500H500V750H0z"  # its lower edge is the upper one of the first


def test_intervals_and_bars_have_the_sizes_of_their_numbers():
    axis = scales.Axis(0.0, 1.0, [(0.0, "0"), (1.0, "1")])
    root = parsed(charts.intervals([Interval("A", Look(0), 0.5, 0.25, 0.75, "half")], axis, about=("c", "words")))
    (whisker,) = of_class(root, "whisker")
    assert (whisker.get("x1"), whisker.get("x2")) == ("25%", "75%")
    root = parsed(charts.bars([("a", [Bar("x", Look(0), 0.5), Bar("y", Look(1), 0.25)])], axis, about=("c", "words")))
    assert [(one.get("y"), one.get("height")) for one in of_class(root, "bar")] == [("50%", "50%"), ("25%", "25%")]


def test_an_arm_looks_the_same_everywhere_and_no_two_look_alike():
    looks = [Look(i) for i in range(49)]
    assert len({look.classes for look in looks}) == 49
    facts = facts_of("pricing")
    for view in VIEWS:
        for chart in view(facts).charts:
            assert all(look == facts.looks[label] for label, look in chart.legend if label in facts.looks)


@pytest.mark.parametrize("name", ["pricing", "recommendations"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_chart_is_described_and_has_its_numbers(name, view):
    shown = view(facts_of(name))
    assert shown.charts
    for chart in shown.charts:
        root = parsed(chart.svg)
        (words,) = root.iter("{http://www.w3.org/2000/svg}desc")
        assert words.get("id") == root.get("aria-labelledby")
        assert len(words.text or "") > 20
        assert chart.table.rows
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        assert shown.table(chart.id) is chart.table
        assert "style=" not in chart.svg


def test_labels_are_text():
    arms = [Interval(label, Look(i), 0.5, 0.25, 0.75, label) for i, label in enumerate(HOSTILE)]
    axis = scales.shares()
    drawn = charts.intervals(arms, axis, about=("c", SCRIPT)) + charts.share_bar([Bar(HOSTILE[0], Look(0), 1.0)], HOSTILE[0])
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "&lt;script" in drawn
