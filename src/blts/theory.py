"""The paper's theorems as functions: the bounds, and the settings that they prescribe.

Constants are those of `Model.theory()`: m (strong concavity), L (smoothness), ν (strong log-concavity in the reward),
with κ = max(L/m, L/ν). Natural logarithms, except where a doubling makes base two.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from ._typing import Array, Float, Int
from .errors import ConfigError
from .models.arms import arm_count
from .models.base import Model, Theory


def constants_of(model: Model) -> Theory:
    """A model's constants m, L and ν.

    Args:
        model: of one arm or of several.

    Returns:
        The constants, one per arm where the model has several.

    Raises:
        ConfigError: the model does not satisfy the paper's assumptions.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of
    >>> constants = constants_of(Gaussian(sd=2.0))
    >>> float(constants.m), float(constants.L), float(constants.nu)
    (0.25, 0.25, 0.25)
    """
    found = model.theory()
    if not found.inside:
        raise ConfigError(
            f'"theorem" needs a model inside the theory, and {type(model).__name__} is not: {found.why} Give numbers instead.'
        )
    shape = () if arm_count(model) is None else (arm_count(model),)
    m, L, nu = (jnp.broadcast_to(jnp.asarray(x, float), shape) for x in (found.m, found.L, found.nu))
    return found._replace(m=m, L=L, nu=nu)


def kappa(constants: Theory) -> Float[Array, "*arms"]:
    """The condition number κ = max(L/m, L/ν).

    Args:
        constants: as `constants_of` returns them.

    Returns:
        One number per arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, kappa
    >>> float(kappa(constants_of(Gaussian())))
    1.0
    """
    return jnp.maximum(constants.L / constants.m, constants.L / constants.nu)


def sigma(constants: Theory, dim: int = 1) -> Float[Array, "*arms"]:
    """σ = 16 + 4 d L² / (ν m) of the concentration lemma.

    Args:
        constants: as `constants_of` returns them.
        dim: d, the dimension of θ.

    Returns:
        One number per arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, sigma
    >>> float(sigma(constants_of(Gaussian())))
    20.0
    """
    return 16 + 4 * dim * constants.L**2 / (constants.nu * constants.m)


def gamma(constants: Theory, dim: int = 1) -> Float[Array, "*arms"]:
    """The scaling γ = m / (32 L σ) of Algorithm 2 for which Theorem 3 is proved (1/640 for the paper's Gaussian bandit).

    Args:
        constants: as `constants_of` returns them.
        dim: the dimension of θ.

    Returns:
        One number per arm.

    >>> from blts import Gaussian, theory
    >>> float(1 / theory.gamma(theory.constants_of(Gaussian())))
    640.0
    """
    return constants.m / (32 * constants.L * sigma(constants, dim))


def minibatch(constants: Theory) -> Int[Array, "*arms"]:
    """Theorem 1's minibatch size |D| = 32 L² / (m ν).

    Args:
        constants: as `constants_of` returns them.

    Returns:
        One number per arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, minibatch
    >>> int(minibatch(constants_of(Gaussian())))
    32
    """
    return jnp.ceil(32 * constants.L**2 / (constants.m * constants.nu) - 1e-4).astype(int)


def step_size(constants: Theory, n: Int[Array, "*arms"]) -> Float[Array, "*arms"]:
    """Theorem 1's step size η = m n / (32 L² (n+1)²).

    Args:
        constants: as `constants_of` returns them.
        n: rewards of each arm.

    Returns:
        One number per arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, step_size
    >>> round(float(step_size(constants_of(Gaussian()), 10)), 5)
    0.00258
    """
    n = jnp.maximum(n, 1)
    return constants.m * n / (32 * constants.L**2 * (n + 1.0) ** 2)


def iterations(constants: Theory, n: Int[Array, "*arms"]) -> Int[Array, "*arms"]:
    """Theorem 1's number of steps N = 1280 L² (n+1)² / (m² n²).

    Args:
        constants: as `constants_of` returns them.
        n: rewards of each arm.

    Returns:
        One number per arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, iterations
    >>> int(iterations(constants_of(Gaussian()), 10))
    1549
    """
    n = jnp.maximum(n, 1)
    return jnp.ceil(1280 * (constants.L / constants.m * (n + 1.0) / n) ** 2 - 1e-3).astype(int)


def wasserstein_bound(constants: Theory, n, *, dim: int = 1, p: int = 2, log_q: float = 0.0) -> Float[Array, "*arms"]:
    """Theorem 1: W_p(ρ̃_n, ρ_n) ≤ √(12/(n m)) (d + log Q + (32 + 8 d κ²) p)^½.

    Args:
        constants: as `constants_of` returns them.
        n: rewards of each arm.
        dim: d, the dimension of θ.
        p: the order of the distance.
        log_q: log Q, which measures the quality of the prior.

    Returns:
        The bound for each arm.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, wasserstein_bound
    >>> round(float(wasserstein_bound(constants_of(Gaussian()), 100)), 2)
    3.12
    """
    return jnp.sqrt(12 / (n * constants.m) * (dim + log_q + (32 + 8 * dim * kappa(constants) ** 2) * p))


def batches_bound(arms: int, horizon: int) -> float:
    """Theorem 2 as printed: at most N log2(T + 1) batches. Its proof drops a term; see `batches_sharp`.

    Args:
        arms: N.
        horizon: T.

    Returns:
        The bound.

    >>> from blts.theory import batches_bound
    >>> round(batches_bound(arms=15, horizon=650), 1)
    140.2
    """
    return arms * float(np.log2(horizon + 1))


def batches_sharp(arms: int, horizon: int) -> int:
    """The largest number of batches under dynamic doubling: max Σ_a (⌊log2 k_a⌋ + 1) with Σ k_a = T.

    An arm closes a batch at each k_a = 1, 2, 4, …, so the next doubling of the arm with the fewest plays is the cheapest. For one
    arm and T = 2 this is 2, above the printed log2 3.

    Args:
        arms: how many arms or state–action pairs are counted.
        horizon: T.

    Returns:
        The number, which some sequence of plays reaches.

    >>> from blts.theory import batches_sharp
    >>> batches_sharp(1, 2)
    2
    """
    return max_closings(arms, horizon, lambda level: 2 ** max(level - 1, 0))


def max_closings(arms: int, horizon: int, cost: Callable[[int], int]) -> int:
    """The largest number of batches that arms can close.

    Args:
        arms: how many there are.
        horizon: the number of plays, of all arms together.
        cost: how many plays an arm needs to close its next batch after `level` batches; non-decreasing.

    Returns:
        The number of batches.

    >>> from blts.theory import max_closings
    >>> max_closings(2, 10, lambda level: 2 ** max(level - 1, 0))
    6
    """
    left, closed, level = horizon, 0, 0
    while (affordable := min(arms, left // cost(level))) > 0:
        closed, left, level = closed + affordable, left - affordable * cost(level), level + 1
    return closed


def determinant_batches(dim: int, horizon: int, factor: float, information: float) -> int:
    """The largest number of batches when each multiplies the determinant of the precision V of θ by more than `factor`.

    By the elliptical potential lemma (Abbasi-Yadkori, Pál & Szepesvári 2011, Lemma 10: det V ≤ (trace V / d)^d),
    log(det V_T / det V_0) ≤ d log(1 + T x/d), where x bounds what one round adds, w φᵀV_0⁻¹φ ≤ w L²/λ. Every batch takes more than
    log c of it. Where batches end by the determinants of single arms, every batch takes more than log c of one arm's part of the
    same sum, so the bound is the same.

    Args:
        dim: d, the dimension of all parameters together: arms × dim where each arm has a θ of its own.
        horizon: T.
        factor: c.
        information: x: an upper bound on w φᵀV_0⁻¹φ.

    Returns:
        The bound, at most T.

    >>> from blts.theory import determinant_batches
    >>> [determinant_batches(20, T, 2.0, 4.0) for T in (10**3, 10**4, 10**5)]
    [153, 219, 285]
    """
    potential = dim * float(np.log1p(horizon * information / dim))
    return min(horizon, int(potential / float(np.log(factor))))


def regret_bound(constants: Theory, gaps, horizon: int, *, dim: int = 1, log_q: float = 0.0) -> float:
    """Theorem 3 with the appendix's explicit constants, for one model shared by all arms.

    Σ_a>1 [ 36 √Q₁ · 576e/(m Δ_a) · (d + log Q₁ + 4σ(log T + 3d log 2)) + 576e/(m Δ_a) · (d + log Q_a + 10 d σ log T) + 4 Δ_a ].

    Args:
        constants: as `constants_of` returns them.
        gaps: Δ_a, the regret of one play of each arm; zeros are ignored.
        horizon: T.
        dim: d, the dimension of θ.
        log_q: log Q, the same for all arms.

    Returns:
        The bound on the regret.

    >>> from blts import Gaussian
    >>> from blts.theory import constants_of, regret_bound
    >>> f"{regret_bound(constants_of(Gaussian()), [0.0, 0.5, 1.0], horizon=1000):.2g}"
    '1.3e+08'
    """
    gaps = np.asarray(gaps, float)
    gaps = gaps[gaps > 0]
    m, s, log_t = float(np.min(constants.m)), float(np.max(sigma(constants, dim))), np.log(horizon)
    first = 36 * np.exp(log_q / 2) * 576 * np.e / (m * gaps) * (dim + log_q + 4 * s * (log_t + 3 * dim * np.log(2)))
    second = 576 * np.e / (m * gaps) * (dim + log_q + 10 * dim * s * log_t)
    return float(np.sum(first + second + 4 * gaps))
