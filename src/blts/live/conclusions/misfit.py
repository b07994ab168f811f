"""Whether a model's likelihood fits the rewards: posterior-predictive checks of every arm.

Each arm's θ is put at the mode of its posterior, from there rewards are drawn, and the observed ones are ranked among them. A rank
is uniform if the model is right (ties are ranked at random), so its first Legendre polynomials have known means and variances
(Neyman's smooth test): the first is off where the prior pulls the arm away from its rewards, the second where the spread is wrong,
the third and fourth where the shape is. Two more checks compare the most extreme reward and the most frequent one. The mode stands
in for the posterior because an arm is checked from `LEAST` rewards on; it makes the checks a little milder, never stricter.

Where most rewards are 0, ranks of all of them say little: a tie of 90 % hides what the other 10 % are. So payments of revenue are
checked by themselves, with the log-normal part of the model; what a log-normal model says of their mean is compared with
their average; and counts are checked by how often two events fall on the same unit (the index of dispersion), in all rows.
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
from ...models import LogNormal, Model, Poisson, ZeroInflatedLogNormal
from ...models.arms import stack
from ...models.drawing import arms_of
from ...models.support import support_of_likelihood

ALARM = 1e-3  # probability that a call finds anything wrong with a true model; reports are looked at again and again
LEAST = 20  # rewards from which an arm is checked by itself
CHECKS = 13  # of an arm: four of ranks and one of a log-normal mean, both ways; tails, ties and dispersion, one way
ROWS = 512  # rewards of an arm that are ranked, evenly spread over time, so that nothing is compiled for another number
SINGLE = 64  # smallest and largest rewards of an arm that are not put together with others where its mode is looked for
DRAWS = 2048  # rewards drawn for each arm
ENDS = 8  # smallest and largest rewards of an arm whose log-likelihood is looked at
CLIMB = 120  # steps of Rprop: each halves the error once the slope has turned
SCALE = 1.2  # a spread is wrong from this factor on
SHIFT = 0.056  # mean rank less 1/2 from which a location is wrong: a fifth of an sd, for normal rewards
SHAPE = 0.05  # mean of a Legendre polynomial from which a shape is wrong; that of exponential rewards under a normal model is 0.08
MEAN = 0.05  # sds between the mean of rewards and that of a log-normal model from which it is wrong
FAR = 4.0  # standard errors between the mean of the rewards and that of the model from which conclusions are at risk
FAR_OF_PAYMENTS = 2.0  # the same where payments have another shape: a log-normal mean is that of its shape, not of the payments
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
GO_BY = 'go by the AIPW means, or take the model "numbers"'


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
    arms, rewards = np.asarray(arms), np.asarray(rewards, float)
    if not provides(model, "sample"):
        why = why_lost(model, "sample") or f"{type(model).__name__} has no `sample`; give one, and its fit is checked"
        return [Misfit(None, "unchecked", f"Whether the model fits is not known: {why.rstrip('.')}.", False)]
    amounts, paid = _amounts(model), rewards > 0
    if amounts is None:
        return _found(model, arms, rewards, labels, intervals, ALARM, "rewards")
    # Half of the alarms are for the payments, half for all rewards, of which nothing more is said where payments do not fit.
    first = _found(amounts, arms[paid], rewards[paid], labels, None, ALARM / 2, "payments")
    wrong = {m.arm for m in first}
    then = _found(model, arms, rewards, labels, intervals, ALARM / 2, "rewards")
    then = [m for m in then if not first or (m.arm is not None and not wrong & {m.arm, None})]
    return sorted(first + then, key=lambda m: not m.serious)


def _amounts(model: Model) -> LogNormal | None:
    """The model of payments alone, of one that is zero or log-normal and whose posterior is a product of the two."""
    if not isinstance(model, ZeroInflatedLogNormal) or not provides(model, "draw"):
        return None
    return LogNormal(model.prior_mean, model.weight, model.a, model.b)


def _found(
    model: Model,
    arms: np.ndarray,
    rewards: np.ndarray,
    labels: list[str],
    intervals: tuple[np.ndarray, np.ndarray] | None,
    alarm: float,
    what: str,
) -> list[Misfit]:
    """What does not fit, found in a true model with probability `alarm` at most."""
    if len(rewards) < LEAST:
        return []
    K = len(labels)
    mine = [rewards[arms == k] for k in range(K)]
    predicted = _predicted(model, mine)
    told = [k for k, x in enumerate(mine) if len(x) >= 2]
    if not all(np.isfinite(x[told]).all() for x in predicted[:3]) or np.isnan(predicted.at_ends[told]).any():
        return [Misfit(None, "unchecked", "Whether the model fits is not known: what it expects is not finite.", False)]
    alpha = alarm / (CHECKS * (K + 1))  # the checks of each arm; then those of all arms together
    fits = {labels[k]: _Fit.of(mine[k], _spread_out(mine[k]), predicted, k, what) for k in told}
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
        values, counts = _together(x)
        rows[k] = np.resize(values, ROWS) if len(x) else anything  # padded with possible rewards, of weight 0
        weights[k, : len(counts)] = counts
        ends[k] = _ends(x if len(x) else anything)
    found = _predict(stack(model, K), *(jnp.asarray(x, float) for x in (rows, weights, ends)))
    return _Predicted(*(np.asarray(x, float) for x in found))


def _spread_out(x: np.ndarray) -> np.ndarray:
    """At most ROWS of an arm's rewards, evenly spread."""
    return x if len(x) <= ROWS else x[np.linspace(0, len(x) - 1, ROWS).round().astype(int)]


def _together(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most ROWS numbers and how many of an arm's rewards each stands for: equal ones, and then neighbours, by their mean.

    A part of the rewards, instead, would give another mode than that of all: of 20,000 rewards, 6 standard errors away.
    """
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= ROWS:
        return values, counts
    most = int(counts.argmax())  # zeros, if there are many, are one number
    order = np.sort(x[x != values[most]])
    inner = np.array_split(order[SINGLE:-SINGLE], ROWS - 2 * SINGLE - 1)
    means = np.array([part.mean() for part in inner if len(part)])
    if (values == values.round()).all():
        means = means.round()
    sizes = [len(part) for part in inner if len(part)]
    ones = np.ones(2 * SINGLE)
    return np.concatenate([values[most : most + 1], order[:SINGLE], order[-SINGLE:], means]), np.concatenate(
        [counts[most : most + 1], ones, sizes]
    )


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
    pairs: float
    """Pairs of counted events of the same unit."""
    expected_pairs: float
    """How many are expected of Poisson counts with the same total."""
    skew_of_pairs: float
    """The third central moment of their number; the second is the expected one."""
    what: str
    """rewards or payments."""

    @staticmethod
    def of(x: np.ndarray, chosen: np.ndarray, predicted: _Predicted, k: int, what: str) -> _Fit:
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
            *_pairs(x),
            what,
        )

    @property
    def gap(self) -> float:
        """How far the model's mean reward is from that of the rewards, in standard errors."""
        return abs(self.mean - self.model_mean) / max(self.sd / np.sqrt(self.n), 1e-300)

    @property
    def mean_gap(self) -> float:
        """The same as far as it counts: 0 where it is small in sds, or where the standard error itself rests on few rewards."""
        far = abs(self.mean - self.model_mean) > MEAN * self.sd
        return self.gap if far and self.few <= RESTS_ON_FEW else 0.0

    @property
    def off_by(self) -> str:
        """How far the model's mean is from that of the rewards, which are above zero, as a share."""
        ratio = self.model_mean / self.mean
        return f"{100 * abs(ratio - 1):.0f} % too {'much' if ratio > 1 else 'little'}"

    @property
    def chance_of_pairs(self) -> float:
        """A bound of the probability of as many pairs among Poisson counts: that of a Poisson number of pairs, or of a gamma law.

        Pairs are pairwise independent given the total of the counts, so their variance is their mean. With few events their number
        is Poisson; with many it is near a gamma law with the same three moments, the chi-square of the index of dispersion.
        """
        if self.pairs < LEAST:
            return 1.0
        shape = 4 * self.expected_pairs**3 / self.skew_of_pairs**2
        z = (self.pairs - self.expected_pairs) / np.sqrt(self.expected_pairs)
        gamma = special.gammaincc(shape, max(shape + z * np.sqrt(shape), 0.0))
        return float(max(special.pdtrc(self.pairs - 1, self.expected_pairs), gamma))

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
    def far(self) -> bool:
        """Whether the model's mean is far from that of the rewards."""
        return self.gap > (FAR_OF_PAYMENTS if self.what == "payments" else FAR)

    @property
    def at_risk(self) -> bool:
        """Whether conclusions about means are."""
        return self.far or self.few > RESTS_ON_FEW

    @property
    def risk(self) -> str:
        """Whether, and why, in words."""
        if self.far:
            return f"its mean {self.what[:-1]}, {self.model_mean:.4g}, is {self.away} from theirs, {self.mean:.4g}"
        if self.few > RESTS_ON_FEW:
            return f"their mean rests on few of them, as if on {1 / self.few:.0f}, so conclusions about means are at risk"
        return f"with {self.n} {self.what}, conclusions about means are not at risk"

    def z(self) -> np.ndarray:
        """The mean polynomials in units of their standard errors, those of the drawn rewards included."""
        return self.polynomials / np.sqrt(self.ranked * (1 + self.ranked / DRAWS)) * np.sqrt(2 * np.arange(1, 5) + 1)


def _pairs(x: np.ndarray) -> tuple[float, float, float]:
    """Pairs of events of the same unit, and the mean and the third central moment of their number given the total."""
    n, total = len(x), x.sum()
    expected = total * (total - 1) / (2 * n)
    return float((x * (x - 1)).sum() / 2), float(expected), float(expected + total * (total - 1) * max(total - 2, 0.0) / n**2)


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
    out, name = [], f"{fit.what} of {label!r}"
    if not model.mean_of_samples and fit.drawn_mean_is_off and fit.gap > FAR:
        seen = f"The {name} are {fit.mean:.4g} on average, mean_reward says {fit.model_mean:.4g}"
        advice = "what is learned and what is reported are different things; let mean_reward be the mean of sample"
        return [Misfit(label, "mean", f"{seen}, and rewards that sample draws there are {fit.drawn_mean:.4g}: {advice}.", True)]
    chance = special.bdtrc(round(fit.share * fit.ranked) - 1, fit.ranked, max(fit.expected, 3 / DRAWS))
    if fit.share > 2 * fit.expected + TIES and chance < alpha:
        others = "conversions, counts or revenue" if fit.value in (0.0, 1.0) else "counts, where they are counted"
        seen = f"{100 * fit.share:.3g} % of the {name} are exactly {fit.value:.4g} and the model expects {100 * fit.expected:.3g} %"
        advice = GO_BY if fit.what == "payments" else f"take a model of such rewards ({others})"
        out.append(Misfit(label, "ties", f"{seen}: {advice}; {fit.risk}.", fit.at_risk))
    out += _of_ranks(label, name, fit, model, alpha, shape=not out)
    if not out and fit.tail < alpha:
        seen = (
            f"One of the {name} is {fit.outlier:.4g} and the model says {fit.model_mean:.4g} with an sd of about {fit.drawn_sd:.2g}"
        )
        out.append(
            Misfit(label, "tails", f"{seen}: look at such {fit.what}, cap them, or take student-t; {fit.risk}.", fit.at_risk)
        )
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
    """The checks of ranks, of the mean, and of the dispersion of counts: at most one thing, the one that explains most."""
    sure = np.abs(fit.z()) > -special.ndtri(alpha)
    size = np.abs(fit.polynomials) / fit.ranked
    factors = fit.sd / max(fit.drawn_sd, 1e-300), fit.absolute / max(fit.drawn_absolute, 1e-300)
    if sure[0] and size[0] > SHIFT and fit.gap > FAR:
        seen = f"The {name} are {fit.mean:.4g} on average and the model says {fit.model_mean:.4g}, {fit.away} away"
        advice = "its prior holds it back, or its shape is wrong; state a prior that allows for such rewards, or take another model"
        return [Misfit(label, "location", f"{seen}: {advice}.", True)]
    if isinstance(model, LogNormal) and fit.mean_gap > max(-special.ndtri(alpha), FAR):
        seen = f"The {name} are {fit.mean:.4g} on average and the model says {fit.model_mean:.4g}, {fit.off_by}"
        return [Misfit(label, "mean", f"{seen}: its shape or its prior is wrong; {GO_BY}.", True)]
    if _counts(model) and fit.chance_of_pairs < alpha and fit.sd > SCALE * math.sqrt(max(fit.mean, 0.0)):
        seen = f"The {name} spread {fit.sd:.3g} around their mean and the model says about {math.sqrt(fit.model_mean):.2g}"
        return [Misfit(label, "spread", f"{seen}: {ADVICE['Poisson']}. Probabilities of being best are wrong until then.", True)]
    if sure[1] and (min(factors) > SCALE or max(factors) < 1 / SCALE):
        advice = (
            GO_BY
            if fit.what == "payments"
            else ADVICE.get(type(model).__name__, "take a model whose spread is learned, or state it")
        )
        seen = f"The {name} spread {fit.sd:.3g} around their mean and the model says about {fit.drawn_sd:.2g}"
        return [Misfit(label, "spread", f"{seen}: {advice}. Probabilities of being best are wrong until then.", True)]
    if shape and (sure & (size > SHAPE)).any():
        kind = "heavy-tailed" if fit.polynomials[1] < 0 and size[1] > size[2] else "skewed" if size[2] > SHAPE else "oddly shaped"
        seen = f"The {name} are more {kind} than the model expects"
        advice = GO_BY if fit.what == "payments" else "take a model of such rewards, or transform them"
        return [Misfit(label, "shape", f"{seen}: {advice}; {fit.risk}.", fit.at_risk)]
    return []


def _counts(model: Model) -> bool:
    """Whether rewards are Poisson counts, of a class that has not made something else of them."""
    return isinstance(model, Poisson) and support_of_likelihood(model) == "count"


def _of_all(fits: list[_Fit], model: Model, alpha: float) -> list[Misfit]:
    """The checks of ranks on all arms together, which find what no arm has enough rewards to show."""
    n, ranked = sum(fit.n for fit in fits), sum(fit.ranked for fit in fits)
    share = np.array([fit.n / n for fit in fits])
    pooled = lambda name: float(share @ [getattr(fit, name) for fit in fits])  # noqa: E731
    square = lambda name: float(np.sqrt(share @ [getattr(fit, name) ** 2 for fit in fits]))  # noqa: E731
    total = lambda name: float(sum(getattr(fit, name) for fit in fits))  # noqa: E731
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
        pairs=total("pairs"),
        expected_pairs=total("expected_pairs"),
        skew_of_pairs=total("skew_of_pairs"),
    )
    return _of_ranks(None, f"{fits[0].what} of all arms", one, model, alpha, shape=True)
