# %% [markdown]
# # With contexts
#
# A visitor arrives with features: the hour, the device, earlier visits. Which arm is best depends on them. What an arm pays is a function of
# its features φ(context, arm) and of a parameter θ that is learned.

# %%
from blts import Contextual, Determinant, DoublingCounts, Fixed, GaussianContexts, Linear, Sequential, Thompson, compare, simulate

model = Linear(prior_mean=[0.0, 0.0, 0.0], prior_sd=1.0, sd=0.5)
shop = Contextual(model, GaussianContexts([1.0, 1.0, 1.0]), arms=4)
agent = Thompson(model, arms=4)
print(shop)

# %% [markdown]
# ## When to learn
#
# Plays say little here: an arm may be played often in contexts that tell nothing new. The analogue of doubled plays is the *determinant* of
# the precision of θ: a batch ends when it has grown by a factor. It sees features and actions, never a reward.

# %%
schemes = {
    "every round": Sequential(),
    "determinant × 4": Determinant.of(agent, factor=4.0),
    "plays doubled": DoublingCounts(),
    "every 100 rounds": Fixed(100),
}
traces = {name: simulate(0, shop, agent, scheme, horizon=1000, replications=100) for name, scheme in schemes.items()}
print(compare(traces))

# %% alt="Cumulative regret with contexts: determinant and doubled plays close to every round, every 100 rounds far above"
compare(traces).plot()

# %% [markdown]
# ## One θ for all arms
#
# Fifty items with features of their own. A θ for each would need fifty times the data; one θ is shared by all, and a new item needs none.

# %%
items = GaussianContexts([0.6, 0.6, 0.6], arms=50)
store = Contextual(model, items, shared=True)
buyer = Thompson(model, arms=50, shared=True)
print(simulate(0, store, buyer, Determinant.of(buyer, factor=4.0), horizon=500, replications=50))

# %% [markdown]
# **Next:** your own contexts, logistic and neural models, logged data: [bandits with contexts](../howto-contextual.md).
