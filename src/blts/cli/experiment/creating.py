"""Experiments of a database: `create`, `list`, `migrate`."""

from __future__ import annotations

import pathlib
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError
from .base import AsJson, Db, Name, app, library
from .contexts import declared
from .output import done, print_json, say

if TYPE_CHECKING:
    from ...live import Experiment


@app.command()
def create(
    name: Name,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="An arm's label; repeat it for every arm.")] = None,
    model: Annotated[
        str | None, typer.Option(help="conversions, counts, numbers or revenue; a reward model of `blts list`; or module:Name.")
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="An agent or a sampler of `blts list`, or exact.")] = None,
    batching: Annotated[str | None, typer.Option(help='A batching scheme, or "external".')] = None,
    prior: Annotated[str | None, typer.Option(help='"8% to 12%", "40 ± 15", or "learned" from all arms (the default).')] = None,
    spec: Annotated[
        pathlib.Path | None, typer.Option(help="A TOML or JSON file that has all this, metrics and stopping rules.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same decisions.")] = None,
    floor: Annotated[float | None, typer.Option(help="Least probability of every arm; the agent divides the rest.")] = None,
    control: Annotated[str | None, typer.Option(help="The control arm; by default the first.")] = None,
    control_share: Annotated[float | None, typer.Option(help="Probability that the control has on top.")] = None,
    burn_in: Annotated[int | None, typer.Option(help="Units that every arm has first.")] = None,
    window: Annotated[str | None, typer.Option(help="How long a reward is awaited: 30min, 6h, 1d, or seconds.")] = None,
    default_reward: Annotated[float | None, typer.Option(help="What silence has earned when the window is over.")] = None,
    delay: Annotated[
        str | None, typer.Option(help='"learned": silence counts by its age before the window is over, by the delays seen so far.')
    ] = None,
    privacy: Annotated[
        str | None,
        typer.Option(help="Learn from noisy sums of rewards: rho=1,low=0,high=1, with ρ of zCDP and the rewards' range."),
    ] = None,
    learn: Annotated[str | None, typer.Option(help='With a window: "closed" (the default) or "open".')] = None,
    exposure: Annotated[
        str | None, typer.Option(help='"assumed" (the default), or "explicit": learn from what was exposed.')
    ] = None,
    strict: Annotated[bool | None, typer.Option("--strict", help="No decisions while a closed batch awaits its rewards.")] = None,
    refresh_rewards: Annotated[int | None, typer.Option(help="Refresh also after so many rewards.")] = None,
    refresh_seconds: Annotated[str | None, typer.Option(help="Refresh also after that long: 30min, 6h, or seconds.")] = None,
    forget: Annotated[str | None, typer.Option(help="Do not learn from decisions older than that: 90d, 12h, or seconds.")] = None,
    cap: Annotated[float | None, typer.Option(help="Rewards above it count as this much in reports.")] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="What decisions are told: age=18..90, country=DE,FR or returning=boolean; repeatable."),
    ] = None,
    shared: Annotated[bool | None, typer.Option("--shared", help="One θ for all arms, with an offset for each.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the model, sampler or batching, as name=value; repeatable.")
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Define an experiment. The same command again changes nothing."""
    given = {
        "prior": prior,
        "seed": seed,
        "floor": floor,
        "control": control,
        "control_share": control_share,
        "burn_in": burn_in,
        "window": window,
        "default_reward": default_reward,
        "delay": delay,
        "privacy": _table("--privacy", privacy),
        "learn": learn,
        "exposure": exposure,
        "strict": strict,
        "refresh_rewards": refresh_rewards,
        "refresh_seconds": refresh_seconds,
        "forget": forget,
        "cap": cap,
        "features": declared(feature) if feature else None,
        "shared": shared,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    parts = {"model": model, "sampler": sampler, "batching": batching}
    if spec is not None and (arm or chosen or set_ or any(parts.values())):
        raise ConfigError("A specification file has everything; give --spec alone, or the options.")
    if spec is None and (not arm or model is None):
        raise ConfigError("An experiment needs --arm (once for every arm) and --model, or --spec.")
    live = library()
    with warnings.catch_warnings(record=True) as loud:
        warnings.simplefilter("always", live.SharedSeed)
        if spec is not None:
            experiment = live.Experiment.create(db, name, spec=live.Spec.read(spec))
        else:
            named = {key: value for key, value in parts.items() if value is not None}
            experiment = live.Experiment.create(db, name, arm, **_with_options(named, set_ or []), **chosen)
    for warning in loud:
        typer.echo(f"Warning: {warning.message}", err=True)
    status = experiment.status()
    if as_json:
        print_json(status)
    else:
        say(f"{name}: {len(status['arms'])} arms, {status['model']}, {status['sampler']}, {status['batching']} batching.")
        _note_on_windows(experiment)


def _table(option: str, text: str | None) -> dict[str, Any] | None:
    """Numbers such as rho=1,low=0,high=1; what names and values may be is for the specification to say."""
    if text is None:
        return None
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        try:
            found[name] = int(value) if value.isascii() and value.isdigit() else float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ConfigError(f"{option} is numbers by name, such as rho=1,low=0,high=1; got {text!r}.")
    return found


def _note_on_windows(experiment: Experiment) -> None:
    from ...live.status import never_ends

    if never_ends(experiment.spec):
        say(
            "Note: without --window a reward that never comes holds up learning; where silence is a 0, take --window 1d "
            "--default-reward 0."
        )


def _with_options(parts: dict[str, str], pairs: list[str]) -> dict[str, Any]:
    """Each `--set` under the part that has an option of that name."""
    from ...catalogue.condition import sorted_options
    from ...live.parts import EXTERNAL, agent_named, batching_named, model_named
    from ...registry import find
    from ..simulate import options_of

    names = {"sampler": "thompson", "batching": "dynamic"} | parts
    entries = {
        "model": find("model", model_named(names["model"])),
        "sampler": find("agent", agent_named(names["sampler"])[0]),
    }
    if names["batching"] != EXTERNAL:
        entries["batching"] = batching_named(names["batching"])
    chosen = sorted_options(entries, options_of(pairs))
    return {kind: {"name": names[kind], **chosen.get(kind, {})} for kind in names if kind in parts or chosen.get(kind)}


@app.command("list")
def list_(db: Db = None, as_json: AsJson = False) -> None:
    """Show the experiments of a database."""
    library()
    from ...live.database import Database

    names = Database(db, create=False).names()
    if as_json:
        print_json(names)
    else:
        for name in names:
            say(name)


@app.command()
def migrate(db: Db = None, as_json: AsJson = False) -> None:
    """Bring a database to this version's schema."""
    library()
    from ...live.database import Database

    before, after = Database.migrate(db)
    done(as_json, {"before": before, "after": after}, f"Schema version {after} (it was {before}).")
