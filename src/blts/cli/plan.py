"""`blts plan`: how many units and batches an experiment needs, and what it loses, before it is created."""

from __future__ import annotations

import pathlib
import string
from typing import Annotated

import typer

from ..errors import ConfigError
from .experiment.base import AsJson, library
from .experiment.output import print_json, say
from .simulate import announce


def command(
    base: Annotated[
        str, typer.Option(help="What an arm earns: 0.1 (conversions), 2.5 (counts), 50±20 (numbers), 0.1x40±15 (revenue).")
    ],
    effect: Annotated[str, typer.Option(help="The smallest difference of means that matters, in units of the reward.")],
    model: Annotated[
        str | None, typer.Option(help="conversions, counts, numbers or revenue; a reward model of `blts list`; or module:Name.")
    ] = None,
    arms: Annotated[int | None, typer.Option(help="How many arms; 2 by default.")] = None,
    sampler: Annotated[str | None, typer.Option(help="An agent or a sampler of `blts list`; top-two by default.")] = None,
    batching: Annotated[str | None, typer.Option(help="A batching scheme; doubling by default.")] = None,
    spec: Annotated[
        pathlib.Path | None, typer.Option(help="A TOML or JSON file that has all this, as for `create --spec`.")
    ] = None,
    power: Annotated[float, typer.Option(help="The wanted probability that the right winner is named.")] = 0.8,
    per_day: Annotated[float, typer.Option(help="Units a day.")] = 500.0,
    delay: Annotated[str | None, typer.Option(help='When rewards come: "exponential 6h", "fixed 1d", "empirical FILE".')] = None,
    most: Annotated[int, typer.Option(help="The largest experiment that is tried.")] = 200_000,
    replications: Annotated[int, typer.Option(help="How many experiments are simulated.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    figure: Annotated[pathlib.Path | None, typer.Option(help="Also write a figure, as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find how many units and batches an experiment needs, and what it loses meanwhile, by simulation.

    All arms but one earn the base, and one the effect more.
    """
    if spec is not None and any(given is not None for given in (model, arms, sampler, batching)):
        raise ConfigError("A specification file has model, arms, sampler and batching; give --spec alone, or these.")
    if spec is None and model is None:
        raise ConfigError("A plan needs --model, such as conversions, or --spec.")
    if arms is not None and not 2 <= arms <= len(string.ascii_uppercase):
        raise ConfigError(f"arms must be a number from 2 to {len(string.ascii_uppercase)}; got {arms}.")
    gap = _number(effect)
    live = library()
    labels = list(string.ascii_uppercase[: arms or 2])
    read = live.Spec.read(spec) if spec is not None else live.Spec.of(labels, model, sampler or "top-two", batching or "doubling")
    if figure is not None:
        from ..drawing.files import svg_path

        svg_path(figure)
    announce("Rehearsing experiments of growing size …")
    found = live.plan(read, base, gap, power=power, per_day=per_day, delay=delay, most=most, replications=replications, seed=seed)
    if figure is not None:
        found.figure(figure)
    if as_json:
        print_json(found.to_dict() | ({} if figure is None else {"figure": str(figure)}))
    else:
        say(str(found), wrap=False)


def _number(effect: str) -> float:
    """A number, or percentage points of a rate: "5%" is 0.05."""
    try:
        text = effect.strip()
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise ConfigError(f'effect must be a number such as 0.05 or "5%" (percentage points of a rate); got {effect!r}.') from None
