"""`blts study`: run studies from files, go on with a stopped one, and look at what there is."""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..studies import Cell, Heading, Shard, Store, Study

app = typer.Typer(help="Run studies from files, resume them, and write their reports.", no_args_is_help=True)

Out = Annotated[pathlib.Path, typer.Option(help="The folder of results; what is stored there is not computed again.")]
Folder = Annotated[pathlib.Path, typer.Argument(help="A folder of results.")]
Which = Annotated[str, typer.Argument(help="A file (.toml or .py), or the name of one of the paper's studies.")]
Engine = Annotated[str, typer.Option(help="in-process, processes, or dask.")]
Workers = Annotated[int | None, typer.Option(help="How many cells run at once; by default one for each core.")]
Address = Annotated[str | None, typer.Option(help="The Dask scheduler; without one a local cluster is started.")]
ShardText = Annotated[
    str | None, typer.Option("--shard", help="Part i of n, as i/n: for array jobs. The report comes with the last.")
]
RESULTS = pathlib.Path("results")


@app.command("run")
def run(
    which: Which,
    out: Out = RESULTS,
    replications: Annotated[int | None, typer.Option(help="Runs of each condition, in place of the file's number.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed, in place of the file's.")] = None,
    engine: Engine = "in-process",
    workers: Workers = None,
    address: Address = None,
    shard: ShardText = None,
) -> None:
    """Run a study and write its report."""
    import dataclasses

    changes = {name: value for name, value in {"replications": replications, "seed": seed}.items() if value is not None}
    part = shard_of(shard)
    studies = [dataclasses.replace(study, **changes) for study in planned(which)]
    from ..studies import Heading

    heading = Heading(studies[0].title or studies[0].name) if len(studies) == 1 else Heading(pathlib.Path(which).stem)
    execute(studies, out, heading, engine=engine, workers=workers, address=address, shard=part)


@app.command("resume")
def resume(
    folder: Folder, engine: Engine = "in-process", workers: Workers = None, address: Address = None, shard: ShardText = None
) -> None:
    """Go on with what was begun in a folder, and write its report."""
    from ..studies import Store

    store = Store.open(folder)
    studies = store.studies()
    if not studies:
        raise ConfigError(f"Nothing was begun in {folder}; use `blts study run`.")
    where = {"engine": engine, "workers": workers, "address": address, "shard": shard_of(shard)}
    execute(studies, folder, store.heading(), **where)


@app.command("report")
def report(
    folder: Folder,
    into: Annotated[pathlib.Path | None, typer.Option(help="Also renew the marked tables of this Markdown file.")] = None,
) -> None:
    """Write the report of a folder again, from what is stored."""
    from ..studies import Store

    store = Store.open(folder)
    write_report(store)
    if into is not None:
        from ..report import insert, outcomes_of, tables_of

        try:
            text = into.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{into} cannot be read ({error.strerror}).") from None
        renewed = insert(text, tables_of(outcomes_of(store)))
        try:
            into.write_text(renewed, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{into} cannot be written ({error.strerror}).") from None
    typer.echo(f"{store.folder / 'index.html'}")


@app.command("status")
def status(folder: Folder = RESULTS, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """How much of each study in a folder is stored."""
    from ..studies import Store

    store = Store.open(folder)
    rows, damage = [], []
    for study in store.studies():
        cells = list(study.cells())
        missing, damaged = store.sweep(cells)
        damage += damaged
        rows.append({"study": study.name, "cells": len(cells), "stored": len(cells) - len(missing), "damaged": len(damaged)})
    if as_json:
        typer.echo(json.dumps(rows))
        return
    _table(rows)
    for words in damage:
        typer.echo(f"{words} It will be computed again.")
    if any(row["stored"] < row["cells"] for row in rows):
        typer.echo(f"`blts study resume {folder}` computes the rest.")


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The paper's studies, and the tasks, scores and figures that yours can have."""
    from .. import paper, registry
    from ..report.figures import KINDS

    rows = [{"study": name, "title": paper.study(name).title, "chapter": paper.study(name).chapter} for name in paper.NAMES]
    tasks = [{"task": entry.name, "summary": entry.summary} for entry in registry.entries("task").values()]
    if as_json:
        typer.echo(json.dumps({"studies": rows, "tasks": tasks, "figures": list(KINDS)}))
        return
    _table(rows)
    _table(tasks)
    typer.echo(f"Figures: {', '.join(KINDS)}.")


@app.command("show")
def show(which: Which, as_json: Annotated[bool, typer.Option("--json", help="Print the planned study as JSON.")] = False) -> None:
    """What a study would run: its conditions with every default filled in."""
    studies = planned(which)
    if as_json:
        typer.echo(json.dumps([study.to_json() for study in studies], ensure_ascii=False))
        return
    for study in studies:
        typer.echo(
            f"{study.title or study.name}: {len(study.conditions)} conditions of {study.replications} replications, "
            f"seed {study.seed}"
        )
        names = dict.fromkeys(name for condition in study.conditions for name in condition)
        _table([{name: condition.get(name, "") for name in names} for condition in study.conditions])


def planned(which: str) -> list[Study]:
    """The studies of a file, or one of the paper's by its name."""
    from .. import paper
    from ..compilation import keep_programs
    from ..errors import UnknownName
    from ..studies import plan_file

    keep_programs()
    path = pathlib.Path(which)
    if path.suffix in (".toml", ".py") or path.exists():
        if path.is_dir():
            raise ConfigError(f"{which} is a folder; name a study file, or use `blts study resume {which}`.")
        return plan_file(path)
    if which in paper.NAMES:
        from ..studies.planning import plan

        return [plan(paper.study(which))]
    raise UnknownName("study (or file .toml or .py)", which, paper.NAMES)


def shard_of(text: str | None) -> Shard:
    from ..studies import Shard

    return Shard.of(text) if text else Shard()


def execute(studies: list[Study], out: pathlib.Path, heading: Heading, *, shard: Shard, **where: Any) -> None:
    """Run studies with a progress bar where there is a terminal, then write the report when everything is there.

    Everything that can be wrong is looked at before the folder is made.
    """
    import time

    from rich.console import Console
    from rich.progress import Progress

    from ..compilation import keep_programs
    from ..progress import columns
    from ..report import check_libraries
    from ..report.figures import kind
    from ..studies import Store, engine_named
    from ..studies import run as run_studies

    check_libraries()
    for study in studies:
        for name in study.figures:
            kind(name)
    engine_named(where["engine"], where["workers"], where["address"])
    store = Store.create(out)
    keep_programs()
    console = Console()
    clock = time.perf_counter()
    with Progress(*columns(), console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        counts = {"computed": 0, "stored": 0}

        lines = _Lines(clock) if not console.is_terminal else None

        def began(progress: Any) -> None:
            counts["stored"] = progress.stored
            for words in progress.damaged:
                console.print(f"{words} It is computed again.", style="yellow", soft_wrap=True)
            bar.update(task, total=progress.total - progress.stored, description="computing")
            if lines:
                lines.begin(progress.total, progress.stored)

        def finished(cell: Cell) -> None:
            counts["computed"] += 1
            bar.update(task, advance=1, description=str(cell))
            if lines:
                lines.finish(cell)

        complete = run_studies(studies, store, heading=heading, shard=shard, began=began, finished=finished, **where)
        took = time.perf_counter() - clock
        stored = f"{counts['stored']} {'was' if counts['stored'] == 1 else 'were'} stored"
        words = f"{_cells(counts['computed'])} computed in {took:.0f} s, {stored}"
        if not complete:
            console.print(f"{words}; other shards are not done, and the last one writes the report.")
            return
        bar.update(task, description="writing the report")
        write_report(store)
    from ..report import outcomes_of
    from .tables import show

    show(console, outcomes_of(store))
    console.print(f"{words}. Report: {store.folder / 'index.html'}", soft_wrap=True)


EVERY = 10.0  # seconds between lines of progress in a file


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


class _Lines:
    """Progress as lines of text, where there is no terminal for a bar: one at the start, then at most one in `EVERY` seconds."""

    def __init__(self, clock: float):
        self.began = self.last = clock
        self.total = self.done = 0

    def begin(self, total: int, stored: int) -> None:
        self.total = total - stored
        print(f"{_cells(total)}, of which {stored} {'is' if stored == 1 else 'are'} stored; computing {self.total}.", flush=True)

    def finish(self, cell: Cell) -> None:
        import time

        self.done += 1
        now = time.perf_counter()
        if now - self.last >= EVERY:
            self.last = now
            print(f"{self.done} of {_cells(self.total)} done after {now - self.began:.0f} s; the last: {cell}.", flush=True)


def write_report(store: Store) -> None:
    from ..report import write

    heading = store.heading()
    write(store.folder, title=heading.title, lead=heading.lead)


def _table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in rows[0]:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
