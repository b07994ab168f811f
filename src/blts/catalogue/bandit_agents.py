"""Named agents for bandits. A builder takes the `Setting` (`on`) and its own options, which `--set` changes.

`forget` is what Thompson sampling forgets, such as "window 800" (see `forgetting`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .. import agents, samplers
from ..errors import ConfigError
from ..registry import build, register
from .forgetting import forgetting
from .setting import Setting


def _thompson(on: Setting, belief: Any, forget: str | None) -> agents.Thompson:
    return agents.Thompson(on.model, forgetting(belief, forget), on.actions, on.shared, on.features)


def _belief(on: Setting, chain: samplers.Chain, gamma: float | str | None, pool: int) -> Any:
    """A pool of chain ends, or draws around one of them, with γ = 1 unless it is given: the paper's experiments.

    With contexts, and no γ, half of the posterior's covariance is the chain's and half that of the draws around its end: with
    γ = 1 each has all of it, and agents lose a fifth more than exact draws do.
    """
    if pool:
        return agents.Pool(chain, pool)
    if gamma is None and on.model.contextual:
        half = dataclasses.replace(chain.kernel, temperature=0.5)  # type: ignore[call-arg]
        return agents.Perturb(dataclasses.replace(chain, kernel=half), 2.0)
    return agents.Perturb(chain, 1.0 if gamma is None else gamma)


def _controlled(on: Setting, minibatch: int | str | None, control_variate: bool | None) -> bool:
    """Whether minibatch gradients have a control variate: if nothing is said, with contexts alone.

    One θ for all arms sees the rows of all of them. With thousands of rows and minibatches of 32, the noise of gradients without
    one is several times that of the chain itself.
    """
    return (on.model.contextual and minibatch is not None) if control_variate is None else control_variate


@register("agent", "blts")
def blts(on: Setting, step_size=0.1, steps=50, minibatch=32, gamma=None, pool=0, control_variate=None, forget=None):
    """Langevin Thompson sampling with SGLD (Algorithms 1 and 2); with dynamic batching this is BLTS."""
    chain = samplers.sgld(step_size, steps, minibatch, control_variate=_controlled(on, minibatch, control_variate))
    return _thompson(on, _belief(on, chain, gamma, pool), forget)


@register("agent", "thompson")
def thompson(on: Setting, pool=256, steps=agents.beliefs.DEFAULT_STEPS, sampler=None, forget=None):
    """Thompson sampling with exact draws where the model has them, and a pool of adjusted chains around the modes elsewhere.

    With the name of a sampler as `sampler`, a pool of its chains for every model.
    """
    if sampler is None:
        return _thompson(on, agents.beliefs.default_belief(on.model, pool, steps), forget)
    chain = dataclasses.replace(build("sampler", sampler), steps=steps)
    return _thompson(on, agents.Pool(chain, pool), forget)


@register("agent", "exact-ts")
def exact_ts(on: Setting, forget=None):
    """Thompson sampling with exact posterior draws, for conjugate models."""
    return _thompson(on, agents.Exact(), forget)


@register("agent", "top-two", worlds=("bandit",))
def top_two(on: Setting, leader=0.5):
    """Top-two Thompson sampling (T3C): finds the best arm sooner and earns less meanwhile."""
    return agents.TopTwo(on.model, None, on.actions, leader=leader)  # type: ignore[arg-type]


@register("agent", "ula-ts")
def ula_ts(on: Setting, step_size=0.1, steps=50, gamma=None, pool=0, forget=None):
    """Thompson sampling with the unadjusted Langevin algorithm on all data."""
    return _thompson(on, _belief(on, samplers.ula(step_size, steps), gamma, pool), forget)


@register("agent", "mala-ts")
def mala_ts(on: Setting, step_size=0.5, steps=20, gamma=1.0, pool=64, forget=None):
    """Thompson sampling with a pool of Metropolis-adjusted Langevin chains on all data."""
    return _thompson(on, _belief(on, samplers.mala(step_size, steps), gamma, pool), forget)


@register("agent", "baoab-ts")
def baoab_ts(
    on: Setting, step_size=0.8, friction=1.4, steps=20, minibatch=None, gamma=None, pool=64, control_variate=None, forget=None
):
    """Thompson sampling with a pool of underdamped Langevin chains (BAOAB), on all data or on minibatches."""
    controlled = _controlled(on, minibatch, control_variate)
    chain = samplers.baoab(step_size, steps, minibatch, friction=friction, control_variate=controlled)
    return _thompson(on, _belief(on, chain, gamma, pool), forget)


@register("agent", "private-ts", batching="static")
def private_ts(on: Setting, rho=1.0, low=None, high=None, norm=1.0, rows=1, pool=0, steps=50):
    """Thompson sampling on sums released at batch ends with noise for `rho`-zCDP, of rewards clipped to `low` … `high`.

    With contexts, features are clipped to the norm `norm`. With `pool`, that many Langevin chains an arm in place of exact draws.
    """
    if low is None or high is None:
        raise ConfigError("private-ts clips rewards, and must know to what; give low and high, such as low=0 and high=1.")
    belief = agents.Pool(samplers.ula(steps=steps), pool) if pool else agents.Exact()
    return _thompson(on, agents.Private(belief, rho, low, high, norm, rows), None)


register("agent", "ucb1", "UCB1: bonus on plays, mean on observed rewards.", prior=False)(agents.UCB1)
register(
    "agent",
    "bayes-ucb",
    "Bayes-UCB: the posterior quantile 1 - 1/(t (log T)^c), for models with a closed law of the mean reward.",
    worlds=("bandit",),
)(agents.BayesUCB)
register("agent", "eps-greedy", "Decaying ε-greedy: ε = min(1, c·N/t).", prior=False)(agents.EpsilonGreedy)
register("agent", "base", "Batched successive elimination (BaSE, Gao et al. 2019).", prior=False)(agents.SuccessiveElimination)
register(
    "agent",
    "sequential-halving",
    "Sequential halving: the best arm with a fixed budget, the worse half dropped after each batch.",
    prior=False,
    worlds=("bandit",),
    batching="halving",
)(agents.SequentialHalving)
register("agent", "uniform", "Every arm with the same probability.", prior=False)(agents.Uniform)
