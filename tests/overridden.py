"""Parts whose overrides several files test."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from blts import _random, loop
from blts.agents import Discounted, Exact, Perturb, Pool, Restarting, Thompson, Windowed
from blts.batching import DoublingCounts
from blts.envs import Bandit
from blts.models import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    Linear,
    LogNormal,
    Poisson,
    StudentT,
    ZeroInflatedLogNormal,
)
from blts.samplers import mala, sgld, ula

ARMS, HORIZON = 3, 40

MODELS = {
    "Gaussian": Gaussian(prior_mean=[0.0, 0.5, 1.0]),
    "GaussianUnknownVariance": GaussianUnknownVariance(prior_mean=[0.0, 0.5, 1.0]),
    "Bernoulli": Bernoulli(a=[1.0, 2.0, 3.0]),
    "Poisson": Poisson(a=[1.0, 2.0, 3.0]),
    "Gamma": Gamma(a=[3.0, 4.0, 5.0]),
    "LogNormal": LogNormal(prior_mean=[0.0, 0.5, 1.0]),
    "ZeroInflatedLogNormal": ZeroInflatedLogNormal(prior_mean=[0.0, 0.5, 1.0]),
    "Linear": Linear(prior_mean=[0.0, 0.0], alpha=[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]),
    "Laplace": Laplace(prior_mean=[0.0, 0.5, 1.0]),
    "StudentT": StudentT(prior_mean=[0.0, 0.5, 1.0]),
}
BELIEFS = {"Exact": Exact(), "Perturb": Perturb(ula(steps=2)), "SGLD": Perturb(sgld(steps=2)), "Pool": Pool(mala(steps=2), 4)}
FORGETTING = {
    "Discounted": Discounted(Exact(), 0.9),
    "Windowed": Windowed(Pool(mala(steps=2), 4), 5),
    "Restarting": Restarting(Exact()),
}


def spied(value: Any, names: tuple[str, ...], called: set[str], *, facts: bool = False) -> Any:
    """The object as one of a subclass that overrides the named methods, doing the same and noting the calls; with `facts` it also
    states again what is declared of its base."""
    base = type(value)
    declared = {name for c in base.__mro__ for name, item in vars(c).items() if type(item) is type(vars(Exact)["plain_memory"])}
    body: dict[str, Any] = dict.fromkeys(declared, True) if facts else {}
    for name in names:
        if isinstance(getattr(base, name), property):
            body[name] = property(lambda self, name=name: (called.add(name), getattr(super(Sub, self), name))[1])
        else:

            def override(self, *args, name=name, **kwargs):
                called.add(name)
                return getattr(super(Sub, self), name)(*args, **kwargs)

            body[name] = override
    Sub = type(f"Spied{base.__name__}", (base,), body)
    return Sub(**{field.name: getattr(value, field.name) for field in dataclasses.fields(value)})


class Parts(dict):
    """An environment, an agent's model and belief, and a batching scheme: one of them spied upon."""

    @classmethod
    def with_belief(cls, belief, model):
        return cls(model=model, belief=belief)

    @property
    def env(self):
        return self["env"] if "env" in self else Bandit(self["model"], arms=ARMS)

    @property
    def agent(self):
        return self["agent"] if "agent" in self else Thompson(self["model"], self["belief"])

    @property
    def batching(self):
        return self.get("batching", DoublingCounts())


def times():
    return jnp.asarray([10, HORIZON])


def trace_stepping(parts: Parts) -> None:
    key = _random.as_key(0)
    run = lambda: loop.run(  # noqa: E731
        key, parts.env, parts.agent, parts.batching, times(), 0, horizon=HORIZON, replications=2, keep_actions=False
    )
    jax.eval_shape(run)


PLAIN = MODELS["Gaussian"]
