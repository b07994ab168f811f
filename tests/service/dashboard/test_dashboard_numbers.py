"""Numbers, axes and tables: what people read is what was computed."""

from __future__ import annotations

import csv
import io
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blts.service.dashboard import numbers, scales
from blts.service.dashboard.tables import Column, Table

finite = st.floats(-1e9, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (numbers.number(1234.5), "1,234"),
        (numbers.number(-0.05), "−0.05"),
        (numbers.number(3.2e-9), "3.20e−09"),
        (numbers.number(None), "–"),
        (numbers.number(math.nan), "–"),
        (numbers.count(1_000_000), "1,000,000"),
        (numbers.percent(0.5), "50\u202f%"),
        (numbers.chance(1.0), "> 99.9\u202f%"),
        (numbers.chance(0.0), "< 0.1\u202f%"),
        (numbers.difference(0.01, "rate"), "+1 point"),
        (numbers.difference(-0.082, "rate"), "−8.2 points"),
        (numbers.difference(12.5, "number"), "+12.5"),
        (numbers.relative(86.0), "+86\u202f%"),
        (numbers.moment(0), "1 Jan 1970, 00:00 UTC"),
        (numbers.moment(1e300), "1e+300 s"),
        (numbers.ago(None, 5.0), "never"),
        (numbers.ago(0, 40 * 86400), "40 days ago"),
        (numbers.ago(500, 100), "in 7 minutes"),
        (numbers.short("a" * 40, 10), "a" * 9 + "…"),
    ],
)
def test_numbers_are_written_for_people(shown, words):
    assert shown == words


@given(finite)
def test_a_number_is_read_back_with_three_digits(x):
    read = float(numbers.number(x).replace(",", "").replace("−", "-"))
    assert read == pytest.approx(x, rel=5.1e-3)


@given(st.text())
def test_no_hidden_character_is_left(text):
    shown = numbers.visible(text)
    assert not any(c in shown for c in "\x00\x1b\u202e\u2066\u200f\u2028")
    assert numbers.visible(shown) == shown


@example([5e-324], True)
@example([-5e-324, 5e-324], False)
@given(st.lists(finite, min_size=1, max_size=5), st.booleans())
def test_an_axis_covers_its_values_with_a_few_even_marks(values, zero):
    axis = scales.linear(values, zero=zero)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= min(values)
    assert max(values) <= axis.high + slack
    assert 2 <= len(axis.ticks) <= 9
    steps = {
        round((b[0] - a[0]) / (axis.ticks[1][0] - axis.ticks[0][0]), 6) for a, b in zip(axis.ticks, axis.ticks[1:], strict=False)
    }
    assert steps == {1.0}
    assert all(0 <= axis.at(v) <= 1 for v in values)


@given(st.integers(0, 4 * 10**9), st.floats(0, 3e9))
def test_marks_of_time_are_round_and_within(start, span):
    axis = scales.times([start, start + span])
    assert len(axis.ticks) <= 6
    assert all(axis.low <= at <= axis.high and at % 1 == 0 for at, _ in axis.ticks)


def test_a_table_is_csv_with_all_digits_and_no_formulas():
    columns = [Column("arm", "arm"), Column("mean", "rate"), Column("at", "moment")]
    rows = [["=HYPERLINK(1)", 0.123456789, 0.0], [' "a",\nb', None, 86400.0], ["-1", 2, None]]
    found = list(csv.reader(io.StringIO(Table("t", "T", columns, rows).csv(), newline="")))
    assert found[0] == ["arm", "mean", "at"]
    assert found[1] == ["'=HYPERLINK(1)", "0.123456789", "1970-01-01T00:00:00Z"]
    assert found[2] == [' "a",\nb', "", "1970-01-02T00:00:00Z"]
    assert found[3][0] == "'-1"
