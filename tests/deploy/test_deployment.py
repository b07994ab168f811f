"""The deployment files say what their tools understand, and name commands and variables that exist. No container runs here."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import typer.main
import yaml

from blts.cli import app

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def options_of(command: str) -> tuple[set[str], set[str]]:
    """The options and the variables of a command."""
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]  # type: ignore[attr-defined]
    return {o for p in found.params for o in p.opts}, {str(p.envvar) for p in found.params if getattr(p, "envvar", None)}


def test_the_container_file_passes_its_linter() -> None:
    linter = pathlib.Path(sys.executable).parent / "hadolint"
    if not linter.exists():
        pytest.skip("hadolint is not installed")
    checked = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_the_container_runs_as_nobody_in_particular() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert lines.index("USER 10001") < lines.index('ENTRYPOINT ["blts"]')
    assert 'CMD ["serve"]' in lines


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml", "blts.service"])
def test_variables_are_those_that_the_service_reads(file: str) -> None:
    named = set(re.findall(r"\bBLTS_[A-Z_]+", (DEPLOY / file).read_text()))
    assert named, "the file names no variable"
    assert named <= options_of("serve")[1]


def test_compose_names_commands_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"database", "keys", "service", "worker"}
    for name in ("service", "worker"):
        words = services[name]["command"]
        options, _ = options_of(words[0])
        assert {word for word in words[1:] if word.startswith("--")} <= options
    assert services["service"]["ports"] == ["127.0.0.1:8000:8000"], "only the proxy may reach it"


def test_the_unit_is_one() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    checked = subprocess.run(
        ["systemd-analyze", "verify", DEPLOY / "blts.service"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}
    )
    said = [line for line in checked.stderr.splitlines() if "blts.service" in line and "is not executable" not in line]
    assert not said, said


def test_the_proxy_understands_its_file(tmp_path: pathlib.Path) -> None:
    import crossplane

    place = tmp_path / "nginx.conf"
    place.write_text(f"events {{}}\nhttp {{\n{(DEPLOY / 'nginx.conf').read_text()}\n}}\n")
    parsed = crossplane.parse(str(place), strict=True)
    assert parsed["status"] == "ok", parsed["errors"]
