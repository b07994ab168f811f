# %% [markdown]
# # Your own model
#
# Three couriers, and a score for every delivery. Now and then something goes badly wrong, for reasons that are not the courier's. A Gaussian
# would be misled by these few. Student's t distribution is not, but it has no conjugate prior: this is what blts is for. A model is a
# prior and the log-density of one reward.

# %%
import jax
import jax.numpy as jnp
import numpy as np

from blts import Bandit, DoublingCounts, Exact, Gaussian, Thompson, compare, from_functions, paired, posterior, simulate

FREEDOM, SCALE = 2.5, 0.3


def log_prior(theta, guess):
    return -0.5 * (theta[0] - guess) ** 2


def log_likelihood(theta, reward, guess):
    return -0.5 * (FREEDOM + 1) * jnp.log1p(((reward - theta[0]) / SCALE) ** 2 / FREEDOM)


def sample(key, theta, guess):
    return theta[0] + SCALE * jax.random.t(key, FREEDOM)


curvature = (FREEDOM + 1) / (FREEDOM + 3) / SCALE**2  # the Fisher information of one reward
model = from_functions(log_prior, log_likelihood, L=curvature, sample=sample, guess=[0.0, 0.0, 0.0])
print(model)

# %% [markdown]
# Before it decides anything, look at what it believes. `posterior` draws from it, and `check` compares the draws with quadrature: a sampler
# that does not fit the model is found here and not in an experiment.

# %%
seen = np.array([0.9, 1.1, 1.4, 0.7, -9.0, 1.2])  # one delivery went wrong
believed = posterior(model, seen, arm=0)
print(believed)
print(believed.check())
print(f"the mean of the data is {seen.mean():.2f}, their median {np.median(seen):.2f}")

# %% [markdown]
# The delivery that went wrong took the mean of the data with it; the posterior stayed with the others.
#
# ## Does it matter?
#
# Two agents with the same couriers: one believes in Student's t, the other in a Gaussian with the sd that the rewards have.

# %% alt="Cumulative regret of Thompson sampling with Student's t below that with a Gaussian"
couriers = Bandit(model, theta=np.array([[0.0], [0.15], [0.3]]))
sd = SCALE * np.sqrt(FREEDOM / (FREEDOM - 2))
agents = {"Student's t": Thompson(model), "Gaussian": Thompson(Gaussian(prior_mean=np.zeros(3), sd=sd), Exact())}
traces = {name: simulate(0, couriers, agent, DoublingCounts(), horizon=200, replications=30) for name, agent in agents.items()}
print(paired(traces["Student's t"], traces["Gaussian"]))
compare(traces).plot()

# %% [markdown]
# **Next:** models from NumPyro distributions, what is checked, and what no diagnostic finds: [your own reward model](../howto-model.md).
