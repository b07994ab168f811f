"""The tasks that measure the theorems, against exact laws and by enumeration; every statistical test has its mutant."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random, registry, theory
from blts.errors import ConfigError, UnknownName
from blts.history import Log
from blts.models import Gaussian
from blts.models.base import stack
from blts.samplers import Langevin
from blts.samplers.rows import LogGammaRows
from blts.studies import Study
from blts.studies.engines import compute
from blts.studies.planning import plan
from blts.studies.store import decode
from blts.studies.tasks import posterior, rows
from blts.studies.tasks.counts import ratios
from blts.studies.tasks.posterior import exact, moments, rewards, wasserstein
from laws import LEVEL, gaussian_p, ks_p, mean_p, variance_p

CHAINS = 60 * 512
THEOREM = {"step_size": "theorem", "steps": "theorem", "minibatch": "theorem"}


def run(task: str, condition: dict, replications: int, *, first: int = 0, seed: int = 0):
    made = registry.build("task", task)
    return made.run(made.normal(condition), seed=seed, first=first, replications=replications)


# Every task: blocks, normal forms, refusals

CONDITIONS = {
    "posterior": {"n": 100},
    "posterior, mala": {"n": 100, "sampler": "mala"},
    "rows": {"n": 50, "steps": 20, "states": 4},
    "rows, log-gamma": {"n": 50, "sampler": "log-gamma", "states": 4},
    "counts": {"env": "gaussian", "agent": "exact-ts", "batching": "dynamic", "horizon": 120},
}


def parts(name: str) -> tuple[str, dict]:
    return name.split(",")[0], CONDITIONS[name]


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "counts"])
def test_blocks_add_up_to_the_whole_bit_for_bit(name):
    task, condition = parts(name)
    whole, about = run(task, condition, 700)
    blocks = [run(task, condition, size, first=first) for first, size in ((0, 300), (300, 400))]
    other, _ = run(task, condition, 700, seed=1)
    for key, values in whole.items():
        assert values.shape == (700,)
        assert np.unique(values).size == 700
        np.testing.assert_array_equal(values, np.concatenate([arrays[key] for arrays, _ in blocks]))
        assert not np.isin(values, other[key]).any()
    assert all(about == again for _, again in blocks)


def test_a_run_does_not_depend_on_the_runs_beside_it():
    """As above with one size for all blocks, so that it is compiled once."""
    early, late = (run("counts", CONDITIONS["counts"], 40, first=first)[0] for first in (0, 20))
    for key in early:
        np.testing.assert_array_equal(early[key][20:], late[key][:20])
    assert not np.array_equal(early["mean"], late["mean"])


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_normal_form_is_its_own(name):
    task, condition = parts(name)
    normal = registry.build("task", task).normal(condition)
    assert registry.build("task", task).normal(normal) == normal
    assert set(condition.items()) <= set(normal.items())
    study = plan(Study("mine", task=task, conditions=(condition, normal), replications=3))
    assert study.conditions == (normal,)


def test_a_normal_form_has_the_types_that_it_was_not_given():
    normal = registry.build("task", "posterior").normal({"n": 3, "step_size": 1, "prior_sd": 2})
    assert (type(normal["step_size"]), type(normal["prior_sd"]), normal["steps"], normal["minibatch"]) == (float, float, 50, 32)
    ula = registry.build("task", "posterior").normal({"n": 3, "sampler": "ula"})
    assert (ula["step_size"], ula["steps"], ula["minibatch"], ula["control_variate"]) == (0.1, 50, None, False)
    assert type(registry.build("task", "rows").normal({"n": 3, "alpha": 1})["alpha"]) is float


def test_results_can_be_stored():
    for name in ("posterior", "rows", "counts"):
        study = plan(Study("mine", task=name, conditions=(CONDITIONS[name],), replications=40))
        (cell,) = study.cells()
        arrays, about, _ = decode(compute(cell), name)
        again, same = run(name, CONDITIONS[name], 40)
        assert about == same
        assert all(np.array_equal(arrays[key], again[key]) for key in again)


REFUSED = [
    ("posterior", {"n": 9, "stepsize": 0.1}, "The task 'posterior' has no key 'stepsize'. Did you mean 'step_size'?"),
    ("posterior", {}, "needs 'n'"),
    ("posterior", {"n": 0}, "n must be a whole number from 1 to 16777216; got 0."),
    ("posterior", {"n": 10.0}, "n must be a whole number"),
    ("posterior", {"n": True}, "n must be a whole number"),
    ("posterior", {"n": 9, "sampler": "hmc"}, "sampler must be one of 'sgld', 'ula', 'mala'; got 'hmc'."),
    ("posterior", {"n": 9, "sampler": ["ula"]}, "sampler must be one of"),
    ("posterior", {"n": 9, "step_size": 0}, "step_size must be a number > 0; got 0."),
    ("posterior", {"n": 9, "step_size": "paper"}, "step_size must be a number or \"theorem\"; got 'paper'."),
    ("posterior", {"n": 9, "steps": 1.5}, "steps must be a whole number"),
    ("posterior", {"n": 9, "minibatch": None}, "minibatch must be a whole number ≥ 1; got None."),
    ("posterior", {"n": 9, "sampler": "ula", "minibatch": 32}, "ula takes all data at every step; leave minibatch out"),
    ("posterior", {"n": 9, "sampler": "mala", "control_variate": True}, "control_variate corrects the minibatches of sgld"),
    ("posterior", {"n": 9, "control_variate": 1}, "control_variate must be true or false; got 1."),
    ("posterior", {"n": 9, "prior_sd": float("nan")}, "prior_sd must be a number > 0; got nan."),
    ("rows", {"n": 9, "stats": 3}, "The task 'rows' has no key 'stats'. Did you mean 'states'?"),
    ("rows", {"states": 3}, "needs 'n'"),
    ("rows", {"n": 9, "sampler": "exact"}, "sampler must be one of 'mirrored', 'log-gamma'; got 'exact'."),
    ("rows", {"n": 9, "steps": "paper"}, "steps must be a whole number"),
    ("rows", {"n": 9, "states": 1}, "states must be a whole number ≥ 2; got 1."),
    ("rows", {"n": 9, "alpha": -1}, "alpha must be a number > 0; got -1."),
    ("rows", {"n": 9, "zero": 0}, "zero must be true or false; got 0."),
    ("counts", {"env": "gaussian"}, "needs 'agent'"),
    ("counts", {"env": "gaussian", "agent": "ucb1", "times": 9}, "The task 'counts' looks at every round; leave times out; got 9."),
    ("counts", {"env": "gaussian", "agent": "ucb1", "horizon": 1}, "horizon must be ≥ 2"),
    ("counts", {"env": "gaussian", "agent": "ucb1", "scael": 1}, "There is no option 'scael'. Did you mean 'scale'?"),
    ("counts", {"env": "riverswim", "agent": "tsde"}, "The lemma is about the arms of a bandit"),
    ("counts", {"env": "inventory", "agent": "sgld-psrl"}, "The lemma is about the arms of a bandit"),
]


@pytest.mark.parametrize(("task", "condition", "words"), REFUSED)
def test_refusals_say_what_to_do(task, condition, words):
    with pytest.raises(ConfigError) as error:
        registry.build("task", task).normal(condition)
    assert words in str(error.value)


def test_an_unknown_task_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="Did you mean 'posterior'"):
        registry.build("task", "posteriors")


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


# (b) Rows

ZERO = {"n": 200, "states": 4}
NEAR = 0.08  # W1 in sds; 4096 exact draws are 0.02 away, and a step of 0.5 has a bias


def apart(x: np.ndarray, beta: list[float]) -> float:
    """W1 to the Beta law, in its sds."""
    level = (np.arange(x.size) + 0.5) / x.size
    return float(np.mean(np.abs(np.sort(x) - stats.beta.ppf(level, *beta))) / stats.beta.std(*beta))


def share_apart(condition: dict) -> float:
    arrays, about = run("rows", condition, 4096)
    return apart(arrays["share"], about["beta"])


def test_exact_shares_are_beta():
    arrays, about = run("rows", ZERO | {"steps": 1}, CHAINS)
    a, b = about["beta"]
    assert (a, b) == (1.0, 203.0)
    assert (about["mean"], about["sd"]) == pytest.approx((stats.beta.mean(a, b), stats.beta.std(a, b)))
    assert ks_p(arrays["exact"], stats.beta(a, b).cdf) > LEVEL
    assert mean_p(arrays["exact"], about["mean"], about["sd"]) > LEVEL
    assert ks_p(arrays["exact"], stats.beta(1.05 * a, b).cdf) < LEVEL


def test_log_gamma_shares_are_beta_after_six_steps():
    for extra in ({}, {"n": 100_000}, {"zero": False}):
        assert share_apart(ZERO | {"sampler": "log-gamma"} | extra) < 0.04
    arrays, about = run("rows", ZERO | {"sampler": "log-gamma"}, 4096)
    assert about["default_steps"] == 6
    assert apart(arrays["share"], [1.1 * about["beta"][0], about["beta"][1]]) > 0.04
    assert share_apart(ZERO | {"sampler": "log-gamma", "steps": 1}) > NEAR  # too few


def test_mirrored_shares_need_iterations_in_proportion_to_n():
    made = registry.build("task", "rows")
    need = made.normal(ZERO)["steps"]
    assert need == 8 * 204  # 4/step · A/alpha
    assert made.normal(ZERO | {"n": 2000})["steps"] == 8 * 2004
    assert share_apart(ZERO) < NEAR
    assert share_apart(ZERO | {"steps": need // 16}) > 2 * NEAR
    # Ten times the counts, and what was enough is far too few.
    assert share_apart(ZERO | {"n": 2000, "steps": need}) > 2 * NEAR


def test_mirrored_shares_need_few_iterations_where_every_state_was_seen():
    seen = ZERO | {"zero": False, "n": 2000}
    arrays, about = run("rows", seen, 4096)
    assert registry.build("task", "rows").normal(seen)["steps"] == about["default_steps"] <= 33
    assert about["beta"] == [501.0, 1503.0]
    assert apart(arrays["share"], about["beta"]) < NEAR
    assert share_apart(seen | {"steps": 2}) > NEAR


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_counts_are_spread_in_whole_numbers(n, zero):
    counts = rows.spread({"states": 6, "zero": zero}, n)
    assert counts.sum() == n
    assert (counts == np.floor(counts)).all()
    assert (counts[-1] == 0) or not zero
    assert np.ptp(counts[: 5 if zero else 6]) <= 1


def test_the_default_steps_of_the_log_gamma_chain_are_its_own():
    keys, wide = random.split(random.key(0), 8), jnp.ones((8, 3))
    program = lambda steps: str(jax.make_jaxpr(lambda: LogGammaRows(steps).draw(keys, wide, wide, wide).rows)())  # noqa: E731
    assert program(None) == program(rows.LOG_GAMMA_STEPS) != program(rows.LOG_GAMMA_STEPS + 1)


# (c) The lemma k(t)/2 ≤ k(B(t)) ≤ k(t), and Theorem 2


def counts_of(batching: str, **options):
    return run("counts", {"env": "gaussian", "agent": "exact-ts", "batching": batching, "horizon": 120, **options}, 40)


def test_the_lemma_holds_for_dynamic_batching():
    arrays, about = counts_of("dynamic")
    assert (arrays["least"] == 0.5).all()  # reached: an arm's second play, with one reward seen
    assert ((arrays["mean"] > 0.5) & (arrays["mean"] < 1)).all()
    assert (about["batches_bound"], about["batches_sharp"]) == (theory.batches_bound(15, 120), theory.batches_sharp(15, 120))
    assert arrays["batches"].max() <= about["batches_sharp"] <= about["batches_bound"]


def lemma_fails(batching: str, **options) -> bool:
    arrays, _ = counts_of(batching, **options)
    return bool((arrays["least"] < 0.5).all())


def test_the_lemma_fails_for_static_batching():
    assert lemma_fails("static")
    assert not lemma_fails("dynamic")


@pytest.mark.slow
def test_the_lemma_fails_for_other_schemes():
    """The other reading of doubling waits for more than twice the plays, and so has seen one too few."""
    assert lemma_fails("fixed", size=12)
    assert lemma_fails("doubled-since-switch")


@pytest.mark.slow
def test_theorem_2_fails_for_sequential_batching():
    arrays, about = counts_of("sequential")
    assert (arrays["batches"] == 120).all()
    assert arrays["batches"].min() > about["batches_bound"]


def by_hand(actions, ends, arms: int) -> list[float]:
    """The definition, round by round."""
    found, plays, seen = [], [0] * arms, [0] * arms
    for t, action in enumerate(actions, start=1):
        known = [a for a in range(arms) if plays[a] > 0]
        plays[action] += 1
        found += [seen[a] / plays[a] for a in known]
        if t in ends:
            seen = list(plays)
    return found


def test_ratios_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(30):
        T, arms = int(rng.integers(2, 30)), int(rng.integers(1, 5))
        actions = rng.integers(0, arms, T)
        ends = np.flatnonzero(rng.random(T) < 0.3) + 1
        padded = np.r_[ends, np.zeros(3, int)]
        np.testing.assert_allclose(ratios(actions, padded, arms), by_hand(actions, set(ends), arms))
    assert ratios(np.zeros(4, int), np.array([1, 2, 4]), 1).tolist() == [1 / 2, 2 / 3, 2 / 4]


@pytest.mark.slow
def test_the_runs_are_those_of_simulate():
    condition = {"env": "gaussian", "agent": "exact-ts", "batching": "dynamic", "horizon": 120}
    np.testing.assert_array_equal(run("counts", condition, 40)[0]["batches"], run("simulate", condition, 40)[0]["batches"])
