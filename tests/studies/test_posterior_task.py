"""The posterior task, whose chains on a Gaussian have a known law after any number of steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random, registry, theory
from blts.history import Log
from blts.models import Gaussian
from blts.models.arms import stack
from blts.samplers import Langevin
from blts.studies.tasks import posterior
from blts.studies.tasks.posterior import exact, moments, rewards, wasserstein
from laws import LEVEL, gaussian_p, ks_p, variance_p
from running import CHAINS, run

THEOREM = {"step_size": "theorem", "steps": "theorem", "minibatch": "theorem"}


# (a) The posterior. On a Gaussian the chain is an autoregression, so that its law after any number of steps is known.


def chain_law(condition: dict, *, noise: bool = True, start: int | None = None) -> tuple[float, float]:
    """Mean and sd of z: x ← x - h (P (x - μ) + e) + √(2h) ξ from the posterior of the first half, with e the minibatch's error."""
    c = registry.build("task", "posterior").normal(condition)
    n = c["n"]
    model: Any = Gaussian(prior_sd=c["prior_sd"], sd=0.5)
    constants = theory.constants_of(model)
    data = np.asarray(rewards(random.key(0), n).reward[:n], float)
    (mu, sd), (mu_half, sd_half) = exact(data, c["prior_sd"]), exact(data[: n // 2 if start is None else start], c["prior_sd"])
    h = float(theory.step_size(constants, jnp.asarray(n))) if c["step_size"] == "theorem" else c["step_size"] * sd**2
    steps = int(theory.iterations(constants, jnp.asarray(n))) if c["steps"] == "theorem" else c["steps"]
    shrink = 1 - h / sd**2
    error = 0.0
    if noise and c["sampler"] == "sgld" and n > 32 and not c["control_variate"]:
        error = n**2 / 32 * data.var() / 0.5**4
    variance = shrink ** (2 * steps) * sd_half**2 + (2 * h + h**2 * error) * (1 - shrink ** (2 * steps)) / (1 - shrink**2)
    return shrink**steps * (mu_half - mu) / sd, float(np.sqrt(variance)) / sd


def law_p(condition: dict, **law) -> float:
    z = run("posterior", condition, CHAINS)[0]["z"]
    return gaussian_p(z, *chain_law(condition, **law))


FEW, MANY = {"n": 16, "steps": 6}, {"n": 2000, "steps": 20}
EXACT_LAWS = {
    "all data in a minibatch": FEW,
    "from the prior": {"n": 1, "steps": 6, "prior_sd": 2.0},
    "minibatches": MANY,
    "control variate": MANY | {"control_variate": True},
    "the theorem's settings": {"n": 16} | THEOREM,
    "ula": FEW | {"sampler": "ula", "n": 2000},
}


@pytest.mark.parametrize("name", EXACT_LAWS)
def test_chain_ends_have_their_exact_law(name):
    assert law_p(EXACT_LAWS[name]) > LEVEL


def test_another_law_is_refused():
    """The mutants of the test above that are in the law."""
    assert law_p(MANY, noise=False) < LEVEL  # minibatches without their noise
    assert law_p(FEW, start=16) < LEVEL  # a start at the posterior itself
    assert law_p(FEW, start=0) < LEVEL  # a start at the prior
    assert law_p(EXACT_LAWS["from the prior"], start=1) < LEVEL
    z = run("posterior", FEW, CHAINS)[0]["z"]
    assert gaussian_p(z, *chain_law(FEW | {"steps": 5})) < LEVEL
    assert gaussian_p(z, *chain_law(FEW | {"step_size": 0.11})) < LEVEL


def heated(monkeypatch, temperature: float) -> None:
    """Chains at another temperature, on the same programs."""
    right = posterior.chain_of

    def wrong(condition):
        kernel: Any = right(condition).kernel
        return dataclasses.replace(right(condition), kernel=Langevin(kernel.step_size, temperature=temperature))

    monkeypatch.setattr(posterior, "chain_of", wrong)


HEATED = [("all data in a minibatch", 0.95), ("all data in a minibatch", 1.05), ("the theorem's settings", 1.05), ("ula", 0.95)]


@pytest.mark.parametrize(("name", "temperature"), HEATED)
def test_a_temperature_5_percent_off_is_found(monkeypatch, name, temperature):
    heated(monkeypatch, temperature)
    assert law_p(EXACT_LAWS[name] | {"steps": 120 if name == "the theorem's settings" else 30}) < LEVEL


def test_the_mutant_of_the_right_temperature_passes(monkeypatch):
    heated(monkeypatch, 1.0)
    assert law_p(FEW | {"steps": 30}) > LEVEL


def mala_p(condition: dict) -> float:
    z = run("posterior", condition | {"sampler": "mala"}, CHAINS)[0]["z"]
    return min(gaussian_p(z, 0.0, 1.0), ks_p(z, stats.norm.cdf))


def test_mala_ends_are_draws_of_the_posterior(monkeypatch):
    assert min(mala_p({"n": 1}), mala_p({"n": 131_072})) > LEVEL
    assert mala_p({"n": 1, "steps": 1}) < LEVEL  # too few
    heated(monkeypatch, 1.0)  # the same without its acceptance test
    assert mala_p({"n": 1}) < LEVEL


def test_a_constant_minibatch_does_not_concentrate_and_a_control_variate_does():
    n, h = 100_000, 1 / 32  # the theorem's step
    found = {}
    for control in (False, True):
        condition = {"n": n, "step_size": h, "steps": 200, "control_variate": control}
        found[control] = run("posterior", condition, 8192)[0]["z"]
        assert gaussian_p(found[control], *chain_law(condition)) > LEVEL
    assert found[True].std() == pytest.approx(1 / np.sqrt(1 - h / 2), abs=0.03)  # 1.008: the step's own bias
    assert wasserstein(found[True]) < 0.05
    # The variance is 1 + h n/(2 |D|) = 50 times the posterior's.
    assert found[False].std() == pytest.approx(np.sqrt(1 + h * n / 64), rel=0.05)
    assert variance_p(found[False], found[True].std()) < 1e-100
    assert wasserstein(found[False]) > 5


def test_theorem_1_bounds_the_distance():
    for n in (1, 16, 131_072):
        arrays, about = run("posterior", {"n": n} | THEOREM, 512)
        assert wasserstein(arrays["z"]) < about["bound"]
        assert about["bound"] == pytest.approx(np.sqrt(12 / (4 * n) * 81) / about["posterior_sd"])
        assert (about["iterations"], about["minibatch"]) == (int(np.ceil(1280 * (1 + 1 / n) ** 2 - 1e-3)), 32)
    # A mutant: 32 times the theorem's step, at which the minibatch's noise exceeds the bound.
    arrays, about = run("posterior", {"n": 131_072, "step_size": 1.0, "steps": 40}, 512)
    assert wasserstein(arrays["z"]) > about["bound"]


_run_chain = jax.jit(lambda chain, *arguments: chain.run(*arguments)[0][:, 0, 0, 0])
_start = jax.jit(jax.vmap(lambda key, model, half: model.draw(key, half), (0, None, None)))


def by_chain_run(condition: dict, replications: int, step: float = 1.0) -> np.ndarray:
    """The same chains by `Chain.run`, as an agent would run them: a log for each replication, "theorem" left to the chain."""
    n, root = condition["n"], random.key(0)
    single = Gaussian(prior_sd=condition["prior_sd"], sd=0.5)
    model: Any = stack(single, 1)
    data = np.asarray(rewards(root, n).reward[:n])
    keys = jnp.stack([random.split(random.fold_in(root, r)) for r in range(replications)])
    starts = _start(keys[:, 0], single, moments(data[: n // 2].astype(float)))
    row = rewards(root, n)._replace(action=jnp.zeros(n, int), reward=jnp.asarray(data))
    log = Log(row, jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))
    logs = jax.tree.map(lambda x: jnp.broadcast_to(x, (replications, *x.shape)), log)
    chain = dataclasses.replace(posterior.chain_of(condition).resolved(model), kernel=Langevin(step))
    ends = _run_chain(chain, keys[:, 1], model, starts[:, None, None], logs, jnp.full((replications, 1), n))
    mean, sd = exact(data.astype(float), condition["prior_sd"])
    return (np.asarray(ends, float) - mean) / sd


@pytest.mark.slow
def test_a_replication_is_a_chain_as_agents_run_it():
    condition = registry.build("task", "posterior").normal({"n": 40} | THEOREM)
    z = run("posterior", condition, 8)[0]["z"]
    np.testing.assert_allclose(z, by_chain_run(condition, 8), atol=2e-4)
    assert np.abs(z - by_chain_run(condition, 8, step=1.01)).max() > 2e-3  # the mutant: a step 1 % longer


def test_the_rewards_are_the_first_of_one_sequence():
    short, long = (np.asarray(rewards(random.key(3), n).reward) for n in (5, 2**18))
    assert (short.size, long.size) == (2**17, 2**18)
    np.testing.assert_array_equal(short, long[: short.size])
    assert gaussian_p(short, 0.0, 0.5) > LEVEL
    assert gaussian_p(short, 0.0, 0.51) < LEVEL
    assert not np.array_equal(short, np.asarray(rewards(random.key(4), 5).reward))


def test_one_program_serves_all_numbers():
    """And another one where a minibatch holds all rewards."""
    run("posterior", {"n": 100}, 5)
    run("posterior", {"n": 5}, 5)
    programs: Any = posterior._ends
    before = programs._cache_size()
    for n, steps, step in ((100, 3, 0.1), (7, 5, 0.2), (100_000, 4, 0.3)):
        run("posterior", {"n": n, "steps": steps, "step_size": step, "prior_sd": step}, 600)
    assert programs._cache_size() == before


def test_the_distance_of_draws_to_a_normal_law():
    grid = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    assert wasserstein(grid) < 0.02
    assert wasserstein(0.3 + 1.5 * grid) == pytest.approx(np.hypot(0.3, 0.5), abs=0.01)
    z = np.random.default_rng(0).standard_t(4, 7)  # each number is coupled with a seventh of the normal law
    fine = stats.norm.ppf((np.arange(7 * 20_000) + 0.5) / (7 * 20_000)).reshape(7, -1)
    assert wasserstein(z) == pytest.approx(np.sqrt(np.mean((np.sort(z)[:, None] - fine) ** 2)), rel=1e-4)
