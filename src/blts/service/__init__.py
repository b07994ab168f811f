"""The HTTP service: live experiments for any language, and pages for people. It has no rules of its own.

How one request travels, and which file each step is in:

1. `server` starts the processes: uvicorn, which serves the application that `app` builds, and a worker that refreshes experiments.
   `settings` are what the command line and the environment say.
2. `routes` is a table: method, path, the role that a caller needs, the types of the body, the query and the answer, the handler.
   The OpenAPI document (`openapi`) is made from it.
3. `app` has one resource for each path: its routes by method, and OPTIONS (`cors` says which pages of other sites may send what;
   `slashes` lets names have some).
   `dispatch` takes a request through the same steps for every route: whose key it is (`keys`), whether there are too many of them
   (`limits`), whether it may see the experiment, and what the body says (`bodies`; `fields` has their names for who misspelt one).
   `patience` ends requests that come too slowly. Whatever goes wrong is one `problem`, and every request is counted for /metrics
   (`counts`).
4. A handler in `api/` calls a method of `blts.live.Experiment` in a thread (`state` keeps the experiments that are open). Asks of
   many connections share a transaction (`groups`), and units that have a decision get it from memory (`blts.live.repeats`).
5. The answer, made of the types in `answers`, is encoded. Nothing is answered before it is stored.

`ofrep` and `tracking` speak OpenFeature's protocol, in which an experiment is a flag; `signing` signs decision ids for browsers;
`events` tells listeners what changed; `dashboard/` has the pages.
"""

try:
    import msgspec as msgspec
    import starlette as starlette
    import uvicorn as uvicorn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f'The service needs {error.name}; install it with: pip install "blts[serve]".', name=error.name
    ) from None
