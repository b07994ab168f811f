"""`blts demo`: the service with three example experiments and simulated visitors."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from .serve import service


def command(
    db: Annotated[str, typer.Option("--db", help="Where the examples are; they are created at the first start.")] = "blts-demo.db",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Serve three example experiments, each with a week behind it and visitors who go on coming. Ctrl-C stops."""
    service()
    from ..live.database import Database
    from ..service import demo
    from ..service.server import check_free, serve
    from ..service.settings import Settings

    settings = Settings(db=db, host=host, port=port)
    check_free(settings)  # before a minute of work
    demo.prepare(db, typer.echo)
    ended = threading.Event()
    visitors = threading.Thread(target=demo.visit, args=(Database(db), ended), name="blts-visitors", daemon=True)
    visitors.start()
    try:
        serve(settings, True, typer.echo)
    finally:
        ended.set()
        visitors.join(5)
