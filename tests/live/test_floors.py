"""Floors and the control's share hold while arms burn in; experiments of earlier code keep the rule that they had."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts.live import Experiment, Spec, policy
from blts.models import Gaussian
from experiments import LABELS, STANDARD
from laws import LEVEL, counts_p

COINS = 200  # for who chooses, and as many for which arm: midpoints of a grid, so that every fraction is counted


def mixed(mixture, law, plays):
    """The propensities of a decision, and the share of all coins under which each arm is played."""
    u = (np.arange(COINS) + 0.5) / COINS
    coins = jnp.asarray(np.stack(np.meshgrid(u, u), -1).reshape(-1, 2))

    @jax.jit
    def play(coin):
        return policy.mix(coin, policy.pick(coin[1], law), law, mixture, plays)

    arms, laws = jax.vmap(play)(coins)
    assert (np.asarray(laws) == np.asarray(laws)[0]).all()
    return np.asarray(laws)[0], np.bincount(np.asarray(arms), minlength=len(law)) / len(coins)


@pytest.mark.parametrize("plays", [[9, 9, 0], [9, 0, 0], [0, 0, 0], [9, 9, 9], [0, 9, 9]])
def test_floors_hold_while_arms_burn_in(plays):
    """Every arm has its floor, the control its share, and arms that lack units more than that; counted over all coins."""
    added, law = jnp.asarray([0.32, 0.02, 0.02]), jnp.asarray([0.0, 0.9, 0.1])
    p, played = mixed(policy.Mixture(added, jnp.asarray(5)), law, jnp.asarray(plays))
    assert (p >= np.asarray(added) - 1e-7).all()
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert played == pytest.approx(p, abs=3 / COINS)
    lacking = np.asarray(plays) < 5
    assert (p[lacking] >= np.asarray(added)[lacking] + 0.64 / 3 - 1e-6).all()
    earlier, played = mixed(policy.Mixture(added, jnp.asarray(5), False), law, jnp.asarray(plays))  # the mutant: the rule before
    assert played == pytest.approx(earlier, abs=3 / COINS)
    assert (earlier >= np.asarray(added) - 1e-7).all() == (plays not in ([9, 9, 0], [9, 0, 0]))


def test_arms_are_drawn_as_the_floors_say():
    """16,384 decisions with an arm that lacks units throughout, against their vector; the mutant is the rule before."""
    spec = Spec.of(LABELS, Gaussian(), "exact", "external", floor=0.02, control="A", control_share=0.3, burn_in=10**6)
    built, key = spec.build((0, 1, 2), spec.arms), policy.root_key(3)
    frozen = policy.freeze(built.agent, policy.start(key, built.agent), "auto")
    ticks = policy.start_clock(key, built.batching, 3)._replace(plays=jnp.asarray([10**6, 10**6, 0]))
    _, found = policy.decide_many(
        key, built.agent, built.batching, frozen, ticks, built.mixture, policy.SIZES[-1], size=policy.SIZES[-1], strict=False
    )
    p, plays = np.asarray(found.propensities, float), np.bincount(np.asarray(found.arms), minlength=3)
    assert (p == p[0]).all()
    assert (p[0] >= np.asarray(built.mixture.added) - 1e-7).all()
    assert counts_p(plays, p[0]) > LEVEL
    earlier, _ = mixed(policy.Mixture(built.mixture.added, built.mixture.burn_in, False), frozen.law, ticks.plays)
    assert counts_p(plays, earlier) < LEVEL


def with_rule(path, first: bool | None) -> None:
    """Change the stored specification: `floors_first` True, or not there, as in databases of earlier code."""
    with sqlite3.connect(path) as c:
        for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            c.execute(f"DROP TRIGGER {name}")
        spec = json.loads(c.execute("SELECT spec FROM blts_experiments").fetchone()[0])
        spec = {name: value for name, value in spec.items() if name != "floors_first"} | ({"floors_first": True} if first else {})
        c.execute("UPDATE blts_experiments SET spec = ?, chain = ''", (json.dumps(spec, sort_keys=True),))
        c.execute("UPDATE blts_audit SET chain = ''")  # as before there was a chain, which would notice the change
    c.close()


def test_experiments_of_earlier_code_keep_their_rule(tmp_path):
    """They are replayed, and go on, with burn-in before the floors."""
    settings = {"floor": 0.1, "control_share": 0.4, "burn_in": 4, "seed": 1}
    spec = dataclasses.replace(Spec.of(LABELS, STANDARD, "exact", "external", **settings), floors_first=False)
    experiment = Experiment.create(tmp_path / "x.db", "mail", spec=spec)
    experiment.ask(40)
    experiment.add_arm("D")
    assert experiment.ask(1).decisions[0].propensities["A"] < 0.49
    experiment.close()
    with_rule(tmp_path / "x.db", None)
    experiment = Experiment.open(tmp_path / "x.db", "mail")
    assert experiment.verify() == []
    assert experiment.ask(1).decisions[0].propensities["A"] < 0.49
    experiment.close()
    with_rule(tmp_path / "x.db", True)  # the mutant: today's rule for yesterday's decisions
    assert any("propensities" in sentence for sentence in Experiment.open(tmp_path / "x.db", "mail").verify())


def test_floors_of_an_experiment_whose_new_arm_burns_in(tmp_path):
    experiment = Experiment.create(
        tmp_path / "x.db", "mail", LABELS, STANDARD, "exact", "external", floor=0.1, control_share=0.4, burn_in=4, seed=1
    )
    experiment.ask(40)
    experiment.add_arm("D")
    p = experiment.ask(1).decisions[0].propensities
    assert p["A"] >= 0.5 - 1e-6
    assert min(p.values()) >= 0.1 - 1e-6
    assert experiment.verify() == []
