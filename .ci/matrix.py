"""Builds the distributions, and tests the wheel in clean environments with the lowest and the highest versions that it allows.

    python .ci/matrix.py          (`make matrix`)

The lowest versions are read from pyproject.toml; the highest are whatever the package index offers.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOWEST = ("jax", "numpy", "sqlalchemy", "scipy")
TESTS = ("tests/test_simulate.py", "tests/test_posterior.py", "tests/batching", "tests/lanes", "tests/live/test_asking.py")


def main() -> None:
    for old in (ROOT / "dist").glob("blts-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        builder = environment(folder / "build", "build")
        run(builder, "-m", "build", "--outdir", ROOT / "dist", ROOT)
        wheel, sdist = contents()
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes")
        for row, pins in (("lowest", lowest()), ("highest", [])):
            python = environment(folder / row, f"{wheel}[live,report,serve,numpyro]", *pins, "hypothesis", "pytest", "httpx2")
            listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
            print(row, *re.findall(rf"^(?:{'|'.join(LOWEST)})\b.*$", listed, re.M | re.I), sep="\n  ")
            run(python, "-m", "pip", "check")
            run(python, "-m", "blts", "simulate", "--agent", "blts", "--horizon", "100", "--replications", "10", cwd=folder)
            options = ("-p", "no:cacheprovider", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml", "-o", "addopts=")
            run(python, "-m", "pytest", "-q", "-m", "not slow", *options, *(ROOT / path for path in TESTS), cwd=folder)
    print("The wheel works with the lowest and the highest versions.")


def contents() -> tuple[pathlib.Path, pathlib.Path]:
    """The wheel and the source distribution, checked for what must and must not be in them."""
    (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    if found := wrong(names, [path.removeprefix("src/") for path in tracked]):
        sys.exit("\n".join(found))
    print(f"The wheel has {len(names)} files: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds(names).items())))
    with tarfile.open(sdist) as archive:
        missing = {"LICENSE", "NOTICE"} - {name.partition("/")[2] for name in archive.getnames()}
        if missing:
            sys.exit(f"The source distribution has no {' and no '.join(sorted(missing))}.")
    return wheel, sdist


CODE = (".py", ".pyi", ".typed", ".sql", ".jinja", ".toml", ".css", ".js")
"""What the package is written in: tables of a database, templates, studies, styles."""
OTHERS = {
    "blts/data/README.md": "where the data are from",
    "blts/data/rand_hie.csv": "public domain, in NOTICE",
    "blts/paper/printed.json": "numbers that the paper prints",
    "blts/service/dashboard/static/icon.svg": "ours",
}
"""All other files that are installed, and whose they are."""
METADATA = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE")


def wrong(names: list[str], tracked: list[str]) -> list[str]:
    """What is in a wheel and does not belong there, or belongs there and is missing.

    Args:
        names: of the files in the wheel.
        tracked: the files of the package, as `blts/loop.py`.

    Returns:
        Sentences; none if all is well.
    """
    own = {name for name in names if name.startswith("blts/")}
    metadata = {name.partition("/")[2] for name in set(names) - own if re.match(r"blts-[^/]*\.dist-info/", name)}
    strange = {name for name in set(names) - own if name.partition("/")[2] not in METADATA}
    strange |= {name for name in own if re.search(r"/(tests?|conftest|__pycache__|\.)|/test_|\.pyc$", name)}
    unlisted = {name for name in own if not name.endswith(CODE)} - set(OTHERS) - strange
    found = [
        ("has files that do not belong there", strange),
        ("has data of which .ci/matrix.py does not say whose they are", unlisted),
        ("has files that are not in the repository", own - set(tracked) - strange - unlisted),
        ("lacks", (set(tracked) | set(OTHERS)) - own),
        ("lacks in its metadata", set(METADATA) - metadata),
    ]
    return [f"The wheel {words}: {', '.join(sorted(which)[:5])}." for words, which in found if which]


def kinds(names: list[str]) -> dict[str, int]:
    """How many files there are of each kind."""
    found: dict[str, int] = {}
    for name in names:
        kind = pathlib.PurePath(name).suffix or "others"
        found[kind] = found.get(kind, 0) + 1
    return found


def lowest() -> list[str]:
    """The lowest versions that pyproject.toml allows, as pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [one for extra in project["optional-dependencies"].values() for one in extra]
    found = (re.match(r"([\w-]+)>=([\d.]+)", one) for one in wanted)
    pins = {match[1]: match[2] for match in found if match is not None and match[1] in LOWEST}
    return [f"{name}=={version}" for name, version in pins.items()] + [f"jaxlib=={pins['jax']}"]


def environment(folder: pathlib.Path, *packages: object) -> pathlib.Path:
    """The Python of a new virtual environment with some packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def run(*command: object, cwd: pathlib.Path | None = None) -> None:
    """Run a command; a failure ends this script with its exit code."""
    done = subprocess.run([str(word) for word in command], cwd=cwd)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
