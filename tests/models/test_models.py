"""What every model must do: protocols, pickling, JSON, one trace for all numbers."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts._module import from_json, to_json
from blts.declared import provides
from blts.errors import ConfigError
from blts.models import (
    Model,
    stack,
)
from reward_models import CONJUGATE, NAMED, custom, every, every_named, get, row, some_theta

# Contracts


@every
def test_models_are_what_the_protocols_say(name):
    model = get(name)
    assert provides(model, Model)
    assert model.has_summary == (name in CONJUGATE)


@every
def test_models_pickle_and_print(name):
    model = stack(get(name), 3)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    jax.tree.map(np.testing.assert_array_equal, again, model)
    text = str(model)
    assert text.startswith("3 arms with ")
    assert text.endswith(".")
    assert "\n" not in text
    assert str(get(name)).startswith("One arm with ")
    assert "<p>3 arms" in model._repr_html_()


@every_named
def test_models_survive_json(name):
    for model in (NAMED[name], stack(NAMED[name], 3)):
        again = from_json(to_json(model))
        assert type(again) is type(model)
        jax.tree.map(np.testing.assert_array_equal, again, model)


@pytest.mark.parametrize("name", ["NumPyro", "Functions"])
def test_functions_are_not_written_as_json(name):
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        to_json(custom(name))


@every
def test_one_trace_serves_other_numbers_and_all_arms(name):
    model = get(name)
    traces = []

    @jax.jit
    def density(model, theta):
        traces.append(1)
        return (
            model.log_prior(theta)
            + model.log_likelihood(theta, row(1.0))
            + jnp.sum(model.information(theta) + model.prior_precision())
        )

    theta = some_theta(name)
    first = density(model, theta)
    density(jax.tree.map(lambda leaf: jnp.asarray(leaf) * 1.1, model), theta)
    density(model, theta)
    assert len(traces) <= 2  # NumPy's float64 and JAX's float32 leaves may differ in type
    stacked = stack(model, 3)
    each = jax.vmap(lambda single: density(single, theta))(stacked)
    np.testing.assert_allclose(each, np.repeat(first, 3), rtol=1e-5)
    assert stack(stacked, 3).theory().inside == model.theory().inside
