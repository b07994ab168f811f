"""The notebooks of the site: they run, and a cell that fails, or a picture without words, fails the build."""

from __future__ import annotations

import pathlib
import sys

import pytest

from documents import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import notebooks
from notebooks import FOLDER, Cell, Failed, Output, cells, expanded, outputs, page, run

NOTEBOOKS = sorted(FOLDER.glob("*.py"))
SOURCE = """# %% [markdown]
# # A title
#
# Some words.

# %%
x = 2
print(x)
x + 1

# %% [markdown]

# %% alt="A line"
class Picture:
    def _repr_png_(self):
        return b"PNG"


Picture()
"""


def written(folder: pathlib.Path, source: str) -> pathlib.Path:
    path = folder / "mine.py"
    path.write_text(source)
    return path


def test_cells():
    text, code, drawing = cells(SOURCE)
    assert text == Cell(True, "", "# A title\n\nSome words.", 2)
    assert code == Cell(False, "", "x = 2\nprint(x)\nx + 1", 7)
    assert drawing.alt == "A line"


def test_what_cells_print_and_draw(tmp_path):
    path = written(tmp_path, SOURCE)
    shown = run(path)
    assert shown == [Output("2\n3\n", ""), Output("", "UE5H")]
    text = page(path, shown)
    assert text.startswith("# A title\n\n{download}`")
    assert "x + 1\n```\n\n```text\n2\n3\n```\n" in text
    assert '<img class="drawn" alt="A line" src="data:image/png;base64,UE5H">' in text
    assert "```text" not in page(path, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("x = 2", "x = nothing"), r"mine\.py, the cell at line 7: NameError: name 'nothing' is not defined"),
        (("x = 2", "x = = 2"), r"mine\.py, the cell at line 7: SyntaxError"),
        ((' alt="A line"', ""), r"mine\.py, the cell at line \d+ draws a picture; say what it shows"),
    ],
)
def test_what_is_wrong_fails_the_build(tmp_path, monkeypatch, change, words):
    """In a process of its own, as the build runs it, and nothing is kept of it."""
    monkeypatch.setattr(notebooks, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    path = written(tmp_path, SOURCE.replace(*change))
    for _ in range(2):
        with pytest.raises(Failed, match=words):
            outputs(path)
    with pytest.raises(Failed, match=words):
        expanded(":::{notebook} mine\n:::", execute=True)


def test_outputs_are_kept_until_something_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "KEPT", tmp_path / "kept")
    path = written(tmp_path, SOURCE)
    assert outputs(path) == outputs(path) == run(path)
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert outputs(written(tmp_path, SOURCE.replace("x = 2", "x = 4")))[0].printed == "4\n5\n"


def test_every_notebook_has_its_page_and_is_listed():
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert len(NOTEBOOKS) == 6
    for path in NOTEBOOKS:
        assert (ROOT / "docs" / "tutorials" / f"{path.stem}.md").read_text() == f":::{{notebook}} {path.stem}\n:::\n"
        assert f"\n{path.stem}\n" in index


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    """In this process; the site runs each in its own. Most end with a picture or two, none is empty, and pages stay small."""
    monkeypatch.chdir(tmp_path)
    shown = run(path)
    assert any(output.printed for output in shown)
    assert sum(bool(output.picture) for output in shown) >= 1
    assert len(page(path, shown)) < 400_000
