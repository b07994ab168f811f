"""The report of stored studies: figures are their CSV files, and rewriting changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from blts.errors import ConfigError, UnknownName
from blts.report import outcomes_of, write
from blts.report.figures import KINDS, kind, render
from blts.studies import Store
from stored import SAMPLERS, STUDY, TIMES, fill, renamed, rows_of

# Files


def test_every_kind_of_figure_is_there_and_the_page_is_last(written):
    folder, names = written
    made = {name for name in names if name.endswith(".svg")}
    assert {re.sub(r"figures/(bandit|law|rows|gradients|counts)-(.*)\.svg", r"\2", name) for name in made} == set(KINDS)
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
    assert provenance["cells"] == 12 + 4 + 4 + 4 + 1


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
