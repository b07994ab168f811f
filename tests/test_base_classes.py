"""The base classes: documented, inherited from, and with the signatures that `help` shows."""

from __future__ import annotations

import dataclasses
import inspect
import re

import blts
from blts import Agent, Batching, Belief, Dynamics, Env, Gaussian, Model, Sampler

BASES = (Agent, Batching, Belief, Dynamics, Env, Model, Sampler)


def test_base_classes_document_every_method():
    for base in BASES:
        for name, item in vars(base).items():
            if not name.startswith("_") and callable(getattr(base, name, None)):
                assert inspect.getdoc(getattr(base, name)), (base, name)
                assert item.__doc__


def test_classes_of_the_package_inherit_from_the_base_classes():
    modules = {Agent: blts.agents, Batching: blts.batching, Env: blts.envs, Model: blts.models, Sampler: blts.samplers}
    named = {"UCB1", "Thompson", "PSRL", "UCRL2", "Follow", "Fixed", "Grid", "OneOf", "Geometric", "Bandit", "MDP", "DrawnMDP"}
    named |= {
        "Bootstrap",
        "Contextual",
        "Classification",
        "ParametricMDP",
        "Gaussian",
        "Bernoulli",
        "Linear",
        "Laplace",
        "MALA",
        "Langevin",
        "BAOAB",
        "ExponentialIntegrator",
        "Mirrored",
    }
    found = {n for base, home in modules.items() for n, x in vars(home).items() if inspect.isclass(x) and issubclass(x, base)}
    assert named <= found


def test_signatures_are_those_of_the_fields():
    assert list(inspect.signature(Gaussian).parameters) == ["prior_mean", "prior_sd", "sd"]
    assert inspect.signature(Gaussian).parameters["sd"].default == 1.0
    for name in blts.__all__:
        value = getattr(blts, name)
        if inspect.isclass(value) and issubclass(value, BASES):
            assert not {"args", "kwargs"} & set(inspect.signature(value).parameters), name


def test_docstrings_list_the_arguments():
    """`help` of a class begins with its docstring, which has a line for each field."""
    for name in set(blts.__all__) - {"Trace"}:
        value = getattr(blts, name)
        if inspect.isclass(value) and dataclasses.is_dataclass(value):
            listed = inspect.getdoc(value) or ""
            fields = [field.name for field in dataclasses.fields(value)]
            assert not fields or "Args:" in listed, name
            assert [field for field in fields if not re.search(rf"^    (\w+, )*{field}(, \w+)*:", listed, re.M)] == [], name
