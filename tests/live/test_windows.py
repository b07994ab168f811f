"""Rewards that come late or never: closed windows, exposures, decisions that go on, and the end of an experiment."""

from __future__ import annotations

import numpy as np
import pytest

from blts.errors import ConfigError, UnknownName
from blts.live import Experiment, ledger
from experiments import Hand, made, rewarded

HOUR = 3600.0


# Windows


def delayed(path, learn: str, hours: int = 40, each: int = 16) -> dict[str, float]:
    """What is learned of two arms that succeed every second time, A after half an hour and B after twenty; failures are silence.

    Args:
        path: of the database.
        learn: "closed" or "open".
        hours: with a refresh each.
        each: decisions in an hour.

    Returns:
        The means of the rewards that the last version learned from, how many the rarer arm has, and the probability of A.
    """
    clock, waiting, count = Hand(), [], {"A": 0, "B": 0}
    settings = {"window": 24 * HOUR, "default_reward": 0.0, "learn": learn, "floor": 0.2, "seed": 3, "clock": clock}
    experiment = Experiment.create(path, learn, ["A", "B"], "bernoulli", "exact", "external", **settings)
    delay = {"A": 0.5 * HOUR, "B": 20 * HOUR}
    for _ in range(hours):
        for decision in experiment.ask(each).decisions:
            count[decision.arm] += 1
            if count[decision.arm] % 2:
                waiting.append((clock.now + delay[decision.arm], decision.id))
        clock.now += HOUR
        experiment.tell([(i, 1.0) for due, i in waiting if due <= clock.now])
        waiting = [(due, i) for due, i in waiting if due > clock.now]
        experiment.refresh()
    about = experiment.policy()
    with experiment.database.read() as c:
        rows = ledger.Fold(experiment.id).until(c, about["watermark"], about["t"]).rows(False, about["cutoff"])
    n = np.bincount(rows.arms)
    assert about["n"] == dict(zip("AB", n.tolist(), strict=True))
    assert experiment.verify() == []
    mean = np.bincount(rows.arms, rows.rewards) / n
    return {"A": mean[0], "B": mean[1], "allocation": experiment.status()["allocation"]["A"], "n": n.min()}


def test_arms_are_equal_however_late_their_rewards_come(tmp_path):
    closed = delayed(tmp_path / "x.db", "closed")
    assert closed["n"] > 50
    assert closed["A"] == pytest.approx(0.5, abs=0.02)
    assert closed["B"] == pytest.approx(0.5, abs=0.02)
    assert 0.3 < closed["allocation"] < 0.7


def test_learning_before_the_window_is_over_prefers_the_fast_arm(tmp_path):
    """The mutant: the arms are equal, and the one whose successes come first takes all but the floor."""
    open_ = delayed(tmp_path / "x.db", "open")
    assert open_["A"] > open_["B"] + 0.08
    assert open_["allocation"] > 0.75  # at most 0.8


def test_a_clock_that_is_set_back_does_no_harm(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, strict=False, batching="external", window=60.0, default_reward=0.0, clock=clock)
    experiment.ask(3)
    clock.now -= 5000
    experiment.tell(rewarded(experiment.ask(3)))
    assert experiment.refresh().why == "there is nothing new to learn from"
    clock.now += 5000 + 30  # the windows of the decisions made in the past are over, the others are not
    assert experiment.refresh().version == 2
    assert sum(experiment.policy()["n"].values()) == 3
    clock.now -= 5000
    assert not experiment.refresh().refreshed
    clock.now += 5000 + 60
    assert experiment.refresh().version == 3
    assert sum(experiment.policy()["n"].values()) == 6
    assert experiment.verify() == []


def test_a_report_counts_what_counted_before_the_clock_was_set_back(tmp_path):
    clock = Hand()
    with made(tmp_path, window=100.0, default_reward=0.0, batching="external", strict=False, clock=clock) as mail:
        mail.tell(rewarded(mail.ask(6)))
        clock.now += 200
        assert mail.refresh(force=True).in_use
        before = mail.report()
        clock.now -= 1000
        mail.tell(rewarded(mail.ask(2)))
        after = mail.report()
    assert before["rewards"] == 6
    assert after["rewards"] == 8  # on this clock the new ones came before those that count
    assert after["open"] == 0


def test_external_batches_learn_from_silence_and_corrections(tmp_path):
    """Without force, and nothing twice."""
    clock = Hand()
    experiment = made(tmp_path, batching="external", strict=False, window=60.0, default_reward=-1.0, clock=clock)
    decisions = experiment.ask(4).decisions
    assert not experiment.refresh().refreshed
    clock.now += 61
    assert experiment.refresh().version == 2
    assert sum(experiment.policy()["n"].values()) == 4
    assert not experiment.refresh().refreshed
    experiment.correct(decisions[0].id, 5.0)
    assert experiment.refresh().version == 3
    experiment.cancel([decisions[1].id])
    assert experiment.refresh().version == 4
    assert sum(experiment.policy()["n"].values()) == 3
    assert not experiment.refresh().refreshed
    assert experiment.status()["without_reward"] == 0
    assert experiment.verify() == []


# Exposures


def test_only_what_was_exposed_is_learned_from(tmp_path):
    """Also from its own time on: a window begins with the exposure."""
    clock = Hand()
    settings = {"batching": "external", "strict": False, "window": 60.0, "default_reward": 0.0, "clock": clock}
    experiment = made(tmp_path, exposure="explicit", **settings)
    assumed = made(tmp_path, "assumed", **settings)
    decisions = experiment.ask(4).decisions
    experiment.tell(rewarded_by(decisions[:2]))
    assumed.tell(rewarded_by(assumed.ask(4).decisions[:2]))
    clock.now += 61
    assert assumed.refresh().refreshed  # the mutant
    assert sum(assumed.policy()["n"].values()) == 4
    assert experiment.refresh().why == "there is nothing new to learn from"
    assert experiment.expose([decisions[0].id, decisions[2].id]) == 2
    assert experiment.expose([decisions[0].id]) == 0
    assert not experiment.refresh().refreshed
    clock.now += 61
    assert experiment.refresh().refreshed
    assert sum(experiment.policy()["n"].values()) == 2  # one told, one silent; the others were never seen
    with pytest.raises(ConfigError, match="nothing was recorded"):
        experiment.expose([decisions[1].id, "0123456789abcdef-1"])
    with pytest.raises(ConfigError, match="assumes that every decision is carried out"):
        assumed.expose([decisions[0].id])
    clock.now += 61
    assert not experiment.refresh().refreshed  # the refused call exposed nothing
    assert experiment.verify() == assumed.verify() == []


def rewarded_by(decisions, value: float = 1.0) -> list[tuple[str, float]]:
    return [(d.id, value) for d in decisions]


# Decisions go on


def test_decisions_go_on_while_a_batch_is_awaited(tmp_path):
    experiment = made(tmp_path, strict=False)
    first = experiment.ask(6)
    assert first.feedback_due
    more = experiment.ask(4)
    assert len(more.decisions) == 4
    assert {d.policy for d in more.decisions} == {1}
    assert (more.feedback_due, more.awaited, more.why) == (True, 6, None)  # only those of the closed batch are awaited
    assert experiment.status()["without_reward"] == 10
    experiment.tell(rewarded(first))
    assert experiment.refresh().in_use
    assert experiment.status()["batch_size"] == 4  # those in between are of the next batch
    strict = made(tmp_path, "strict")
    strict.ask(6)
    assert strict.ask(4).why == "batch 1 is closed and awaits 6 rewards"
    assert experiment.verify() == strict.verify() == []


# The end


def test_a_stopped_experiment_plays_the_promoted_arm(tmp_path):
    experiment = made(tmp_path, strict=False)
    before = experiment.ask(6)
    with pytest.raises(UnknownName, match="active arm"):
        experiment.stop("nobody")
    assert experiment.stop("B", "it is best") == 2
    after = experiment.ask(20)
    assert {d.arm for d in after.decisions} == {"B"}
    assert all(d.propensities["B"] == 1 for d in after.decisions)
    assert experiment.tell(rewarded(before)).accepted == 6
    status = experiment.status()
    assert (status["stopped"], status["promoted"], status["active"]) == (True, "B", ["B"])
    with pytest.raises(ConfigError, match="stopped already"):
        experiment.stop()
    assert Experiment.open(tmp_path / "blts.db", "mail").verify() == []


def test_the_status_awaits_only_what_can_still_come(tmp_path):
    """Before, rewards whose window was over were awaited until the next refresh."""
    clock = Hand()
    experiment = made(tmp_path, window=100.0, clock=clock)
    first = experiment.ask(4)
    experiment.tell(rewarded(first)[:1])
    assert experiment.status()["awaited"] == 3
    clock.now += 60
    experiment.ask(2)
    clock.now += 40  # the window of the first four is over
    assert experiment.status()["awaited"] == 2
    assert experiment.ask().why == "batch 1 is closed and awaits 2 rewards"
    assert experiment.refresh().awaited == 2
    clock.now += 60
    assert experiment.status()["awaited"] == 0
    assert experiment.ask().why == "batch 1 is closed and waits for its refresh"
    assert experiment.refresh().version == 2
    assert experiment.verify() == []


def test_the_status_awaits_only_what_was_carried_out(tmp_path):
    experiment = made(tmp_path, strict=False, exposure="explicit")
    answer = experiment.ask(5)
    assert experiment.status()["awaited"] == 0
    experiment.expose([d.id for d in answer.decisions[:3]])
    experiment.tell(rewarded(answer)[:1])
    assert experiment.status()["awaited"] == 2


def test_an_experiment_stopped_without_an_arm_makes_no_decisions(tmp_path):
    experiment = made(tmp_path, strict=False)
    answer = experiment.ask(5)
    experiment.stop(reason="no money")
    none = experiment.ask(2)
    assert (none.decisions, none.why, none.stopped, none.paused) == ((), "the experiment is stopped", True, False)
    assert experiment.tell(rewarded(answer)).accepted == 5
    why = "batch 1 is still open after 5 decisions, and the experiment is stopped: only a forced refresh learns from it"
    assert experiment.refresh().why == why
    assert experiment.refresh(force=True).version == 2
    with pytest.raises(ConfigError, match="is stopped"):
        experiment.resume()
    status = experiment.status()
    assert (status["promoted"], status["stopped"], status["paused"]) == (None, True, False)
    assert experiment.verify() == []


@pytest.mark.parametrize("settings", [{}, {"window": "1d", "default_reward": 0.0}, {"refresh_seconds": 60.0}])
def test_a_batch_that_may_wait_for_ever_is_said(settings):
    """Without a window or a cadence, one reward that never comes holds up learning."""
    experiment = Experiment.create(
        "sqlite://", "mail", ["A", "B"], "conversions", "exact", {"name": "fixed", "size": 4}, **settings
    )
    assert experiment.status()["waits"] is None
    decisions = experiment.ask(4).decisions
    experiment.tell([(d.id, 1) for d in decisions[:3]])
    waits = experiment.status()["waits"]
    assert (waits is None) == bool(settings)
    assert settings or waits.startswith("Batch 1 is closed and awaits 1 reward.")
    experiment.tell([(decisions[3].id, 0)])
    assert experiment.status()["waits"] is None
