"""The yardstick of the service: an endpoint that inserts one row a request and commits, and does nothing else.

`uvicorn benchmarks.plain_server:app` with PLAIN_DB naming a SQLite file or a PostgreSQL URL.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PLACE = os.environ["PLAIN_DB"]
THREADS = ThreadPoolExecutor(8)
LOCAL = threading.local()
NUMBERS = itertools.count()


def connection() -> Any:
    if not hasattr(LOCAL, "connection"):
        if PLACE.startswith("postgres"):
            import psycopg

            LOCAL.connection = psycopg.connect(PLACE, autocommit=True)
            LOCAL.insert = "INSERT INTO plain VALUES (%s, %s)"
        else:
            LOCAL.connection = sqlite3.connect(PLACE, isolation_level=None, timeout=60)
            LOCAL.connection.execute("PRAGMA synchronous=FULL")
            LOCAL.insert = "INSERT INTO plain VALUES (?, ?)"
    return LOCAL.connection


def insert(text: str) -> None:
    connection().execute(LOCAL.insert, (next(NUMBERS), text))


async def store(request: Request) -> Response:
    import asyncio

    text = (await request.body()).decode()
    await asyncio.get_running_loop().run_in_executor(THREADS, insert, text)
    return Response(b'{"stored":true}', media_type="application/json")


app = Starlette(routes=[Route("/{path:path}", store, methods=["POST"])])
