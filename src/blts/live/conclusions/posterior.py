"""The posterior that a report shows: of all rewards that count, as exact as its model allows, whatever the policy draws with."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from ... import _random, diagnosis
from ..._typing import Array, PRNGKey, Row, Tree
from ...agents import Thompson
from ...agents.beliefs import default_belief
from ...compilation import give_back_memory
from ...history import remember_summary
from ...models import Model, marginal
from ...models.drawing import arms_of, draws_from_marginal, marginals, posterior_draws
from ..learning import Data, capacity_for, chains_in_words, diagnostics, failings, learn
from ..policy import Frozen
from .laws import Law, law_of

LEVEL = 0.95
DRAWS = 100_000
"""Exact draws, where there are no closed distributions, and for lifts. P(best) then has a standard error of at most 0.0016."""
EXACT_DRAWS = f"{DRAWS:,} exact draws"
"""How a posterior was computed from them, in words."""
DRAWN = 1_000
"""Of them at once."""
ROWS = 2**16
"""Rewards that are summarised at once."""
POOL = 1024
"""Chains an arm, for models without an exact posterior."""
SHUFFLES = 32
"""Arms are independent, so each chain end of an arm is combined with that many of every other arm."""
HEAVIEST = 0.5
"""Tail index of the draws (Hill's estimator) from which their mean has no standard error, so that it is not shown."""
CLOSED = (marginal.NormalLaw, marginal.BetaLaw, marginal.GammaLaw, marginal.InverseGammaLaw, marginal.StudentTLaw)


class ArmNumbers(NamedTuple):
    """A number of each kind for every arm, `[arms]`; NaN where there is none: infinite, undefined, or of an arm without data."""

    mean: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    best: np.ndarray
    """P(best), among the arms that have data."""
    loss: np.ndarray
    """Expected loss of choosing this arm: E[max_b μ_b - μ_a], among the same arms."""


class PosteriorSummary(NamedTuple):
    """The arms' mean rewards given all rewards."""

    shown: ArmNumbers
    error: ArmNumbers
    """Standard errors of what is shown: of Monte Carlo, or the error of the quadrature."""
    how: str
    """How it was computed, in words."""
    failings: list[str]
    """Why it must not be relied on; empty where it may."""
    draws: np.ndarray
    """Joint draws of the mean rewards, `[draws, arms]`."""
    effective: float
    """Independent draws that they are worth."""


def posterior(model: Model, arms: np.ndarray, rewards: np.ndarray, *, rhat_limit: float = diagnosis.RHAT_LIMIT) -> PosteriorSummary:
    """The posterior of every arm's mean reward: the same rewards give the same numbers.

    By quadrature where the mean rewards have closed distributions, from exact draws where only those can be had, and elsewhere from
    a pool of adjusted chains.

    Args:
        model: stacked, of all arms that are compared.
        arms: the arm of each reward, from 0.
        rewards: as many numbers.
        rhat_limit: R-hat from which chains are not relied on.

    Returns:
        The summary; arms without rewards have their prior's mean and interval, and neither P(best) nor loss.
    """
    seen = np.bincount(arms, minlength=arms_of(model)) > 0
    if not model.has_posterior:
        return _from_chains(model, Data(arms, rewards), seen, rhat_limit)
    with jax.enable_x64(True):
        summaries = _summaries(model, arms, rewards)
        laws = marginals(model, summaries, ())
        if type(laws) in CLOSED:
            return _from_laws(law_of(laws), seen)
        draws = np.concatenate([_drawn(model, summaries, start) for start in range(0, DRAWS, DRAWN)])
    return of_draws(draws, DRAWS, seen, EXACT_DRAWS)


def _padded(arms: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With room for more rewards, so that few sizes are compiled, and which rows count."""
    room = capacity_for(len(arms))
    pad = lambda x, kind: np.concatenate([x, np.zeros(room - len(x))]).astype(kind)  # noqa: E731
    return pad(arms, np.int32), pad(rewards, np.float64), np.arange(room) < len(arms)


def _summaries(model: Model, arms: np.ndarray, rewards: np.ndarray) -> Tree:
    """Of each arm's rewards, some rows at a time: a million rows with all that is computed of them take 100 MB."""
    found = _empty(model)
    for start in range(0, len(arms), ROWS):
        found = _added(model, found, *_padded(arms[start : start + ROWS], rewards[start : start + ROWS]))
    return found


@jax.jit
def _empty(model: Model) -> Tree:
    empty = jax.vmap(lambda single: single.empty())(model)
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), empty)


@jax.jit
def _added(model: Model, summaries: Tree, arms: Array, rewards: Array, live: Array) -> Tree:
    def add(history, x):
        arm, reward, ok = x
        return remember_summary(model, history, Row((), arm, reward, ()), ok), None

    return jax.lax.scan(add, summaries, (arms, rewards, live))[0]


def compile_draws(model: Model) -> None:
    """Compile what exact draws need before rewards are read: both at once take the most memory.

    Args:
        model: stacked, of all arms that are compared.
    """
    if not model.has_posterior:
        return
    with jax.enable_x64(True):
        nothing = _empty(model)
        if type(marginals(model, nothing, ())) not in CLOSED:
            _drawn(model, nothing, 0)
    give_back_memory()


def _drawn(model: Model, summaries: Tree, start: int) -> np.ndarray:
    """Draws number start, start + 1, …"""
    return np.asarray(_draws(_random.as_key(0), model, summaries, start + jnp.arange(DRAWN)), float)


@jax.jit
def _draws(key: PRNGKey, model: Model, summaries: Tree, indices: Array) -> Array:
    held = marginals(model, summaries, ()) if draws_from_marginal(model) else summaries
    return jax.vmap(lambda i: _mean_rewards(model, posterior_draws(_random.fold_in(key, i), model, held)))(indices)


def _mean_rewards(model: Model, thetas: Array) -> Array:
    return jax.vmap(lambda single, x, a: single.mean_reward(x, (), a))(model, thetas, jnp.arange(arms_of(model)))


# Closed distributions


def _from_laws(laws: Law, seen: np.ndarray) -> PosteriorSummary:
    low, median, high = laws.ppf(np.array([0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2])[:, None])
    mean, none = laws.mean(), np.zeros(len(seen))
    best, loss, best_error, loss_error = _compared(laws, mean, seen) if seen.any() else [none * np.nan] * 4
    draws = laws.draws(np.random.default_rng(0), (DRAWS, len(seen)))
    shown = ArmNumbers(_finite(mean), median, low, high, best, _finite(loss))
    error = ArmNumbers(none, none, none, none, best_error, loss_error)
    return PosteriorSummary(shown, error, "exact (quadrature)", [], draws, DRAWS)


PIECES = 16
"""Of the range between two quantiles half a normal sd apart."""


def _compared(laws: Law, mean: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """P(best) = ∫ Π_{b≠a} F_b dF_a and E[max] - E[μ_a] of the arms with data, and the errors of both.

    The trapezoid rule in dF_a, with nodes between the quantiles of all arms, and extrapolated from twice the width. It needs no
    densities, which may be infinite at the ends. How much the extrapolation changes is more than the error.
    """
    z = np.linspace(0, 8, 17)[:, None]
    edges = np.unique(np.concatenate([laws.ppf(special.ndtr(-z)), laws.isf(special.ndtr(-z))])[:, seen])
    edges = edges[np.isfinite(edges)]
    x = np.append((edges[:-1, None] + np.diff(edges)[:, None] * np.arange(PIECES) / PIECES).ravel(), edges[-1])[:, None]
    F, upper = laws.cdf(x)[:, seen], laws.sf(x)[:, seen]
    log_F = np.log(np.maximum(F, 1e-300))
    others = np.exp(log_F.sum(1, keepdims=True) - log_F)
    # Near F = 1 the increments of F have no digits left, those of 1 - F do.
    rise = np.where(F[1:] > 0.5, upper[:-1] - upper[1:], F[1:] - F[:-1])

    def integral(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fine = np.sum(0.5 * (g[1:] + g[:-1]) * rise, axis=0)
        coarse = np.sum(0.5 * (g[2::2] + g[:-2:2]) * (rise[::2] + rise[1::2]), axis=0)
        ends = g[0] * F[0] + g[-1] * upper[-1]
        return (4 * fine - coarse) / 3 + ends, np.abs(fine - coarse) / 3

    best, best_error = integral(others)
    beside = x - np.median(x)  # so that the error is one of the differences between arms, however far from 0 they are
    ours = mean[seen] - np.median(x)
    top, top_error = integral(others * beside)
    own, own_error = integral(0 * others + beside)  # E[μ_a] again, for what the tails leave out
    loss = np.maximum(top.sum() / best.sum() - ours, 0.0)
    with np.errstate(invalid="ignore"):  # the largest of several has no finite mean where one of them has none
        known = np.isfinite(ours).all()
        loss_error = np.where(known, top_error.sum() + np.abs(own - ours).max(), np.nan) + own_error
    gap = abs(1 - best.sum())
    spread = lambda values: _spread(values, seen)  # noqa: E731
    return spread(best / best.sum()), spread(np.where(known, loss, np.nan)), spread(best_error + gap), spread(loss_error)


def _spread(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    out = np.full(len(seen), np.nan)
    out[seen] = x
    return out


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, np.nan)


# Draws


def of_draws(draws: np.ndarray, effective: float, seen: np.ndarray, how: str, why_not: list[str] | None = None) -> PosteriorSummary:
    """Summarise draws, with standard errors.

    Args:
        draws: mean rewards, `[draws, arms]`.
        effective: how many independent draws they are worth.
        seen: which arms have data, `[arms]`.
        how: how they were drawn, in words.
        why_not: why they must not be relied on.

    Returns:
        The summary. Means of draws with too heavy a tail are NaN, and losses if an arm has one.
    """
    tame = tail_index(draws) < HEAVIEST
    with np.errstate(invalid="ignore", over="ignore"):
        mean, sd = np.where(tame, draws.mean(0), np.nan), np.where(tame, draws.std(0), np.nan)
        some = draws[:, seen]
        gap = some.max(1, keepdims=True) - some if seen.any() else some
        loss = np.where(tame[seen].all(), [gap.mean(0), gap.std(0)], np.nan)
    best = np.bincount(some.argmax(1), minlength=some.shape[1]) / len(draws) if seen.any() else np.zeros(0)
    share = np.clip(best, 1 / effective, 1 - 1 / effective)
    (low, median, high), errors = quantiles(draws, effective)
    root = math.sqrt(effective)
    shown = ArmNumbers(_finite(mean), median, low, high, _spread(best, seen), _spread(loss[0], seen))
    error = ArmNumbers(
        sd / root,
        errors[1],
        errors[0],
        errors[2],
        _spread(np.sqrt(share * (1 - share)) / root, seen),
        _spread(loss[1] / root, seen),
    )
    return PosteriorSummary(shown, error, how, why_not or [], draws, effective)


def quantiles(draws: np.ndarray, effective: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends and the middle of the 95 % intervals of draws, and their standard errors.

    Args:
        draws: `[draws, arms]`.
        effective: how many independent draws they are worth.

    Returns:
        Low, median and high, `[3, arms]`, and their standard errors: half the distance of the quantiles that are one standard error
        of a share away on both sides.
    """
    u = np.array([0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2])
    step = np.sqrt(u * (1 - u) / effective)
    found = np.quantile(draws, np.clip(np.concatenate([u, u - step, u + step]), 0, 1), axis=0)
    return found[:3], 0.5 * (found[6:] - found[3:6])


def tail_index(draws: np.ndarray) -> np.ndarray:
    """Hill's estimate of the tail index of draws about their median, for each arm the larger of both tails.

    Args:
        draws: `[draws, arms]`.

    Returns:
        About 1/α for tails like x^(-α), and 0.1 to 0.3 for lighter ones; infinite where a draw is.
    """
    k = max(int(3 * math.sqrt(len(draws))), 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = np.sort(draws - np.median(draws, axis=0), axis=0)
        tails = np.stack([centred[-k - 1 :][::-1], -centred[: k + 1]])
        index = np.mean(np.log(tails[:, :-1] / tails[:, -1:]), axis=1)
    finite = np.isfinite(draws).all(0)
    return np.where(finite, np.nan_to_num(index, nan=0.0, posinf=np.inf).max(0), np.inf)


# Chains


def _from_chains(model: Model, data: Data, seen: np.ndarray, rhat_limit: float) -> PosteriorSummary:
    agent = Thompson(model, default_belief(model, POOL), len(seen))
    key = _random.as_key(0)
    state, info = learn(key, agent, _started(key, agent), data, t=0, repeat=0)
    found = diagnostics(info)
    ends = np.asarray(_values(agent, state), float).T
    rng = np.random.default_rng(0)
    joint = np.concatenate([ends, *(rng.permuted(ends, axis=0) for _ in range(SHUFFLES - 1))])
    effective = POOL if found["ess"] is None else max(min(found["ess"], POOL), 2)
    why = failings(Frozen(state, jnp.zeros(0), jnp.asarray(False)), found, False, rhat_limit)
    how = f"a pool of {POOL:,} adjusted chains an arm, {effective:,.0f} effective draws"
    words = chains_in_words(found)
    return of_draws(joint, effective, seen, f"{how} ({words.removeprefix('Chains: ').rstrip('.')})" if words else how, why)


@jax.jit
def _started(key: PRNGKey, agent: Thompson) -> Tree:
    return agent.init(key)


@jax.jit
def _values(agent: Thompson, state: Any) -> Array:
    return agent.belief.values(agent.model, agent.belief.members(state), ())
