"""`blts paper`: the paper's experiments, printed beside its numbers."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Annotated, Any

import typer

from ..errors import ConfigError, UnknownName

STUDIES = {"gaussian": "Gaussian bandits (15 arms)", "laplace": "Laplace bandits (10 arms)"}


def command(
    only: Annotated[str | None, typer.Option(help="One study: gaussian or laplace.")] = None,
    replications: Annotated[int, typer.Option(help="Independent runs of each condition.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="40 replications, for a first look.")] = False,
    out: Annotated[pathlib.Path, typer.Option(help="Where results.json is written.")] = pathlib.Path("results"),
) -> None:
    """Run the paper's bandit experiments and print their tables beside the paper's numbers."""
    if only is not None and only not in STUDIES:
        raise UnknownName("study", only, STUDIES)
    if replications < 2:
        raise ConfigError(f"replications must be ≥ 2, so that there is a spread to report; got {replications}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {out} cannot be made ({error.strerror}); give another --out.") from None
    from .setup import use_compilation_cache

    use_compilation_cache()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from ..paper import bandits

    console = Console()
    studies = [only] if only else list(STUDIES)
    count = 40 if quick else replications
    began = time.perf_counter()
    results: list[Any] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=sum(len(bandits.cells(study)) for study in studies))
        for study in studies:
            progress.update(task, description=STUDIES[study])
            for result in bandits.run_study(study, seed=seed, replications=count):
                results.append(result)
                progress.advance(task)
    for study in studies:
        for prior in bandits.PRIORS[study]:
            _table(console, study, prior, [r for r in results if r.cell.study == study and r.cell.prior == prior], count)
    path = out / "results.json"
    path.write_text(json.dumps([_row(result) for result in results], indent=1) + "\n")
    console.print(
        f"{len(results)} conditions of {count} replications in {time.perf_counter() - began:.0f} s; rows in {path}.", style="dim"
    )


def _row(result: Any) -> dict[str, Any]:
    row = result.cell._asdict() | {f"regret_{part}": result.summary[f"regret_{part}"] for part in ("mean", "sd", "se")}
    row |= {f"batches_{part}": result.summary[f"batches_{part}"] for part in ("mean", "sd")}
    return row | {
        "replications": result.summary["replications"],
        "paper_regret": result.printed,
        "paper_batches": result.printed_batches,
    }


def _table(console: Any, study: str, prior: str, results: list[Any], count: int) -> None:
    from rich.table import Table

    from ..paper import bandits

    title = (
        f"{STUDIES[study]}, {prior} prior: regret at T = {bandits.HORIZON}, mean ± sd over {count} runs, standard error in brackets"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("agent")
    for scheme in bandits.SCHEMES:
        table.add_column(scheme, justify="right")
    for agent in bandits.AGENTS[study]:
        mine = {r.cell.batching: r for r in results if r.cell.agent == agent}
        if not mine:
            continue
        ours = (
            f"{r.summary['regret_mean']:.2f} ± {r.summary['regret_sd']:.2f} ({r.summary['regret_se']:.2f})"
            for r in (mine[s] for s in bandits.SCHEMES)
        )
        table.add_row(agent, *ours)
        if any(mine[s].printed for s in bandits.SCHEMES):
            table.add_row("  paper, 10 runs", *(_printed(mine[s].printed) for s in bandits.SCHEMES), style="dim")
    for agent in ("blts", "exact-ts", "ucb1"):
        mine = {r.cell.batching: r for r in results if r.cell.agent == agent}
        if mine:
            table.add_row(
                f"batches, {agent}",
                *(f"{mine[s].summary['batches_mean']:.2f} ± {mine[s].summary['batches_sd']:.2f}" for s in bandits.SCHEMES),
            )
            if any(mine[s].printed_batches for s in bandits.SCHEMES):
                table.add_row("  paper, 10 runs", *(_printed(mine[s].printed_batches) for s in bandits.SCHEMES), style="dim")
    console.print(table)


def _printed(numbers: tuple[float, float] | None) -> str:
    return "–" if numbers is None else f"{numbers[0]:.2f} ± {numbers[1]:.2f}"
