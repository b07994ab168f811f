"""Private live experiments: each reward is in one release, and a policy depends on what was released alone."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import numpy as np
import pytest

from blts.live import Experiment, asking, creating, refreshing, releases
from blts.live.rehearsal.simulating import run
from blts.live.worker import Worker
from experiments import Hand
from privates import GAUSSIAN, PRIVATE, arms, batch, hand_of, lived, private, versions
from rehearsals import HOUR, REPLICATIONS, Driven, far_apart, planned, spec_of


@pytest.fixture(autouse=True)
def _same_secrets(monkeypatch):
    """Experiments that are compared have one pepper."""
    monkeypatch.setattr(creating.secrets, "token_hex", lambda n: "5a" * n)


def budget(experiment: Experiment) -> dict:
    return experiment.status()["privacy"]


# Each reward once


def test_a_replay_is_the_same_bit_for_bit():
    experiment = lived(private())
    assert experiment.verify() == []
    experiment.session.pepper = "another"
    wrong = experiment.verify()
    assert any("released other sums" in one for one in wrong)
    assert any("released other rewards" in one for one in wrong)


def test_exposures_begin_windows():
    experiment = private(exposure="explicit", batching="external")
    ids = [d.id for d in experiment.ask(30).decisions]
    for some in (ids[:10], ids[10:20]):
        experiment.expose(some)
        experiment.tell([(id, 1.0) for id in some[::2]])
        hand_of(experiment).now += 11
        assert experiment.refresh().refreshed
    experiment.correct(ids[0], 0.0, "late")
    assert (budget(experiment)["rows_released"], budget(experiment)["not_learned"]) == (20, 1)
    assert experiment.verify() == []


def test_each_reward_is_in_one_release(monkeypatch):
    found = budget(lived(private()))
    assert (found["releases"], found["rows_released"], found["not_learned"]) == (4, 89, 3)  # of 90 one was cancelled in time
    monkeypatch.setattr(releases, "covered", lambda fold, explicit, cutoff: np.zeros(len(fold.at), bool))
    assert budget(lived(private()))["rows_released"] > 89  # the mutant: rows are released again


def test_a_session_that_was_just_opened_releases_the_same(tmp_path):
    clock = Hand()
    with private(tmp_path / "a.db", clock) as experiment:
        batch(experiment)
        ids = [d.id for d in experiment.ask(25).decisions]
        experiment.tell([(id, 1.0) for id in ids[::4]])
        experiment.refresh()  # not yet, but it has read everything
        clock.now += 20
        files = [contextlib.closing(sqlite3.connect(tmp_path / name)) for name in ("a.db", "b.db")]
        with files[0] as source, files[1] as copy:
            source.backup(copy)
        with Experiment.open(tmp_path / "b.db", "mail", clock=clock) as cold:
            assert experiment.refresh().refreshed
            assert cold.refresh().refreshed
            assert versions(experiment) == versions(cold)


def test_nothing_is_released_twice_whoever_asks():
    experiment = private()
    assert "is still open" in str(experiment.refresh().why)
    batch(experiment)
    by_time = private(batching="external", refresh_seconds=5.0)
    batch(by_time)
    hand_of(by_time).now += 20
    for answer in (experiment.refresh(force=True), by_time.refresh(), by_time.refresh(force=True)):
        assert not answer.refreshed
        assert str(answer.why).startswith("there is nothing new to learn from: every reward whose window is over is released")
    assert budget(experiment)["releases"] == budget(by_time)["releases"] == 1


def test_a_batch_without_new_rewards_closes_and_releases_nothing():
    experiment = private()
    batch(experiment)
    experiment.cancel([d.id for d in experiment.ask(20).decisions], "never seen")
    assert experiment.refresh().refreshed
    assert budget(experiment)["releases"] == 1
    before, after = versions(experiment)[-2:]
    assert (before["law"], before["privacy"]["totals"]) == (after["law"], after["privacy"]["totals"])
    assert after["privacy"]["release"] == {"rows": {}, "sums": {}, "sd": 0.5}
    assert experiment.verify() == []


def test_a_clock_that_was_set_back_delays_the_release():
    experiment = private()
    batch(experiment)
    hand_of(experiment).now -= 100
    experiment.ask(20)
    hand_of(experiment).now += 50
    assert str(experiment.refresh(force=True).why).startswith("the clock is 50 seconds behind the last refresh")
    hand_of(experiment).now += 50
    assert experiment.refresh().refreshed
    assert budget(experiment)["rows_released"] == 40
    assert experiment.verify() == []


# What a policy depends on


def noise_of(monkeypatch, by_arm) -> None:
    """Noise that is known: 0.25 sd, and in the release of version 3 what `by_arm` says."""
    monkeypatch.setattr(releases, "noise", lambda pepper, what, arm: by_arm(arm) if json.loads(what)[0] == 3 else 0.25)


def three_batches(last: float = 1.0, change=lambda experiment, ids: None) -> Experiment:
    """Batches whose versions are 2, 3 and 4; decision 21 earns `last`, and something happens after the first refresh."""
    experiment = private()
    ids = batch(experiment, lambda t: t % 2)
    change(experiment, ids)
    batch(experiment, lambda t: last if t == 0 else t % 2)
    batch(experiment)
    assert experiment.verify() == []
    return experiment


def test_a_reward_acts_through_its_noisy_sum_alone(monkeypatch):
    """Noise that makes up for another reward (2 sd of 0.5) gives the same versions and decisions, bit for bit."""
    noise_of(monkeypatch, lambda arm: 0.25)
    kept, other = three_batches(1.0), three_batches(0.0)
    assert versions(kept)[:2] == versions(other)[:2]  # before its release it changes nothing
    assert arms(kept)[:40] == arms(other)[:40]
    assert versions(kept)[2:] != versions(other)[2:]
    played = "AB".index(arms(kept)[20])
    noise_of(monkeypatch, lambda arm: 2.25 if arm == played else 0.25)
    made_up = three_batches(0.0)
    assert versions(kept) == versions(made_up)
    assert arms(kept) == arms(made_up)


CHANGES = {
    "corrected": lambda experiment, ids: experiment.correct(ids[1], 0.0, "wrong"),
    "late": lambda experiment, ids: experiment.tell([(ids[0], 1.0)]),
    "cancelled": lambda experiment, ids: experiment.cancel(ids[:1], "never seen"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_said_of_a_released_reward_changes_no_later_version(name, monkeypatch):
    plain, changed = three_batches(), three_batches(change=CHANGES[name])
    assert versions(plain) == versions(changed)
    assert arms(plain) == arms(changed)
    assert [budget(one)["not_learned"] for one in (plain, changed)] == [0, 1]
    monkeypatch.setattr(releases, "covered", lambda fold, explicit, cutoff: np.zeros(len(fold.at), bool))
    assert versions(plain) != versions(three_batches(change=CHANGES[name]))  # the mutant


def public(seed: int, folder) -> list:
    """All that others are shown of an experiment that a worker looks after, whose rewards are random: what they are, and whether
    and when they are told and corrected. A guardrail and a stopping rule report."""
    rng, clock, shown = np.random.default_rng(seed), Hand(), []
    rules = {"stop": {"p_best": 0.6, "loss": 0.5}, "metrics": [{"name": "speed", "model": "numbers"}]}
    with (
        private(folder / f"{seed}.db", clock, strict=True, cap=0.5, **rules) as experiment,
        Experiment.open(folder / f"{seed}.db", "mail", clock=clock) as asked,
    ):
        worker, ids = Worker(folder / f"{seed}.db", clock=clock), []
        for step in range(60):
            answer = asked.ask(7, units=None if step % 2 else [f"{step} {i}" for i in range(7)])
            ids += [d.id for d in answer.decisions]
            shown.append(answer)
            some = [id for id in ids if rng.random() < 0.1]
            experiment.tell([(id, float(rng.random() * 3 - 1)) for id in some])
            experiment.tell([(id, float(rng.normal())) for id in some], metric="speed")
            for id in ids[-1:] if rng.random() < 0.3 else []:
                experiment.correct(id, float(rng.random()), "wrong")
            clock.now += 4
            shown.append([one.refreshed is not None for one in worker.once()])
        worker.close()
        assert experiment.verify() == []
        return [shown, versions(experiment), arms(experiment)]


def test_nothing_but_released_sums_depends_on_rewards(tmp_path, monkeypatch):
    """With sums that are the same whatever rewards are, everything that others are shown is the same."""
    real = releases.step

    def constant(pepper, said, playing, before, new, limits, version):
        return real(pepper, said, playing, before, new._replace(rewards=np.full(len(new.t), 0.5)), limits, version)

    monkeypatch.setattr(releases, "step", constant)
    one, other = public(0, tmp_path), public(1, tmp_path)
    assert one == other
    assert len(one[1]) > 6
    with monkeypatch.context() as patch:  # the mutants: an answer that says how many rewards have come, and sums of the rewards
        patch.setattr(asking, "_told", lambda session, *standing: asking._state(*standing))
        assert public(2, tmp_path)[0] != one[0]
    monkeypatch.setattr(releases, "step", real)
    assert public(3, tmp_path)[1:] != one[1:]


def test_rewards_outside_the_range_count_as_its_ends(monkeypatch):
    noise_of(monkeypatch, lambda arm: 0.25)
    assert versions(three_batches(1.0)) == versions(three_batches(7.5))
    assert versions(three_batches(1.0)) != versions(three_batches(0.5))


def test_whoever_asks_is_not_told_how_many_rewards_have_come():
    def answers(rewards) -> list:
        experiment = private(strict=True)
        found = [experiment.ask(units=["ann", "bob"])]
        experiment.tell([(found[0].decisions[0].id, rewards)])
        found += [experiment.ask(units=["ann"]), experiment.ask(17), experiment.ask(5)]
        return found

    assert answers(1.0) == answers(0.0)
    assert [answer.awaited for answer in answers(1.0)] == [2, 2, 19, 20]
    assert answers(1.0)[-1].why == "batch 1 is closed and awaits the ends of windows and its refresh"
    experiment = private()
    before = experiment.status()["awaited"], experiment.ask(5).awaited
    experiment.tell([(f"{experiment.code}-1", 1.0)])
    assert (before, experiment.status()["awaited"], experiment.ask(1).awaited) == ((0, 5), 5, 6)


def test_a_refresh_does_not_come_earlier_for_rewards_that_have():
    experiment = private()
    experiment.tell([(d.id, 1.0) for d in experiment.ask(20).decisions])
    assert experiment.refresh().why == "batch 1 awaits the end of 20 windows"
    assert "1 release" not in budget(experiment)["words"]


# A refresh that is computed again


def test_a_refresh_that_died_is_repeated_with_the_same_noise(monkeypatch):
    experiment, made = private(), []
    real = refreshing._commit

    def dies(session, c, new, row):
        made.append(new.released.about)
        raise RuntimeError("killed")

    monkeypatch.setattr(refreshing, "_commit", dies)
    ids = [d.id for d in experiment.ask(20).decisions]
    experiment.tell([(id, 1.0) for id in ids])
    hand_of(experiment).now += 20
    for _ in range(2):
        with pytest.raises(RuntimeError):
            experiment.refresh()
    assert made[0] == made[1]
    experiment.correct(ids[0], 0.0, "wrong")
    with pytest.raises(RuntimeError):
        experiment.refresh()
    arm = arms(experiment)[0]
    assert made[2]["release"]["rows"] == made[0]["release"]["rows"]
    for label, noisy in made[0]["release"]["sums"].items():  # other rows have other noise: the difference does not tell the reward
        assert abs(noisy - made[2]["release"]["sums"][label] - (label == arm)) > 1e-3
    monkeypatch.setattr(refreshing, "_commit", real)
    assert experiment.refresh().refreshed
    assert experiment.policy()["privacy"] == made[2]


def test_rewards_that_come_while_a_refresh_is_computed_are_not_in_it_or_are_before_it(monkeypatch):
    """What was silent when it was computed has its reward all the same; what had one is corrected too late."""
    for told in (True, False):
        experiment, real = private(), refreshing._compute
        ids = [d.id for d in experiment.ask(20).decisions]
        experiment.tell([(id, 0.5) for id in (ids if told else ids[1:])])
        hand_of(experiment).now += 20

        def meanwhile(session, c, row, force, now, experiment=experiment, ids=ids, told=told, real=real):
            found = real(session, c, row, force, now)
            monkeypatch.setattr(refreshing, "_compute", real)
            c.rollback()
            experiment.correct(ids[0], 1.0, "meanwhile") if told else experiment.tell([(ids[0], 1.0)])
            return found

        monkeypatch.setattr(refreshing, "_compute", meanwhile)
        assert experiment.refresh().refreshed
        batch(experiment)
        assert budget(experiment)["not_learned"] == int(told)
        assert budget(experiment)["rows_released"] == 40
        assert experiment.verify() == []


# What is shown


def test_secrets_are_not_shown(tmp_path):
    experiment = lived(private(tmp_path / "x.db"))
    experiment.export(tmp_path / "x.csv")
    shown = [experiment.status(), versions(experiment), experiment.audit(), experiment.definition(), experiment.report(fresh=True)]
    texts = [json.dumps(shown, default=str), (tmp_path / "x.csv").read_text(), repr(experiment)]
    assert len(experiment.session.pepper) == 32
    assert not any(experiment.session.pepper in text.replace(experiment.code, "") for text in texts)


def test_digests_of_rows_are_keyed():
    """Three rewards of 0 or 1 could be guessed from a digest that anybody can compute."""
    experiment = private(batching="external")
    experiment.ask(3)
    hand_of(experiment).now += 20
    experiment.refresh()
    found, session = experiment.policy()["data"], experiment.session
    with session.database.read() as c:
        rows = session.fold.until(c, session.row(c).position, 3).rows(False, None)
    assert len(rows.t) == 3
    assert rows.digest() != found
    assert experiment.verify() == []


# Rehearsals


@pytest.mark.parametrize("exposed", [1.0, 0.7])
def test_a_rehearsal_makes_the_decisions_of_the_experiment(exposed, monkeypatch):
    settings = {"window": 4 * HOUR, "refresh_seconds": 2 * HOUR} | ({"exposure": "explicit"} if exposed < 1 else {})
    plan = planned(spec_of(**PRIVATE | {"model": GAUSSIAN} | settings), {"A": "0.3±0.2", "B": "0.5±0.2"}, exposed=exposed)
    block = run(plan, REPLICATIONS, far_apart)
    monkeypatch.setattr(creating.secrets, "token_hex", lambda n: "5a" * n if n == 8 else block.peppers[1])
    real = Driven(plan, 1)
    assert real.arms == block.arms[1, : block.t[1]].tolist()
    assert real.refreshes == block.refreshes[1] == real.versions - 1
    assert real.status["privacy"]["releases"] == block.released[1].releases >= 2
    monkeypatch.setattr(creating.secrets, "token_hex", lambda n: "5a" * n)  # the mutant: other noise
    assert Driven(plan, 1).arms != real.arms
