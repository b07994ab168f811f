# %% [markdown]
# # Markov decision processes
#
# In a bandit an action earns a reward. In a Markov decision process it also changes the state, so that a good action may earn nothing for a
# while. RiverSwim is the standard example: the small reward is downstream and easy, the large one upstream and against the current. Who does
# not explore never finds it.

# %%
from blts import PSRL, DoubledSinceSwitch, ExactRows, LogGammaRows, Rows, StaticDoubling, Tabular, compare, simulate
from blts.envs import riverswim

river = riverswim(states=6)
print(river)
print(f"the best policy earns {river.gain:.3f} a round")

# %% [markdown]
# Posterior sampling (the paper's Algorithm 3) draws transition probabilities from their posterior, plans in the drawn MDP, and follows that
# policy until the next batch. A policy switch *is* the end of a batch: with `StaticDoubling` they come in rounds 1, 2, 4, …

# %%
agents = {
    "exact rows": PSRL(Tabular(river.rewards), Rows(ExactRows())),
    "Langevin rows": PSRL(Tabular(river.rewards), Rows(LogGammaRows())),
}
traces = {name: simulate(0, river, agent, StaticDoubling(), horizon=2047, replications=100) for name, agent in agents.items()}
for name, trace in traces.items():
    print(f"{name}: {trace.switches.mean():.0f} policies, {trace.mean_reward.mean():.3f} a round")

# %% [markdown]
# Rows of probabilities live on a simplex, where a plain Langevin step would leave it. The chain runs in other coordinates, and its regret
# cannot be told from that of exact draws.

# %% alt="Cumulative regret of posterior sampling with exact and with Langevin rows: the two curves lie within each other's bands"
compare(traces).plot()

# %% [markdown]
# ## When to switch
#
# Two rules: at doubled rounds, or when the visits of a state and action have doubled or the policy is older than the last one (TSDE). The
# second plans more often and learns sooner.

# %%
tsde = simulate(0, river, agents["Langevin rows"], DoubledSinceSwitch.tsde(states=6), horizon=2047, replications=100)
print(compare({"doubled rounds": traces["Langevin rows"], "TSDE": tsde}))

# %% [markdown]
# **Next:** an MDP with a parameter vector, from one function: [your own Markov decision process](../howto-mdp.md).
