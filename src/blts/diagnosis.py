"""When the chains of a refresh may be believed: the limits, and what is said where one is passed.

Simulations, studies and live experiments judge by these. They were set on pools known to be right and on pools known to be
wrong; `tests/test_diagnosis.py` measures both again.
"""

from __future__ import annotations

import math

RHAT_LIMIT = 4.0
"""Split R-hat compares means over a quarter of a run, and a pool's run is short: five or ten correlated steps do not see a whole
posterior. Right pools were seen up to 3.0 (`mala-ts` on Laplace and Bernoulli arms; of 4,100 refreshes of the latter, those above
2 were as near to the exact posterior as the others), and a limit of 2.5 warned of 8 in 5,118. Chains that have not found the
posterior give 6 to 500."""
STUCK_ACCEPTANCE = 0.02
"""A chain that accepts fewer of its proposals is stuck: none of 20. At a healthy acceptance of 0.4 that has probability 4e-5."""
STUCK_SDS = 12.0
"""A chain that ends this many sds from the median of its pool is stuck too, the sd being that of a normal law with the pool's
median absolute deviation. Of exponential tails, the heaviest that usual priors have on the real line, 6 in a million are as far."""
STUCK_LIMIT = 0.01
"""The share of an arm's chains that may be stuck. They are started again from the others, and one chain that the chance above
stops is no reason to warn; the pools of 256 that went wrong had 16 and more."""
ACCEPTANCE_LIMIT = 0.15
"""Below it, over all chains of an arm, 20 steps are 3 moves. Langevin proposals are best near 0.57 and fair from 0.3 to 0.9."""


def warnings(
    refreshes: int, unsound: int, finite: bool, rhat: float = math.nan, stuck: float = math.nan, least: float = math.nan
) -> list[str]:
    """What a person must know before using the numbers: one sentence for each way in which refreshes failed.

    Args:
        refreshes: how many there were.
        unsound: how many passed a limit of this module.
        finite: whether all of them gave finite numbers.
        rhat: the largest R-hat; NaN where there are no chains to compare.
        stuck: the largest share of stuck chains among those of an arm.
        least: the smallest acceptance of an arm's chains.
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
    """Which limits these figures pass, in words. NaN passes none."""
    found = []
    if rhat > rhat_limit:
        found.append(f"R-hat is {rhat:.3g}, above {rhat_limit:g}: the chains do not agree")
    if stuck > STUCK_LIMIT:
        found.append(f"{100 * stuck:.0f} % of an arm's chains are stuck")
    if least < ACCEPTANCE_LIMIT:
        found.append(f"an arm's chains accept {100 * least:.0f} % of their proposals")
    return found


def describe(acceptance: float, least: float, rhat: float, stuck: float, ess: float) -> str:
    """The figures themselves as a sentence; empty where there are none."""
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
