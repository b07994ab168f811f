"""With contexts: one θ for all arms, arms that come and go, samplers without closed posteriors, masks and floors."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

from blts.agents import Perturb, Pool
from blts.errors import ConfigError
from blts.live import Experiment, Spec
from blts.live.conclusions.sample_ratio import sample_ratio
from blts.live.export import table_of
from blts.samplers import sgld, ula
from compiling import optimised
from laws import LEVEL
from shown import FEATURES, LABELS, LINEAR, contexts, created, encoded, played

ARMS = {"A": {"price": 1.0}, "B": {"price": 5.0, "colour": "red"}, "C": {"price": 10.0}}
PRICED = {"arms": ARMS, "arm_features": {"price": [0, 20]}, "shared": True, "batching": "external"}


def posterior(rows: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The posterior mean of θ for a prior N(0, I) and unit noise."""
    return np.linalg.solve(np.eye(rows.shape[1]) + rows.T @ rows, rows.T @ rewards)


def learned_rows(experiment: Experiment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts as numbers, arms and rewards of all decisions that have one."""
    table = table_of(experiment)
    has = ~np.isnan(table.rewards)
    return np.array([encoded(x) for x in table.contexts or []], float)[has], table.arms[has], table.rewards[has]


def state_mean(experiment: Experiment) -> np.ndarray:
    with experiment.database.read() as c:
        return np.asarray(experiment.session.load(c, experiment.status()["policy"]).frozen.state.mean, float)


def test_disjoint_arms_learn_from_their_own_contexts(tmp_path):
    experiment = created(tmp_path / "blts.db", batching="external")
    played(experiment, 60)
    x, arms, rewards = learned_rows(experiment)
    expected = [posterior(x[arms == k], rewards[arms == k]) for k in range(3)]
    assert np.allclose(state_mean(experiment), expected, atol=1e-4)
    assert not np.allclose(state_mean(experiment), [posterior(x, rewards)] * 3, atol=1e-2)  # the mutant: all rewards for each


def test_a_shared_theta_of_products_with_the_arms_features(tmp_path):
    experiment = created(tmp_path / "blts.db", **PRICED)
    played(experiment, 60)
    x, arms, rewards = learned_rows(experiment)
    z = (np.array([1.0, 5.0, 10.0]) - 10.0) / 10.0
    assert np.allclose(state_mean(experiment)[0], posterior(np.hstack([x, x * z[arms, None]]), rewards), atol=1e-4)
    assert experiment.status()["arm_features"] == ["price: from [0, 20] to [-1, 1]"]
    experiment.add_arm("D", {"price": 20.0})  # a cold arm is known by its features
    for wrong, words in ({}, "lacks 'price'"), ({"price": 21}, "from 0 to 20"):
        with pytest.raises(ConfigError, match=words):
            experiment.add_arm("E", wrong)
    decisions = experiment.ask(contexts=contexts(10, seed=3)).decisions
    assert all(0 < d.propensities["D"] < 1 for d in decisions)
    experiment.retire_arm("A")
    experiment.tell([(d.id, 0.5) for d in experiment.ask(contexts=contexts(10, seed=4)).decisions])
    assert experiment.refresh(force=True).in_use
    assert experiment.verify() == []


def test_a_shared_theta_with_offsets(tmp_path):
    experiment = created(tmp_path / "blts.db", shared=True, batching="external")
    played(experiment, 60)
    x, arms, rewards = learned_rows(experiment)
    assert np.allclose(state_mean(experiment)[0], posterior(np.hstack([x, np.eye(3)[arms]]), rewards), atol=1e-4)
    with pytest.raises(ConfigError, match="arm_features"):
        experiment.add_arm("D")
    experiment.retire_arm("B")
    experiment.ask(contexts=contexts(4))
    experiment.stop("A")
    assert {d.arm for d in experiment.ask(contexts=contexts(2)).decisions} == {"A"}
    assert experiment.verify() == []


def test_disjoint_arms_come_and_go(tmp_path):
    experiment = created(tmp_path / "blts.db", batching="external")
    played(experiment, 60)
    experiment.add_arm("D")
    played(experiment, 60, seed=1)
    experiment.retire_arm("A")
    played(experiment, 60, seed=2)
    assert {d.arm for d in experiment.ask(contexts=contexts(60)).decisions} <= {"B", "C", "D"}
    with pytest.raises(ConfigError, match="no active arm"):
        experiment.ask(contexts=contexts(1), available=["A"])
    assert experiment.verify() == []


@pytest.mark.parametrize(
    ("sampler", "compiling"), [(Perturb(sgld(0.1, 10, 8)), nullcontext), (Pool(ula(0.1, 5), 8), optimised)], ids=["perturb", "pool"]
)
def test_samplers_without_closed_posteriors_run(tmp_path, sampler, compiling):
    with compiling():  # the programs of a pool run for seconds
        check_sampler(tmp_path, sampler)


def check_sampler(tmp_path, sampler):
    experiment = created(tmp_path / "blts.db", sampler=sampler, batching="external", rhat=1e30)
    for seed in range(2):
        played(experiment, 60, seed)
    decisions = experiment.ask(contexts=contexts(200, seed=5)).decisions
    p = np.array([list(d.propensities.values()) for d in decisions])
    arms = np.array([LABELS.index(d.arm) for d in decisions])
    assert np.allclose(p.sum(1), 1, atol=1e-5)
    assert sample_ratio(arms, p).p_value > LEVEL
    assert experiment.verify() == []


def test_masks_floors_and_burn_in(tmp_path):
    """What is mixed in goes to available arms alone, and frequencies are the propensities."""
    for sampler, floor, burn_in in (("exact", 0.1, 0), ("exact", 0.05, 300), ("uniform", 0.0, 0), ("eps-greedy", 0.05, 0)):
        name = f"{sampler} {floor} {burn_in}"
        settings = {"sampler": sampler, "floor": floor, "burn_in": burn_in, "control": "B", "control_share": floor}
        experiment = created(tmp_path / "blts.db", name, batching="external", **settings)
        played(experiment, 60)
        masks = [["A", "B", "C"], ["A", "C"], ["B"]]
        decisions = experiment.ask(contexts=contexts(1200, seed=6), available=[masks[i % 3] for i in range(1200)]).decisions
        p = np.array([list(d.propensities.values()) for d in decisions])
        arms = np.array([LABELS.index(d.arm) for d in decisions])
        allowed = np.array([[label in masks[i % 3] for label in LABELS] for i in range(1200)])
        assert (p[~allowed] == 0).all()
        assert np.allclose(p.sum(1), 1, atol=1e-5)
        assert (p[1::3][:, [0, 2]] >= floor - 1e-6).all()
        for stratum in range(2):
            assert sample_ratio(arms[stratum::3], p[stratum::3]).p_value > LEVEL, (name, stratum)
        assert experiment.verify() == []


def test_a_category_of_arms_is_an_offset_for_each(tmp_path):
    labels = {label: {"arm": label} for label in LABELS}
    experiment = created(tmp_path / "blts.db", arms=labels, arm_features={"arm": list(LABELS)}, shared=True, batching="external")
    assert experiment.spec.width == 5 * 3
    assert len(experiment.ask(contexts=contexts(3)).decisions) == 3


def test_experiments_from_before_keep_the_draws_that_their_sampler_stood_for():
    """A name of a sampler stands for what it stood for when the experiment was stored."""
    settings = {"features": FEATURES, "seed": 3}
    now = Spec.of(LABELS, LINEAR, "ula", "external", **settings)
    stored = {name: value for name, value in json.loads(now.to_json()).items() if name != "shared_noise"}
    before, stated = (
        Spec.from_json(json.dumps(stored)),
        Spec.of(LABELS, LINEAR, {"name": "ula-ts", "gamma": 1.0}, "external", **settings),
    )

    def belief(spec: Spec):
        return spec.build(tuple(range(len(spec.arms))), spec.arms).agent.belief

    assert repr(belief(before)) == repr(belief(stated))
    assert repr(belief(before)) != repr(belief(now))
    assert repr(belief(Spec.from_json(now.to_json()))) == repr(belief(now))


@pytest.mark.parametrize("shared", [False, True])
def test_a_later_refresh_compiles_nothing(tmp_path, shared, compiled):
    """Factors of the prior, computed outside a program, were compiled again by every refresh."""
    experiment = created(tmp_path / "blts.db", **(PRICED if shared else {"batching": "external"}))
    for seed in range(3):
        del compiled[:]
        played(experiment, 10, seed)
    assert compiled == []
