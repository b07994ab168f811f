"""A report as a page: one file that needs no other, with what the report says."""

from __future__ import annotations

import html.parser
import random

import pytest

from blts.errors import ConfigError
from blts.live import page
from experiments import made


class Reader(html.parser.HTMLParser):
    """The text of a page, what it refers to, and whether its tags close each other."""

    def __init__(self):
        super().__init__()
        self.text, self.links, self.open = "", [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def played(tmp_path):
    chance = random.Random(1)
    experiment = made(tmp_path, arms=["A", "<b>&", "C"], model="conversions", batching="external", floor=0.1, control="A")
    for _ in range(3):
        asked = experiment.ask(100).decisions
        experiment.tell([(d.id, float(chance.random() < (0.7 if d.arm == "C" else 0.2))) for d in asked])
        experiment.refresh()
    return experiment


def test_a_page_says_what_the_report_says_and_needs_no_other_file(tmp_path):
    experiment = played(tmp_path)
    report = experiment.report()
    path = page.write(experiment, report, tmp_path / "report.html")
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    assert report["recommendation"] in reader.text
    assert "<b>&" in reader.text  # a label is text, not a tag
    assert all(link.startswith("data:") for link in reader.links)
    assert sum(link.startswith("data:image/svg") for link in reader.links) == 3
    with pytest.raises(ConfigError, match="cannot be written"):
        page.write(experiment, report, tmp_path / "no" / "report.html")


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        ((0.5, 0.25, 1.0), "earned 0.5 [0.25, 1] a unit more than equal"),
        ((-0.5, -1.0, 0.25), "earned 0.5 [-0.25, 1] a unit less than equal"),
        ((0.5, None, None), "earned 0.5 a unit more than equal shares would have, of which no interval can be given yet."),
    ],
)
def test_a_loss_is_not_called_a_gain(tmp_path, gain, words):
    experiment = played(tmp_path)
    report = experiment.report()
    report["value_against_equal"] |= dict(zip(("per_unit", "low", "high"), gain, strict=True))
    assert words in page.write(experiment, report, tmp_path / "report.html").read_text(encoding="utf-8")
