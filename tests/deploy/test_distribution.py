"""What is installed: the files of the package and its metadata, and nothing else."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("matrix", ROOT / ".ci" / "matrix.py")
assert _SPEC is not None
assert _SPEC.loader is not None
matrix = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(matrix)


def package() -> list[str]:
    """The files of the package that git does not ignore; as they are on the disk, where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    found = [ROOT / path for path in listed] or [path for path in (ROOT / "src").rglob("*") if "__pycache__" not in path.parts]
    return sorted(str(path.relative_to(ROOT / "src")) for path in found if path.is_file())


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> list[str]:
    """The files in a wheel that is built here."""
    pytest.importorskip("hatchling", reason='building the wheel needs hatchling: pip install "blts[dev]"')
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_has_the_package_and_nothing_else(names):
    assert matrix.wrong(names, package()) == []
    assert len(names) == len(package()) + len(matrix.METADATA)


STRANGE = {
    "blts/test_loop.py": "do not belong there",
    "tests/test_loop.py": "do not belong there",
    "blts/live/__pycache__/ledger.cpython-311.pyc": "do not belong there",
    "blts/.hidden": "do not belong there",
    "blts-0.1.0.dist-info/notes.txt": "do not belong there",
    "blts/data/ads.csv": "does not say whose they are",
    "blts/left_over.py": "not in the repository",
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_does_not_belong_in_a_wheel_is_found(name):
    """The mutants of the test above, without a wheel."""
    right = [*package(), *(f"blts-0.1.0.dist-info/{one}" for one in matrix.METADATA)]
    assert matrix.wrong(right, package()) == []
    (said,) = matrix.wrong([*right, name], package())
    assert STRANGE[name] in said


def test_what_a_wheel_lacks_is_found():
    right = [*package(), *(f"blts-0.1.0.dist-info/{one}" for one in matrix.METADATA)]
    for gone, words in (("blts/loop.py", "lacks: "), ("blts-0.1.0.dist-info/licenses/NOTICE", "lacks in its metadata: ")):
        (said,) = matrix.wrong([name for name in right if name != gone], package())
        assert words in said


def test_files_of_others_are_in_the_notice():
    """And all that the notice names are there."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    listed = re.findall(r"^(src|tests|docs)(/\S+)$", notice, re.MULTILINE)
    assert all((ROOT / f"{top}{path}").is_file() for top, path in listed)
    assert {f"src/{name}" for name, whose in matrix.OTHERS.items() if "NOTICE" in whose} < {top + path for top, path in listed}
    minified = [*ROOT.glob("tests/**/*.min.js"), *ROOT.glob("src/**/*.min.*")]
    assert {str(path.relative_to(ROOT)) for path in minified} < {top + path for top, path in listed}
