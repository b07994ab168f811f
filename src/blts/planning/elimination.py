"""Gain and bias of a policy by eliminating states (Grassmann, Taksar and Heyman 1985), for many models at once.

State n is eliminated by composing every transition into n with the next transition out of n, adding up reward and time. The
probability of leaving n, s_n = Σ_{j<n} p_nj, is computed as a sum and never as 1 − p_nn, so nothing cancels, however small the
probabilities. Where s_n is zero, n represents a closed class: it is kept as a root, with its own gain and h = 0. One pass thus
evaluates multichain policies too, which Howard's method meets on its way.

The models are the last axis: with few states, XLA vectorises over it on a CPU.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float

Values = Float[Array, "states lanes"]


def evaluate(chain: Float[Array, "states states lanes"], rewards: Values) -> tuple[Values, Values]:
    """The gain g and the bias h of Markov chains with rewards: P g = g and g + h = r + P h, with h = 0 at each root.

    Args:
        chain: transition matrices, with the models as the last axis.
        rewards: expected rewards per state, likewise.

    Returns:
        g and h.
    """
    S = chain.shape[0]
    nil = 4 * jnp.finfo(rewards.dtype).eps  # a class that is left with a probability below rounding error counts as closed
    index = jnp.arange(S)
    states = index[:, None]

    def eliminate(k, carry):
        # r and t: reward and time until the next state kept; w: probability that it is a root; v: w times that root's gain.
        P, r, t, w, v, leaving, root, own = carry
        n = S - 1 - k
        below = states < n
        row, into = jnp.where(below, P[n], 0.0), jnp.where(below, P[:, n], 0.0)
        s = w[n] + row.sum(0)
        closed = s <= nil
        s = jnp.where(closed, 1.0, s)
        gain = r[n] / t[n]
        factor = jnp.where(closed, 0.0, into / s)
        w, v = w + jnp.where(closed, into, factor * w[n]), v + jnp.where(closed, into * gain, factor * v[n])
        r, t = r + factor * r[n], t + factor * t[n]
        factor, row = lax.optimization_barrier((factor, row))  # computed once, not in every element of the next line
        P = jnp.where((index == n)[:, None] & below[:, None], factor[:, None], P + factor[:, None] * row)
        return P, r, t, w, v, leaving.at[n].set(s), root.at[n].set(closed), own.at[n].set(gain)

    ones, zeros = jnp.ones_like(rewards), jnp.zeros_like(rewards)
    start = (chain, rewards, ones, zeros, zeros, ones, jnp.zeros(rewards.shape, bool), zeros)
    # P is now its own factorisation: p_nj for j < n, and above the diagonal the factors by which n was carried over.
    P, _, _, _, v, leaving, root, own = lax.fori_loop(0, S, eliminate, start)

    def substitute(known, at_root):
        def step(n, x):
            total = known[n] + jnp.where(states < n, P[n] * x, 0.0).sum(0)
            return x.at[n].set(jnp.where(root[n], at_root[n], total / leaving[n]))

        return lax.fori_loop(0, S, step, zeros)

    def carry_over(k, rest):
        n = S - 1 - k
        return rest + jnp.where(states < n, P[:, n] * rest[n], 0.0)

    gain = substitute(v, own)
    return gain, substitute(lax.fori_loop(0, S, carry_over, rewards - gain), zeros)
