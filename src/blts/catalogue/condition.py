"""Build the parts of one simulation from names. All names are checked before anything is built."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from .. import registry
from ..agents import Agent
from ..batching import Batching
from ..envs import Env
from ..errors import ConfigError, UnknownName, did_you_mean, whole
from ..problems import Problem
from ..simulation import LONGEST
from .setting import Setting

CONDITION = ("env", "agent", "batching", "prior", "horizon", "drawn", "batch_size", "stop", "times")
"""Names of a condition that are no options of its parts."""


class Condition(NamedTuple):
    """The arguments of `simulate`, built from names."""

    env: Env
    agent: Agent
    batching: Batching
    horizon: int
    names: dict[str, str]
    """The names that it was built from, with defaults filled in."""
    world: str
    """The kind of environment, as `Problem.world` has it."""


def condition(
    env: str,
    agent: str,
    batching: str | None = None,
    prior: str | None = None,
    horizon: int | None = None,
    *,
    drawn: bool = False,
    batch_size: int | None = None,
    stop: str | None = None,
    options: dict[str, Any] | None = None,
) -> Condition:
    """Build the parts of one simulation from names. `blts list` shows the names.

    Args:
        env: an environment.
        agent: an agent.
        batching: a batching scheme; by default the agent's usual one.
        prior: a prior of the environment, by default its first; for a bandit also a registered model, which agents then use.
        horizon: the number of rounds; by default the environment's.
        drawn: whether each replication draws its environment from the prior.
        batch_size: the size of "fixed" batches.
        stop: a stopping rule that the agent is wrapped in.
        options: options of the agent, the batching scheme, the environment, the model that is named as prior, the stopping rule and
            late rewards (`delay="geometric 50"`, `window`, …: see `catalogue.late`); each goes to the first that knows its name.

    Returns:
        The environment, agent, batching scheme and horizon.

    Raises:
        UnknownName: nothing has that name.
        ConfigError: the parts or options do not fit together.

    >>> from blts.catalogue import condition
    >>> condition("gaussian", "ucb1", "dynamic", horizon=100).agent
    UCB1(actions=15, scale=1)
    >>> condition("strens-chain", "tsde").names["batching"]
    'tsde'
    >>> condition("gaussian", "exact-ts", prior="gaussian", options={"prior_sd": 3.0}).agent.model
    Gaussian(prior_mean=0 (×15), prior_sd=3 (×15), sd=1 (×15))
    """
    entries = {"environment": registry.find("environment", env), "agent": registry.find("agent", agent)}
    scheme = entries["agent"].about.get("batching", "dynamic") if batching is None else batching
    entries["batching"] = registry.find("batching", scheme)
    entries["feedback"] = registry.find("feedback", "late")
    if batch_size is not None and scheme != "fixed":
        raise ConfigError(f'A batch size goes with the batching "fixed", not with {scheme!r}; leave one of them out.')
    if options is not None and not isinstance(options, dict):
        raise ConfigError(f"options must be a dict from their names to values, such as {{'steps': 100}}; got {options!r}.")
    given = dict(options or {})
    if batch_size is not None:
        given["size"] = batch_size
    if stop is not None:
        entries["stopping rule"] = registry.find("stopping rule", stop)
    if prior is not None:
        with contextlib.suppress(UnknownName):
            entries["model"] = registry.find("model", prior)
    chosen = sorted_options(entries, given, ORDER)

    problem: Problem = entries["environment"].build(**chosen["environment"])
    _check_world(entries["agent"], problem, env)
    if "model" in entries and (prior in problem.priors or problem.world not in BANDITS):  # the environment's own priors come first
        del entries["model"]
        sorted_options(entries, given, ORDER)
    elif "model" in entries:
        problem = problem._replace(priors=problem.priors | {prior: entries["model"].build(**chosen["model"])})
    model = problem.model(prior)
    if drawn:
        problem = problem.drawn(prior)
    T = problem.horizon if horizon is None else horizon
    whole("horizon", T, 1, LONGEST)
    on = Setting(problem.env, model, T)
    world, player = problem.env, registry.build("agent", agent, on, **chosen["agent"])
    if chosen["feedback"]:
        world, player = entries["feedback"].build(world, player, **chosen["feedback"])
    names = {"env": env, "agent": agent, "batching": scheme, "prior": next(iter(problem.priors)) if prior is None else prior}
    if stop is not None:
        _check_world(entries["stopping rule"], problem, env)
        player = registry.build("stopping rule", stop, on, player, **chosen["stopping rule"])
        names["stop"] = stop
    return Condition(
        world,
        player,
        registry.build("batching", scheme, on, **chosen["batching"]),
        T,
        names,
        problem.world,
    )


ORDER = ("agent", "batching", "environment", "model", "stopping rule", "feedback")
BANDITS = ("bandit", "contextual")
"""The worlds that an agent can play where it does not say so itself."""


def sorted_options(
    entries: dict[str, registry.Entry], options: dict[str, Any], order: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """Assign each option to the part that has an option of that name.

    Args:
        entries: the parts, by kind.
        options: the options.
        order: which kind takes precedence where several have an option of one name; by default the order of `entries`.

    Returns:
        The options of each part, by kind.

    Raises:
        ConfigError: no part has such an option.
    """
    kinds = tuple(kind for kind in order if kind in entries) or tuple(entries)
    chosen: dict[str, dict[str, Any]] = {kind: {} for kind in entries}
    for name, value in options.items():
        owner = next((kind for kind in kinds if name in entries[kind].options()), None)
        if owner is None:
            if name in CONDITION and name != "times":
                raise ConfigError(f"{name!r} is not an option of a part, but given by itself: --{name.replace('_', '-')}.")
            hint = did_you_mean(name, [*CONDITION, *(option for kind in kinds for option in entries[kind].options())])
            have = "; ".join(f"the {kind} {e.name!r} has {', '.join(e.options()) or 'none'}" for kind, e in entries.items())
            raise ConfigError(f"There is no option {name!r}.{hint} Options: {have}.")
        chosen[owner][name] = value
    return chosen


def _check_world(agent: registry.Entry, problem: Problem, env: str) -> None:
    if problem.world in agent.about.get("worlds", BANDITS):
        return
    fitting = [e.name for e in registry.entries("agent").values() if problem.world in e.about.get("worlds", BANDITS)]
    kind = {
        "bandit": "a bandit without contexts",
        "contextual": "a bandit with contexts",
        "table": "a tabular MDP",
        "parametric": "an MDP with a parameter vector",
    }[problem.world]
    if agent.kind == "stopping rule":
        raise ConfigError(f"Stopping rules compare arms of bandits without contexts, and {env!r} is {kind}; leave stop out.")
    raise ConfigError(f"The agent {agent.name!r} cannot play {env!r}, which is {kind}; use one of {', '.join(fitting)}.")
