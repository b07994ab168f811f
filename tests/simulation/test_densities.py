"""Programs with a user's functions are kept under what these compute, so that none is taken for another's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from blts import Bandit, Fixed, Perturb, Pool, Thompson, from_functions, loop, mala, sgld, simulate
from blts.models.functions import Functions
from blts.simulation import densities, stored
from keeping import forget, kept

WIDTH = 1.0


def normal(theta: Any, reward: Any) -> Any:
    return -0.5 * (reward - theta[0]) ** 2


def model_of(likelihood: Callable = normal, prior: Callable = lambda theta: -0.5 * theta[0] ** 2, **options: Any) -> Functions:
    return from_functions(prior, likelihood, L=1.0, arms=3, sample=lambda key, theta: theta[0] + jax.random.normal(key), **options)


def digest(*arguments: Any, **options: Any) -> str:
    (single,) = densities.of_users(Thompson(model_of(*arguments, **options), Perturb(sgld(steps=3))))
    return densities.digest(single)


def with_closure(number: Any) -> Callable:
    return lambda theta, reward: -0.5 * jnp.sum((reward - theta[0]) ** 2 * number)


def with_derivative(factor: float) -> Callable:
    """The same value with another derivative."""

    @jax.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, factor * primals[0] * tangents[0]))
    return lambda theta, reward: -0.5 * square(reward - theta[0])


def with_second_derivative(factor: float) -> Callable:
    """The same value and derivative with another second derivative."""

    @jax.custom_jvp
    def twice(x):
        return 2 * x

    twice.defjvp(lambda primals, tangents: (2 * primals[0], factor * tangents[0]))

    @jax.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, twice(primals[0]) * tangents[0]))
    return lambda theta, reward: -0.5 * square(reward - theta[0])


def test_equal_functions_have_one_digest_whatever_they_are_called():
    def other(theta, reward):
        return -0.5 * (reward - theta[0]) ** 2

    assert digest() == digest(other) == digest()
    assert digest(with_derivative(2.0)) == digest(with_derivative(2.0))


def test_every_difference_changes_the_digest(monkeypatch):
    table = np.arange(2000.0)
    changed = table.copy()
    changed[1000] += 1e-3  # where an array is not printed
    found = {
        "plain": digest(),
        "a number of a closure": digest(with_closure(2.0)),
        "the next number to it": digest(with_closure(float(np.nextafter(np.float32(2), np.float32(3))))),
        "an array of a closure": digest(with_closure(jnp.asarray(table))),
        "one entry of it": digest(with_closure(jnp.asarray(changed))),
        "a prior": digest(prior=lambda theta: -0.6 * theta[0] ** 2),
        "a mean": digest(mean_reward=lambda theta: theta[0] + 1),
        "a derivative": digest(with_derivative(2.0)),
        "another derivative": digest(with_derivative(2.5)),
        "a second derivative": digest(with_second_derivative(2.0)),
        "another second derivative": digest(with_second_derivative(2.5)),
        "a branch on the type of a reward": digest(
            lambda theta, reward: normal(theta, reward) * (1 if jnp.issubdtype(reward.dtype, jnp.floating) else 2)
        ),
    }
    assert len(set(found.values())) == len(found), found


def test_a_number_of_the_module_that_changes_is_seen(monkeypatch):
    model = model_of(lambda theta, reward: normal(theta, reward) * WIDTH)
    (single,) = densities.of_users(model)
    before = densities.digest(single)
    monkeypatch.setitem(globals(), "WIDTH", 2.0)
    assert densities.digest(single) != before


def test_what_equations_do_not_say_is_not_kept(folder):
    mine = core.Primitive("mine")
    mine.def_impl(lambda x: x)
    mine.def_abstract_eval(lambda x: x)
    on_host = lambda x: jax.pure_callback(lambda x: np.asarray(x), jax.ShapeDtypeStruct((), jnp.zeros(()).dtype), x)  # noqa: E731

    def addressed(likelihood: Callable) -> str | None:
        one = model_of()
        model = dataclasses.replace(one, likelihood=likelihood)
        return stored.address("program", loop.run, (Bandit(model), Thompson(model, Perturb(sgld(steps=3)))))

    assert addressed(normal) is not None
    assert addressed(lambda theta, reward: normal(theta, reward) + mine.bind(reward)) is None
    assert addressed(lambda theta, reward: normal(theta, reward) + jax.lax.stop_gradient(on_host(reward))) is None


def test_a_kept_program_of_a_users_model_has_the_numbers_of_a_traced_one(request):
    def run(likelihood: Callable = normal) -> Any:
        forget()
        model = model_of(likelihood)
        agent = Thompson(model, Pool(mala(steps=3, scale="mode"), 4))
        return simulate(3, Bandit(model), agent, Fixed(5), horizon=20, replications=10)

    traced = run()
    folder = request.getfixturevalue("folder")
    first, files = run(), kept(folder)
    assert len(files) == 1
    assert first == traced
    assert run() == traced
    assert kept(folder) == files, "the second run found it"
    assert run(with_closure(0.5)) != traced
    assert len(kept(folder)) == 2, "another model has a program of its own"
