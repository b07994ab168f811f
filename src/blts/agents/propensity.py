"""P(arm a has the largest mean reward): the propensity of arm a under a Thompson policy that is frozen within a batch.

p_a = ∫ ∏_{b≠a} F_b dF_a for independent distributions of the arms' mean rewards. `of_laws` is the only quadrature of it; it has two
rules. The general one asks for distribution functions and quantiles alone and is what live experiments store, so its numbers must
never change: `verify` computes them again, bit for bit. The fast one is for long simulations, which ask for p at every batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from .._typing import Array, Bool, Float, Scalar
from ..models.marginal import BetaLaw, GammaLaw, InverseGammaLaw, Marginal, NormalLaw
from .base import argmax

REACH = 6.0  # sds; a Gaussian has 2e-9 of its mass beyond
Values = Float[Array, "arms nodes"]
Mask = Bool[Array, " arms"] | None


def of_laws(laws: Marginal, available: Mask = None, *, fast: bool = False) -> Float[Array, " arms"]:
    """The probability that each arm has the largest of independent draws, by quadrature.

    Args:
        laws: the distributions of the arms' mean rewards, stacked.
        available: which arms can be played; None where all can, which `fast` assumes.
        fast: use a rule with far fewer nodes where the distributions are normal, Beta, Gamma or inverse Gamma. It needs double
            precision; its total variation error is below 1e-5 for normal arms and below 1e-4 for the others.

    Returns:
        Probabilities that sum to 1.

    >>> import jax.numpy as jnp
    >>> from blts.agents import propensity
    >>> from blts.models.marginal import NormalLaw
    >>> propensity.of_laws(NormalLaw(jnp.array([0.0, 0.0]), jnp.array([1.0, 2.0]))).round(3).tolist()
    [0.5, 0.5]
    """
    p = _by_densities(laws) if fast and isinstance(laws, FAST_LAWS) else _on_all_nodes(laws, allowed(available))
    return p / jnp.sum(p)


def of_members(values: Float[Array, "arms size"], available: Mask = None) -> Float[Array, " arms"]:
    """The share of members that each arm is the best of, where one member, drawn uniformly at random, gives all arms their values.

    Args:
        values: of every arm at every member.
        available: which arms can be played; None where all can.

    Returns:
        Probabilities that sum to 1. Of equal values the first arm's wins, as in `argmax`.
    """
    best = jax.vmap(lambda one: argmax(one, available), 1)(values)
    return jnp.mean(jnp.arange(values.shape[0])[:, None] == best, axis=1, dtype=float)


def of_values(values: Float[Array, "arms size"], available: Mask = None) -> Float[Array, " arms"]:
    """The same, exactly, for arms that each draw one of their own values uniformly at random, independently.

    Args:
        values: what each arm may draw.
        available: which arms can be played; None where all can.

    Returns:
        Probabilities that sum to 1. Of equal values the first arm's wins, as in `argmax`.
    """
    arms, size = values.shape

    def share_below(own, b):
        """For every arm and value: the share of arm b's values that lose against it."""
        ordered, first = jnp.sort(own), jnp.arange(arms)[:, None] < b
        left, right = (jnp.searchsorted(ordered, values, side=side) for side in ("left", "right"))
        return jnp.where(first, right, left) / size

    playable = allowed(available)
    F = jax.vmap(share_below)(values, jnp.arange(arms)).reshape(arms, arms * size)
    F = F if playable is None else jnp.where(playable[:, None], F, 1.0)
    others = _product_of_others(F).reshape(arms, arms, size)
    p = jnp.mean(others[jnp.arange(arms), jnp.arange(arms)], axis=-1)
    p = p if playable is None else jnp.where(playable, p, 0.0)
    return p / jnp.sum(p)


def allowed(available: Mask) -> Mask:
    """The arms that may be played.

    Args:
        available: a mask; None where all arms are available.

    Returns:
        The mask, or all arms where none is available, as in `argmax`.
    """
    return None if available is None else available | ~jnp.any(available)


# The general rule

NODES = 41  # an arm; on the sorted union of all arms' nodes a rare arm (p ≈ 1e-4) comes out to 1e-4 relative
_Z = np.linspace(-REACH, REACH, NODES)


def _on_all_nodes(laws: Marginal, available: Mask) -> Float[Array, " arms"]:
    """The trapezoid rule in dF_a on the union of the nodes mean ± z·sd of all arms, with F_b exact at each node.

    The rule is applied with and without the nodes' midpoints, and extrapolated: (4 fine - coarse)/3 has error O(h⁴).
    """
    sd = jnp.where(jnp.isfinite(laws.sd), laws.sd, 0.0)  # a law without a variance is covered by its quantiles below
    nodes = jnp.sort(jnp.concatenate([(laws.mean[:, None] + sd[:, None] * _Z).ravel(), _quantiles(laws).ravel()]))
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    x = jnp.append(jnp.stack([nodes[:-1], middle], 1).ravel(), nodes[-1])
    F, upper = jax.vmap(lambda law: (law.cdf(x), law.survival(x)))(laws)  # [arms, nodes]
    if available is not None:
        F, upper = jnp.where(available[:, None], F, 1.0), jnp.where(available[:, None], upper, 0.0)
    others = _product_of_others(F)
    # Near F = 1 the increments of F have no digits left, those of 1 - F do: rare arms live there.
    rise = jnp.where(F[:, 1:] > 0.5, upper[:, :-1] - upper[:, 1:], F[:, 1:] - F[:, :-1])
    fine = jnp.sum(0.5 * (others[:, 1:] + others[:, :-1]) * rise, axis=1)
    coarse = jnp.sum(0.5 * (others[:, 2::2] + others[:, :-2:2]) * (rise[:, ::2] + rise[:, 1::2]), axis=1)
    p = (4 * fine - coarse) / 3 + others[:, 0] * F[:, 0] + others[:, -1] * upper[:, -1]
    return jnp.maximum(p if available is None else jnp.where(available, p, 0.0), 0.0)


def _product_of_others(F: Values) -> Values:
    """∏_{b≠a} F_b from running products on both sides, which no zero can spoil."""
    one = jnp.ones_like(F[:1])
    below = jnp.concatenate([one, jnp.cumprod(F[:-1], axis=0)])
    above = jnp.concatenate([jnp.cumprod(F[::-1][:-1], axis=0)[::-1], one])
    return below * above


def _quantiles(laws: Marginal) -> Values:
    """Quantiles as nodes too: they follow skewed and heavy-tailed laws where mean ± z·sd does not."""
    u = jnp.asarray((np.arange(NODES) + 0.5) / NODES)
    return jax.vmap(lambda law: law.quantile(u))(laws)


# The fast rule: p_a = ∫ H f_a/F_a dx with H = ∏ F_b, the distribution of the largest. Below `low`, the largest of the arms' lower
# ends, H is next to nothing; every arm's distribution begins before it. So whatever bends at a distance d above `low` does so on a
# scale of about d, and nodes at low + scale · e^v, equally spaced in v, see all of it: a posterior of width 10⁻⁵ beside a prior of
# width 1, whichever leads. The integrand is smooth in v and vanishes at both ends: the trapezoid rule converges exponentially.

FAST_LAWS = (NormalLaw, BetaLaw, GammaLaw, InverseGammaLaw)
NORMAL_NODES = 96
NORMAL_NEAREST = -2.0  # the first node's v
# Other laws may begin like a power of x, and stop at once at their upper end: nodes crowd at both, and are more.
OTHER_NODES = 161
OTHER_NEAREST, OTHER_FARTHEST = -6.0, 14.0
# Lobatto's rule of five points on [0, 1], whose first and last are nodes
_POINTS = 0.5 + 0.5 * np.array([-1.0, -math.sqrt(3 / 7), 0.0, math.sqrt(3 / 7)])
_WEIGHTS = np.array([1 / 10, 49 / 90, 32 / 45, 49 / 90, 1 / 10]) / 2


def _by_densities(laws: Marginal) -> Float[Array, " arms"]:
    low, middle, high = jax.vmap(_ends)(laws)
    last = jnp.argmax(low)
    low, scale, high = low[last], (middle[last] - low[last]) / REACH, jnp.max(high)
    span = (high - low) / scale
    if isinstance(laws, NormalLaw):
        F, f, weight = _normal((laws.mean - low) / scale, laws.sd / scale, span)
    else:
        F, f, weight = _summed(laws, low, scale, span)
    F = jnp.maximum(F, jnp.finfo(F.dtype).tiny)
    return jnp.sum((f / F * (jnp.prod(F, axis=0) * weight)).astype(float), axis=1)


def _normal(mean, sd, span) -> tuple[Values, Values, Float[Array, " nodes"]]:
    """F, f and dx/dv, up to common factors. Counted from `low`, single precision is exact enough, and twice as fast."""
    x = jnp.exp(jnp.linspace(NORMAL_NEAREST, jnp.log(span), NORMAL_NODES))
    mean, sd, x = mean[:, None].astype(jnp.float32), sd[:, None].astype(jnp.float32), x.astype(jnp.float32)
    z = (x - mean) / sd
    return 0.5 * special.erfc(-math.sqrt(0.5) * z), jnp.exp(-0.5 * z * z) / sd, x


def _summed(laws: Marginal, low: Scalar, scale: Scalar, span: Scalar) -> tuple[Values, Values, Float[Array, " nodes"]]:
    """The same for any density, with 1 - F summed from the upper end; x = low + (high - low) · sigmoid(v).

    Distribution functions of Beta and Gamma laws are slow to compute, and not exact enough for large parameters.
    """
    begin = OTHER_NEAREST - jnp.log(span)
    h = (OTHER_FARTHEST - begin) / (OTHER_NODES - 1)
    v = (begin + h * (jnp.arange(OTHER_NODES)[:, None] + _POINTS)).ravel()
    share = jax.nn.sigmoid(v)
    slope = scale * span * share * jax.nn.sigmoid(-v)
    f = jax.vmap(lambda law: jnp.exp(_log_density(law, low + scale * span * share)))(laws)
    parts = (f * slope).reshape(f.shape[0], OTHER_NODES, 4)
    pieces = h * (parts[:, :-1] @ _WEIGHTS[:4] + parts[:, 1:, 0] * _WEIGHTS[4])
    above = jnp.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    return 1 - jnp.pad(above, ((0, 0), (0, 1))), f[:, ::4], slope[::4]


class _Ends(NamedTuple):
    low: Scalar
    middle: Scalar
    high: Scalar


def _ends(law: Marginal) -> _Ends:
    """Points with next to nothing below, about half of the law below, and next to nothing above."""
    if isinstance(law, NormalLaw):
        return _Ends(law.mean - REACH * law.sd, law.mean, law.mean + REACH * law.sd)
    if isinstance(law, GammaLaw):
        return _Ends(*(_gamma_quantile(law.a, z) / law.b for z in (-REACH, 0.0, REACH)))
    if isinstance(law, InverseGammaLaw):
        return _Ends(*(law.b / _gamma_quantile(law.a, z) for z in (REACH, 0.0, -REACH)))
    assert isinstance(law, BetaLaw)
    return _Ends(_beta_quantile(law.a, law.b, -REACH), law.mean, 1.0 - _beta_quantile(law.b, law.a, -REACH))


def _log_density(law: Marginal, x: Scalar) -> Scalar:
    if isinstance(law, GammaLaw):
        return _log_gamma_density(law.a, law.b * x) + jnp.log(law.b)
    if isinstance(law, InverseGammaLaw):
        return _log_gamma_density(law.a, law.b / x) + jnp.log(law.b) - 2.0 * jnp.log(x)
    assert isinstance(law, BetaLaw)
    return (law.a - 1.0) * jnp.log(x) + (law.b - 1.0) * jnp.log1p(-x) - special.betaln(law.a, law.b)


def _log_gamma_density(a, x):
    return (a - 1.0) * jnp.log(x) - x - special.gammaln(a)


def _gamma_quantile(a, z):
    """About the quantile at Φ(z) for rate 1: Wilson and Hilferty's, and no less than what P(G ≤ x) ≤ x^a/Γ(a + 1) allows."""
    root = jnp.maximum(1.0 - 1.0 / (9.0 * a) + z / (3.0 * jnp.sqrt(a)), 0.0)
    return jnp.maximum(a * root**3, jnp.exp((special.log_ndtr(z) + special.gammaln(a + 1.0)) / a))


def _beta_quantile(a, b, z):
    """Of G_a/(G_a + G_b), with z shared between the two as their shares of the variance of its logit."""
    total = a + b
    x, y = _gamma_quantile(a, z * jnp.sqrt(b / total)), _gamma_quantile(b, -z * jnp.sqrt(a / total))
    return x / (x + y)
