"""Kinds of figures, one file a kind."""

from ...errors import UnknownName
from ..outcome import Outcome
from .base import Drawn as Drawn
from .base import Kind as Kind
from .base import render as render
from .batches import BATCHES
from .curves import CURVES
from .distance import DISTANCE
from .distribution import DISTRIBUTION
from .dots import DOTS, SWITCHES
from .gradients import GRADIENTS
from .growth import GROWTH
from .ratio import RATIO
from .rewards import REWARDS
from .tradeoff import TRADEOFF
from .zero_counts import ZERO_COUNTS

ALL = (CURVES, REWARDS, BATCHES, TRADEOFF, GROWTH, DISTRIBUTION, DOTS, SWITCHES, DISTANCE, ZERO_COUNTS, RATIO, GRADIENTS)
KINDS: dict[str, Kind] = {kind.name: kind for kind in ALL}
SPECIAL = (DISTANCE, ZERO_COUNTS, RATIO, GRADIENTS)
"""What tasks without curves are shown by, where a study says nothing."""


def kind(name: str) -> Kind:
    if name not in KINDS:
        raise UnknownName("kind of figure", name, KINDS)
    return KINDS[name]


def kinds_of(outcome: Outcome) -> list[Kind]:
    """The figures of a study. One that asks for nothing, and has no curves, gets what its arrays are for."""
    chosen = [kind(name) for name in dict.fromkeys(outcome.study.figures)]
    if chosen == [CURVES] and "curve" not in outcome.measured[0].arrays:
        return [special for special in SPECIAL if set(special.needs) <= set(outcome.measured[0].arrays)]
    return chosen
