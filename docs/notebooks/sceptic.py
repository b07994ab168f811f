# %% [markdown]
# # Reading a report as a sceptic
#
# Somebody shows you an experiment with a winner. What would have to be true for it to be wrong? Five questions, each with the number that
# answers it.

# %%
import random

import numpy as np

from blts.live import Experiment


def run(rates: dict[str, float], seed: int, days: int = 8, units: int = 100) -> Experiment:
    """An experiment that ran, one batch a day."""
    chance = random.Random(seed)
    done = Experiment.create("sqlite://", f"test {seed}", list(rates), "conversions", batching="external", seed=seed, floor=0.05)
    for _ in range(days):
        done.tell([(d.id, chance.random() < rates[d.arm]) for d in done.ask(units).decisions])
        done.refresh()
    return done


# %% [markdown]
# ## 1. Would it name a winner where there is none?
#
# Run it with arms that are the same. If we looked every day and stopped at P(best) ≥ 0.95, how often would we be fooled? And how often by the
# report's own winner, which needs evidence that holds however often one looks?

# %%
fooled = named = 0
for seed in range(15):
    chance = random.Random(seed)
    same = Experiment.create("sqlite://", f"same {seed}", ["A", "B"], "conversions", batching="external", seed=seed, floor=0.05)
    looks, winners = [], []
    for _ in range(8):
        same.tell([(d.id, chance.random() < 0.2) for d in same.ask(100).decisions])
        same.refresh()
        report = same.report()
        looks.append(max(arm["p_best"] for arm in report["arms"]))
        winners.append(report["winner"])
    fooled += max(looks) >= 0.95
    named += any(winner is not None for winner in winners)
print(f"P(best) ≥ 0.95 on some day: {fooled} of 15 experiments; a winner by evidence: {named} of 15")

# %% [markdown]
# P(best) is a fair summary of what is known today. It is not a stopping rule.
#
# ## 2. Who was shown what?
#
# Adaptive allocation makes plain means biased: an arm with an unlucky start is played less and keeps its bad luck. Each decision has its
# probability, and IPW and AIPW undo that. Where the three differ much, ask why.

# %% alt="Three arms with posterior intervals, their plain means, and how the allocation moved"
shown = run({"A": 0.2, "B": 0.22, "C": 0.3}, seed=1)
report = shown.report()
for arm in report["arms"]:
    print(arm["arm"], *(f"{name} {arm[name]['value']:.3f} ± {arm[name]['se']:.3f}" for name in ("naive", "ipw", "aipw")))
report.plot()

# %% [markdown]
# ## 3. Are the shares what they should be?
#
# If units were lost on the way for one arm alone, nothing else in the report is to be believed.

# %%
print(report["sample_ratio"])

# %% [markdown]
# ## 4. What is still missing?

# %%
print(f"{report['pending']} rewards have not come; feedback is missing for a share of {report['missing_feedback_rate']}")

# %% [markdown]
# ## 5. How large is it, really?
#
# A winner may win by nothing that matters. Read the interval of the lift, not its middle.

# %%
best = max(report["arms"], key=lambda arm: arm["p_best"])
lift = best["lift"]["absolute"] if best["lift"] else None
print(report["recommendation"])
print(best["arm"], {name: float(np.round(lift[name], 3)) for name in ("value", "low", "high")} if lift else "is the control")

# %% [markdown]
# **Next:** [why propensities matter](../explanation/propensities.md) and [how we know that it is right](../explanation/correctness.md).
