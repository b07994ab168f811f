# %% [markdown]
# # A live experiment from end to end
#
# Three subject lines for a mail. Ask for decisions, send, and tell what came back. Everything is stored before it is answered; asking or
# telling twice changes nothing. Here visitors are simulated, and time is ours to set.

# %%
import random

from blts.live import Experiment, Spec, rehearse

# %% [markdown]
# ## Before anything is created
#
# A rehearsal runs the whole experiment in memory many times, with arms that you assume, and says what you would conclude.

# %%
arms, settings = ["short", "long", "question"], {"batching": {"name": "fixed", "size": 150}, "floor": 0.05}
spec = Spec.of(arms, "conversions", **settings)
print(rehearse(spec, {"short": 0.10, "long": 0.10, "question": 0.22}, units=1500, per_day=150, replications=50))

# %% [markdown]
# ## Ten days

# %%
chance = random.Random(4)
RATES = {"short": 0.10, "long": 0.10, "question": 0.22}
mail = Experiment.create("sqlite:///mail.db", "mail", arms, "conversions", seed=4, **settings)
for day in range(10):
    answer = mail.ask(150, request_id=f"day {day}")
    mail.tell([(d.id, chance.random() < RATES[d.arm]) for d in answer.decisions])
    mail.refresh()

# %% [markdown]
# A network failed and day 9 is sent again, by mistake. The same request has the same answer, and rewards that are known are not counted twice.

# %%
again = mail.ask(150, request_id="day 9")
print([d.arm for d in again.decisions] == [d.arm for d in answer.decisions], mail.status()["decisions"])

# %% [markdown]
# ## What is known

# %% alt="Left: the three arms' posterior intervals with P(best). Right: the allocation of every policy, which moves to the best arm"
report = mail.report()
print(report["recommendation"])
report.plot()

# %% [markdown]
# ## Can it be trusted?
#
# `verify` computes every decision and refresh again from the ledger and compares them with what is stored, bit for bit.

# %%
print(mail.verify() or "nothing differs")

# %% [markdown]
# **Next:** windows, priors in your own units, guardrails and stopping rules, from the command line:
# [live experiments](../howto-live.md). Over HTTP with a dashboard: [the service](../howto-serve.md).
