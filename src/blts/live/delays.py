"""Delays of conversions, learned from an experiment's own ledger, and silence weighed by its age.

A decision that is still silent may convert until its window is over. If F(a) is the share of conversions within the window that
have come at age a, the conversions of an arm that have come are its rate times Σ F(age) over all its decisions, on average. So a
decision of age a is F(a) of a trial (`agents.conversions`, whose estimator this is), and the trials that did not convert are
failures. Whole decisions are learned from: as many of an arm's pending ones count as failures as the weights add up to, the
oldest first; without contexts it does not matter which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..agents.conversions import LEARNED, product_limit, silent_failures
from ..errors import ConfigError, shown
from ..models import Bernoulli
from ..specification import counts_rounds_by_rewards
from .ledger import Fold, Rewards

if TYPE_CHECKING:
    from .policy import Built
    from .spec import Spec


LEAST_AT_RISK = 5
"""A delay is not corrected for where fewer conversions could have been seen with it: one alone would say that none comes sooner."""


class Delays(NamedTuple):
    """The distribution of the delays of conversions within the window, one for all arms."""

    seconds: np.ndarray
    """The delays that were seen, each once, ascending."""
    share: np.ndarray
    """Which share of conversions has come by each."""
    hazard: np.ndarray
    """n / R: the share that has just this delay, of those that have at most this."""
    at_risk: np.ndarray
    """R: conversions of at most this delay whose decisions are that old."""
    window: float
    conversions: int
    """How many it is estimated from."""
    after_window: int
    """How many came after their window and are left out."""

    @staticmethod
    def of(delays: np.ndarray, ages: np.ndarray, window: float) -> Delays:
        """Estimate the distribution from conversions so far (Lynden-Bell 1971).

        Args:
            delays: of conversions, in seconds.
            ages: of their decisions, at least as large.
            window: later conversions are left out.

        Returns:
            The distribution, relative to the delays that can have been seen by now.

        >>> import numpy as np
        >>> found = Delays.of(np.repeat([1.0, 1.0, 3.0], 5), np.repeat([2.0, 9.0, 9.0], 5), window=5.0)
        >>> found.by(np.array([0.5, 1.0, 3.0, 7.0])).tolist()
        [0.0, 0.5, 1.0, 1.0]
        """
        within = delays <= window
        seconds, came = np.unique(delays[within], return_counts=True)
        n, gone = came.astype(float), np.searchsorted(np.sort(ages[within]), seconds, side="left")
        at_risk = np.cumsum(n) - gone
        n = np.where(at_risk < LEAST_AT_RISK, 0.0, n)
        share = product_limit(n, at_risk) if len(n) else n
        return Delays(seconds, share, n / at_risk, at_risk, window, int(within.sum()), int((~within).sum()))

    def by(self, ages: np.ndarray) -> np.ndarray:
        """Which share of conversions has come at some ages; 1 from the window on, and everywhere before the first conversion."""
        if not self.conversions:
            return np.ones(len(ages))
        share = np.concatenate([np.zeros(1), self.share])[np.searchsorted(self.seconds, ages, side="right")]
        return np.where(ages >= self.window, 1.0, share)


class Silence(NamedTuple):
    """What is known of the decisions that count at some moment; arrays `[decisions]`."""

    delays: Delays
    ages: np.ndarray
    share: np.ndarray
    """Which part of a trial each is."""
    counts: np.ndarray
    """Whether it counts at all: it was carried out, and is neither cancelled nor forgotten."""
    converted: np.ndarray
    failed: np.ndarray
    """Its window is over, without a conversion."""

    @property
    def pending(self) -> np.ndarray:
        """Those that may still convert."""
        return self.counts & ~self.converted & ~self.failed

    @staticmethod
    def at(fold: Fold, explicit: bool, now: float, window: float, since: float | None = None) -> Silence:
        """Weigh the decisions of an experiment by their ages.

        A reward of 0 that is told early says no more than silence until the window is over: if some failures were told at once
        and conversions came late, rates would be too low.

        Args:
            fold: decisions and rewards.
            explicit: leave out decisions that were not exposed.
            now: the moment for which they are weighed; what is later in the ledger counts as of now.
            window: seconds after which silence is a failure.
            since: leave out decisions whose window began before it; None leaves out none.

        Returns:
            The delays, and the weight of each decision.
        """
        starts = fold.starts(explicit)
        counts = ~np.isnan(starts) & ~(fold.settled & np.isnan(fold.rewards))
        if since is not None:
            counts &= starts >= since
        converted = counts & (fold.rewards == 1)
        delays = np.maximum(fold.entered - starts, 0.0)
        ages = np.maximum(now - starts, np.where(converted, delays, 0.0))
        fitted = Delays.of(delays[converted], ages[converted], window)
        over = starts <= now - window
        share = np.zeros(len(starts))
        share[counts] = np.where(over[counts], 1.0, fitted.by(ages[counts]))
        return Silence(fitted, ages, share, counts, converted, counts & over & ~converted)

    def failures(self, arms: np.ndarray) -> np.ndarray:
        """Pending decisions of each arm that count as failures."""
        open_ = self.counts & ~self.failed
        size = arms.max(initial=-1) + 1
        trials = np.bincount(arms[open_], self.share[open_], minlength=size)
        return silent_failures(trials, np.bincount(arms[self.converted], minlength=size))


def weighed(fold: Fold, explicit: bool, now: float, window: float, since: float | None = None) -> Rewards:
    """The rewards to learn from where silence is weighed; the arguments are those of `Silence.at`.

    Returns:
        Conversions, failures whose window is over, and as many pending decisions of each arm with the reward 0 as their weights add
        up to, the oldest first; in the order of decisions.
    """
    known = Silence.at(fold, explicit, now, window, since)
    chosen = known.converted | known.failed
    failures = np.round(known.failures(fold.arms)).astype(int)
    pending = np.flatnonzero(known.pending)
    pending = pending[np.argsort(-known.ages[pending], kind="stable")]
    for arm, count in enumerate(failures):
        chosen[pending[fold.arms[pending] == arm][:count]] = True
    here = np.flatnonzero(chosen)
    return Rewards(here + 1, fold.arms[here], np.where(known.converted[here], 1.0, 0.0))


def check_delay(spec: Spec) -> None:
    """Refuse learned delays with settings that they are not right for (`ConfigError`)."""
    if spec.delay is None:
        return
    if spec.delay != LEARNED:
        raise ConfigError(f"delay must be {LEARNED!r}; got {shown(spec.delay)}.")
    if spec.window is None or spec.window <= 0 or spec.default_reward != 0:
        raise ConfigError('delay="learned" is for silence that is 0 when a window ends; give window="7d" and default_reward=0.')
    if spec.learn == "open":
        raise ConfigError('learn="open" takes early rewards as they are, and delay="learned" weighs them; leave out one of them.')
    if spec.features:
        raise ConfigError('delay="learned" counts conversions by arm and knows no contexts; leave out features, or the delay.')
    if spec.objective:
        raise ConfigError('An objective is known when all windows are over, so it has no delays; leave out delay="learned".')


def check_weighable(spec: Spec, built: Built) -> None:
    """Refuse a model or an agent for which silence cannot be weighed (`ConfigError`)."""
    if spec.delay is None:
        return
    if not isinstance(built.model, Bernoulli):
        raise ConfigError(f'delay="learned" is for conversions (bernoulli), not for {spec.model.words}; leave it out.')
    if counting := counts_rounds_by_rewards(built.agent):
        raise ConfigError(
            f'{type(counting).__name__} counts a round for each reward, and with delay="learned" silence counts too; leave out one '
            "of them."
        )
