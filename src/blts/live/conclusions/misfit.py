"""Whether a model's likelihood fits the rewards: posterior-predictive checks of every arm.

Each arm's θ is put at the mode of its posterior, from there rewards are drawn, and the observed ones are ranked among them. A rank
is uniform if the model is right (ties are ranked at random), so its first Legendre polynomials have known means and variances
(Neyman's smooth test): the first is off where the prior pulls the arm away from its rewards, the second where the spread is wrong,
the third and fourth where the shape is. Two more checks compare the most extreme reward and the most frequent one. The mode stands
in for the posterior because an arm is checked from `LEAST` rewards on; it makes the checks a little milder, never stricter.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from ... import _random
from ..._typing import Array, Float, Row
from ...declared import provides, why_lost
from ...models import Model
from ...models.arms import stack
from ...models.drawing import arms_of

ALARM = 1e-3  # probability that a call finds anything wrong with a true model; reports are looked at again and again
LEAST = 20  # rewards from which an arm is checked by itself
ROWS = 512  # rewards of an arm that are ranked, evenly spread over time, so that nothing is compiled for another number
DRAWS = 2048  # rewards drawn for each arm
ENDS = 8  # smallest and largest rewards of an arm whose log-likelihood is looked at
CLIMB = 120  # steps of Rprop: each halves the error once the slope has turned
SCALE = 1.2  # a spread is wrong from this factor on
SHIFT = 0.056  # mean rank less 1/2 from which a location is wrong: a fifth of an sd, for normal rewards
SHAPE = 0.05  # mean of a Legendre polynomial from which a shape is wrong; that of exponential rewards under a normal model is 0.08
FAR = 4.0  # standard errors between the mean of the rewards and that of the model from which conclusions are at risk
TIES = 0.05  # share of equal rewards, beyond twice what is expected, from which ties are reported
TAIL = 0.05  # share of the drawn rewards that show how fast the tail falls
SURE = 6.0  # standard errors of drawn rewards from which their mean is not what the model says: heavy tails raise no alarm
BEYOND = 2.0  # widths of an arm's interval between it and the mode from which the exact draws are not those of the densities
RESTS_ON_FEW = 0.1  # share Σd⁴/(Σd²)², one over an effective number of deviations, from which a mean rests on few rewards
ADVICE = {
    "Gaussian": 'take the model "numbers", or state sd',
    "Laplace": "state scale",
    "StudentT": "state scale and df",
    "Poisson": 'take the model "numbers" once there are hundreds of rewards',
    "Gamma": "state shape, or take log-normal",
}


class Misfit(NamedTuple):
    """Something about the rewards that the model does not expect."""

    arm: str | None
    """The label of the arm; None where it is about all arms together, or about the model."""
    check: str
    """location, mean, posterior, spread, shape, tails, ties or unchecked."""
    sentence: str
    """What was expected, what was seen, and what to do."""
    serious: bool
    """Whether conclusions about mean rewards are at risk, so that nothing should be recommended."""


def misfits(
    model: Model,
    arms: np.ndarray,
    rewards: np.ndarray,
    labels: list[str],
    intervals: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[Misfit]:
    """Compare the rewards of every arm with those that the model expects after having seen them.

    Args:
        model: of one arm, or stacked with as many as there are labels.
        arms: the arm of each reward, an index of `labels`.
        rewards: in the order of their decisions.
        labels: of the arms.
        intervals: low and high ends of what the model's own `draw` says of mean rewards, where that is to be checked.

    Returns:
        What does not fit, serious things first; the chance that a true model gives any is below 1 %.
    """
    arms, rewards, K = np.asarray(arms), np.asarray(rewards, float), len(labels)
    if not provides(model, "sample"):
        why = why_lost(model, "sample") or f"{type(model).__name__} has no `sample`; give one, and its fit is checked"
        return [Misfit(None, "unchecked", f"Whether the model fits is not known: {why.rstrip('.')}.", False)]
    if len(rewards) < LEAST:
        return []
    mine = [rewards[arms == k] for k in range(K)]
    predicted = _predicted(model, mine)
    told = [k for k, x in enumerate(mine) if len(x) >= 2]
    if not all(np.isfinite(x[told]).all() for x in predicted[:3]) or np.isnan(predicted.at_ends[told]).any():
        return [Misfit(None, "unchecked", "Whether the model fits is not known: what it expects is not finite.", False)]
    # Four checks of ranks, both ways, and two of one side, for each arm; then those of all arms together.
    alpha = ALARM / (10 * (K + 1))
    fits = {labels[k]: _Fit.of(mine[k], _spread_out(mine[k]), predicted, k) for k in told}
    out = [m for label, fit in fits.items() if fit.n >= LEAST for m in _of_arm(label, fit, model, alpha)]
    if intervals is not None:
        out += [m for k in told for m in _of_draws(labels[k], fits[labels[k]], *(float(end[k]) for end in intervals))]
    if not out and len(fits) > 1:
        out = _of_all(list(fits.values()), model, alpha)
    return sorted(out, key=lambda m: not m.serious)


def expected_rewards(model: Model, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray | None:
    """Rewards as the model expects them after having seen these, in the same proportions of arms.

    Args:
        model: stacked, of all arms.
        arms: the arm of each reward.
        rewards: as many numbers, at least one.

    Returns:
        The drawn rewards; None where the model cannot draw them.
    """
    if not provides(model, "sample"):
        return None
    K = arms_of(model)
    draws = _predicted(model, [rewards[arms == k] for k in range(K)]).draws
    counts = np.bincount(arms, minlength=K)
    return np.concatenate([draws[k, : math.ceil(DRAWS * count / counts.max())] for k, count in enumerate(counts)])


def _predicted(model: Model, mine: list[np.ndarray]) -> _Predicted:
    """What the model expects of every arm, given the rewards of each."""
    K = len(mine)
    rows, weights, ends = np.zeros((K, ROWS)), np.zeros((K, ROWS)), np.zeros((K, 2 * ENDS))
    anything = next(x[:1] for x in mine if len(x))
    for k, x in enumerate(mine):
        chosen = _spread_out(x)
        rows[k] = np.resize(chosen, ROWS) if len(x) else anything  # padded with possible rewards, of weight 0
        weights[k, : len(chosen)] = len(x) / max(len(chosen), 1)
        ends[k] = _ends(x if len(x) else anything)
    found = _predict(stack(model, K), *(jnp.asarray(x, float) for x in (rows, weights, ends)))
    return _Predicted(*(np.asarray(x, float) for x in found))


def _spread_out(x: np.ndarray) -> np.ndarray:
    """At most ROWS of an arm's rewards, evenly spread."""
    return x if len(x) <= ROWS else x[np.linspace(0, len(x) - 1, ROWS).round().astype(int)]


def _ends(x: np.ndarray) -> np.ndarray:
    """The smallest and the largest rewards."""
    order = np.sort(x)
    return np.concatenate([np.resize(order[:ENDS], ENDS), np.resize(order[-ENDS:], ENDS)])


class _Predicted(NamedTuple):
    """For every arm, at the mode of its posterior."""

    mean: Any
    """The mean reward."""
    draws: Any
    """[arms, DRAWS] rewards."""
    surprise: Any
    """[arms, DRAWS] minus the log-likelihoods of these."""
    at_ends: Any
    """[arms, 2 ENDS] minus the log-likelihoods of the smallest and largest rewards; infinite for one that cannot be."""


@jax.jit
def _predict(
    model: Model, rows: Float[Array, "arms rows"], weights: Float[Array, "arms rows"], ends: Float[Array, "arms ends"]
) -> _Predicted:
    def one(single: Model, arm: Array, x: Array, w: Array, end: Array) -> _Predicted:
        key = _random.fold_in(_random.as_key(0), arm)  # fixed: the same rewards, the same report

        def log_likelihood(theta, reward):
            return single.log_likelihood(theta, Row((), arm, reward, ()))

        def log_posterior(theta):
            terms = jax.vmap(lambda reward: log_likelihood(theta, reward))(x)
            return single.log_prior(theta) + jnp.sum(jnp.where(w > 0, w * terms, 0.0))

        theta = _climb(jax.grad(log_posterior), jnp.zeros(single.dim))
        draws = jax.vmap(lambda k: single.sample(k, theta, (), arm))(_random.split(key, DRAWS))
        surprise = lambda x: -jax.vmap(lambda reward: log_likelihood(theta, reward))(x)  # noqa: E731
        return _Predicted(single.mean_reward(theta, (), arm), draws, surprise(draws), surprise(end))

    return jax.vmap(one)(model, jnp.arange(rows.shape[0]), rows, weights, ends)


def _climb(slope: Any, x: Array) -> Array:
    """A mode by Rprop: steps grow while the sign of the slope stays and halve when it turns, or is not a number."""

    def move(_, carry):
        x, size, last = carry
        sign = jnp.sign(slope(x))
        sign = jnp.where(jnp.isnan(sign), -last, sign)
        size = jnp.where(sign * last > 0, 1.5 * size, jnp.where(sign * last < 0, 0.5 * size, size))
        return x + size * sign, size, sign

    return lax.fori_loop(0, CLIMB, move, (x, jnp.ones_like(x), jnp.zeros_like(x)))[0]


class _Fit(NamedTuple):
    """What is compared of one arm."""

    n: int
    ranked: int
    """How many rewards were ranked."""
    polynomials: np.ndarray
    """Sums of the Legendre polynomials 1 to 4 of their ranks."""
    mean: float
    sd: float
    absolute: float
    """Mean absolute deviation."""
    few: float
    """One over the effective number of deviations, Σd⁴/(Σd²)²."""
    model_mean: float
    drawn_mean: float
    drawn_sd: float
    drawn_absolute: float
    outlier: float
    """The reward that the model expects least."""
    tail: float
    """An upper bound of the probability of a reward as unexpected, among n."""
    value: float
    """The most frequent reward, its share, and its share among the drawn ones."""
    share: float
    expected: float

    @staticmethod
    def of(x: np.ndarray, chosen: np.ndarray, predicted: _Predicted, k: int) -> _Fit:
        draws = np.sort(predicted.draws[k])
        single = chosen.astype(np.float32).astype(float)  # the precision of the draws, so that equal numbers are equal
        below, upto = np.searchsorted(draws, single, "left"), np.searchsorted(draws, single, "right")
        u = (below + np.random.default_rng(k).random(len(single)) * (upto - below + 1)) / (len(draws) + 1)
        polynomials = np.polynomial.legendre.legvander(2 * u - 1, 4)[:, 1:].sum(0)
        mean = x.mean()
        d, e = x - mean, draws - draws.mean()
        square = np.square(d).sum()
        values, counts = np.unique(single, return_counts=True)
        value = values[counts.argmax()]
        worst = int(predicted.at_ends[k].argmax())
        return _Fit(
            len(x),
            len(chosen),
            polynomials,
            float(mean),
            float(np.sqrt(square / (len(x) - 1))),
            float(np.abs(d).mean()),
            float(np.power(d, 4).sum() / square**2) if square > 0 else 0.0,
            float(predicted.mean[k]),
            float(draws.mean()),
            float(draws.std()),
            float(np.abs(e).mean()),
            float(_ends(x)[worst]),
            _tail(predicted.surprise[k], float(predicted.at_ends[k, worst]), len(x)),
            float(value),
            float(counts.max() / len(single)),
            float((draws == value).mean()),
        )

    @property
    def gap(self) -> float:
        """How far the model's mean reward is from that of the rewards, in standard errors."""
        return abs(self.mean - self.model_mean) / max(self.sd / np.sqrt(self.n), 1e-300)

    @property
    def drawn_mean_is_off(self) -> bool:
        """Whether drawn rewards have another mean than the model says."""
        error = self.drawn_sd / np.sqrt(DRAWS)
        return not abs(self.drawn_mean - self.model_mean) <= SURE * error + 1e-3 * abs(self.model_mean)

    @property
    def away(self) -> str:
        """The same in words; rewards that are all equal have a standard error of 0."""
        return f"{self.gap:.0f} standard errors" if self.gap < 1000 else "more than 1,000 standard errors"

    @property
    def at_risk(self) -> bool:
        """Whether conclusions about means are."""
        return self.gap > FAR or self.few > RESTS_ON_FEW

    @property
    def risk(self) -> str:
        """Whether, and why, in words."""
        if self.gap > FAR:
            return f"its mean reward, {self.model_mean:.4g}, is {self.away} from theirs, {self.mean:.4g}"
        if self.few > RESTS_ON_FEW:
            return f"their mean rests on few of them, as if on {1 / self.few:.0f}, so conclusions about means are at risk"
        return f"with {self.n} rewards, conclusions about means are not at risk"

    def z(self) -> np.ndarray:
        """The mean polynomials in units of their standard errors, those of the drawn rewards included."""
        return self.polynomials / np.sqrt(self.ranked * (1 + self.ranked / DRAWS)) * np.sqrt(2 * np.arange(1, 5) + 1)


def _tail(drawn: np.ndarray, worst: float, n: int) -> float:
    """A bound of the probability that one of n rewards is as unexpected as `worst`.

    Beyond the drawn rewards, the tail of -log p is taken to fall exponentially, at 0.7 times the rate of its last part: that of
    normal rewards falls faster, that of Laplace rewards so, that of Student-t rewards nearly so.
    """
    if np.isinf(worst):
        return 0.0
    edge = np.quantile(drawn, 1 - TAIL)
    excess = np.mean(np.maximum(drawn - edge, 0.0)) / max(np.mean(drawn > edge), 1e-9)
    if worst <= drawn.max() or excess <= 0:
        return 1.0
    return float(min(1.0, n * TAIL * np.exp(-0.7 * (worst - edge) / excess)))


def _of_arm(label: str, fit: _Fit, model: Model, alpha: float) -> list[Misfit]:
    out, name = [], f"rewards of {label!r}"
    if not model.mean_of_samples and fit.drawn_mean_is_off and fit.gap > FAR:
        seen = f"The {name} are {fit.mean:.4g} on average, mean_reward says {fit.model_mean:.4g}"
        advice = "what is learned and what is reported are different things; let mean_reward be the mean of sample"
        return [Misfit(label, "mean", f"{seen}, and rewards that sample draws there are {fit.drawn_mean:.4g}: {advice}.", True)]
    chance = special.bdtrc(round(fit.share * fit.ranked) - 1, fit.ranked, max(fit.expected, 3 / DRAWS))
    if fit.share > 2 * fit.expected + TIES and chance < alpha:
        others = "conversions, counts or revenue" if fit.value in (0.0, 1.0) else "counts, where they are counted"
        seen = f"{100 * fit.share:.3g} % of the {name} are exactly {fit.value:.4g} and the model expects {100 * fit.expected:.3g} %"
        out.append(Misfit(label, "ties", f"{seen}: take a model of such rewards ({others}); {fit.risk}.", fit.at_risk))
    out += _of_ranks(label, name, fit, model, alpha, shape=not out)
    if not out and fit.tail < alpha:
        seen = (
            f"One of the {name} is {fit.outlier:.4g} and the model says {fit.model_mean:.4g} with an sd of about {fit.drawn_sd:.2g}"
        )
        out.append(Misfit(label, "tails", f"{seen}: look at such rewards, cap them, or take student-t; {fit.risk}.", fit.at_risk))
    return out


def _of_draws(label: str, fit: _Fit, low: float, high: float) -> list[Misfit]:
    """Whether the model's own `draw` gives the posterior of its densities, as far as their mode can tell."""
    beyond = max(low - fit.model_mean, fit.model_mean - high)
    if not beyond > BEYOND * (high - low) + 1e-3 * abs(fit.model_mean):
        return []
    seen = f"Draws of the mean reward of {label!r} are within [{low:.4g}, {high:.4g}], and log_prior and log_likelihood say about"
    advice = "let draw be that posterior (blts.posterior(model, rewards).check() compares them)"
    return [Misfit(label, "posterior", f"{seen} {fit.model_mean:.4g}: {advice}.", True)]


def _of_ranks(label: str | None, name: str, fit: _Fit, model: Model, alpha: float, *, shape: bool) -> list[Misfit]:
    sure = np.abs(fit.z()) > -special.ndtri(alpha)
    size = np.abs(fit.polynomials) / fit.ranked
    factors = fit.sd / max(fit.drawn_sd, 1e-300), fit.absolute / max(fit.drawn_absolute, 1e-300)
    if sure[0] and size[0] > SHIFT and fit.gap > FAR:
        seen = f"The {name} are {fit.mean:.4g} on average and the model says {fit.model_mean:.4g}, {fit.away} away"
        advice = "its prior holds it back, or its shape is wrong; state a prior that allows for such rewards, or take another model"
        return [Misfit(label, "location", f"{seen}: {advice}.", True)]
    if sure[1] and (min(factors) > SCALE or max(factors) < 1 / SCALE):
        advice = ADVICE.get(type(model).__name__, "take a model whose spread is learned, or state it")
        seen = f"The {name} spread {fit.sd:.3g} around their mean and the model says about {fit.drawn_sd:.2g}"
        return [Misfit(label, "spread", f"{seen}: {advice}. Probabilities of being best are wrong until then.", True)]
    if shape and (sure & (size > SHAPE)).any():
        kind = "heavy-tailed" if fit.polynomials[1] < 0 and size[1] > size[2] else "skewed" if size[2] > SHAPE else "oddly shaped"
        seen = f"The {name} are more {kind} than the model expects"
        return [Misfit(label, "shape", f"{seen}: take a model of such rewards, or transform them; {fit.risk}.", fit.at_risk)]
    return []


def _of_all(fits: list[_Fit], model: Model, alpha: float) -> list[Misfit]:
    """The checks of ranks on all arms together, which find what no arm has enough rewards to show."""
    n, ranked = sum(fit.n for fit in fits), sum(fit.ranked for fit in fits)
    share = np.array([fit.n / n for fit in fits])
    pooled = lambda name: float(share @ [getattr(fit, name) for fit in fits])  # noqa: E731
    square = lambda name: float(np.sqrt(share @ [getattr(fit, name) ** 2 for fit in fits]))  # noqa: E731
    polynomials = np.sum([fit.polynomials for fit in fits], 0)
    one = fits[0]._replace(
        n=n,
        ranked=ranked,
        polynomials=polynomials,
        mean=pooled("mean"),
        model_mean=pooled("model_mean"),
        drawn_mean=pooled("drawn_mean"),
        sd=square("sd"),
        drawn_sd=square("drawn_sd"),
        absolute=pooled("absolute"),
        drawn_absolute=pooled("drawn_absolute"),
        few=float(
            sum((fit.n * fit.sd**2) ** 2 * fit.few for fit in fits) / max(sum(fit.n * fit.sd**2 for fit in fits) ** 2, 1e-300)
        ),
    )
    return _of_ranks(None, "rewards of all arms", one, model, alpha, shape=True)
