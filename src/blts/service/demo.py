"""A demonstration: three experiments with a week behind them, and visitors who go on coming."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..errors import BltsError
from ..live import Experiment
from ..live.database import Database
from ..live.reports import keep

DAY = 86_400.0
DAYS = 7
TURNS = 4  # a day: in each some visitors come and the posterior is refreshed
VISITORS = 60  # of a turn
DELAYS = (2.0, 10.0, 40.0)  # seconds after which the rewards of a turn come, a part of them each time
MINUTE = 60.0


class Visitor(NamedTuple):
    """Somebody who comes."""

    unit: str
    context: dict[str, Any] | None
    """What is known of them, where the experiment declares features."""


class Example(NamedTuple):
    """An experiment, and what its visitors do."""

    name: str
    spec: dict[str, Any]
    """What `Experiment.create` takes."""
    context: Callable[[random.Random], dict[str, Any] | None]
    reward: Callable[[random.Random, str, dict[str, Any]], float]
    """From the arm and the context."""
    metrics: Callable[[random.Random, str, float], dict[str, float]]
    """From the arm and the reward."""


def _no_context(chance: random.Random) -> None:
    del chance


def _no_metrics(chance: random.Random, arm: str, reward: float) -> dict[str, float]:
    del chance, arm, reward
    return {}


def _clicks(chance: random.Random, arm: str, context: dict[str, Any]) -> float:
    del context
    return float(chance.random() < {"Order": 0.10, "Buy now": 0.16, "Get it today": 0.11}[arm])


def _spends(chance: random.Random, arm: str, context: dict[str, Any]) -> float:
    del context
    share = {"9.99": 0.20, "11.99": 0.19, "13.99": 0.13}[arm]
    return round(float(arm) * math.exp(chance.gauss(0, 0.3)), 2) if chance.random() < share else 0.0


def _refunds(chance: random.Random, arm: str, reward: float) -> dict[str, float]:
    return {"refunds": float(reward > 0 and chance.random() < {"9.99": 0.05, "11.99": 0.06, "13.99": 0.30}[arm])}


def _person(chance: random.Random) -> dict[str, Any]:
    country = chance.choice(["DE", "FR", "US"])
    return {"age": chance.randint(18, 80), "country": country, "returning": chance.random() < 0.4}


def _likes(chance: random.Random, arm: str, context: dict[str, Any]) -> float:
    young, back = context["age"] < 40, context["returning"]
    share = {"books": 0.25 if not young else 0.10, "games": 0.30 if young else 0.06, "music": 0.18 if back else 0.12}[arm]
    return float(chance.random() < share)


EXAMPLES = (
    Example(
        "checkout-button",
        {
            "arms": ["Order", "Buy now", "Get it today"],
            "model": "conversions",
            "batching": "external",
            "seed": 1,
            "floor": 0.05,
            "window": MINUTE,
            "default_reward": 0.0,
            "refresh_seconds": 10.0,
        },
        _no_context,
        _clicks,
        _no_metrics,
    ),
    Example(
        "pricing",
        {
            "arms": ["9.99", "11.99", "13.99"],
            "model": "revenue",
            "batching": "external",
            "seed": 2,
            "floor": 0.05,
            "metrics": [
                {"name": "refunds", "model": "conversions", "better": "lower", "margin": 0.01, "default": 0, "window": MINUTE}
            ],
            "refresh_seconds": 10.0,
        },
        _no_context,
        _spends,
        _refunds,
    ),
    Example(
        "recommendations",
        {
            "arms": ["books", "music", "games"],
            "model": "logistic",
            "batching": "external",
            "seed": 3,
            "features": {"age": [18, 80], "country": ["DE", "FR", "US"], "returning": "boolean"},
            "floor": 0.05,
            "refresh_seconds": 10.0,
        },
        _person,
        _likes,
        _no_metrics,
    ),
)


def prepare(url: str, say: Callable[[str], None]) -> None:
    """Create the examples that are not there yet, with a week of visitors behind them.

    Args:
        url: the database.
        say: is told what goes on.
    """
    database = Database(url)
    there, now = set(database.names()), time.time()
    for example in EXAMPLES:
        if example.name not in there:
            say(f"A week of {example.name} …")
            _history(database, example, now)
    database.close()


def _history(database: Database, example: Example, now: float) -> None:
    turns, chance, at = DAYS * TURNS, random.Random(example.name), [0.0]
    at[0] = now - DAYS * DAY
    spec = dict(example.spec)
    experiment = Experiment.create(
        database, example.name, spec.pop("arms"), spec.pop("model"), clock=lambda: at[0], actor="demo", **spec
    )
    for turn in range(turns):
        begin = now - DAYS * DAY * (1 - turn / turns)
        at[0] = begin
        visitors = _visitors(chance, example, f"week-{turn}")
        came = [next(visitors) for _ in range(VISITORS)]
        decided = _ask(experiment, came)
        for part, delay in enumerate(DELAYS):
            at[0] = begin + delay
            _tell_all(experiment, example, chance, decided[part :: len(DELAYS)])
        at[0] = begin + DAY / TURNS - 1
        experiment.refresh(force=True, progress=False)
        if turn % TURNS == TURNS - 1:
            keep(experiment)


def _ask(experiment: Experiment, came: list[Visitor]) -> list[tuple[str, str, dict[str, Any]]]:
    contexts = [visitor.context for visitor in came if visitor.context is not None]
    answer = experiment.ask(units=[visitor.unit for visitor in came], contexts=contexts or None)
    return [(d.id, d.arm, visitor.context or {}) for d, visitor in zip(answer.decisions, came, strict=True)]


def _tell_all(
    experiment: Experiment, example: Example, chance: random.Random, decided: list[tuple[str, str, dict[str, Any]]]
) -> None:
    """Tell what some decisions earned. Where silence counts as a reward, only successes are told."""
    rewards = [(decision_id, arm, example.reward(chance, arm, context)) for decision_id, arm, context in decided]
    silent = "default_reward" in example.spec
    experiment.tell([(decision_id, reward) for decision_id, _, reward in rewards if reward or not silent])
    values: dict[str, list[tuple[str, float]]] = {}
    for decision_id, arm, reward in rewards:
        for metric, value in example.metrics(chance, arm, reward).items():
            values.setdefault(metric, []).append((decision_id, value))
    for metric, rows in values.items():
        experiment.tell(rows, metric=metric)


def _visitors(chance: random.Random, example: Example, prefix: str) -> Iterator[Visitor]:
    number = 0
    while True:
        number += 1
        yield Visitor(f"{prefix}-visitor-{number}", example.context(chance))


def visit(database: Database, ended: threading.Event, per_second: float = 4.0) -> None:
    """Have visitors come to all examples until it is ended.

    Args:
        database: where the examples are.
        ended: ends it.
        per_second: visitors a second of each example.
    """
    chance, run = random.Random(), int(time.time())
    opened = [(e, Experiment.open(database, e.name, actor="demo visitors"), _visitors(chance, e, str(run))) for e in EXAMPLES]
    pending: list[tuple[float, Experiment, str, float, str | None]] = []
    while not ended.wait(1 / per_second):
        now = time.time()
        for example, experiment, visitors in opened:
            try:
                for decision_id, arm, context in _ask(experiment, [next(visitors)]):
                    reward = example.reward(chance, arm, context)
                    later = now + chance.expovariate(1 / 8.0)
                    if reward or "default_reward" not in example.spec:
                        pending.append((later, experiment, decision_id, reward, None))
                    pending += [
                        (later + 5.0, experiment, decision_id, value, metric)
                        for metric, value in example.metrics(chance, arm, reward).items()
                    ]
            except (BltsError, ValueError):  # paused or stopped by somebody who tries the dashboard
                continue
        due = [one for one in pending if one[0] <= now]
        pending = [one for one in pending if one[0] > now]
        for _, experiment, decision_id, value, metric in due:
            experiment.tell([(decision_id, value)], metric=metric)
