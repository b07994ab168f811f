"""The files for a public forge say what it understands, and call targets of the Makefile that exist."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "idea.yml")]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", [path for path in WORKFLOWS if path.stem in ("test", "newest")]),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"]),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
        ("vendor.compose-spec", [ROOT / "deploy" / "compose.yaml"]),
    ],
)
def test_files_follow_their_schemas(schema: str, files: list[pathlib.Path]) -> None:
    checker = pathlib.Path(sys.executable).parent / "check-jsonschema"
    if not checker.exists():
        pytest.skip("check-jsonschema is not installed")
    assert files
    done = subprocess.run(
        [checker, "--default-filetype", "yaml", "--builtin-schema", schema, *files], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_exists_and_may_write_nothing(path: pathlib.Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for target in re.findall(r"^make ([\w-]+)", step.get("run", ""), re.M):
                assert target in targets
            for script in re.findall(r"(?<!\S)(\.ci/\S+|tests/\S+)", step.get("run", "")):
                assert (ROOT / script).exists()
