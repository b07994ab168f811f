"""The picture of a report: what it shows is what the report says."""

from __future__ import annotations

import json

import pytest

from blts.live import Experiment, Report


def mail(arms: list[str], days: int) -> Experiment:
    """An experiment in which every second unit of the last arm converts, and nobody else."""
    mail = Experiment.create("sqlite://", "mail", arms, "conversions", batching="external", seed=3, floor=0.01)
    for _ in range(days):
        mail.tell([(d.id, d.arm == arms[-1] and i % 2 == 0) for i, d in enumerate(mail.ask(40).decisions)])
        mail.refresh()
    return mail


def test_a_report_is_a_dictionary_that_json_holds():
    report = mail(["A", "B"], 1).report()
    assert isinstance(report, Report)
    assert json.loads(json.dumps(report)) == dict(report)


def test_the_picture_shows_what_the_report_says():
    report = mail(["A", "B"], 3).report()
    means, allocation = report.plot().axes
    lines = [line for line in means.lines if len(line.get_xdata()) == 2]
    assert [list(line.get_xdata()) for line in lines] == [[arm["posterior_low"], arm["posterior_high"]] for arm in report["arms"]]
    assert [label.get_text() for label in means.get_yticklabels()] == ["A", "B"]
    steps = report["history"]["policies"]
    for line, label in zip(allocation.lines, ("A", "B"), strict=True):
        assert list(line.get_ydata())[:-1] == steps["allocation"][label]
        assert list(line.get_xdata()) == [*steps["t"], report["decisions"] + (steps["t"][-1] == report["decisions"])]


def test_a_changed_report_is_another_picture():
    """The mutant of the test above: the picture is made of the report, not of the experiment."""
    report = mail(["A", "B"], 1).report()
    report["arms"][0]["posterior_high"] += 1.0
    assert report["arms"][0]["posterior_high"] in report.plot().axes[0].lines[0].get_xdata()


@pytest.mark.parametrize(("arms", "days"), [(["A", "B"], 0), ([f"arm {k}" for k in range(40)], 1)])
def test_few_rewards_or_many_arms_are_no_matter(arms, days):
    picture = mail(arms, days).report().plot()
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert len(picture.axes[-1].lines) == min(len(arms), 30)


def test_with_contexts_there_is_the_allocation_alone():
    shop = Experiment.create(
        "sqlite://",
        "shop",
        ["A", "B"],
        "linear-unknown-variance",
        sampler="exact",
        batching="external",
        features={"visits": [0, 10]},
        seed=1,
    )
    shop.tell([(d.id, 1.0) for d in shop.ask(4, contexts=[{"visits": k} for k in range(4)]).decisions])
    assert [axes.get_title("left") for axes in shop.report().plot().axes] == ["Allocation"]
