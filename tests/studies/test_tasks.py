"""The tasks that measure the theorems: blocks, rows, and the lemma; every statistical test has its mutant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random, registry, theory
from blts.errors import ConfigError, UnknownName
from blts.samplers.rows import LogGammaRows
from blts.studies import Study
from blts.studies.engines import compute
from blts.studies.planning import plan
from blts.studies.store import decode
from blts.studies.tasks import rows
from blts.studies.tasks.counts import ratios
from laws import LEVEL, ks_p, mean_p
from running import CHAINS, run

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
