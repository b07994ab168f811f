"""Agents playing in environments: the usual task of a study."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ... import registry, theory
from ...batching import DoubledSinceSwitch, DoublingCounts, OneOf, Sequential, StaticDoubling
from ...catalogue import condition as build
from ...errors import ConfigError, whole
from ...problems import PRIORS
from ...simulation import simulate
from ...specification import check_private, check_told
from ..spec import Condition
from .base import About, Arrays

TIMES = 100
"""Recorded rounds, log-spaced, where a condition does not say."""
OWN = ("env", "agent", "batching", "prior", "horizon", "times", "drawn", "method", "engine", "stop")


@registry.register("task", "simulate")
class Simulate:
    """Agents playing in environments: regret, batches, rewards and switches of every replication."""

    metrics: ClassVar[tuple[str, ...]] = (
        *("regret", "batches", "switches", "reward", "best_share"),
        *("messages", "numbers"),
        *("simple_regret", "wrong", "stopped", "wrong_stop", "stop_round"),
    )
    """The second line is of several agents, the third of those that conclude: with a stopping rule, or by sequential halving."""

    def normal(self, condition: Condition) -> Condition:
        given = dict(condition)
        if "method" in given:
            method = registry.build("method", given["method"])
            for name in ("agent", "batching"):
                if name in given and given[name] != getattr(method, name):
                    raise ConfigError(f"The method {given['method']!r} has the {name} {getattr(method, name)!r}; leave {name} out.")
            given |= {"agent": method.agent, "batching": method.batching}
        for name in ("env", "agent"):
            if name not in given:
                raise ConfigError(f"A condition to simulate needs {name!r}, such as {EXAMPLES[name]!r}.")
        chosen = built(given)
        check_private(chosen.env, chosen.agent, chosen.batching)  # before the cells of other conditions have run for hours
        check_told(chosen.env, chosen.agent)
        drawn = bool(given.get("drawn", False))
        used = drawn or registry.find("agent", given["agent"]).about.get("prior", True) or given.get("prior") not in {None, *PRIORS}
        used = used or given.get("stop") is not None  # a stopping rule may look at a posterior, whatever the agent does
        prior = chosen.names["prior"] if used else built(given | {"prior": None}).names["prior"]
        method = {"method": given["method"]} if "method" in given else {}
        engine = given.get("engine", "step")
        if engine not in ("step", "leap"):  # "auto" depends on how many replications a cell has, and the numbers with it
            raise ConfigError(f'engine must be "step" or "leap"; got {engine!r}.')
        return {
            **chosen.names,
            "prior": prior,
            "horizon": chosen.horizon,
            "times": given.get("times", TIMES),
            "drawn": drawn,
            **method,
            **({"engine": engine} if engine != "step" else {}),
            **({"stop": given["stop"]} if given.get("stop") is not None else {}),
            **_options(given),
        }

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        chosen = built(condition)
        engine = condition.get("engine", "step")
        trace = simulate(
            seed,
            chosen.env,
            chosen.agent,
            shared(chosen) if engine == "step" else chosen.batching,
            horizon=chosen.horizon,
            replications=replications,
            first=first,
            times=condition["times"],
            threads=1,
            engine=engine,
        )
        arrays = {
            "curve": trace.regret,
            "batches_by": trace.batches_by().astype(np.int32),
            "regret": trace.final_regret,
            "batches": trace.batches,
            "switches": trace.switches,
            "reward": trace.mean_reward,
            "best_share": trace.best_share,
            **trace.conclusions(),
            "finite": np.broadcast_to(np.asarray(trace.diagnostics.finite), trace.batches.shape),
            **{name: np.asarray(getattr(trace.diagnostics, name)) for name in ("refreshes", "unsound", "rhat", "stuck", "least")},
        }
        if trace.messages is not None:
            arrays |= {"messages": trace.messages.total, "numbers": np.asarray(trace.messages.numbers, float)}
        about = {
            "times": trace.times.tolist(),
            "actions": int(chosen.env.actions),
            "env": trace.env,
            "agent": trace.agent,
            "batching": trace.batching,
            "batches_bound": [theory.batches_bound(int(chosen.env.actions), int(t)) for t in trace.times],
        }
        gain = chosen.env.gain  # a world that is drawn has none of its own
        if gain is not None:
            about["gain"] = float(gain)
        if "method" in condition:
            method = registry.build("method", condition["method"])
            about["claims"] = {"regret": method.regret, "batches": method.batches}
        return arrays, about


def shared(chosen: Any) -> Any:
    """The usual schemes of a world as one of three, so that they compile once; the numbers are the same.

    Not for long runs, whose record of batch ends has room for the scheme that closes most.
    """
    schemes, name = usual(chosen.env.states), chosen.names["batching"]
    if name not in schemes or chosen.horizon > LONG:
        return chosen.batching
    return OneOf(tuple((schemes | {name: chosen.batching}).values()), list(schemes).index(name))


def usual(states: int | None) -> dict[str, Any]:
    """The schemes that studies compare: of a bandit, of a tabular MDP, and none where there is no table."""
    if states is None:
        return {}
    if states == 1:
        return {"sequential": Sequential(), "static": StaticDoubling(), "dynamic": DoublingCounts()}
    doubled = {"doubled-since-switch": DoubledSinceSwitch(states), "tsde": DoubledSinceSwitch.tsde(states)}
    return {"static": StaticDoubling(), **doubled}


LONG = 20_000
EXAMPLES = {"env": "gaussian", "agent": "blts"}


def _options(condition: Condition) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if name not in OWN}


def built(condition: Condition) -> Any:
    for name in ("env", "agent", "batching", "prior", "stop"):
        if not isinstance(condition.get(name), str | None):
            raise ConfigError(f"{name} must be a name; got {condition[name]!r}.")
    if not isinstance(condition.get("drawn", False), bool):
        raise ConfigError(f"drawn must be true or false; got {condition['drawn']!r}.")
    for name in ("horizon", "times"):
        whole(name, condition.get(name, 1))
    return build(
        condition["env"],
        condition["agent"],
        condition.get("batching"),
        condition.get("prior"),
        condition.get("horizon"),
        drawn=bool(condition.get("drawn", False)),
        stop=condition.get("stop"),
        options=_options(condition),
    )
