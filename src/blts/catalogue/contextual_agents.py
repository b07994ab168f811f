"""Named agents for bandits with contexts, beside those of all bandits. Each takes the world's own features, shared or not."""

from __future__ import annotations

from typing import Any

from .. import agents
from ..registry import register
from .setting import Setting

WITH_CONTEXTS = ("contextual",)


def _built(kind: type[agents.Thompson], on: Setting, belief: agents.Belief | None = None, **options: Any) -> agents.Thompson:
    return kind(on.model, belief, on.actions, on.shared, on.features, **options)  # type: ignore[arg-type]


@register("agent", "lin-ts", worlds=WITH_CONTEXTS)
def lin_ts(on: Setting, temperature=1.0):
    """Thompson sampling with exact draws of a linear model at a temperature: 1 is the posterior, more is wider."""
    return _built(agents.Thompson, on, agents.Tempered(agents.Exact(), temperature))


@register("agent", "laplace-ts", worlds=WITH_CONTEXTS)
def laplace_ts(on: Setting, temperature=1.0):
    """Thompson sampling with draws of the Laplace approximation at a temperature (Chapelle & Li 2011)."""
    return _built(agents.Thompson, on, agents.Tempered(agents.LaplaceApproximation(), temperature))


@register("agent", "lin-ucb", worlds=WITH_CONTEXTS)
def lin_ucb(on: Setting, width=1.0):
    """LinUCB: the mean of the exact posterior and `width` of its sds (Li et al. 2010)."""
    return _built(agents.UCB, on, agents.Exact(), width=width)


@register("agent", "oful", worlds=WITH_CONTEXTS)
def oful(on: Setting, delta=0.05, norm=1.0):
    """OFUL: linear UCB with the growing radius of Abbasi-Yadkori et al. (2011); |θ - prior mean| is at most `norm`."""
    return _built(agents.OFUL, on, agents.Exact(), delta=delta, norm=norm)


@register("agent", "logistic-ucb", worlds=WITH_CONTEXTS)
def logistic_ucb(on: Setting, width=1.0):
    """UCB on the Laplace approximation, for logistic and other models without an exact posterior."""
    return _built(agents.UCB, on, agents.LaplaceApproximation(), width=width)


@register("agent", "greedy", worlds=WITH_CONTEXTS)
def greedy(on: Setting):
    """The best estimate in every round: what random contexts explore by themselves."""
    return _built(agents.Greedy, on)


@register("agent", "contextual-eps-greedy", worlds=WITH_CONTEXTS)
def contextual_eps_greedy(on: Setting, c=1.0):
    """The best estimate, and any arm with probability ε = min(1, c·N/t)."""
    return _built(agents.Greedy, on, c=c)


@register("agent", "square-cb", worlds=WITH_CONTEXTS)
def square_cb(on: Setting, gamma=10.0):
    """Inverse gap weighting, γ = gamma·√t (SquareCB, Foster & Rakhlin 2020)."""
    return _built(agents.SquareCB, on, gamma=gamma)
