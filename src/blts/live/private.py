"""The setting `privacy` of an experiment: what it promises, and what cannot be had with it.

Refreshes then learn from noisy sums of rewards (`releases`). Whatever else reads rewards and decides anything is refused here, and
so is what would tell whose rewards have come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import privacy
from ..agents import Exact, Thompson
from ..errors import ConfigError, did_you_mean, shown
from ..models import Gaussian, Model

if TYPE_CHECKING:
    from .policy import Built
    from .spec import Spec

SETTINGS = ("rho", "low", "high", "rows")
EXAMPLE = 'privacy={"rho": 1.0, "low": 0, "high": 1}'
FAR = 1000.0
"""Rewards further from 0 than so many times their range lose too many digits in single precision."""
LARGEST_RHO = 1e12


class Privacy(NamedTuple):
    """How much policies may tell of one person's reward.

    >>> from blts.live.private import Privacy
    >>> Privacy(rho=2.0, low=0.0, high=1.0).noise_sd
    0.5
    """

    rho: float
    """ρ of zCDP, for all versions together."""
    low: float
    """The least reward: what is below counts as this in what is learned."""
    high: float
    """The largest reward."""
    rows: int = 1
    """How many decisions of one person are covered."""

    @property
    def noise_sd(self) -> float:
        """Of the noise on the sum of an arm's rewards: rows · (high - low)/√(2ρ)."""
        return self.rows * (self.high - self.low) / math.sqrt(2 * self.rho)

    @property
    def guarantee(self) -> privacy.Guarantee:
        """What is promised, in words too."""
        clipped = f"Rewards are clipped to [{self.low:g}, {self.high:g}]"
        noise = f"noise of sd {self.noise_sd:.3g} on the sum of an arm's rewards"
        return privacy.Guarantee(self.rho, self.rows, False, clipped, noise)


def privacy_of(given: object) -> Privacy | None:
    """The setting as people write it.

    Args:
        given: None, a `Privacy`, or a mapping with its fields.

    Returns:
        The setting, checked.

    Raises:
        ConfigError: it is none.
    """
    if given is None:
        return None
    if isinstance(given, Privacy):
        given = given._asdict()
    if not isinstance(given, Mapping):
        raise ConfigError(f"privacy must be a table with {', '.join(SETTINGS)}, such as {EXAMPLE}; got {shown(given)}.")
    for name in given:
        if name not in SETTINGS:
            hint = did_you_mean(str(name), SETTINGS)
            raise ConfigError(f"privacy has no setting {shown(name)}.{hint} Its settings: {', '.join(SETTINGS)}.")
    for name in SETTINGS[:3]:
        value = given.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not -1e30 < value < 1e30:
            got = f"got {shown(value)}" if name in given else "it is missing"
            raise ConfigError(f"privacy needs the number {name}, such as {EXAMPLE}; {got}.")
    rows = given.get("rows", 1)
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= 1_000_000:
        raise ConfigError(f"rows of privacy must be a whole number from 1 to 1,000,000; got {shown(rows)}.")
    found = Privacy(float(given["rho"]), float(given["low"]), float(given["high"]), rows)
    if not 1 / LARGEST_RHO <= found.rho <= LARGEST_RHO:
        raise ConfigError(f"rho of privacy must be a number from {1 / LARGEST_RHO:g} to {LARGEST_RHO:g}; got {found.rho:g}.")
    if not found.high > found.low:
        raise ConfigError(f"high of privacy must be above low; got {found.low:g} and {found.high:g}.")
    if max(abs(found.low), abs(found.high)) > FAR * (found.high - found.low):
        between = f"Rewards between {found.low:g} and {found.high:g}"
        raise ConfigError(f"{between} are too far from zero for single precision; subtract a constant.")
    return found


def check_privacy(spec: Spec) -> None:
    """Refuse settings that read rewards without noise, or would tell whose rewards have come (`ConfigError`)."""
    said = spec.privacy
    if said is None:
        return
    if spec.features:
        raise ConfigError("privacy is for experiments without contexts, which are private too; leave out features, or privacy.")
    if spec.objective:
        raise ConfigError("privacy needs rewards of a known range, and an objective has none; leave out objective, or privacy.")
    if spec.window is None or spec.default_reward is None:
        raise ConfigError(
            "privacy needs a window and a default reward, so that a release does not tell whose rewards have come; give both, "
            'such as window="1d" and default_reward=0.'
        )
    if not said.low <= spec.default_reward <= said.high:
        between = f"between the low={said.low:g} and high={said.high:g} of privacy"
        raise ConfigError(f"The default reward {spec.default_reward:g} is not {between}; change one of them.")
    reasons = {
        "delay": "weighs silence by rewards without noise",
        "forget": "would release rewards again, without those that are forgotten",
        "refresh_rewards": "tells how many rewards have come",
    }
    for name, why in reasons.items():
        if getattr(spec, name) is not None:
            raise ConfigError(f"{name} {why}; leave it out, or privacy.")
    if spec.learn == "open":
        raise ConfigError('learn="open" tells whose rewards came before their windows were over; leave it out, or privacy.')
    if spec.stop is not None and spec.stop.action != "recommend":
        raise ConfigError(
            'A stopping rule that promotes reads rewards without noise; take action="recommend", or leave out privacy.'
        )
    for metric in spec.metrics:
        if metric.pause:
            raise ConfigError(
                f"The metric {metric.name!r} would retire arms by values without noise; leave out its pause, and alarms are still "
                "reported, or leave out privacy."
            )


def check_private(spec: Spec, built: Built) -> None:
    """Refuse a model or an agent that does not learn from noisy sums (`ConfigError`)."""
    if spec.privacy is None:
        return
    if type(built.model) is not Gaussian:
        raise ConfigError(
            f"privacy needs the model gaussian, whose posterior given noisy sums is known, not {spec.model.words}; for rewards "
            'between 0 and 1, such as conversions, take {"name": "gaussian", "sd": 0.5}: no such reward has a larger sd.'
        )
    if type(built.agent) is not Thompson or type(built.agent.belief) is not Exact:
        raise ConfigError(f"privacy is for Thompson sampling with exact draws, not {spec.sampler.words}; take the sampler exact.")


def check_prior(spec: Spec) -> None:
    """Refuse a prior that is learned, from rewards without noise (`ConfigError`)."""
    if spec.privacy is not None and spec.prior is not None and spec.prior.learned:
        raise ConfigError(
            "A learned prior reads rewards without noise; with privacy state one, such as "
            'prior="0.3 ± 0.2", or the prior_mean and prior_sd of the model.'
        )


def fits_bounds(spec: Spec, model: Model, rewards: np.ndarray) -> str | None:
    """Why a Gaussian model may be used of rewards that are not normal.

    Rewards in [low, high] are sub-Gaussian with (high - low)/2 (Hoeffding's lemma): a model with that sd is not too sure of a mean.

    Args:
        spec: the experiment's.
        model: with or without arms in front.
        rewards: all that count.

    Returns:
        A sentence; None where it may not, or nothing is private.
    """
    said = spec.privacy
    if said is None or not isinstance(model, Gaussian) or np.min(model.sd) < 0.4999 * (said.high - said.low):
        return None
    if len(rewards) and not (rewards.min() >= said.low and rewards.max() <= said.high):
        return None
    return (
        f"Rewards between {said.low:g} and {said.high:g} need not be normal: the model's sd of {np.min(model.sd):g} is the largest "
        "that they can have, so its intervals are rather too wide than too narrow."
    )


def refuse_totals(spec: Spec) -> None:
    """Refuse totals, whose rows tell of several people each (`ConfigError`)."""
    if spec.privacy is not None:
        raise ConfigError("A total spreads each person's reward over many rows, and privacy is for one; tell rewards one by one.")
