"""Draws of transition rows: every (replication, state, action) is a lane with a key of its own.

The posterior of a row is Dirichlet(a), a = alpha + counts, times e^{log_prior(x)} where the user adds a log-density of his
own. Inside, rows have shape [S, lanes]: sums over the states are then straight vector code, ten times faster on a CPU
than over a short last axis. What a lane gets does not depend on which lanes run beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._module import array, at_least, module, positive, static
from .._typing import Array, Bool, Float, Int, Key, Numbers, Scalar
from ..errors import ConfigError
from .base import Potential
from .langevin import Langevin
from .mirror import Entropic, smallest
from .mirrored import Mirrored

Row = Float[Array, " S"]
Lanes = Float[Array, "lanes S"]
LogPrior = Callable[[Row], Scalar]
Steps = int | Callable[[Row], Any] | str

BLOCK = 512  # lanes that run together: long enough for vectors, short enough that few wait for the longest
MOST_STEPS = 2**30


class Draw(NamedTuple):
    rows: Lanes
    acceptance: Float[Array, " lanes"]
    """Share of accepted proposals; 1 where nothing is refused."""


class RowSampler(Protocol):
    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw: ...


@module
class ExactRows:
    """Dirichlet(alpha + counts) from Gamma variables, normalised in logarithms so that small shapes do not underflow.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.samplers.rows import ExactRows
    >>> counts = jnp.array([[0, 10, 90]])
    >>> rows, _ = ExactRows().draw(random.split(random.key(0), 1), jnp.ones((1, 3)), counts, jnp.full((1, 3), 1 / 3))
    >>> bool(jnp.allclose(rows.sum(1), 1))
    True
    """

    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw:
        del start
        if log_prior is not None:
            raise ConfigError("ExactRows: a log_prior of the row is not conjugate; use LogGammaRows or MirroredRows.")
        a = _by_state(alpha, counts)
        # A loop over the states, so that the draws are in memory before each of them is looked at S times.
        log_g = lax.map(lambda at: jax.vmap(_random.log_gamma)(_fold(keys, at[0]), at[1]), (jnp.arange(a.shape[0]), a))
        return Draw(_softmax(log_g).T, jnp.ones(a.shape[1]))


@module
class LogGammaRows:
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
        a = _by_state(alpha, counts)
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
            xi, log_u = _noise(_fold(keys, 2 * i), S), jnp.log(_uniform(_fold(keys, 2 * i + 1), S))
            t, accept = metropolis(self.step, b, t, xi, log_u)
            return t, accepted + accept

        t = _noise(_fold(keys, 2 * steps), S) / jnp.sqrt(b)
        t, accepted = lax.fori_loop(0, steps, body, (t, jnp.zeros_like(a)))
        log_v = jnp.log1p(-_uniform(_fold(keys, 2 * steps + 1), S))
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
            xi, eta, zeta = jnp.split(_noise(_fold(keys, 2 * i), 3 * S), 3)
            log_u = jnp.log(_uniform(_fold(keys, 2 * i + 1), S + 1))
            new_t, _ = metropolis(self.step * part, b, t, xi, log_u[:S])
            new_u, new_v = (jnp.sqrt(1 - part) * g + jnp.sqrt(part) * noise for g, noise in ((u, eta), (v, zeta)))
            new_x = _shares(a, b, new_t, (new_u**2 + new_v**2) / 2)
            new_e = extra(new_x)
            accept = _whole_row(log_u[S], e, new_e)
            kept = lambda new, old: jnp.where(accept, new, old)  # noqa: E731
            return *map(kept, (new_t, new_u, new_v, new_x, new_e), (t, u, v, x, e)), accepted + accept

        # The total of the Gammas is Gamma(A), here by the cube of a normal (Wilson and Hilferty): enough for a start.
        A = jnp.sum(a, 0)
        root = 1 - 1 / (9 * A) + _noise(_fold(keys, 2 * steps), 1)[0] / (3 * jnp.sqrt(A))
        z = jnp.log(jnp.maximum(start, smallest(start))) + jnp.log(A) + 3 * jnp.log(jnp.maximum(root, 0.1))
        # Given G(a), G(a + 1) is G(a) plus an exponential variable, and V = (G(a)/G(a + 1))^a.
        exponential = -jnp.log1p(-_uniform(_fold(keys, 2 * steps + 1), S))
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
    return _softmax(z)


def _softmax(z: Float[Array, "S lanes"]) -> Float[Array, "S lanes"]:
    """Over the states, written out: a reduction is fused in ways that round differently for other numbers of lanes."""
    e = jnp.exp(z - reduce(jnp.maximum, list(z)))
    return e / reduce(jnp.add, list(e))


def _by_state(alpha: Lanes, counts: Lanes) -> Float[Array, "S lanes"]:
    return (jnp.asarray(alpha, float) + jnp.asarray(counts)).T


def _fold(keys: Key[Array, " lanes"], i: Int[Array, ""] | int) -> Key[Array, " lanes"]:
    return jax.vmap(lambda key: _random.fold_in(key, i))(keys)


def _noise(keys: Key[Array, " lanes"], S: int) -> Float[Array, "S lanes"]:
    return jax.vmap(lambda key: _random.normal(key, (S,)), out_axes=1)(keys)


def _uniform(keys: Key[Array, " lanes"], S: int) -> Float[Array, "S lanes"]:
    return jax.vmap(lambda key: _random.uniform(key, (S,)), out_axes=1)(keys)


@module
class MirroredRows:
    """Mirrored Langevin with the entropic map (Algorithm 4), unadjusted: `Mirrored(Langevin(step), Entropic())` on each row.

    In the dual, y_l = log(x_l/x_r) with r the largest a of the row, W(y) = A log(1 + Σe^y) - Σ a_l y_l and ∇W = A x - a, with
    A = Σa. The step is `step`/A. With many counts a step of 0.5 makes the variance at most 14 % too large, 0.2 at most 5 %.

    A coordinate forgets its start at the rate step · a_l/A an iteration, so `"paper"` takes 4/step · A/min(a) of them: a fixed
    number when each state has its share of the counts, and proportional to n, the theorem's O(n), as soon as one has none
    (8n/alpha with the step of 0.5). From rows drawn at half the counts that leaves 0.06 sd; a start that is d sds
    off needs log(d) A/(step · min a) more. `steps` may also be a number, or a function of one row's a.

    `minibatch=b` takes the gradient from b transitions, drawn with replacement once there are more than b. In these
    coordinates mirrored Langevin is SGLD on softmax parameters with a reference category, so the paper's other option,
    reparameterised SGLD, is this one. Counts are sufficient and the full gradient costs less, so it serves comparison only:
    its noise grows with n² and the posterior does not concentrate as it should.

    Args:
        step: step size of the dual chain.
        steps: how many steps a refresh takes.
        minibatch: how many transitions a gradient is estimated from; None for all.
    """

    step: Numbers = array(default=0.5)
    steps: Steps = static(default="paper")
    minibatch: int | None = static(default=None)

    def check(self):
        positive(self, "step")
        if isinstance(self.steps, str) and self.steps != "paper":
            raise ConfigError(f'MirroredRows: steps must be a number, a function of a or "paper"; got {self.steps!r}.')
        if not isinstance(self.steps, str) and not callable(self.steps):
            at_least(self, "steps", 1)
        if self.minibatch is not None:
            at_least(self, "minibatch", 1)

    def needed(self, a: Row) -> Int[Array, ""]:
        """How many iterations this row takes."""
        if self.steps == "paper":
            need = 4 / self.step * jnp.sum(a) / jnp.min(a)
            return jnp.minimum(jnp.ceil(need), MOST_STEPS).astype(int)
        return jnp.asarray(self.steps(a) if callable(self.steps) else self.steps)

    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw:
        counts = jnp.asarray(counts).astype(float)
        alpha = jnp.broadcast_to(jnp.asarray(alpha, float), counts.shape)
        lanes, S = counts.shape
        need = jax.vmap(self.needed)(alpha + counts)
        by_need = jnp.argsort(-need)  # the lanes of a block then need about as many
        width = min(BLOCK, lanes) if log_prior is None else BLOCK  # the reason is in LogGammaRows
        blocks = by_need[jnp.minimum(jnp.arange(-(-lanes // width) * width), lanes - 1)].reshape(-1, width)

        def run(lane: Int[Array, " block"]) -> Float[Array, "block S"]:
            swap = _reference_last(alpha[lane] + counts[lane])
            here = lambda x: jnp.take_along_axis(x[lane], swap, 1).T  # noqa: E731
            x = self._block(keys[lane], need[lane], here(alpha), here(counts), here(start.astype(float)), swap, log_prior)
            return jnp.take_along_axis(x.T, swap, 1)

        rows = lax.map(run, blocks).reshape(-1, S)[jnp.argsort(by_need)]
        return Draw(rows, jnp.ones(lanes))

    def _block(self, keys, need, alpha, counts, start, swap, log_prior: LogPrior | None) -> Float[Array, "S block"]:
        mirror = Entropic(axis=0)
        n = jnp.sum(counts, 0)
        a = alpha + counts
        # A state that had no counts when `start` was drawn may be e^-30 there and would spend its steps on the way: it
        # starts at its mean. Under the posterior itself one start in twenty is moved.
        mean = a / jnp.sum(a, 0)
        start = jnp.where(start < mean * jnp.exp(-3 / jnp.minimum(a, 1)), mean, start)
        extra = None if log_prior is None else jax.vmap(jax.grad(lambda x, swap: log_prior(x[swap])), (1, 0), 1)

        def grad(keys, x: Float[Array, "S block"]) -> Float[Array, "S block"]:
            seen = counts if self.minibatch is None else subsample(keys, counts, n, self.minibatch)
            g = -(alpha + seen - 1) / x
            return g if extra is None else g - extra(x, swap)

        h = self.step / jnp.sum(a, 0)
        W = Mirrored(Langevin(self.step), mirror).dual_of(Potential(_no_value, grad, h))

        def body(i, y):
            step_keys = _fold(keys, i)
            key_grad, key_noise = (jax.vmap(lambda key, p=p: _random.part(key, p))(step_keys) for p in (1, 2))  # as Langevin does
            new = y - h * W.grad(key_grad, y) + jnp.sqrt(2 * h) * _noise(key_noise, y.shape[0])
            return jnp.where(i < need, new, y)

        return mirror.primal(lax.fori_loop(0, jnp.max(need), body, mirror.dual(start)))


def _no_value(x):
    raise ConfigError("MirroredRows: an unadjusted kernel asks for no value.")


def _reference_last(a: Lanes) -> Int[Array, "lanes S"]:
    """The order of the states with the largest a and the last one exchanged; applied twice, it is the first order."""
    last, states, largest = a.shape[1] - 1, jnp.arange(a.shape[1]), jnp.argmax(a, 1, keepdims=True)
    return jnp.where(states == largest, last, jnp.where(states == last, largest, states))


def subsample(keys: Key[Array, " lanes"], counts: Float[Array, "S lanes"], n: Float[Array, " lanes"], size: int) -> Array:
    """Counts of `size` transitions drawn with replacement, times n/size; all of them while there are no more than `size`."""
    u = _uniform(keys, size) * n
    below = jnp.sum(u[:, None] < jnp.cumsum(counts, 0), 0).at[-1].set(size)
    return jnp.where(n <= size, counts, jnp.diff(below, axis=0, prepend=0) * (n / size))
