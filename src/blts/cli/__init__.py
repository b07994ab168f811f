"""The command line. JAX is imported by the commands that compute, never by `blts --help`."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Annotated

import typer

from ..compilation import on_one_piece_of_stack
from ..errors import BltsError
from . import demo, evaluate, experiment, keys, listing, mdp, paper, plan, serve, simulate, study, worker

app = typer.Typer(
    help="Batched Langevin Thompson Sampling: decide under uncertainty when feedback comes in batches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate")(simulate.command)
app.command("plan")(plan.command)
app.command("evaluate")(evaluate.command)
app.command("list")(listing.command)
app.command("paper")(paper.command)
app.command("worker")(worker.command)
app.command("serve")(serve.command)
app.command("demo")(demo.command)
app.add_typer(keys.app, name="keys")
app.add_typer(study.app, name="study")
app.add_typer(mdp.app, name="mdp")
app.add_typer(experiment.app, name="experiment")


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=lambda asked: _version(asked))
    ] = False,
) -> None:
    pass


def _version(asked: bool) -> None:
    if asked:
        import blts

        typer.echo(f"blts {blts.__version__}")
        raise typer.Exit


REFUSED = 2
"""The exit code for bad input; 0 is success and 1 an error of ours."""


def main() -> None:
    """Run the command line; a mistake of the user's is one sentence on standard error, without a traceback."""
    try:
        try:
            on_one_piece_of_stack(app)
        finally:
            sys.stdout.flush()
    except BltsError as error:
        print(f"blts: {error}", file=sys.stderr)
        raise SystemExit(REFUSED) from None
    except MemoryError as error:
        print(f"blts: There is not enough memory for this ({error}); take smaller numbers.", file=sys.stderr)
        raise SystemExit(REFUSED) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print("blts: no space is left where the output is written to; nothing more was written.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
        raise SystemExit(REFUSED) from None
    finally:
        # Python looks for cycles twice more before it ends, a quarter of a second for all that JAX has made.
        gc.freeze()
