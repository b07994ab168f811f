"""Named stopping rules, which an agent is wrapped in. A builder takes the `Setting`, the agent, and its own options."""

from __future__ import annotations

from .. import agents
from ..registry import register
from .setting import Setting


@register("stopping rule", "evidence", worlds=("bandit",))
def evidence(on: Setting, agent: agents.Agent, error=0.05):
    """Stop at evidence for the best arm, wrong in at most `error` of the runs, at any means and however often one looks."""
    return agents.StopAtEvidence(agent, error, binary=on.env.support == "binary")


@register("stopping rule", "p-best", worlds=("bandit",))
def p_best(on: Setting, agent: agents.Agent, level=0.95):
    """Stop at posterior P(best) ≥ `level`: right on average over the prior, often wrong about arms that are nearly equal."""
    return agents.StopAtProbability(agent, on.model, level)


@register("stopping rule", "expected-loss", worlds=("bandit",))
def expected_loss(on: Setting, agent: agents.Agent, loss=0.01):
    """Stop at an arm that is expected to lose at most `loss` a round."""
    return agents.StopAtLoss(agent, on.model, loss)
