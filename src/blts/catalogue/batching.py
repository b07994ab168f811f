"""Named batching schemes."""

from __future__ import annotations

from .. import batching
from ..agents.index import phase_ends
from ..errors import ConfigError
from ..registry import build, register
from .setting import Setting

register("batching", "sequential", "Rewards are seen after every round.")(batching.Sequential)


@register("batching", "fixed")
def fixed(on: Setting, size=10):
    """Rewards are seen every `size` rounds."""
    return batching.Fixed(size)


register("batching", "static", "Batches of 1, 2, 4, … rounds.")(batching.StaticDoubling)


register(
    "batching",
    "dynamic",
    "A batch closes when the plays of an arm, or of a state–action pair, reach the next power of two (Algorithm 2).",
)(batching.DoublingCounts)


@register("batching", "determinant")
def determinant(on: Setting, factor=2.0, per_arm=False):
    """A batch closes when the determinant of the precision of θ has grown by more than `factor` (Abbasi-Yadkori et al. 2011).

    For contextual models. With `per_arm`, when that of some arm's θ has.
    """
    return batching.Determinant.of(on, factor, per_arm)


@register("batching", "doubled-since-switch")
def doubled_since_switch(on: Setting, pseudo_count="prior"):
    """A batch closes when the plays of an arm, or of a pair, exceed twice what they were when it began (TSDE's reading).

    In an MDP the prior's weight counts as visits, as in the paper's experiments; `pseudo_count` changes that.
    """
    return batching.DoubledSinceSwitch(on.states, on.weight(pseudo_count))


@register("batching", "tsde")
def tsde(on: Setting, pseudo_count="prior"):
    """As doubled-since-switch, or when a batch is longer than the one before it (Ouyang et al. 2017)."""
    return batching.DoubledSinceSwitch.tsde(on.states, on.weight(pseudo_count))


@register("batching", "ucrl2")
def ucrl2(on: Setting):
    """A batch closes when a pair was visited as often in it as before it (Jaksch et al. 2010)."""
    return batching.DoubledSinceSwitch.ucrl2(on.states)


@register("batching", "exchanges")
def exchanges(on: Setting, agents=10, when="doubling", size=10, factor=2.0, leave=0.0, back=0.1):
    """Several agents play in turns and exchange what they know: every-round, fixed, static, doubling or determinant (`when`).

    The horizon counts the plays of all agents. After a round an agent leaves with probability `leave`, and returns with `back`.
    """
    rules = {
        "every-round": batching.Sequential,
        "fixed": lambda: batching.Fixed(size),
        "static": batching.StaticDoubling,
        "doubling": batching.PlaysDoubled,
        "determinant": lambda: batching.Determinant.of(on, factor),
    }
    if when not in rules:
        raise ConfigError(f"exchanges: when must be one of {', '.join(rules)}; got {when!r}.")
    return batching.Exchanges(agents, rules[when](), leave, back)


@register("batching", "halving")
def halving(on: Setting):
    """Batches that end with the phases of sequential halving, ⌈log₂ N⌉ of them."""
    return batching.Grid(phase_ends(on.actions, on.horizon))


register("batching", "geometric", "A batch closes after each round with probability `rate` (continuing PSRL).")(batching.Geometric)


@register("batching", "minimax-grid")
def minimax_grid(on: Setting, batches=5):
    """The minimax grid of Gao et al. (2019) with `batches` batches."""
    return batching.Grid.minimax(on.horizon, batches)


@register("batching", "geometric-grid")
def geometric_grid(on: Setting, batches=5):
    """The geometric grid of Gao et al. (2019) with `batches` batches."""
    return batching.Grid.geometric(on.horizon, batches)


@register("batching", "aged")
def aged(on: Setting, scheme="dynamic", rounds=100):
    """A batch closes when it does under another scheme, or after `rounds` rounds, for worlds that change."""
    return batching.Aged(build("batching", scheme, on), rounds)
