"""What arms are worth for some units and for others: values by level of a category, by truth value, and by thirds of a range."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..features import Feature
from . import values
from .words import number


class Segment(NamedTuple):
    """Some decisions, by what they were shown."""

    feature: str
    name: str
    mask: np.ndarray


def segments_of(features: Sequence[Feature], contexts: Sequence[dict[str, Any]]) -> list[Segment]:
    """The segments of all features.

    Args:
        features: declared.
        contexts: of the decisions.

    Returns:
        For each feature some decisions by its value; those of numbers by thirds of the values seen. Segments without a decision are
        left out.

    >>> from blts.live.features import features_of
    >>> [s.name for s in segments_of(features_of({"new": "boolean"}), [{"new": True}, {"new": False}])]
    ['no', 'yes']
    """
    out = []
    for feature in features:
        seen = np.array([context[feature.name] for context in contexts])
        if feature.range is not None:
            out += _thirds(feature, seen.astype(float))
        elif feature.levels is not None:
            out += [Segment(feature.name, level, seen == level) for level in feature.levels]
        else:
            out += [Segment(feature.name, word, seen == value) for word, value in (("no", False), ("yes", True))]
    return [segment for segment in out if segment.mask.any()]


def _thirds(feature: Feature, seen: np.ndarray) -> list[Segment]:
    cuts = np.unique(np.quantile(seen, [1 / 3, 2 / 3])) if len(seen) else np.zeros(0)
    place = np.searchsorted(cuts, seen, side="left")
    below = [f"up to {cut:.4g}" for cut in cuts]
    names = [
        *below[:1],
        *(f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(cuts)),
        *(f"above {c:.4g}" for c in cuts[-1:]),
    ]
    return [Segment(feature.name, name, place == i) for i, name in enumerate(names)]


def by_segment(
    segments: Sequence[Segment],
    labels: Sequence[str],
    arms: np.ndarray,
    rewards: np.ndarray,
    p: np.ndarray,
    scored: np.ndarray,
    level: float,
) -> dict[str, Any]:
    """The value of each arm within each segment, with intervals that hold for all of them together (Bonferroni).

    Args:
        segments: of the decisions.
        labels: of the arms.
        arms: of the decisions.
        rewards: of the decisions.
        p: their probabilities.
        scored: their scores (`values.scores`).
        level: of all intervals together.

    Returns:
        The entries "segments", "comparisons" and "segment_level" of a report.
    """
    count = len(segments) * len(labels)
    each = values.bonferroni(level, count)
    rows = []
    for feature, name, mask in segments:
        found = values.interval(values.constant_arms(arms[mask], p[mask], scored[mask]), each)
        shown = [{"arm": label} | {key: number(x) for key, x in one.items()} for label, one in zip(labels, found, strict=True)]
        rows.append(
            {"feature": feature, "segment": name, "rewards": int(mask.sum()), "earned": number(rewards[mask].mean()), "arms": shown}
        )
    return {"segments": rows, "comparisons": count, "segment_level": each}
