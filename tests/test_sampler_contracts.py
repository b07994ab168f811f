"""What every registered sampler keeps to: it refreshes near the posterior, compiles once, and survives being written down."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Laplace, from_json, random, registry, to_json
from blts._typing import Row
from blts.history import Log
from registered import (
    SAMPLERS,
)

REWARDS = np.random.default_rng(0).laplace([-1.0, 2.0], 1.0, (20, 2))


@jax.jit
def ends_of(chain, keys):
    """The ends of 8 chains on each of two Laplace arms, for each key."""
    model = jax.vmap(lambda mean: Laplace(prior_mean=mean, prior_sd=3.0))(jnp.zeros(2))
    played, rewards = jnp.tile(jnp.arange(2), 20), jnp.asarray(REWARDS.ravel(), float)
    log = Log(Row((), played, rewards, ()), jnp.repeat(jnp.arange(20), 2), jnp.full(2, 20), jnp.asarray(0), jnp.asarray(40))
    block = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), log)
    return chain.resolved(model).run(keys, model, jnp.zeros((len(keys), 2, 8, 1)), block, block.counts)


def near(ends) -> bool:
    """Whether the ends of 128 chains an arm are around the medians of its rewards, and about 1/√20 wide."""
    z = (np.asarray(ends)[..., 0] - np.median(REWARDS, 0)[:, None]) * np.sqrt(20)
    return bool((np.abs(z.mean((0, 2))) < 0.6).all() and (np.abs(np.log(z.std((0, 2)))) < 0.5).all())


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_refreshes(name):
    """Near the posterior; one compilation for two numbers and any company; the same after a pickle and a JSON round trip."""
    chain, keys = registry.build("sampler", name), random.split(random.key(0), 16)
    ends, info = ends_of(chain, keys)
    assert np.isfinite(ends).all()
    assert (info.acceptance > 0.3).all()
    assert near(ends)
    before = ends_of._cache_size()
    other = registry.build("sampler", name, step_size=0.7 * float(chain.kernel.step_size))
    assert not np.array_equal(ends_of(other, keys)[0], ends)
    assert not near(ends_of(registry.build("sampler", name, step_size=1e-4), keys)[0])  # the mutant hardly moves
    for copy in (pickle.loads(pickle.dumps(chain)), from_json(to_json(chain))):
        assert np.array_equal(ends_of(copy, keys)[0], ends)
    assert ends_of._cache_size() == before
    np.testing.assert_allclose(ends_of(chain, keys[3:5])[0], ends[3:5], rtol=1e-5)  # whatever runs beside it
    with jax.enable_x64(True):
        assert ends_of.eval_shape(chain, random.split(random.key(0), 2))[0].dtype == jnp.float64
