"""What is said of delays: in words, and of laws that are wrong."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from blts import (
    AbruptChanges,
    Bandit,
    Bernoulli,
    ConfigError,
    Delay,
    DelayByArm,
    DelayFunction,
    Exact,
    Fixed,
    FixedDelay,
    GeometricDelay,
    Late,
    Thompson,
    simulate,
)

WORLD = Bandit.with_means(Bernoulli(), [0.2, 0.4])


def law(sample):
    return type("Own", (Delay,), {"sample": sample})()


WRONG = {
    "None": (law(lambda self, key, obs, action: None), "delay of Own must be one whole number; it is None"),
    "text": (law(lambda self, key, obs, action: "x"), "delay of Own must be one whole number; it is of the type str"),
    "fraction within": (
        DelayByArm((law(lambda self, key, obs, action: 1.5), GeometricDelay(3.0))),
        "delay of DelayByArm must be one whole number, such as",
    ),
    "if": (law(lambda self, key, obs, action: 1 if action == 1 else 0), "use jnp.where in place of if"),
    "another first name": (law(lambda me, key, obs, action: 1 if action == 1 else 0), "use jnp.where in place of if"),
}


def run(delay):
    return simulate(0, Late(WORLD, delay), Thompson(Bernoulli(), Exact(), arms=2), Fixed(5), horizon=20, replications=2)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_delay_is_one_sentence(name):
    delay, words = WRONG[name]
    with pytest.raises(ConfigError, match=words):
        run(delay)


def test_a_number_that_is_too_large_for_32_bits_never_comes():
    assert (run(law(lambda self, key, obs, action: 2**40)).in_flight == 20).all()
    assert (run(law(lambda self, key, obs, action: jnp.asarray(2**31 - 1))).in_flight == 20).all()


class Plain:
    """A law that inherits from nothing."""

    def sample(self, key, obs, action):
        return 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Late(WORLD, Plain()), r"write class Plain\(blts.Delay\)"),
        (lambda: Late(WORLD, GeometricDelay), "delay is the class GeometricDelay; give an object of it"),
        (lambda: DelayFunction(3), r"function must be a function\(key, obs, action\); got 3"),
        (lambda: AbruptChanges(20), r"times must be a list of rounds from 1 upwards, such as \[500, 1000\]; got 20"),
    ],
)
def test_what_is_no_law_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_delays_in_words():
    assert str(FixedDelay(1)) == "1 round late"
    late = Late(WORLD, DelayByArm((FixedDelay(1), FixedDelay(20))), window=1)
    assert str(late).endswith("Rewards are 1 round late (arm 0), 20 rounds late (arm 1), and come within 1 round or not at all.")
