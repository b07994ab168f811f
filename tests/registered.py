"""What is registered, for the contracts."""

from __future__ import annotations

import functools

from blts import condition, registry
from blts.catalogue.condition import BANDITS as BANDIT_WORLDS
from blts.errors import ConfigError
from blts.problems import Problem

HORIZON, REPLICATIONS = 30, 2
NAMED, AGENTS, SCHEMES, SAMPLERS = (list(registry.entries(kind)) for kind in ("environment", "agent", "batching", "sampler"))
DATA = [name for name, entry in registry.entries("environment").items() if entry.about.get("data")]
"""Data sets of other packages, which need not be installed; tests/envs/test_data_sets.py has those that are."""
ENVIRONMENTS = [name for name in NAMED if name not in DATA]
MDPS = [name for name, entry in registry.entries("environment").items() if entry.about.get("mdp")]
BANDITS = [name for name in ENVIRONMENTS if name not in MDPS]
REGRESSIONS = [name for name, entry in registry.entries("model").items() if entry.about.get("contextual")]
"""Models of the features of a round."""
PLAYED = {"bandit": "gaussian", "contextual": "linear-20d", "table": "riverswim-paper", "parametric": "inventory"}
"""An environment of each kind of world."""
PLAYED_WITH = {"determinant": "linear"}
"""Batching schemes that need contexts, and an environment that has them."""
LEARNERS = {"table": "ds-psrl", "parametric": "sgld-psrl"}
QUICK = {
    "blts": {"steps": 3, "minibatch": 4},
    "ula-ts": {"steps": 3},
    "mala-ts": {"steps": 3, "pool": 4},
    "baoab-ts": {"steps": 3, "pool": 4},
    "neural-ts": {"steps": 3, "hidden": 3},
    "neural-pool": {"steps": 3, "hidden": 3, "pool": 4},
    "private-ts": {"low": 0.0, "high": 20.0},
    "mld-psrl": {"steps": 3},
    "sgld-psrl": {"steps": 3, "minibatch": 4},
    "mala-psrl": {"steps": 3},
}


def worlds(agent: str) -> tuple[str, ...]:
    return registry.find("agent", agent).about.get("worlds", BANDIT_WORLDS)


@functools.cache
def problem(env: str) -> Problem:
    return registry.find("environment", env).build()


def regression(name: str):
    """A registered model of two features."""
    options = {"inputs": 2, "hidden": (3,)} if name == "network" else {"prior_mean": [0.0, 0.0]}
    return registry.build("model", name, **options)


def priors(names: list[str]) -> list[tuple[str, str]]:
    return [(env, prior) for env in names for prior in problem(env).priors]


def chosen(env="gaussian", agent="exact-ts", batching=None, prior=None, **options):
    return condition(env, agent, batching, prior, HORIZON, options=QUICK.get(agent, {}) | options)


def learner(env: str, prior: str | None = None) -> str:
    """An agent that learns with this environment's model: exact draws where a bandit has them, SGLD otherwise."""
    if env in MDPS:
        return LEARNERS[problem(env).world]
    try:
        chosen(env, "exact-ts", prior=prior)
    except ConfigError:
        return "blts"
    return "exact-ts"
