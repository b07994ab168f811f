"""Traces side by side: the verdict of a pair, the table, the picture, and tables for other libraries."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import blts
from blts import ConfigError, DoublingCounts, Fixed, Sequential, compare, paired
from blts.comparison import QUANTITIES
from blts.drawing import curves
from blts.statistics import differences


@pytest.fixture(scope="module")
def traces():
    env, agent, *_ = blts.condition("gaussian", "exact-ts", "sequential")
    schemes = {"sequential": Sequential(), "doubling": DoublingCounts(), "every 40": Fixed(40)}
    return {name: blts.simulate(1, env, agent, scheme, horizon=200, replications=60) for name, scheme in schemes.items()}


def test_a_pair_is_the_family_of_one(traces):
    found = paired(traces["every 40"], traces["sequential"])
    (same,) = differences([traces["every 40"].final_regret], [traces["sequential"].final_regret])
    assert found == same._replace(quantity="regret")
    assert repr(same).startswith("The difference is ")
    assert found.verdict == "higher"
    assert paired(traces["sequential"], traces["every 40"]).verdict == "lower"
    assert paired(traces["doubling"], traces["doubling"]).verdict == "not told apart"
    assert re.fullmatch(
        r"The difference in regret is [\d.]+, 95 % interval [\d.]+ to [\d.]+ \(p = \S+, 60 replications\): higher\.", repr(found)
    )


def test_pairs_have_less_noise_than_means(traces):
    """What common seeds are for; a mutant that compares with replications in another order does not have it."""
    ours, reference = (np.asarray(traces[name].best_share, float) for name in ("doubling", "sequential"))
    mixed = differences([ours], [np.roll(reference, 1)])[0]
    assert paired(traces["doubling"], traces["sequential"], "best_share").se < 0.9 * mixed.se


def test_the_table_has_what_each_loses(traces):
    found = compare(traces)
    assert found.names == ["sequential", "doubling", "every 40"]
    lines = repr(found).splitlines()
    assert lines[0].split() == ["regret", "95", "%", "interval", "batches", "against", "sequential"]
    assert lines[3].startswith("every 40")
    assert lines[3].endswith("higher")
    assert "5.0" in lines[3]  # batches
    assert "cover together with probability 95 %" in lines[-1]
    assert repr(found).splitlines()[-1] in found._repr_html_()
    assert found.differences()["every 40"].mean == pytest.approx(
        float(np.mean(traces["every 40"].final_regret - traces["sequential"].final_regret)), rel=1e-5
    )


def test_names_from_descriptions(traces):
    assert compare([traces["sequential"], traces["doubling"]]).names == [
        traces[n].batching.rstrip(".") for n in ("sequential", "doubling")
    ]
    with pytest.raises(ConfigError, match="same description; name them"):
        compare([traces["sequential"]] * 2)


def test_what_cannot_be_compared_is_refused(traces):
    reference = traces["sequential"]
    for change, words in ((("env", "another"), "environment"), (("horizon", 7), "number of rounds")):
        other = dataclasses.replace(reference, **dict([change]))
        with pytest.raises(ConfigError, match=f"differ in their {words}"):
            compare({"a": reference, "b": other})
    fewer = dataclasses.replace(reference, batches=reference.batches[:5])
    with pytest.raises(ConfigError, match="number of replications"):
        paired(fewer, reference)
    for nothing in ({}, [], {"a": 3}, [3]):
        with pytest.raises(ConfigError, match="compare takes traces by name"):
            compare(nothing)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"quantity must be one of regret, .*Did you mean 'regret'"):
        paired(reference, reference, "regrets")


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_picture_shows_the_band_of_the_trace(traces, scale):
    pytest.importorskip("matplotlib")
    figure = compare(traces).plot(scale)
    (axes,) = figure.axes
    assert axes.get_xscale() == scale
    drawn = {line.get_ydata()[-1] for line in axes.lines}
    assert drawn == {float(trace.band().mean[-1]) for trace in traces.values()}
    assert {text.get_text() for text in axes.texts} >= {"sequential", "doubling"}
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert traces["doubling"].plot(scale).axes[0].get_ylabel() == "mean cumulative regret"


def test_a_wrong_scale_and_a_single_replication_are_refused(traces):
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match='"linear" or "log"'):
        traces["doubling"].plot("logarithmic")
    alone = dataclasses.replace(traces["doubling"], regret=traces["doubling"].regret[:1])
    with pytest.raises(ConfigError, match="at least 2 replications"):
        alone.plot()


def test_a_line_far_above_the_others_leaves_the_panel():
    flat = [curves.Curve(name, [1, 2], [0, y], [0, y], [0, y]) for name, y in (("a", 1.0), ("b", 1.2), ("c", 50.0))]
    assert curves.top(flat) == 1.2
    assert curves.top(flat[:2]) == 1.2


OTHERS = {
    "another noise": blts.Bandit.with_means(blts.Gaussian(sd=5.0), [0.0, 0.5, 1.0]),
    "another kind of noise": blts.Bandit.with_means(blts.Laplace(scale=0.1), [0.0, 0.5, 1.0]),
    "a mean that is not shown": blts.Bandit.with_means(blts.Gaussian(sd=0.1), [0.0, 0.5, 0.2, 3.0, 1.0]),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_environment_of_the_same_description_is_refused(other):
    means = [0.0, 0.5, 0.2, 0.1, 1.0] if OTHERS[other].actions == 5 else [0.0, 0.5, 1.0]
    run = lambda env: blts.simulate(0, env, blts.UCB1(env.actions), Fixed(10), horizon=40, replications=4)  # noqa: E731
    ours, theirs = run(blts.Bandit.with_means(blts.Gaussian(sd=0.1), means)), run(OTHERS[other])
    assert ours.env == theirs.env
    with pytest.raises(ConfigError, match="differ in their environment"):
        paired(ours, theirs)
    again = run(blts.Bandit.with_means(blts.Gaussian(sd=np.float32(0.1)), np.array(means)))  # type: ignore[arg-type]
    assert paired(ours, again).mean == 0


def test_replications_keep_their_numbers(traces):
    pytest.importorskip("xarray")
    env, agent, *_ = blts.condition("gaussian", "exact-ts", "sequential")
    later = blts.simulate(1, env, agent, Sequential(), horizon=200, replications=20, first=40)
    rows = later.to_dataframe(curves=False)
    assert rows.replication.tolist() == list(range(40, 60)) == later.to_xarray().replication.values.tolist()
    all_of_them = traces["sequential"].to_dataframe(curves=False)
    assert rows.regret.tolist() == all_of_them[all_of_them.replication >= 40].regret.tolist()


def test_tables_for_pandas_and_xarray(traces):
    trace = traces["doubling"]
    pandas = pytest.importorskip("pandas")
    rows = trace.to_dataframe()
    assert list(rows) == ["replication", "round", "regret"]
    assert rows[(rows.replication == 3) & (rows["round"] == 200)].regret.item() == trace.final_regret[3]
    ends = compare(traces).to_dataframe()
    assert list(ends) == ["name", "replication", *QUANTITIES]
    means = ends.groupby("name").batches.mean()
    assert means["every 40"] == 5
    assert isinstance(means, pandas.Series)
    xarray = pytest.importorskip("xarray")
    found = trace.to_xarray()
    assert isinstance(found, xarray.Dataset)
    assert found.regret.sel(replication=3, round=200).item() == trace.final_regret[3]
    assert found.plays.sum("action").min().item() == 200


def test_a_missing_library_is_one_sentence(traces, monkeypatch):
    import sys

    for library in ("pandas", "xarray", "matplotlib"):
        monkeypatch.setitem(sys.modules, library, None)
    for call in (traces["doubling"].to_dataframe, traces["doubling"].to_xarray, traces["doubling"].plot):
        with pytest.raises(ConfigError, match=r"needs (pandas|xarray|matplotlib); install it with: pip install"):
            call()


def test_pairs_are_refused_in_their_own_words(traces):
    with pytest.raises(ConfigError, match=r"paired compares two traces, .* got \[1, 2, 3\]"):
        paired(traces["doubling"], [1, 2, 3])  # type: ignore[arg-type]
    env, agent, *_ = blts.condition("gaussian", "exact-ts", "sequential")
    shorter = blts.simulate(1, env, agent, Sequential(), horizon=20, replications=60, times=1)
    with pytest.raises(ConfigError, match="The traces differ in their number of rounds"):
        paired(shorter, traces["sequential"])
    single = blts.simulate(1, env, agent, Sequential(), horizon=20, replications=1, times=1)
    with pytest.raises(ConfigError, match="A comparison needs at least 2 replications"):
        paired(single, single)


def test_one_trace_is_compared_with_nothing(traces):
    alone = repr(compare({"sequential": traces["sequential"]}))
    assert "against" not in alone
    assert "differences" not in alone


def test_numbers_are_names_too(traces):
    found = compare({1: traces["doubling"], 40: traces["every 40"]})  # type: ignore[dict-item]
    assert re.findall(r"^(\d+) ", repr(found), re.MULTILINE)[:2] == ["1", "40"]
    assert "<th>40</th>" in found._repr_html_()
    assert list(found.differences()) == [40]
    assert found.plot() is not None
