"""What is known of an experiment, with what to make of it: estimates, checks, a recommendation, never an action."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._typing import Tree
from ..agents import Thompson
from . import estimates, stopping
from .export import WAITING, DecisionTable, table_of
from .learning import chains_in_words
from .status import allocation

if TYPE_CHECKING:
    from .context import Policy
    from .experiment import Experiment

DRAWS = 4096
LEVEL = 0.95
WINNER = 0.95  # P(best) from which an arm is recommended
WHY = (
    "The naive mean is an arm's mean reward. After an adaptive allocation it is biased, mostly downwards: an arm whose first "
    "rewards were unlucky is played less, and keeps them. IPW and AIPW weight each reward by the probability of its decision, "
    "which undoes that; AIPW is the steadier of the two where rewards are far from zero."
)


def report_of(experiment: Experiment) -> dict[str, Any]:
    """A report as JSON could hold it; what does not exist is None."""
    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
        current = experiment.context.policy(c, row.version)
    table = table_of(experiment)
    cap = experiment.spec.cap
    status = np.array(table.status) if table.status else np.zeros(0, "<U9")
    has = ~np.isnan(table.rewards)
    capped = table.rewards if cap is None else np.minimum(table.rewards, cap)
    seen = _Seen(table, has, capped)
    belief = _belief(current)
    entry = experiment.policy(row.version)
    arms = [_arm(k, table, status, seen, current, belief) for k in range(len(table.labels))]
    shown = status != "cancelled"
    settled = shown & (status != WAITING)
    missing = np.isin(status, ("missing", "default"))
    ratio = estimates.sample_ratio(table.arms, table.p) if len(table.t) else None
    gain = estimates.value_against_equal(*seen.arrays()) if seen.any else None
    report = {
        "name": experiment.name,
        "model": experiment.spec.model.words,
        "sampler": experiment.spec.sampler.words,
        "batching": experiment.spec.batching.words,
        "outside_theory": _outside_theory(experiment, current),
        "decisions": len(table.t),
        "batch": row.batch,
        "policy": row.version,
        "watermark": entry["watermark"],
        "chains": chains_in_words(entry["diagnostics"]) or None,
        "last_refresh_failed": experiment.policy(row.versions)["failings"] or None,
        "paused": bool(row.paused),
        "cap": cap,
        "capped_rewards": 0 if cap is None else int((table.rewards[has] > cap).sum()),
        "level": LEVEL,
        "arms": arms,
        "missing_feedback_rate": _share(missing.sum(), settled.sum()),
        "pending": int((status == WAITING).sum()),
        "sample_ratio": None
        if ratio is None
        else {
            "p_value": _number(ratio.p_value),
            "alarm": ratio.alarm,
            "expected": dict(zip(table.labels, map(float, ratio.expected), strict=True)),
            "observed": dict(zip(table.labels, map(int, ratio.observed), strict=True)),
        },
        "value_against_equal": None
        if gain is None
        else {
            "per_unit": _number(gain.per_unit),
            "se": _number(gain.se),
            "low": _number(gain.per_unit - 1.96 * gain.se),
            "high": _number(gain.per_unit + 1.96 * gain.se),
            "total": _number(gain.total),
        },
        "why_estimates_differ": WHY,
    }
    report["recommendation"] = _recommendation(report, belief, current)
    return report | stopping.concluded(experiment, table, report)


class _Seen:
    """The decisions that have a reward."""

    def __init__(self, table: DecisionTable, has: np.ndarray, capped: np.ndarray):
        self.arms, self.rewards = table.arms[has], capped[has]
        self.p, self.batches = table.p[has], table.batches[has]
        self.any = bool(has.any())
        K = len(table.labels)
        if self.any:
            # Of fewer than two rewards no estimate has a spread.
            random = estimates.is_randomised(self.p) & (np.bincount(self.arms, minlength=K) >= 2)
            blank = lambda e: estimates.Estimate(np.where(random, e.value, np.nan), np.where(random, e.se, np.nan))  # noqa: E731
            self.estimates = {
                "naive": estimates.naive(self.arms, self.rewards, K),
                "ipw": blank(estimates.ipw(self.arms, self.rewards, self.p)),
                "aipw": blank(estimates.aipw(*self.arrays())),
            }
        else:
            nothing = estimates.Estimate(np.full(K, np.nan), np.full(K, np.nan))
            self.estimates = {"naive": nothing, "ipw": nothing, "aipw": nothing}

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.arms, self.rewards, self.p, self.batches


def posterior_draws(current: Policy, draws: int = DRAWS) -> np.ndarray | None:
    """Mean rewards drawn from the posterior of the policy in use, [draws, active arms]; None for agents without one."""
    agent = current.built.agent
    if not agent.holds_posterior:
        return None
    return np.asarray(_draw(agent, current.frozen.state, jnp.arange(draws)), float)


@jax.jit
def _draw(agent: Thompson, state: Tree, indices: jax.Array) -> jax.Array:
    key = _random.as_key(0)  # fixed: the same state gives the same report
    one = lambda i: agent.mean_rewards(agent.belief.draw(_random.fold_in(key, i), agent.model, state), ())  # noqa: E731
    return jax.lax.map(one, indices, batch_size=256)


def _belief(current: Policy) -> estimates.PosteriorSummary | None:
    draws = posterior_draws(current)
    return None if draws is None else estimates.summarise(draws, LEVEL)


def _arm(
    k: int, table: DecisionTable, status: np.ndarray, seen: _Seen, current: Policy, belief: estimates.PosteriorSummary | None
) -> dict[str, Any]:
    mine = table.arms == k
    count = lambda *kinds: int((mine & np.isin(status, kinds)).sum())  # noqa: E731
    out: dict[str, Any] = {
        "arm": table.labels[k],
        "active": table.active[k],
        "units": int(mine.sum()),
        "pending": count(WAITING),
        "observed": count("told", "corrected", "aggregate"),
        "defaulted": count("default"),
        "missing": count("missing"),
        "cancelled": count("cancelled"),
    }
    place = current.active.index(k) if k in current.active else None
    out["allocation"] = 0.0 if place is None else _number(allocation(current)[place])
    for name in ("mean", "median", "low", "high", "best", "loss"):
        value = None if belief is None or place is None else _number(getattr(belief, name)[place])
        out[{"best": "p_best", "loss": "expected_loss"}.get(name, f"posterior_{name}")] = value
    for name, estimate in seen.estimates.items():
        low, high = estimate.interval(LEVEL)
        out[name] = {
            "value": _number(estimate.value[k]),
            "se": _number(estimate.se[k]),
            "low": _number(low[k]),
            "high": _number(high[k]),
        }
    return out


def _recommendation(report: dict[str, Any], belief: estimates.PosteriorSummary | None, current: Policy) -> str:
    """One sentence for a person to act on."""
    ratio = report["sample_ratio"]
    if ratio is not None and ratio["alarm"]:
        return "Look into the assignment first: arms were not played as often as their propensities say."
    if report["last_refresh_failed"]:
        return f"Look into the sampler first: the last refresh is not used ({'; '.join(report['last_refresh_failed'])})."
    if not any(arm["observed"] for arm in report["arms"]):
        return "Keep on: there are no rewards yet."
    if belief is None:
        return "Keep on, or compare the arms' means: this agent has no posterior to recommend from."
    labels, top = current.labels, int(np.argmax(belief.best))
    burn_in = int(current.built.mixture.burn_in)
    few = [arm["arm"] for arm in report["arms"] if arm["active"] and arm["units"] < burn_in]
    if few:
        return f"Keep on: {few[0]!r} has not had its {burn_in} units yet."
    if belief.best[top] >= WINNER:
        loss = f", and choosing it loses {belief.loss[top]:.3g} a unit" if np.isfinite(belief.loss[top]) else ""
        return f"Consider {labels[top]!r}: it is best with probability {belief.best[top]:.3f}{loss}."
    return f"Keep on: {labels[top]!r} leads, and is best with probability {belief.best[top]:.3f} only."


def _outside_theory(experiment: Experiment, current: Policy) -> str | None:
    if experiment.spec.batching.name == "external":
        return "External batches are outside the theorem, which needs batches that close when an arm's plays double."
    theory = current.built.model.theory()
    return None if theory.inside else theory.why


def _number(x: float | None) -> float | None:
    return float(x) if x is not None and math.isfinite(x) else None


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None
