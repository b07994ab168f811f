"""The paper's Gaussian bandit by hand in NumPy, vectorised over replications: what a careful user would write without blts.

All replications play round t together; a replication whose batch closes learns at once, gathered with the others that
are due. Everything is float32, which is faster here than float64 and is what blts uses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STEPS, MINIBATCH, STEP_SIZE = 50, 32, 0.1


class Instance(NamedTuple):
    """Arms N(means, sd²), or Laplace with the scale `sd`, and the agent's prior N(prior_mean, 1/prior_precision)."""

    means: np.ndarray
    prior_mean: np.ndarray
    prior_precision: float
    sd: float
    laplace: bool = False

    @staticmethod
    def paper(arms: int = 15) -> Instance:
        """The paper's instance with its informative prior, written out again: only then is it a check of blts' own."""
        return Instance(np.linspace(1, 20, arms, dtype=np.float32), np.linspace(14, 20, arms, dtype=np.float32), 0.375, 0.5)

    @staticmethod
    def paper_laplace() -> Instance:
        """The paper's Laplace instance, likewise."""
        means, prior = np.linspace(1, 10, 10, dtype=np.float32), np.linspace(4, 10, 10, dtype=np.float32)
        return Instance(means, prior, 0.875, 0.8 / 2**0.5, laplace=True)


class Runs(NamedTuple):
    regret: np.ndarray
    """Cumulative regret, `[replications, horizon]`."""
    batches: np.ndarray


class Doubling:
    """Algorithm 2: a batch closes when the arm just played reaches its next power of two. No other arm's count moved."""

    def __init__(self, replications: int, arms: int):
        self.rows = np.arange(replications)
        self.plays = np.zeros((replications, arms), np.int32)
        self.next = np.ones((replications, arms), np.int32)

    def closed(self, action: np.ndarray) -> np.ndarray:
        self.plays[self.rows, action] += 1
        due = np.flatnonzero(self.plays[self.rows, action] == self.next[self.rows, action])
        self.next[due, action[due]] *= 2
        return due


class Sequential:
    """Every round is a batch."""

    def __init__(self, replications: int, arms: int):
        self.rows = np.arange(replications)

    def closed(self, action: np.ndarray) -> np.ndarray:
        return self.rows


SCHEMES = {"sequential": Sequential, "dynamic": Doubling}


class Exact:
    """The conjugate posterior: sums are updated every round, means and sds only where a batch has closed."""

    def __init__(self, rng: np.random.Generator, instance: Instance, replications: int, horizon: int):
        arms = instance.means.size
        self.rng, self.instance, self.rows = rng, instance, np.arange(replications)
        self.noise_precision = np.float32(instance.sd**-2)
        self.precision = np.full((replications, arms), instance.prior_precision, np.float32)
        self.weighted = self.precision * instance.prior_mean
        self.mean = np.tile(instance.prior_mean, (replications, 1))
        self.sd = self.precision**-0.5
        self.theta = np.empty_like(self.mean)

    def act(self) -> np.ndarray:
        self.rng.standard_normal(out=self.theta, dtype=np.float32)
        self.theta *= self.sd
        self.theta += self.mean
        return self.theta.argmax(1)

    def remember(self, action: np.ndarray, reward: np.ndarray) -> None:
        self.precision[self.rows, action] += self.noise_precision
        self.weighted[self.rows, action] += self.noise_precision * reward

    def observe(self, due: np.ndarray, action: np.ndarray) -> None:
        if due.size == self.rows.size:  # one new reward a replication, or a rare coincidence in which all arms are due
            self.mean[...] = self.weighted / self.precision
            self.sd[...] = 1 / np.sqrt(self.precision)
        else:
            precision = self.precision[due]
            self.mean[due] = self.weighted[due] / precision
            self.sd[due] = 1 / np.sqrt(precision)


class ExactSequential(Exact):
    """One new reward a round changes one arm's posterior, so only that arm is computed."""

    def observe(self, due: np.ndarray, action: np.ndarray) -> None:
        precision = self.precision[self.rows, action]
        self.mean[self.rows, action] = self.weighted[self.rows, action] / precision
        self.sd[self.rows, action] = 1 / np.sqrt(precision)


class SGLD:
    """BLTS: Algorithm 1's chain for every arm with data at a refresh, N(θ, 1/(n L γ)) with γ = 1 in between.

    The minibatch gradient is a sum over rows, as it is for any log-density. While n ≤ 32 the rows are all the arm's, so
    they are gathered once and not at every step. `sums=True` goes further, where only a Gaussian can follow: its
    gradient needs no more than the sum of the rows.
    """

    sums = False

    def __init__(self, rng: np.random.Generator, instance: Instance, replications: int, horizon: int):
        arms = instance.means.size
        self.rng, self.instance, self.rows = rng, instance, np.arange(replications)
        self.noise_precision = np.float32(instance.sd**-2)
        self.n = np.zeros((replications, arms), np.int32)
        self.rewards = np.zeros((replications, arms, horizon), np.float32)
        # The prior is drawn from where there is no data, and every chain starts at a prior draw.
        self.mean = np.tile(instance.prior_mean, (replications, 1))
        self.sd = np.full((replications, arms), instance.prior_precision**-0.5, np.float32)
        self.chain = self.mean + self.sd * rng.standard_normal(self.mean.shape, np.float32)
        self.theta = np.empty_like(self.mean)

    act = Exact.act

    def remember(self, action: np.ndarray, reward: np.ndarray) -> None:
        place = self.n[self.rows, action]
        self.rewards[self.rows, action, place] = reward
        self.n[self.rows, action] = place + 1

    def observe(self, due: np.ndarray, action: np.ndarray) -> None:
        if due.size == 0:
            return
        n = self.n[due]
        for run, (i, arm) in ((self.few, np.nonzero((n > 0) & (n <= MINIBATCH))), (self.many, np.nonzero(n > MINIBATCH))):
            if i.size:
                row = due[i]
                end = run(row, arm, n[i, arm])
                self.chain[row, arm] = self.mean[row, arm] = end
                self.sd[row, arm] = 1 / np.sqrt(self.noise_precision * n[i, arm])

    def few(self, row: np.ndarray, arm: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Chains of arms whose every step sees all data."""
        data = self.rewards[row, arm, :MINIBATCH]  # unused places hold zeros
        filled = np.arange(MINIBATCH) < n[:, None]
        total = data.sum(1)

        def score(x: np.ndarray) -> np.ndarray:
            if self.sums:
                return total - n * x
            return np.einsum("ij,ij->i", self.slope(data - x[:, None]), filled)

        return self.steps(row, arm, n, score)

    def many(self, row: np.ndarray, arm: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Chains of arms whose every step sees a minibatch drawn with replacement."""
        capacity = self.rewards.shape[2]
        flat = self.rewards.reshape(-1)
        start = ((row * self.rewards.shape[1] + arm) * capacity)[:, None]
        high, weight = n.astype(np.float32)[:, None], (n / MINIBATCH).astype(np.float32)
        last = start + n[:, None] - 1

        def score(x: np.ndarray) -> np.ndarray:
            u = self.rng.random((row.size, MINIBATCH), np.float32)
            u *= high
            data = flat.take(np.minimum(start + u.astype(np.intp), last))  # u·n can round up to n
            if self.sums:
                return weight * (data.sum(1) - MINIBATCH * x)
            data -= x[:, None]
            return weight * self.slope(data).sum(1)

        return self.steps(row, arm, n, score)

    def slope(self, gap: np.ndarray) -> np.ndarray:
        """The derivative of a row's log-density at r - θ, in units of the noise precision."""
        return np.sign(gap) * np.float32(self.instance.sd) if self.instance.laplace else gap

    def steps(self, row: np.ndarray, arm: np.ndarray, n: np.ndarray, score) -> np.ndarray:
        x = self.chain[row, arm]
        prior_mean, prior_precision = self.instance.prior_mean[arm], np.float32(self.instance.prior_precision)
        h = (STEP_SIZE / (prior_precision + n * self.noise_precision)).astype(np.float32)
        noise = np.sqrt(2 * h) * self.rng.standard_normal((STEPS, row.size), np.float32)
        for xi in noise:
            x = x - h * (prior_precision * (x - prior_mean) - self.noise_precision * score(x)) + xi
        return x.astype(np.float32, copy=False)


class SGLDSums(SGLD):
    sums = True


AGENTS = {
    ("exact-ts", "sequential"): ExactSequential,
    ("exact-ts", "dynamic"): Exact,
    ("blts", "sequential"): SGLD,
    ("blts", "dynamic"): SGLD,
    ("blts-sums", "sequential"): SGLDSums,
    ("blts-sums", "dynamic"): SGLDSums,
}


def simulate(seed: int, agent: str, batching: str, *, horizon: int, replications: int, instance: Instance | None = None) -> Runs:
    """`replications` runs of `horizon` rounds."""
    instance = instance or Instance.paper()
    rng = np.random.Generator(np.random.SFC64(seed))  # NumPy's fastest generator
    means, arms = instance.means, instance.means.size
    gaps = means.max() - means
    learner = AGENTS[agent, batching](rng, instance, replications, horizon)
    scheme = SCHEMES[batching](replications, arms)
    regret = np.empty((horizon, replications), np.float32)
    batches = np.zeros(replications, np.int32)
    for t in range(horizon):
        action = learner.act()
        noise = rng.laplace(size=replications) if instance.laplace else rng.standard_normal(replications, np.float32)
        reward = means[action] + np.float32(instance.sd) * noise.astype(np.float32, copy=False)
        learner.remember(action, reward)
        due = scheme.closed(action)
        batches[due] += 1
        if t + 1 < horizon:  # what is learned after the last round decides nothing
            learner.observe(due, action)
        regret[t] = gaps[action]
    return Runs(regret.cumsum(0).T, batches)
