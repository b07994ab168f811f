"""Small MDPs, and oracles for them."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from blts.planning import Sparse, howard, plan


def riverswim(S=6, small=0.005, big=1.0):
    """Left never fails; right is against the stream. At most three successors."""
    after, prob, r = np.zeros((S, 2, 3), int), np.zeros((S, 2, 3)), np.zeros((S, 2))
    s = np.arange(S)
    after[:, 0] = np.maximum(s - 1, 0)[:, None]
    prob[:, 0, 0] = 1
    after[:, 1] = np.stack([np.maximum(s - 1, 0), s, np.minimum(s + 1, S - 1)], 1)
    prob[:, 1] = 0.05, 0.6, 0.35
    prob[0, 1], prob[-1, 1] = (0, 0.4, 0.6), (0.4, 0.6, 0)
    r[0, 0], r[-1, 1] = small, big
    return Sparse(after, prob), r


def full(transitions):
    if not isinstance(transitions, Sparse):
        return transitions
    S, A, K = transitions.next.shape
    P = np.zeros((S, A, S))
    for s, a, k in itertools.product(range(S), range(A), range(K)):
        P[s, a, transitions.next[s, a, k]] += transitions.prob[s, a, k]
    return P


def garnet(seed, S, A=3, K=4):
    rng = np.random.default_rng(seed)
    after = np.argsort(rng.random((S, A, S)), -1)[..., :K]
    after[:, 0, 0] = (np.arange(S) + 1) % S  # a cycle through all states: communicating
    return Sparse(after, rng.dirichlet(np.ones(K), (S, A))), rng.random((S, A))


def best_by_programme(P, r):
    """max Σ x r over stationary frequencies of states and actions."""
    S, A = r.shape
    flow = np.repeat(np.eye(S), A, 1) - P.reshape(S * A, S).T
    found = optimize.linprog(
        -r.ravel(), A_eq=np.vstack([flow, np.ones(S * A)]), b_eq=np.append(np.zeros(S), 1), bounds=(0, None), method="highs"
    )
    assert found.success
    return -found.fun


def jitted(P, r, policy=None, max_iterations=100):
    """Howard's method in double precision; one compilation for all models of a shape."""
    policy = np.argmax(r, -1) if policy is None else np.asarray(policy)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, howard(jnp.asarray(P, float), jnp.asarray(r, float), policy, max_iterations=max_iterations))


def hot(P, r, policy=None, max_iterations=100, max_sweeps=2000):
    """The planner of sampled models, in single precision; one compilation for all models of a shape."""
    policy = np.argmax(r, -1) if policy is None else policy
    return plan(
        jnp.asarray(P, jnp.float32),
        jnp.asarray(r, jnp.float32),
        jnp.asarray(policy),
        max_iterations=max_iterations,
        max_sweeps=max_sweeps,
    )


def garnets(count=40):
    """Small ones, one after another, as tables and as dense arrays."""
    models = [garnet(seed, 5, 2, 3) for seed in range(count)]
    return models, np.stack([full(table) for table, _ in models]), np.stack([r for _, r in models])
