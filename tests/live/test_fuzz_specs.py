"""Odd specifications are refused in a sentence, without a database."""

from __future__ import annotations

import pytest

from blts.errors import BltsError
from blts.live import Spec
from odd_values import Chance, distinct, explained


def test_odd_specifications_are_refused_in_a_sentence():
    """Names, numbers and parts of any kind, without a database."""
    failed = odd_specifications(3, 150)
    assert not failed, distinct(failed)


def odd_specifications(seed: int, count: int) -> list[str]:
    chance, failed = Chance(seed), []
    names = (
        "seed",
        "horizon",
        "floor",
        "control",
        "control_share",
        "burn_in",
        "window",
        "learn",
        "exposure",
        "strict",
        "cap",
        "rhat",
        "draw",
    )
    for _ in range(count):
        arms, model = chance.maybe(["A", "B"]), chance.maybe("gaussian")
        sampler, batching = chance.maybe("exact"), chance.maybe("external")
        settings = {chance.choice(names): chance.value() for _ in range(chance.randrange(3))}
        try:
            Spec.of(arms, model, sampler, batching, **settings)
        except BltsError:
            continue
        except Exception as error:
            failed.append(explained("Spec.of", (arms, model, sampler, batching, settings), error))
    return failed


@pytest.mark.slow
def test_many_odd_specifications():
    failed = odd_specifications(4, 2000)
    assert not failed, distinct(failed)
