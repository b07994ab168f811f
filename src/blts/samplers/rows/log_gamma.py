"""Rows by Metropolis-adjusted Langevin on the logarithms of Gamma variables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..._module import array, at_least, module, positive, static
from ..._typing import Array, Bool, Float, Key, Numbers
from ..mirror import smallest
from .base import BLOCK, Draw, Lanes, LogPrior, RowSampler, by_state, fold_each, normals, softmax, uniforms


@module
class LogGammaRows(RowSampler):
    """Metropolis-adjusted Langevin on the logarithms of the Gamma variables whose shares are the row.

    x = softmax(z) is Dirichlet(a) when e^z are independent Gamma(a). With z = log a + t, U(t) = a (e^t - t), and each
    coordinate proposes

        t' = t - h min(e^t - 1, 1) + √(2h/a) ξ,    h = step,

    and is accepted on its own. All terms of the test are small numbers times a, so float32 serves up to n = 10⁷ and beyond.
    The drift is bounded (Roberts and Tweedie's truncated MALA): e^t has none, and far to the right a full step would
    always be refused. Shapes below 1 run at a + 1 and come back by log G(a) = log G(a + 1) + log(V)/a, V uniform, which is
    exact; so the number of steps depends neither on n nor on alpha. From the normal law at the mode, 6 steps of 1.4
    leave a distance of 0.01 sd at a = 1 and less at any other.

    With a `log_prior` e(x), the step above is a proposal that keeps Dirichlet(a) and is reversible, so accepting the whole row
    with probability min(1, exp(e(x') - e(x))) is exact (delayed acceptance). The chain then starts at `start`, and its step
    goes through 1, 1/4 and 1/16 of `step`: rows that the long steps refuse move by the short ones. V becomes the state
    of an autoregression, -log V = (u² + v²)/2 with u, v normal.

    Args:
        steps: how many steps a refresh takes; None for 6, and 150 with a log_prior.
        step: h.

    >>> from blts import PSRL, LogGammaRows, Rows, Tabular
    >>> from blts.envs import riverswim
    >>> agent = PSRL(Tabular(riverswim(states=6).rewards), Rows(LogGammaRows()))
    >>> agent.actions
    2
    """

    steps: int | None = static(default=None)
    """None means 6, and 150 with a log_prior."""
    step: Numbers = array(default=1.4)

    def check(self):
        positive(self, "step")
        if self.steps is not None:
            at_least(self, "steps", 1)

    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw:
        a = by_state(alpha, counts)
        if log_prior is None:
            return self._product(keys, a)
        # In blocks of one width whatever the number of lanes: the user's own sums are then fused, and rounded, in one way.
        lanes = a.shape[1]
        blocks = jnp.minimum(jnp.arange(-(-lanes // BLOCK) * BLOCK), lanes - 1).reshape(-1, BLOCK)
        run = lambda lane: self._delayed(keys[lane], a[:, lane], start[lane].astype(a.dtype).T, log_prior)  # noqa: E731
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:lanes], lax.map(run, blocks))

    def _product(self, keys, a: Float[Array, "S lanes"]) -> Draw:
        steps = 6 if self.steps is None else self.steps
        S, b = a.shape[0], lifted(a)

        def body(i, carry):
            t, accepted = carry
            xi, log_u = normals(fold_each(keys, 2 * i), S), jnp.log(uniforms(fold_each(keys, 2 * i + 1), S))
            t, accept = metropolis(self.step, b, t, xi, log_u)
            return t, accepted + accept

        t = normals(fold_each(keys, 2 * steps), S) / jnp.sqrt(b)
        t, accepted = lax.fori_loop(0, steps, body, (t, jnp.zeros_like(a)))
        log_v = jnp.log1p(-uniforms(fold_each(keys, 2 * steps + 1), S))
        return Draw(_shares(a, b, t, -log_v).T, jnp.mean(accepted, 0) / steps)

    def _delayed(self, keys, a: Float[Array, "S lanes"], start: Float[Array, "S lanes"], log_prior: LogPrior) -> Draw:
        steps = 150 if self.steps is None else self.steps
        S, b = a.shape[0], lifted(a)

        def extra(x: Float[Array, "S lanes"]) -> Float[Array, " lanes"]:
            e = jax.vmap(log_prior, in_axes=1)(x)
            return jnp.where(jnp.isnan(e), -jnp.inf, e)

        def body(i, carry):
            t, u, v, x, e, accepted = carry
            part = 0.25 ** (i % 3)
            xi, eta, zeta = jnp.split(normals(fold_each(keys, 2 * i), 3 * S), 3)
            log_u = jnp.log(uniforms(fold_each(keys, 2 * i + 1), S + 1))
            new_t, _ = metropolis(self.step * part, b, t, xi, log_u[:S])
            new_u, new_v = (jnp.sqrt(1 - part) * g + jnp.sqrt(part) * noise for g, noise in ((u, eta), (v, zeta)))
            new_x = _shares(a, b, new_t, (new_u**2 + new_v**2) / 2)
            new_e = extra(new_x)
            accept = _whole_row(log_u[S], e, new_e)
            kept = lambda new, old: jnp.where(accept, new, old)  # noqa: E731
            return *map(kept, (new_t, new_u, new_v, new_x, new_e), (t, u, v, x, e)), accepted + accept

        # The total of the Gammas is Gamma(A), here by the cube of a normal (Wilson and Hilferty): enough for a start.
        A = jnp.sum(a, 0)
        root = 1 - 1 / (9 * A) + normals(fold_each(keys, 2 * steps), 1)[0] / (3 * jnp.sqrt(A))
        z = jnp.log(jnp.maximum(start, smallest(start))) + jnp.log(A) + 3 * jnp.log(jnp.maximum(root, 0.1))
        # Given G(a), G(a + 1) is G(a) plus an exponential variable, and V = (G(a)/G(a + 1))^a.
        exponential = -jnp.log1p(-uniforms(fold_each(keys, 2 * steps + 1), S))
        top = jnp.where(a < 1, jnp.logaddexp(z, jnp.log(exponential)), z)
        minus_log_v = jnp.where(a < 1, a * (top - z), 0.0)
        # A start that new counts have left far behind would spend its steps on the way.
        t = jnp.clip(top - jnp.log(b), -8 / jnp.sqrt(b), 4 / jnp.sqrt(b))
        u, v = jnp.sqrt(2 * minus_log_v), jnp.zeros_like(a)
        x = _shares(a, b, t, minus_log_v)
        *_, x, _, accepted = lax.fori_loop(0, steps, body, (t, u, v, x, extra(x), jnp.zeros(a.shape[1])))
        return Draw(x.T, accepted / steps)


def lifted(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """The shape at which the chain runs: at least 1, where log G is nearly normal."""
    return jnp.where(a < 1, a + 1, a)


def metropolis(step, a, t, xi, log_u) -> tuple[Array, Bool[Array, "..."]]:
    """One step on U(t) = a (e^t - t), each number on its own."""
    drift = lambda rise: -step * jnp.minimum(rise, 1.0)  # noqa: E731
    noise = jnp.sqrt(2 * step / a) * xi
    rise = jnp.expm1(t)
    change = drift(rise) + noise
    growth = jnp.expm1(change)
    new_rise = rise + (1 + rise) * growth
    back = change + drift(new_rise)
    log_q = a * (noise - back) * (noise + back) / (4 * step)
    log_ratio = a * (change - growth - rise * growth) + log_q
    accept = _accepts(log_u, log_ratio)
    return jnp.where(accept, t + change, t), accept


def _accepts(log_u, log_ratio) -> Bool[Array, "..."]:
    return log_u < log_ratio  # NaN is refused


def _whole_row(log_u, e, new_e) -> Bool[Array, " lanes"]:
    """A row where e is -∞ goes anywhere, until it is in the support."""
    return (log_u < new_e - e) | (e == -jnp.inf)


def _shares(a, b, t, minus_log_v) -> Float[Array, "S lanes"]:
    """The row: shares of G(a) = b e^t · V^(1/a), the last factor only where b = a + 1."""
    z = t + jnp.log(b / jnp.max(b, 0)) - jnp.where(a < 1, minus_log_v / a, 0.0)
    return softmax(z)
