"""Running the command line in this process."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from blts import cli

SMALL = ("--horizon", "20", "--replications", "3")


def blts(*arguments: str) -> str:
    """What a command prints; its errors are raised."""
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def simulate(*arguments: str) -> dict:
    return json.loads(blts("simulate", *SMALL, "--json", *arguments))


def refused(capsys, *arguments: str) -> str:
    """The sentence on standard error of a command that must exit with code 2, without a traceback."""
    given = sys.argv
    sys.argv = ["blts", *arguments]
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        sys.argv = given
    out, err = capsys.readouterr()
    assert end.value.code == 2, err
    assert out == ""
    assert "Traceback" not in err
    return err


def one_sentence(err: str) -> None:
    assert err.startswith("blts: ")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1
