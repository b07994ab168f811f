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
    strange = [
        name
        for name in names
        if not re.match(r"blts/|blts-[^/]*\.dist-info/", name) or re.search(r"(^|/)(tests?|__pycache__|\.)", name)
    ]
    if strange:
        sys.exit(f"The wheel has files that do not belong there: {strange[:5]}.")
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    missing = {path.removeprefix("src/") for path in tracked} - set(names)
    if missing:
        sys.exit(f"The wheel lacks {sorted(missing)[:5]}.")
    print(f"The wheel has {len(names)} files: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds(names).items())))
    with tarfile.open(sdist) as archive:
        if not any(name.endswith("/LICENSE") for name in archive.getnames()):
            sys.exit("The source distribution has no LICENSE.")
    return wheel, sdist


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
