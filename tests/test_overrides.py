"""A subclass that overrides one method gets right numbers or a refusal, wherever it is used.

Every public method of every part is overridden by one that only notes that it was called. What stepping calls, leaping and live
use must call too, or refuse a subclass that overrides it; otherwise an override would be ignored without a word. Programs are
traced and not compiled.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Belief, _random, leap
from blts._module import module
from blts.agents import UCB1, BayesUCB, EpsilonGreedy, Exact, Perturb, SuccessiveElimination, Thompson, Uniform
from blts.batching import Aged, DoubledSinceSwitch, DoublingCounts, Fixed, Grid, OneOf, Sequential, StaticDoubling
from blts.declared import missing
from blts.envs import Bandit, Bootstrap
from blts.errors import ConfigError
from blts.leap import engine
from blts.live import learning, policy
from blts.models import (
    Model,
    stack,
)
from blts.samplers import sgld, ula
from overridden import ARMS, BELIEFS, FORGETTING, HORIZON, MODELS, PLAIN, Parts, spied, trace_stepping

SKIPPED = {"check", "theory", "with_means", "with_sd", "tsde", "ucrl2", "minimax", "geometric"}
"""Constructors and descriptions: they say nothing about the run of an object that exists."""
SCHEMES = {
    "DoublingCounts": DoublingCounts(),
    "DoubledSinceSwitch": DoubledSinceSwitch(),
    "Sequential": Sequential(),
    "Fixed": Fixed(7),
    "StaticDoubling": StaticDoubling(),
    "Grid": Grid((5, 20)),
    "OneOf": OneOf((Sequential(), DoublingCounts()), 1),
    "Aged": Aged(DoublingCounts(), 9),
}


def methods(value: Any) -> list[str]:
    """The public methods and properties of an object's class."""
    named = {name: item for c in reversed(type(value).__mro__[:-1]) for name, item in vars(c).items()}
    fields = {field.name for field in dataclasses.fields(value)}
    return sorted(
        name
        for name, item in named.items()
        if not name.startswith("_")
        and name not in SKIPPED | fields
        and hasattr(value, name)
        and (callable(getattr(type(value), name, None)) or isinstance(getattr(type(value), name, None), property))
    )


def completed(kind: str, value: Any, name: str, build: Any, called: set[str]) -> Any:
    """The spied object with what it takes to be accepted at all: a model without its `information` is refused outright, so that is
    overridden as well. None where it is refused for good."""
    names = (name,)
    for _ in range(4):
        try:
            object_ = spied(value, names, called)
            parts = build(object_)
            parts.agent  # noqa: B018
            parts.env  # noqa: B018
            return parts
        except ConfigError:
            more = tuple(m for m in (*missing(object_, Model), "sample") if m in methods(value) and m not in names)
            more = tuple(m for m in more if m != "theory" and not hasattr(object_, m))
            if kind != "model" or not more:
                return None
            names += more
    return None


def leaping_refused(parts: Parts) -> str | None:
    return leap.obstacle(parts.env, parts.agent, parts.batching, HORIZON, False)


def trace_leaping(parts: Parts) -> None:
    arguments = (_random.as_key(0), parts.env, parts.agent, parts.batching, np.array([10, HORIZON], np.int32), np.int32(0))
    with jax.enable_x64(True):
        leap._program.eval_shape(*arguments, HORIZON, capacity=HORIZON, replications=2, keep_actions=False)


def live_refused(parts: Parts) -> str | None:
    try:
        policy.check_agent(parts.agent, "this agent")
    except ConfigError as error:
        return str(error)
    return None


def trace_live(parts: Parts) -> None:
    agent, batching, key = parts.agent, parts.batching, _random.as_key(0)

    def run():
        state, clock = policy.start(key, agent), policy.start_clock(key, batching, ARMS)
        law = agent.propensities(state) if policy.is_fixed(agent) else jnp.full(ARMS, jnp.nan)
        mixture = policy.Mixture(jnp.zeros(ARMS), jnp.zeros((), int))
        frozen = policy.Frozen(state, law, jnp.zeros((), bool))
        decided = policy._decide_many(key, agent, batching, frozen, clock, mixture, 16, False, size=16, by_law=False)
        data = learning.Data(np.array([0, 1, 2, 0]), np.array([1.0, 0.0, 1.0, 1.0]))
        return decided, learning._observe(agent, key, state, learning.load(agent, data))

    jax.eval_shape(run)


def cases():
    """(what is spied upon, how to build the rest around it)."""
    for name, model in MODELS.items():
        for belief_name, belief in BELIEFS.items():
            fits = model.has_posterior if belief_name == "Exact" else name in ("Gaussian", "Laplace")
            if fits:
                yield f"{name} with {belief_name}", "model", model, functools.partial(Parts.with_belief, belief)
    for name, belief in (BELIEFS | FORGETTING).items():
        yield name, "belief", belief, lambda b: Parts(model=PLAIN, belief=b)
        yield f"Thompson with {name}", "agent", Thompson(PLAIN, belief), lambda a: Parts(model=PLAIN, agent=a)
    for name, chain in (("ula", ula(steps=2)), ("sgld", sgld(steps=2))):
        yield name, "chain", chain, lambda c: Parts(model=PLAIN, belief=Perturb(c))
    agents = [UCB1(ARMS), EpsilonGreedy(ARMS), SuccessiveElimination(ARMS, HORIZON), Uniform(ARMS), BayesUCB(PLAIN, HORIZON)]
    for agent in agents:
        yield type(agent).__name__, "agent", agent, lambda a: Parts(model=PLAIN, agent=a)
    for env in (Bandit.with_means(PLAIN, [0.0, 0.5, 1.0]), Bootstrap.of({i: [0.0, 1.0, float(i)] for i in range(ARMS)})):
        yield type(env).__name__, "env", env, lambda e: Parts(model=PLAIN, belief=Exact(), env=e)
    for name, scheme in SCHEMES.items():
        yield name, "batching", scheme, lambda s: Parts(model=PLAIN, belief=Exact(), batching=s)


CASES = {case[0]: case[1:] for case in cases()}
NEUTRAL = {
    # A declaration about costs or about itself: overriding it is the user's own statement, and changes no number.
    ("agent", "incremental"), ("belief", "incremental"), ("agent", "plain_memory"), ("belief", "plain_memory"),
    ("chain", "needs_log"), ("env", "actions"), ("agent", "actions"),
    # How many batches there can be sizes a record, which is checked after the run.
    ("batching", "max_batches"),
}  # fmt: skip


def calls(kind: str, value: Any, build: Any, trace: Any) -> set[str]:
    """Which methods a trace calls. All are overridden at once, so nothing is lost."""
    called: set[str] = set()
    parts = build(spied(value, tuple(methods(value)), called, facts=True))
    if kind == "model":
        parts["env"] = Bandit(value, arms=ARMS)  # of the rewards' own law the environment makes the calls
    called.clear()
    trace(parts)
    return called


def ignored(kind: str, value: Any, build: Any, trace: Any, refusal: Any, stepping: Callable[[], set[str]]) -> list[str]:
    """The methods that stepping calls (`stepping()`), and whose override `trace` neither calls nor refuses."""
    if refusal(build(value)) is not None:
        return []  # not even the plain object gets there
    unheeded = stepping() - calls(kind, value, build, trace)
    return [
        name for name in sorted(unheeded) if (kind, name) not in NEUTRAL and not _noticed(kind, value, name, build, trace, refusal)
    ]


def _noticed(kind: str, value: Any, name: str, build: Any, trace: Any, refusal: Any) -> bool:
    """Whether a subclass that overrides this method alone is refused, or has it called after all."""
    called: set[str] = set()
    parts = completed(kind, value, name, build, called)
    if parts is None or refusal(parts) is not None:
        return True
    called.clear()
    trace(parts)
    return name in called


@pytest.mark.parametrize("name", CASES)
def test_no_override_is_ignored(name):
    case = CASES[name]
    stepping = functools.cache(lambda: calls(*case, trace_stepping))  # traced once, and not where both refuse
    assert ignored(*case, trace_leaping, leaping_refused, stepping) == [], "by leaping"
    if case[0] in ("agent", "belief", "chain", "model"):
        assert ignored(*case, trace_live, live_refused, stepping) == [], "by live use"


def test_no_override_of_a_bandits_model_is_ignored():
    """The environment's side: what its model draws."""
    for model in MODELS.values():
        stepped, leapt = set(), set()
        agent = Thompson(PLAIN, Exact())
        spy = lambda called: Bandit(spied(model, tuple(methods(model)), called), arms=ARMS)  # noqa: B023, E731
        trace_stepping(Parts(agent=agent, env=spy(stepped)))
        if hasattr(model, "sample_summary"):
            with jax.enable_x64(True):
                key, theta = _random.as_key(0), jnp.zeros((ARMS, model.dim))
                jax.eval_shape(lambda: engine.draw_rewards(spy(leapt).model, key, theta, jnp.ones(ARMS, int), empty_of(model)))  # noqa: B023
                jax.eval_shape(lambda: spy(leapt).reset(key))  # noqa: B023
        for name in (stepped - leapt) & set(methods(model)):
            assert not hasattr(spied(model, (name,), set()), "sample_summary"), (model, name)


def empty_of(model: Any) -> Any:
    return jax.vmap(lambda single: single.empty())(stack(model, ARMS))


def test_the_contract_notices_an_ignored_override():
    """A belief whose closed laws are declared to rest on nothing."""
    plain = {
        name: getattr(Exact, name) for name in ("check_model", "init", "_held", "empty", "remember", "refresh", "draw", "laws")
    }
    Undeclared = module(
        type("Undeclared", (Belief,), plain | {"plain_memory": True, "starts_from_prior": True, "__annotations__": {}})
    )
    build = functools.partial(lambda b: Parts(model=PLAIN, belief=b))
    for belief, found in ((Undeclared(), ["draw", "remember"]), (Exact(), [])):
        stepping = functools.partial(calls, "belief", belief, build, trace_stepping)
        assert ignored("belief", belief, build, trace_leaping, leaping_refused, stepping) == found
