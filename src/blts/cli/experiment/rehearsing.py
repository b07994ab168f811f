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
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="What all arms have of a metric, as refunds=0.02, or one arm, as refunds:B=0.05; repeatable. Equal by default.",
        ),
    ] = None,
    start: Annotated[str | None, typer.Option(help="When it begins, for a stopping rule with a date; by default now.")] = None,
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
    read = live.Spec.read(spec)
    found = live.rehearse(
        read,
        truth,
        units=units,
        per_day=per_day,
        delay=delay,
        replications=replications,
        seed=seed,
        exposed=exposed,
        step=step,
        report_every=report_every,
        metrics=_metrics(metric or [], [one.name for one in read.metrics], [one.label for one in read.arms]),
        start=start,
    )
    if figure is not None:
        found.figure(figure)
    if as_json:
        print_json(found.to_dict() | ({} if figure is None else {"figure": str(figure)}))
    else:
        say(str(found), wrap=False)


def _metrics(pairs: list[str], names: list[str], labels: list[str]) -> dict[str, object]:
    """What `--metric` says: by metric what all arms have, or where an arm is named what each has."""
    every: dict[str, str] = {}
    of_arms: dict[tuple[str, str], str] = {}
    for pair in pairs:
        left, equals, value = pair.rpartition("=")
        found = [(name, label) for name in names for label in labels if left == f"{name}:{label}"]
        if not equals or (left not in names and not found):
            known = f"the metrics here: {', '.join(names)}" if names else "this specification has no metrics"
            raise ConfigError(f"A metric is given as --metric refunds=0.02 or refunds:B=0.05; got {pair!r} ({known}).")
        if left in names:
            every[left] = value
        else:
            of_arms[found[0]] = value
    out: dict[str, object] = dict(every)
    for name in {name for name, _ in of_arms}:
        stated = {label: of_arms.get((name, label), every.get(name)) for label in labels}
        out[name] = {label: value for label, value in stated.items() if value is not None}
    return out
