"""`blts simulate`: one condition, many replications, a sentence or JSON."""

from __future__ import annotations

import gc
import json
import math
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..compilation import keep_programs, take_memory_in_large_pieces
from ..errors import ConfigError, counted, needs

if TYPE_CHECKING:
    from ..catalogue import Condition
    from ..trace import Trace


def command(
    env: Annotated[str, typer.Option(help="The environment; `blts list` shows all.")] = "gaussian",
    agent: Annotated[str | None, typer.Option(help="The agent; blts by default.")] = None,
    sampler: Annotated[str | None, typer.Option(help="A sampler: Thompson sampling with a pool of its chains.")] = None,
    batching: Annotated[str | None, typer.Option(help="When rewards are seen; by default as is usual for the agent.")] = None,
    prior: Annotated[
        str | None, typer.Option(help="A prior of the environment, or of a bandit a model; by default its first.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds; by default the environment's own.")] = None,
    replications: Annotated[int, typer.Option(help="Independent runs.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    batch_size: Annotated[int | None, typer.Option(help='Rounds a batch, for the batching "fixed".')] = None,
    stop: Annotated[str | None, typer.Option(help="A stopping rule; then also what is recommended, and when.")] = None,
    drawn: Annotated[bool, typer.Option("--drawn", help="Draw each replication's world from the prior.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of the agent, batching, environment or model, as name=value; repeatable."),
    ] = None,
    chunk: Annotated[int | None, typer.Option(help="Replications run at once, to save memory.")] = None,
    engine: Annotated[
        str, typer.Option(help='How it is computed: round by round ("step"), whole batches at a time ("leap"), or the faster one.')
    ] = "auto",
    figure: Annotated[pathlib.Path | None, typer.Option(help="Also write the regret over time, as SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate an agent in an environment and print its regret and batches."""
    _answer_soon()

    if figure is not None:
        _check_figure(figure, replications)

    options = options_of(set_ or [])
    if sampler is not None:
        if agent not in (None, "thompson"):
            raise ConfigError(f"--sampler is for the agent thompson, and {agent} has its own; leave one of them out.")
        agent, options = "thompson", options | {"sampler": sampler}
    agent = "blts" if agent is None else agent
    keep_programs()
    from ..catalogue import condition
    from ..simulation import simulate

    chosen = condition(env, agent, batching, prior, horizon, drawn=drawn, batch_size=batch_size, stop=stop, options=options)
    announce("Compiling, then simulating …")
    trace = simulate(
        seed,
        chosen.env,
        chosen.agent,
        chosen.batching,
        horizon=chosen.horizon,
        replications=replications,
        times=100,
        chunk=chunk,
        engine=engine,
    )
    if figure is not None:
        from ..drawing.files import write
        from ..trace import picture

        write(figure, lambda: picture({chosen.names["agent"]: trace}, "linear"))
    if as_json:
        summary = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in trace.summary().items()}
        typer.echo(json.dumps(chosen.names | {"seed": seed} | summary))
    else:
        _show(chosen, seed, trace)


CONCLUSIONS = (
    ("simple_regret", "simple regret of the recommended arm", 1),
    ("wrong", "recommended arm not the best, %", 100),
    ("stopped", "stopped, %", 100),
    ("wrong_stop", "stopped at a wrong arm, %", 100),
    ("stop_round", "rounds until it stopped, at most all", 1),
)
"""Rows of agents that recommend an arm; the last three of those with a stopping rule."""


def _answer_soon() -> None:
    """Settings of a process that imports, compiles and ends, made before NumPy is imported; those of the environment come first.

    Nothing here uses BLAS much, and its threads wait by spinning on the cores that compile. Tracing makes millions of objects that
    are in no cycles, and the search for cycles took a tenth of its time.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000, 20, 50)
    take_memory_in_large_pieces()


def _check_figure(path: pathlib.Path, replications: int) -> None:
    """Refuse a figure that could not be made, before anything is computed for it (`ConfigError`)."""
    from ..drawing.files import svg_path

    svg_path(path)
    needs("matplotlib", "A figure", 'pip install "blts[report]"')
    if replications < 2:
        raise ConfigError("A figure shows a mean with its band, for which --replications must be at least 2.")


def announce(words: str) -> None:
    """Say what takes a while, on standard error, where that is a terminal."""
    if sys.stderr.isatty():
        print(words, file=sys.stderr, flush=True)


def options_of(pairs: list[str]) -> dict[str, Any]:
    """What `--set name=value` says."""
    from ..registry import text_to_value

    options = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes name=value, such as --set steps=100; got {pair!r}.")
        name = name.replace("-", "_")
        if name in options:
            raise ConfigError(f"--set gives {name} twice; leave one of them out.")
        options[name] = text_to_value(text)
    return options


def _cell(value: float) -> str:
    """A number of the table; a dash where one replication has no spread."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def _show(chosen: Condition, seed: int, trace: Trace) -> None:
    from rich.console import Console
    from rich.table import Table

    summary, names, contextual = trace.summary(), chosen.names, chosen.world == "contextual"
    console = Console()
    console.print(f"[bold]{names['agent']}[/] on [bold]{names['env']}[/], {names['batching']} batching, {names['prior']} prior")
    console.print(f"{counted(trace.replications, 'replication')} of {trace.horizon} rounds, seed {seed}", style="dim")
    if contextual:  # agents that differ in their temperature alone have the same name
        console.print(str(chosen.agent).splitlines()[0], style="dim", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "mean", "sd", "standard error"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, label, unit in (
        ("regret", "regret at the horizon", 1),
        ("batches", "batches", 1) if contextual or chosen.world == "bandit" else ("switches", "policies", 1),
        *((("messages", "messages", 1), ("numbers", "numbers sent", 1)) if trace.messages else ()),
        ("best_share", "rounds with a best action, %", 100),
        ("reward", "reward a round", 1),
        *CONCLUSIONS[: (0 if trace.concluded is None else 5 if "stop" in names else 2)],
    ):
        table.add_row(label, *(_cell(unit * summary[f"{name}_{part}"]) for part in ("mean", "sd", "se")))
    console.print(table)
    if contextual:  # a few runs that never recover are not seen in a mean
        console.print(f"Regret: median {summary['regret_median']:.2f}, 95 % quantile {summary['regret_q95']:.2f}")
    if chosen.agent.privacy:
        console.print(str(chosen.agent.privacy), style="dim", markup=False)
    if trace.messages:
        console.print(trace.messages.content, style="dim")
    if trace.in_flight is not None:
        console.print(f"Plays whose rewards were not told by the end, late or lost: {summary['in_flight_mean']:.1f}", style="dim")
    if trace.chains:
        console.print(trace.chains, style="dim")
    for warning in trace.warnings:
        console.print(f"WARNING: {warning}", style="bold red")
