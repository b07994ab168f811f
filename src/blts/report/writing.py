"""Write the report of a folder of results. It reads nothing but the store, and imports no JAX."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigError, UnknownName
from ..studies.spec import Study
from ..studies.store import Store
from .csvs import to_csv
from .figures import Drawn, kind, kinds_of
from .figures.growth import GROWTH
from .figures.growth import table as growth_table
from .findings import findings
from .markdown import escaped, markdown_table
from .outcome import Incomplete, Outcome, load
from .page import Section, needed, page
from .results import provenance, results, strict
from .tables import comparison_rows, comparisons, csv_rows, table
from .words import capital

TITLE = "Results of blts studies"
WRITTEN = "report.json"
HEAD = 100
"""The first bytes of a cell, which have its checksum."""


def write(folder: pathlib.Path | str, *, title: str = "", lead: str = "", order: Sequence[str] = ()) -> list[pathlib.Path]:
    """Write the report of all studies in a folder of results, and return its files, `index.html` last.

    Studies come in the given order of names, then as the store has them. A folder of which cells are missing is refused.
    """
    check_libraries()
    title = title or TITLE
    store = Store.open(folder)
    inputs = inputs_of(store, title, lead, order)
    before = written(store)
    if before.get("inputs") == inputs and all(_digest(store, name) == found for name, found in before["files"].items()):
        return [store.folder / name for name in before["files"]]
    outcomes = outcomes_of(store, order)
    sections = [section_of(outcome) for outcome in outcomes]
    files: dict[str, str | bytes] = {}
    for section in sections:
        files |= _files(section)
    files["tables.md"] = _document(title, sections)
    files["results.json"] = strict(results(outcomes))
    source = provenance(outcomes)
    files["provenance.json"] = strict(source)
    files["index.html"] = page(sections, source, title=title, lead=lead)
    for name, content in files.items():
        store.write(name, content)
    for kept in ("figures", "tables"):
        for path in (store.folder / kept).glob("*.*"):
            if f"{kept}/{path.name}" in before.get("files", {}).keys() - files.keys():
                path.unlink()  # of a study that is no longer here
    store.write(WRITTEN, strict({"inputs": inputs, "files": {name: _digest(store, name) for name in files}}))
    return [store.folder / name for name in files]


def check_libraries() -> None:
    """What a report is drawn and written with."""
    for library in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(library) is None:
            raise needed(library)


def inputs_of(store: Store, *words: object) -> str:
    """A digest of all that a report is made from: results, studies, words, and the code that writes it."""
    digest = hashlib.sha256(repr(words).encode())
    for study in store.studies():
        digest.update(repr(study).encode())
        for cell in study.cells():
            path = store.path(cell)
            digest.update(path.read_bytes()[:HEAD] if path.exists() else b"missing")
    here = pathlib.Path(__file__).parent
    for folder in (here, here.parent / "drawing"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def written(store: Store) -> dict[str, Any]:
    """What the last report was made from, and its files; nothing where that cannot be told."""
    try:
        return json.loads((store.folder / WRITTEN).read_text())
    except (OSError, ValueError):
        return {}


def _digest(store: Store, name: str) -> str:
    try:
        return hashlib.sha256((store.folder / name).read_bytes()).hexdigest()
    except OSError:
        return "missing"


def outcomes_of(store: Store, order: Sequence[str] = ()) -> list[Outcome]:
    """The studies of a store with their results."""
    studies = {study.name: study for study in store.studies()}
    if not studies:
        raise ConfigError(f"{store.folder} has no studies yet; run one with `blts study run`.")
    for name in order:
        if name not in studies:
            raise UnknownName("study", name, studies)
    ordered = [studies[name] for name in dict.fromkeys((*order, *studies))]
    for study in ordered:
        for name in study.figures:
            kind(name)  # a name that is wrong is told before anything is read
    found: list[Outcome] = []
    missing = total = 0
    for study in ordered:
        try:
            found.append(load(store, study))
            total += _cells(study)
        except Incomplete as error:
            missing, total = missing + error.missing, total + error.total
    if missing:
        raise Incomplete(store, missing, total)
    return found


def section_of(outcome: Outcome) -> Section:
    """A study's tables, comparisons and figures."""
    metrics = dict.fromkeys((outcome.score, *outcome.study.metrics))
    return Section(
        outcome,
        tuple(table(outcome, metric) for metric in metrics),
        tuple(comparisons(outcome)),
        tuple(drawn for kind in kinds_of(outcome) if (drawn := kind.make(outcome))),
        tuple(growth_table(outcome)) if any(kind is GROWTH for kind in kinds_of(outcome)) else (),
        tuple(findings(outcome)),
    )


def figure_name(section: Section, drawn: Drawn) -> str:
    return f"figures/{section.name}-{drawn.kind}"


def _files(section: Section) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for drawn in section.figures:
        files[f"{figure_name(section, drawn)}.csv"] = drawn.csv
        files[f"{figure_name(section, drawn)}.svg"] = drawn.svg
    for metric in dict.fromkeys((section.outcome.score, *section.outcome.study.metrics)):
        files[f"tables/{section.name}-{metric}.csv"] = to_csv(csv_rows(section.outcome, metric))
    if section.comparisons:
        files[f"tables/{section.name}-comparisons.csv"] = to_csv(comparison_rows(section.comparisons))
    if section.growth:
        files[f"tables/{section.name}-growth.csv"] = to_csv(section.growth)
    return files


def tables_of(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Every table in Markdown by its name, `study-metric`: what `insert` takes."""
    return {
        f"{outcome.study.name}-{metric}": markdown_table(outcome, metric)
        for outcome in outcomes
        for metric in dict.fromkeys((outcome.score, *outcome.study.metrics))
    }


def _document(title: str, sections: Sequence[Section]) -> str:
    lines = [f"# {escaped(title)}", ""]
    for section in sections:
        lines += [f"## {escaped(section.title)}", ""]
        for found in section.findings:
            claim = f"*Claimed:* {escaped(found.claim)} *{capital(found.verdict)}.* " if found.claim else ""
            lines += [f"- {claim}{escaped(found.sentence)}", ""]
        for found in section.tables:
            metric = found.name.removeprefix(f"{section.name}-")
            lines += [f"### {escaped(found.metric.words)} (`{found.name}`)", "", markdown_table(section.outcome, metric)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cells(study: Study) -> int:
    return sum(1 for _ in study.cells())
