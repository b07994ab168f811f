"""The steps of docs/howto-contribute.md: files that it adds, changes of others, and commands, as printed."""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
from typing import NamedTuple

from documents import ROOT, blocks

PAGE = ROOT / "docs" / "howto-contribute.md"
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
NAMED = re.compile(r"`((?:src|docs|tests)/[\w./-]+)`")
COPIED = ("src", "tests", "docs", "pyproject.toml", "README.md", "DESIGN.md", "CONTRIBUTING.md")


class Step(NamedTuple):
    """A section of the page."""

    name: str
    changes: list[tuple[str, str, str]]
    """The kind ("py" for a new file, "diff" for a change), the file, and what is printed."""
    commands: list[list[str]]
    """The arguments of `pytest`."""


def steps(page: str) -> list[Step]:
    """The sections with a change. The file of a block is the last one that the text above it names.

    Args:
        page: its text.

    Returns:
        One step a section, in order.
    """
    headings = [*HEADING.finditer(page)]
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    found = []
    for heading, end in zip(headings, ends, strict=True):
        section, changes, commands, place = page[heading.end() : end], [], [], 0
        for block in blocks(section):
            named = NAMED.findall(section[place : block.start])
            if block.language in ("py", "diff"):
                assert named, f"nothing names the file of {block.text[:60]!r}"
                changes.append((block.language, named[-1], block.text))
            if block.language == "bash":
                lines = [shlex.split(line) for line in block.text.splitlines()]
                assert all(line[:3] == [".venv/bin/python", "-m", "pytest"] for line in lines), lines
                commands += [line[3:] for line in lines]
            place = block.end
        if changes:
            found.append(Step(heading[1], changes, commands))
    return found


def patched(text: str, diff: str) -> str:
    """A text with a printed change: lines with a `-` go, lines with a `+` come, all others are as they were.

    Args:
        text: of the file.
        diff: what is printed, without line numbers; a line `@@` stands between two places.

    Returns:
        The new text.

    Raises:
        ValueError: what is to be changed is not in the file, or is there twice.
    """
    for place in diff.split("@@\n"):
        lines = place.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        if len(re.findall(rf"(?=^{re.escape(before)})", text, re.MULTILINE)) != 1:
            raise ValueError(f"these lines are not once in the file:\n{before}")
        text = f"\n{text}".replace(f"\n{before}", f"\n{after}", 1)[1:]
    return text


def apply(step: Step, folder: pathlib.Path) -> list[str]:
    """Do in a copy of the repository what a section prints.

    Args:
        step: the section.
        folder: the copy.

    Returns:
        The files that are new or changed.
    """
    for kind, name, text in step.changes:
        path = folder / name
        if kind == "py":
            assert not path.exists(), f"{name} is there already"
            path.write_text(text, encoding="utf-8")
        else:
            path.write_text(patched(path.read_text(encoding="utf-8"), text), encoding="utf-8")
    return list(dict.fromkeys(name for _, name, _ in step.changes))


def copied(folder: pathlib.Path) -> pathlib.Path:
    """A copy of what the tests of a part need.

    Args:
        folder: where it goes.

    Returns:
        The copy.
    """
    ignored = shutil.ignore_patterns("__pycache__", "fixtures")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    return folder
