"""`blts serve`: the HTTP service and its dashboard."""

from __future__ import annotations

import types
from typing import Annotated

import typer

from ..errors import ConfigError
from .experiment.base import library


def command(
    db: Annotated[
        str | None, typer.Option("--db", envvar="BLTS_DB", help="A database URL or a file; by default blts.db in this folder.")
    ] = None,
    host: Annotated[
        str, typer.Option(envvar="BLTS_HOST", help="The address to listen on; beyond loopback there must be keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="BLTS_PORT", min=1, max=65535)] = 8000,
    workers: Annotated[
        int,
        typer.Option(envvar="BLTS_WORKERS", min=1, max=64, help="Processes that answer; more than one pays with PostgreSQL alone."),
    ] = 1,
    no_worker: Annotated[
        bool,
        typer.Option("--no-worker", envvar="BLTS_NO_WORKER", help="Do not look after the experiments: blts worker runs elsewhere."),
    ] = False,
    root_path: Annotated[str, typer.Option(envvar="BLTS_ROOT_PATH", help="The path under which a proxy shows the service.")] = "",
    secure: Annotated[
        bool, typer.Option(envvar="BLTS_SECURE", help="Pages are reached by HTTPS: send cookies by HTTPS alone.")
    ] = False,
) -> None:
    """Serve experiments over HTTP, with a dashboard, and look after them."""
    service()
    from ..service.server import serve
    from ..service.settings import Settings

    settings = Settings(db=db, host=host, port=port, workers=workers, root_path=root_path, secure=secure)
    serve(settings, not no_worker, lambda line: typer.echo(line))


def service() -> types.ModuleType:
    """`blts.service` (`ConfigError` where a library that it needs is not installed)."""
    library()
    try:
        from .. import service as found
    except ModuleNotFoundError as error:
        if error.name not in ("msgspec", "starlette", "uvicorn", "jinja2"):
            raise
        raise ConfigError(f'The service needs {error.name}; install it with: pip install "blts[serve]".') from None
    return found
