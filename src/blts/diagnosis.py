"""Convergence diagnostics of the chains of a refresh: the limits, and the warnings where one is exceeded.

Simulations, studies and live experiments use the same limits. They were calibrated on pools of chains known to be correct and on
pools known to be wrong; `tests/test_diagnosis.py` measures both again. Where each number is computed:

- `Pool.refresh` (in `agents`) runs the chains. `stuck_chains` there marks those that accept fewer than STUCK_ACCEPTANCE of their
  proposals or end more than STUCK_SDS from the median, `restarted` restarts them from the others, and `split_rhat` gives R-hat and
  the effective sample size. `Info.stuck` is the largest fraction of stuck chains of an arm; `Info.sound` compares with the limits;
- a model that is not `identifiable`, such as a network, has its chains compared by what they predict: "far", R-hat and effective
  sample sizes are then of its mean rewards at a few of the arm's rows, and not of θ. Of the weights of a network they would say
  nothing, because its hidden units can be swapped;
- `record.Diagnostics` keeps the worst of all refreshes of a replication, `Trace.summary` the worst replication;
- `live/learning.py` decides whether a live refresh is used.
"""

from __future__ import annotations

import math

RHAT_LIMIT = 4.0
"""Split R-hat compares means over a quarter of a run. The runs of a pool are short, so even correct pools reached 3.0 (`mala-ts` on
Laplace and Bernoulli arms; of 4,100 refreshes of the latter, those above 2 were as close to the exact posterior as the others). A
limit of 2.5 flagged 8 of 5,118 correct refreshes. Chains that have not found the posterior give 6 to 500."""
STUCK_ACCEPTANCE = 0.02
"""A chain with a smaller acceptance rate is stuck: none of 20 proposals. At an acceptance rate of 0.4 that has probability 4e-5."""
STUCK_SDS = 12.0
"""A chain that ends more than this many sds from the median of its pool is stuck too. The sd is estimated from the pool's median
absolute deviation, as for a normal distribution. With exponential tails 6 in a million draws are as far out."""
STUCK_LIMIT = 0.01
"""The largest fraction of an arm's chains that may be stuck without a warning: they restart from the others, and one may be
chance. The pools of 256 that went wrong had 16 or more."""
ACCEPTANCE_LIMIT = 0.15
"""The smallest acceptance rate, over all chains of an arm, without a warning: 20 steps are then 3 moves. Langevin proposals are
optimal near 0.57 and reasonable from 0.3 to 0.9."""


def warnings(
    refreshes: int, unsound: int, finite: bool, rhat: float = math.nan, stuck: float = math.nan, least: float = math.nan
) -> list[str]:
    """The warnings about refreshes, one sentence each.

    Args:
        refreshes: how many there were.
        unsound: how many exceeded a limit of this module.
        finite: whether all of them gave finite numbers.
        rhat: the largest R-hat; NaN where there are no chains to compare.
        stuck: the largest fraction of an arm's chains that are stuck.
        least: the smallest acceptance rate of an arm's chains.

    Returns:
        The sentences; empty if all is well.

    >>> from blts import diagnosis
    >>> diagnosis.warnings(10, 0, True, rhat=1.2)
    []
    """
    found = (
        []
        if finite
        else ["some refreshes were not finite; check that the model can give the rewards, or take a smaller step_size."]
    )
    why = failings(rhat, stuck, least)
    if why:
        found.append(
            f"in {unsound} of {refreshes} refreshes the draws are not those of the posterior ({'; '.join(why)}). "
            "Check that the model can give these rewards. If it can, give the chains more steps, or, if you chose a sampler or a "
            "belief, leave it out to use the default."
        )
    return found


def failings(rhat: float = math.nan, stuck: float = math.nan, least: float = math.nan, rhat_limit: float = RHAT_LIMIT) -> list[str]:
    """Which limits are exceeded.

    Args:
        rhat: the largest R-hat.
        stuck: the largest fraction of an arm's chains that are stuck.
        least: the smallest acceptance rate of an arm's chains.
        rhat_limit: the limit of R-hat.

    Returns:
        A phrase for each; NaN exceeds none.

    >>> from blts import diagnosis
    >>> diagnosis.failings(rhat=1.2, stuck=0.1)
    ["10 % of an arm's chains are stuck"]
    """
    found = []
    if rhat > rhat_limit:
        found.append(f"R-hat is {rhat:.3g}, above {rhat_limit:g}: the chains do not agree")
    if stuck > STUCK_LIMIT:
        found.append(f"{100 * stuck:.0f} % of an arm's chains are stuck")
    if least < ACCEPTANCE_LIMIT:
        found.append(f"an arm's chains accept {100 * least:.0f} % of their proposals")
    return found


def describe(acceptance: float, least: float, rhat: float, stuck: float, ess: float) -> str:
    """The diagnostics as a sentence.

    Args:
        acceptance: the mean acceptance rate.
        least: the smallest acceptance rate of an arm's chains.
        rhat: the largest R-hat.
        stuck: the largest fraction of an arm's chains that are stuck.
        ess: the smallest effective sample size of an arm.

    Returns:
        The sentence, without those that are NaN; empty if all are.
    """
    parts = []
    if math.isfinite(rhat):
        parts.append(f"R-hat at most {rhat:.2f}")
    if math.isfinite(ess):
        parts.append(f"at least {ess:.0f} effective draws an arm")
    if math.isfinite(least) and acceptance < 1:
        parts.append(f"acceptance {acceptance:.2f}, at least {least:.2f} for every arm")
    if math.isfinite(stuck):
        parts.append("no chain stuck" if stuck == 0 else f"at most {100 * stuck:.1f} % of an arm's chains stuck")
    return f"Chains: {', '.join(parts)}." if parts else ""
