"""A number that somebody's class or function uses, and that has changed since the last run, is used in the next."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB1,
    Bandit,
    Exact,
    Fixed,
    Gaussian,
    Thompson,
    array,
    freshness,
    from_functions,
    module,
    posterior,
    random,
    simulate,
)

WORLD = Bandit.with_means(Gaussian(), [0.0, 1.0])
LOST = 0.0


def lost() -> float:
    return LOST


class Constant:
    lost = 0.0


settings = types.ModuleType("settings_of_a_user")
settings.lost = 0.0  # type: ignore[attr-defined]
TABLE, ARRAY, NAMED, OBJECT = {"lost": [0.0]}, np.zeros(1), Constant, types.SimpleNamespace(lost=0.0)
jitted = jax.jit(lambda x: x + LOST)


def closure(value: float) -> tuple[Callable[[], float], Callable[[float], None]]:
    def put(new: float) -> None:
        nonlocal value
        value = new

    return lambda: value, put


def set_default(new: float) -> None:
    given.__defaults__ = (new,)


def set_code(new: float) -> None:
    """As somebody who runs the cell of a notebook again."""
    global helper
    helper = (lambda: 0.0) if new == 0.0 else (lambda: 0.9)


def set_global(new: float) -> None:
    global LOST
    LOST = new


def given(value: float = 0.0) -> float:
    return value


set_code(0.0)
cell, set_cell = closure(0.0)
bound = functools.partial(lambda table: table["lost"][0], TABLE)
USES: dict[str, tuple[Callable[[], Any], Callable[[float], Any]]] = {
    "a number of the module": (lambda: LOST, set_global),
    "a function that uses one": (lambda: lost(), set_global),
    "a compiled function that uses one": (lambda: jitted(0.0), set_global),
    "a function within a function": (lambda: (lambda: lost())(), set_global),
    "a closure": (lambda: cell(), set_cell),
    "a default": (lambda: given(), set_default),
    "another function of the same name": (lambda: helper(), set_code),
    "a class attribute": (lambda: NAMED.lost, functools.partial(setattr, Constant, "lost")),
    "an attribute": (lambda: OBJECT.lost, functools.partial(setattr, OBJECT, "lost")),
    "another module": (lambda: settings.lost, functools.partial(setattr, settings, "lost")),
    "a dictionary": (lambda: TABLE["lost"][0], lambda new: TABLE["lost"].__setitem__(0, new)),
    "a partial function": (lambda: bound(), lambda new: TABLE["lost"].__setitem__(0, new)),
    "an array": (lambda: ARRAY[0], lambda new: ARRAY.__setitem__(0, new)),
}


@pytest.fixture(autouse=True)
def as_before():
    yield
    for _, put in USES.values():
        put(0.0)


def agent_that_uses(use: Callable[[], Any]) -> UCB1:
    @module
    class Mine(UCB1):
        def act(self, key, state, obs, played):
            return jnp.where(random.uniform(key) < use(), 0, super().act(key, state, obs, played))

    return Mine(2)


def regret(agent, world=WORLD) -> float:
    return float(simulate(0, world, agent, Fixed(5), horizon=60, replications=20).final_regret.mean())


@pytest.mark.parametrize("what", USES)
def test_what_has_changed_is_used(what, compiled):
    use, put = USES[what]
    agent = agent_that_uses(use)
    before = regret(agent)
    programs = len(compiled)
    assert regret(agent) == before
    assert len(compiled) == programs, "nothing has changed, and something was compiled again"
    put(0.9)
    after = regret(agent)
    assert after > before + 10
    put(0.0)
    assert regret(agent) == before


@pytest.mark.parametrize("what", USES)
def test_without_looking_the_number_before_is_used(what, monkeypatch):
    """The mutant: JAX alone does not notice."""
    monkeypatch.setattr(freshness, "changed", lambda *parts: False)
    use, put = USES[what]
    agent = agent_that_uses(use)
    before = regret(agent)
    put(0.9)
    assert regret(agent) == before


def test_functions_of_a_model():
    @dataclasses.dataclass
    class Scale:
        sd: float = 1.0

    scale = Scale()

    def sample(key, theta):
        return theta[0] + scale.sd * random.normal(key)

    model = from_functions(
        lambda theta: -(theta[0] ** 2) / 2,
        lambda theta, reward: -((reward - theta[0]) ** 2) / 2,
        L=1.0,
        dim=1,
        arms=2,
        sample=sample,
    )
    world, agent = Bandit(model), Thompson(Gaussian(), Exact(), arms=2)
    before = regret(agent, world)
    assert regret(agent, world) == before
    scale.sd = 20.0
    assert regret(agent, world) > before + 3


def test_a_posterior_of_a_model_whose_number_has_changed():
    numbers = {"prior_sd": 1.0}
    model = from_functions(
        lambda theta: -(theta[0] ** 2) / 2 / numbers["prior_sd"] ** 2,
        lambda theta, reward: -((reward - theta[0]) ** 2) / 2,
        L=1.0,
        dim=1,
        sample=lambda key, theta: theta[0] + random.normal(key),
        init=lambda key: random.normal(key, (1,)),
    )
    for prior_sd in (1.0, 0.1):
        numbers["prior_sd"] = prior_sd
        exact = 5.0 / (1 + 1 / prior_sd**2)
        assert posterior(model, [5.0], "mala").draws.mean() == pytest.approx(exact, abs=0.15)


def test_what_cannot_be_followed_is_no_matter():
    """Objects that hold each other, that refuse to be looked at, and modules of thousands of names."""
    ring: list[Any] = [1.0]
    ring.append(ring)

    class Odd:
        __slots__ = ()

    odd, huge, given_away = Odd(), 10**5000, jnp.zeros(3)
    given_away.delete()
    arrays = [
        np.array(None),
        np.zeros((3, 2)).T,
        np.array("2026-01-01", "datetime64[D]"),
        jax.random.key(0),
        given_away,
        jnp.zeros(()),
    ]

    def use() -> float:
        return 0.0 * (len(ring) + len(sys.modules) + len(repr(odd)) + (huge > 1) + len(arrays))

    agent = agent_that_uses(use)
    assert not freshness.changed(agent)
    assert not freshness.changed(agent)
    ring[0] = 2.0
    assert freshness.changed(agent)


def test_parts_of_blts_are_not_looked_at():
    for part in (WORLD, WORLD.model, Thompson(Gaussian(), arms=2), Exact()):
        assert freshness.from_elsewhere(part) == []


def test_an_environment_may_hold_a_key():
    class Keyed(Bandit):
        key: Any = array(default=None)

    runs = [
        simulate(0, Keyed(WORLD.model, WORLD.theta, key=held), UCB1(2), Fixed(5), horizon=20, replications=2)
        for held in (jax.random.key(0), jax.random.key(0), jax.random.key(1), np.array(1e30))
    ]
    assert runs[0].world == runs[1].world
    assert len({run.world for run in runs}) == 3
