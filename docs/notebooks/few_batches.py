# %% [markdown]
# # Bandits in few batches
#
# A bandit learns from the rewards of what it tried. If rewards reach it one by one, it can change its mind after every round. Often they
# do not: an e-mail campaign, a clinical trial or a nightly job sees them in batches. How much does it lose by seeing them seldom?

# %%
from blts import DoublingCounts, Fixed, Sequential, StaticDoubling, compare, condition, paired, simulate

env, agent, *_ = condition("gaussian", "exact-ts", "sequential", "informative")
print(env)
print(agent)

# %% [markdown]
# The agent is Thompson sampling: it draws the mean of every arm from its posterior and plays the arm whose draw is largest. Four batching
# schemes say when it sees the rewards of what it played. `DoublingCounts` is the paper's: a batch ends when the plays of some arm have
# doubled. The same key gives all of them the same bandits, so that differences are not luck.

# %%
schemes = {
    "every round": Sequential(),
    "plays doubled": DoublingCounts(),
    "rounds doubled": StaticDoubling(),
    "every 50 rounds": Fixed(50),
}
traces = {name: simulate(0, env, agent, scheme, horizon=650, replications=200) for name, scheme in schemes.items()}
comparison = compare(traces)
print(comparison)

# %% alt="Cumulative regret of four batching schemes: doubled plays lie on the curve of every round, doubled rounds above, every 50 rounds far above"
comparison.plot()

# %% [markdown]
# Batches of equal length are the worst choice: the first of them is played blindly. Batches that grow with the *rounds* do better. Batches
# that grow with the *plays of an arm* cost nothing that can be seen, and there are few of them:

# %%
for name in ("plays doubled", "rounds doubled", "every 50 rounds"):
    print(f"{name}: {traces[name].batches.mean():.1f} batches; {paired(traces[name], traces['every round'])}")

# %% [markdown]
# ## Where exact draws do not exist
#
# With rewards of a Laplace distribution there is no formula for the posterior. Langevin Thompson sampling draws from it with a Markov chain,
# and only at the ends of batches, so that few batches also mean few chains.

# %% alt="Regret of Langevin Thompson sampling on a Laplace bandit, every round and with doubled plays"
laplace = {}
for batching in ("sequential", "dynamic"):
    env, agent, scheme, *_ = condition("laplace", "blts", batching, "informative")
    laplace[batching] = simulate(0, env, agent, scheme, horizon=300, replications=100)
print(compare(laplace))
compare(laplace).plot()

# %% [markdown]
# **Next:** [your own model](own_model.md), or [the paper's tables](../paper.md), run again with one command.
