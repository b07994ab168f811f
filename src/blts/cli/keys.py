"""`blts keys`: the API keys of the service."""

from __future__ import annotations

import datetime
import getpass
import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .experiment.base import AsJson, Db
from .experiment.output import show_table
from .serve import service

if TYPE_CHECKING:
    from ..service.keys import Key, Keys

app = typer.Typer(help="API keys of the service. A key is shown once, when it is created.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it; it is in the audit log.")],
    role: Annotated[str, typer.Option(help="client, app, reader, operator or admin.")],
    experiment: Annotated[list[str] | None, typer.Option(help="An experiment that it is for; without one it is for all.")] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A page from which browsers may use it, such as https://shop.example.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second.")] = None,
    days: Annotated[float | None, typer.Option(help="Days after which it is over.", min=0.001)] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and show it, once."""
    until = None if days is None else time.time() + 86_400 * days
    options = {"experiments": experiment or None, "origins": origin or (), "rate": rate, "expires_at": until}
    key, text = _keys(db).create(name, role, **options, by=getpass.getuser())  # type: ignore[arg-type]
    if as_json:
        typer.echo(json.dumps(_data(key) | {"key": text}))
    else:
        typer.echo(text)
        typer.echo("This is the only time that it is shown; the database holds a hash of it.", err=True)


@app.command("list")
def list_(db: Db = None, as_json: AsJson = False) -> None:
    """All keys, without their secrets."""
    found = _keys(db).all()
    if as_json:
        typer.echo(json.dumps([_data(key) for key in found]))
        return
    columns = ["id", "name", "role", "experiments", "created", "state"]
    rows = [
        [key.id, key.name, key.role, ", ".join(key.experiments or ("all",)), _day(key.created_at), _state(key)] for key in found
    ]
    show_table("API keys", columns, rows, words=tuple(columns))


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id, from `blts keys list`.")], db: Db = None, as_json: AsJson = False
) -> None:
    """End a key, for good."""
    key = _keys(db).revoke(key_id, by=getpass.getuser())
    typer.echo(json.dumps(_data(key)) if as_json else f"{key.name} is revoked; services notice within a second.")


def _keys(db: str | None) -> Keys:
    service()
    from ..live.database import Database
    from ..service.keys import Keys

    return Keys(Database(db))


def _data(key: Key) -> dict[str, Any]:
    return key._asdict()


def _state(key: Key) -> str:
    return "good" if key.is_good(time.time()) else "revoked" if key.revoked_at is not None else "over"


def _day(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
