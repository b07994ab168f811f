"""Data sets of installed packages, by name. None is shipped with blts."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import numpy as np

from ..errors import ConfigError
from .classification import Classification

R_LIBRARIES = ("/usr/lib/R/site-library", "/usr/local/lib/R/site-library", "/usr/lib/R/library")
"""Where Debian and R itself install packages; those of the environment variable R_LIBS come first."""


def dataset(name: str) -> Classification:
    """A data set as a world.

    Args:
        name: "digits", "wine" or "breast-cancer" of scikit-learn, or "shuttle" of R's mlbench.

    Returns:
        The world, without constant features.

    Raises:
        ConfigError: there is none of that name, or its package is not installed: how to install it.
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


def _shuttle() -> tuple:
    libraries = [*filter(None, os.environ.get("R_LIBS", "").split(os.pathsep)), *R_LIBRARIES]
    path = next((p for one in libraries if (p := pathlib.Path(one) / "mlbench/data/Shuttle.rda").is_file()), None)
    if path is None:
        raise ConfigError("Shuttle is a data set of R's mlbench: apt install r-cran-mlbench, or name its library in R_LIBS.")
    try:
        import rdata  # type: ignore[import-not-found]
    except ImportError:
        raise ConfigError("Data sets of R are read with the package rdata: pip install rdata.") from None
    table = rdata.read_rda(path, default_encoding="ascii")["Shuttle"]
    return table.drop(columns="Class").to_numpy(float), table["Class"].astype(str).to_numpy()


LOADERS = {
    "digits": _scikit("load_digits"),
    "wine": _scikit("load_wine"),
    "breast-cancer": _scikit("load_breast_cancer"),
    "shuttle": _shuttle,
}
"""Functions that load features and classes."""
