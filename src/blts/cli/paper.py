"""`blts paper`: the paper's experiments, printed beside its numbers."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Annotated, Any

import typer

from ..errors import ConfigError, UnknownName

BANDITS = {"gaussian": "Gaussian bandits (15 arms)", "laplace": "Laplace bandits (10 arms)"}
STUDIES = BANDITS | {"riverswim": "RiverSwim (5 states)"}


def command(
    only: Annotated[str | None, typer.Option(help="One study: gaussian, laplace or riverswim.")] = None,
    replications: Annotated[int, typer.Option(help="Independent runs of each condition.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="40 replications, for a first look.")] = False,
    out: Annotated[pathlib.Path, typer.Option(help="Where results.json is written.")] = pathlib.Path("results"),
) -> None:
    """Run the paper's experiments and print their tables beside the paper's numbers."""
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

    from ..paper import bandits, riverswim

    console = Console()
    studies = [only] if only else list(STUDIES)
    count = 40 if quick else replications
    began = time.perf_counter()
    results: list[Any] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        sizes = {study: len(bandits.cells(study) if study in BANDITS else riverswim.cells()) for study in studies}
        task = progress.add_task("starting", total=sum(sizes.values()))
        for study in studies:
            progress.update(task, description=STUDIES[study])
            settings = {"seed": seed, "replications": count}
            for result in bandits.run_study(study, **settings) if study in BANDITS else riverswim.run_study(**settings):
                results.append(result)
                progress.advance(task)
    for study in studies:
        if study not in BANDITS:
            _riverswim_table(console, [r for r in results if r.cell.study in riverswim.CHAINS], count)
            continue
        for prior in bandits.PRIORS[study]:
            _table(console, study, prior, [r for r in results if r.cell.study == study and r.cell.prior == prior], count)
    path = out / "results.json"
    path.write_text(json.dumps([_row(result) for result in results], indent=1) + "\n")
    console.print(
        f"{len(results)} conditions of {count} replications in {time.perf_counter() - began:.0f} s; rows in {path}.", style="dim"
    )


def _row(result: Any) -> dict[str, Any]:
    parts = {"regret": ("mean", "sd", "se"), "batches": ("mean", "sd"), "reward": ("mean", "sd", "se"), "switches": ("mean", "sd")}
    numbers = {f"{name}_{part}": result.summary[f"{name}_{part}"] for name, kinds in parts.items() for part in kinds}
    row = result.cell._asdict() | numbers | {"replications": result.summary["replications"]}
    if hasattr(result, "gain"):
        return row | {"gain": result.gain} | {f"paper_{name}": numbers for name, numbers in result.printed.items()}
    return row | {"paper_regret": result.printed, "paper_batches": result.printed_batches}


def _riverswim_table(console: Any, results: list[Any], count: int) -> None:
    from rich.table import Table

    from ..paper.riverswim import AGENTS, CHAINS, HORIZON

    for chain, words in CHAINS.items():
        mine = {r.cell.agent: r for r in results if r.cell.study == chain}
        optimum = next(iter(mine.values())).gain
        title = f"{words}: T = {HORIZON}, mean ± sd over {count} runs, standard error in brackets; the optimum is {optimum:.4f}"
        table = Table(title=title[0].upper() + title[1:], title_justify="left", title_style="bold")
        for heading in ("method", "reward a round", "policies", "best action, %"):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        for agent in AGENTS:
            s, printed = mine[agent].summary, mine[agent].printed
            reward = f"{s['reward_mean']:.3f} ± {s['reward_sd']:.3f} ({s['reward_se']:.3f})"
            switches = "1" if agent == "optimal" else f"{s['switches_mean']:.2f} ± {s['switches_sd']:.2f}"
            table.add_row(agent, reward, switches, f"{100 * s['best_share_mean']:.1f}")
            table.add_row("  paper, 10 runs", _printed(printed["reward"]), _printed(printed.get("switches")), "", style="dim")
        console.print(table)


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
