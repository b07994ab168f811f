"""`blts experiment rehearse`: what an experiment would give, before it is created."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from ...errors import ConfigError
from .base import AsJson, app, library
from .output import print_json, say


@app.command()
def rehearse(
    spec: Annotated[pathlib.Path, typer.Argument(help="A TOML or JSON file, as for `create --spec`.")],
    units: Annotated[int, typer.Option(help="How many units arrive.")],
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", help="What an arm is assumed to earn, as A=0.1, A=50±20 or A=0.1x40±15; once for every arm."),
    ] = None,
    per_day: Annotated[float, typer.Option(help="Units a day.")] = 500.0,
    delay: Annotated[str | None, typer.Option(help='When rewards come: "exponential 6h", "fixed 1d", "empirical FILE".')] = None,
    replications: Annotated[int, typer.Option(help="How many experiments are simulated.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    exposed: Annotated[float, typer.Option(help="The share of decisions that are carried out, if exposure is explicit.")] = 1.0,
    step: Annotated[str | None, typer.Option(help="The step of time, such as 10min; by default a 480th of the whole.")] = None,
    report_every: Annotated[str, typer.Option(help="How often a report is read, which may name a winner.")] = "1d",
    figure: Annotated[pathlib.Path | None, typer.Option(help="Also write a figure, as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a specification with assumed arms, before anything is created."""
    truth: dict[str, object] = {}
    for pair in arm or []:
        label, equals, value = pair.rpartition("=")
        if not equals or not label:
            raise ConfigError(f"An arm is given with what it earns, as --arm A=0.1; got {pair!r}.")
        if label in truth:
            raise ConfigError(f"The arm {label!r} is given twice; say what it earns once.")
        truth[label] = value
    live = library()
    found = live.rehearse(
        live.Spec.read(spec),
        truth,
        units=units,
        per_day=per_day,
        delay=delay,
        replications=replications,
        seed=seed,
        exposed=exposed,
        step=step,
        report_every=report_every,
    )
    if figure is not None:
        found.figure(figure)
    if as_json:
        print_json(found.to_dict() | ({} if figure is None else {"figure": str(figure)}))
    else:
        say(str(found))
