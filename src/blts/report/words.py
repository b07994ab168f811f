"""Words and digits: how names, quantities and numbers are written in a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..statistics import Difference, Summary


class Metric(NamedTuple):
    """A quantity in words, and what it is multiplied by when it is shown."""

    words: str
    scale: float = 1.0
    better: str = ""
    """"less" or "more", where one of them is."""
    whole: bool = False
    """Whether it counts something."""
    noun: str = ""
    """In a sentence such as "has a lower regret than", where that is not the words above."""

    @property
    def called(self) -> str:
        return self.noun or self.words

    @property
    def unit(self) -> str:
        return " %" if self.words.endswith("%") else ""

    def lower(self) -> str:
        return f"{'fewer' if self.whole else 'a lower'} {self.called}"

    def higher(self) -> str:
        return f"{'more' if self.whole else 'a higher'} {self.called}"

    def best(self) -> str:
        """The superlative of what is better."""
        if self.better == "less":
            return f"the {'fewest' if self.whole else 'lowest'} {self.called}"
        return f"the {'most' if self.whole else 'highest'} {self.called}"


METRICS = {
    "regret": Metric("regret at T", better="less"),
    "batches": Metric("batches", better="less", whole=True),
    "switches": Metric("policies used", better="less", whole=True, noun="policies"),
    "reward": Metric("average reward a round", better="more"),
    "best_share": Metric("rounds with a best action, %", 100.0, "more", noun="share of rounds with a best action"),
    "messages": Metric("messages", better="less", whole=True),
    "numbers": Metric("numbers sent", better="less", whole=True, noun="numbers to send"),
    "simple_regret": Metric("simple regret of the recommended arm", better="less"),
    "wrong": Metric("recommended arm not the best, %", 100.0, "less", noun="share of wrong recommendations"),
    "stopped": Metric("stopped before T, %", 100.0, "more", noun="share of runs that stop before T"),
    "wrong_stop": Metric("stopped at a wrong arm, %", 100.0, "less", noun="share of runs that stop at a wrong arm"),
    "stop_round": Metric("rounds until it stopped (at most T)", better="less", noun="number of rounds until it stops"),
    "z": Metric("(end of chain − posterior mean) / posterior sd"),
    "share": Metric("probability of a coordinate with zero count"),
    "exact": Metric("the same, drawn exactly"),
    "gradients": Metric("gradients", better="less", whole=True),
    "least": Metric("least ratio of rewards observed to plays"),
}
NAMES = {"env": "environment", "agent": "agent", "batching": "batching", "prior": "prior", "horizon": "T"}
"""Names whose values need no name beside them, but for T and what follows it."""
BARE = ("env", "agent", "batching", "prior", "method", "sampler", "kernel", "preset")


def metric_of(name: str, labels: Mapping[str, str]) -> Metric:
    known = METRICS.get(name, Metric(name.replace("_", " ")))
    return known._replace(words=labels[name], noun="") if name in labels else known


def word_of(labels: Mapping[str, str], name: str, value: Any) -> str:
    """A value in words: its label, itself, or `name = value` where it would say nothing alone.

    >>> from blts.report.words import word_of
    >>> word_of({"blts": "Langevin TS"}, "agent", "blts"), word_of({"gamma": "γ"}, "gamma", 0.5)
    ('Langevin TS', 'γ = 0.5')
    """
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)  # as TOML writes it
    if text in labels:
        return labels[text]
    if f"{name}={text}" in labels:
        return labels[f"{name}={text}"]
    if name == "prior":
        return f"{text} prior"
    if name == "drawn":
        return "instances drawn from the prior" if value else "one instance"
    if name in BARE:
        return text
    called = labels.get(name, NAMES.get(name, name.replace("_", " ")))
    if isinstance(value, bool):
        return called if value else f"no {called}"
    return f"{called} = {digits(value)}"


def name_of(labels: Mapping[str, str], name: str) -> str:
    """A name in words."""
    return labels.get(name, NAMES.get(name, name.replace("_", " ")))


def digits(value: Any) -> str:
    """A number as short as it is exact to six digits; anything else as text."""
    if isinstance(value, float):
        return minus(f"{value:.6g}")
    return str(value)


def decimals(summaries: Iterable[Summary | Difference | None], scale: float = 1.0) -> int:
    """Decimals for a table: two digits of its small standard errors (the lower quartile), none for whole numbers without spread."""
    present = [s for s in summaries if s is not None]
    errors = sorted(s.se * scale for s in present if s.se > 0)
    if errors:
        return min(6, max(0, 1 - math.floor(math.log10(errors[len(errors) // 4]))))
    return 0 if all(float(s.mean * scale).is_integer() for s in present) else 2


def fixed(value: float, places: int) -> str:
    """A number with so many decimals and a true minus sign."""
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    text = f"{value:.{places}f}"
    return minus("0" + text[2:] if text.startswith("-0") and float(text) == 0 else text)


def listed(words: Iterable[str]) -> str:
    """
    >>> from blts.report.words import listed
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def capital(text: str) -> str:
    """With a capital letter in front, and the others as they are."""
    return text[:1].upper() + text[1:]


def interval(low: float, high: float, places: int) -> str:
    return f"[{fixed(low, places)}, {fixed(high, places)}]"


def p_value(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def minus(text: str) -> str:
    return text.replace("-", "−") if text[:1] == "-" else text
