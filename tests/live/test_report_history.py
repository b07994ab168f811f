"""The parts of a report that are drawn: when rewards came, what is pending, allocations and cumulative means."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from blts.live.conclusions import feedback as module
from blts.live.conclusions import history
from blts.live.conclusions.counted import counted
from blts.live.export import DecisionTable, table_of
from experiments import Hand, created, made

DAY = 86400.0


def test_delays_are_those_to_the_first_reward(url):
    clock = Hand()
    mail = created(url, strict=False, window=1000.0, default_reward=0.0, clock=clock)
    decisions = mail.ask(12).decisions
    wanted: dict[str, list[float]] = {label: [] for label in "ABC"}
    for i, d in enumerate(decisions[:8]):
        clock.now += 1.5
        mail.tell([(d.id, 1.0)])
        if i != 2:
            wanted[d.arm].append(clock.now - 1000.0)
    clock.now += 50
    mail.correct(decisions[0].id, 2.0)  # later, and not the first
    mail.cancel([decisions[2].id])
    found = mail.report(fresh=True)["feedback"]
    for arm in found["arms"]:
        times = sorted(wanted[arm["arm"]])
        assert arm["rewards"] == len(times)
        assert arm["curve"]["seconds"] == times
        assert arm["curve"]["share"] == pytest.approx([(i + 1) / len(times) for i in range(len(times))], abs=1e-6)
        for level, value in arm["quantiles"].items():
            assert value == np.quantile(times, float(level), method="inverted_cdf")
    assert found["pending"] == [{"from": 0.0, "to": 60.0, "count": 0}, {"from": 60.0, "to": 600.0, "count": 4}]
    clock.now += 2000.0  # the window is over: silence is no feedback, and nothing is pending
    mail.refresh(force=True)
    later = mail.report(fresh=True)["feedback"]
    assert later == found | {"pending": []}
    assert mail.verify() == []


def test_first_rewards_are_found_in_any_pieces(tmp_path, monkeypatch):
    """A decision may come several times in what is read at a time, or in two of them."""
    clock = Hand()
    mail = made(tmp_path, strict=False, clock=clock)
    (one, two) = mail.ask(2).decisions
    for step in range(5):
        clock.now += 1
        if step == 0:
            mail.tell([(one.id, 0.0)])
        mail.correct(one.id, 1.0 + step)
        if step == 3:
            mail.tell([(two.id, 1.0)])
    for size in (1, 2, 3, 100):
        monkeypatch.setattr("blts.live.ledger.AT_ONCE", size)
        assert table_of(mail).delays.tolist() == [1.0, 4.0]


def fake(at: np.ndarray, arms: np.ndarray, rewards: np.ndarray, delays: np.ndarray) -> DecisionTable:
    n, nan = len(at), np.full(len(at), np.nan)
    kinds = np.where(np.isnan(rewards), 0, 1).astype(np.int8)
    K = int(arms.max()) + 1
    columns = arms, np.ones(n, int), np.ones(n, int), at, nan, kinds, rewards, at + delays
    return DecisionTable("x", *columns, None, [f"arm {k}" for k in range(K)], [True] * K, delays=delays)  # type: ignore[arg-type]


@pytest.mark.parametrize("arms", [1, 3, 400])
@pytest.mark.parametrize("span", [0.0, 10.0, 3 * DAY, 50 * DAY, 1000 * DAY])
def test_large_tables_give_small_sections(tmp_path, arms, span, monkeypatch):
    """Their numbers are those of loops over all decisions."""
    monkeypatch.setattr(history, "AT_ONCE", 700)
    rng, n = np.random.default_rng(3), 3000
    at = 1e9 + np.sort(rng.random(n)) * span
    arm, rewards = rng.integers(0, arms, n), rng.integers(0, 5, n).astype(float)
    rewards[rng.random(n) < 0.2] = np.nan
    delays = np.where(np.isnan(rewards), np.nan, rng.exponential(1000.0, n)).astype(np.float32)
    arm[:arms] = np.arange(arms)
    table, spec = fake(at, arm, rewards, delays), made(tmp_path).spec
    known = counted(table, spec, at[-1])
    drawn = history.cumulative(table, known)
    ends = drawn["at"]
    assert len(ends) <= 100
    assert ends == sorted(set(ends))
    assert ends[-1] == at[-1]
    if span == 50 * DAY and arms < 400:
        assert all(end % DAY == 0 for end in ends[:-1])
        assert len(ends) in (50, 51)
    for k in rng.integers(0, arms, 5):
        own = drawn["arms"][k]
        for i in (0, len(ends) // 2, len(ends) - 1):
            mine = (arm == k) & (at <= ends[i])
            paid = mine & ~np.isnan(rewards)
            assert (own["decisions"][i], own["rewards"][i]) == (mine.sum(), paid.sum())
            assert own["mean"][i] == (pytest.approx(rewards[paid].mean(), rel=1e-5) if paid.any() else None)
    found = module.feedback(table, known, float(at[-1]))
    assert sum(one["count"] for one in found["pending"]) == np.isnan(rewards).sum()
    assert len(found["pending"]) <= 12
    for own, k in zip(found["arms"], range(arms), strict=True):
        mine, curve = delays[(arm == k) & ~np.isnan(delays)], own["curve"]
        assert len(curve["seconds"]) <= 50
        for seconds, share in zip(curve["seconds"], curve["share"], strict=True):
            assert abs(share - (mine <= seconds * (1 + 1e-5)).mean()) <= 1.01 / max(len(mine), 1)
        assert not mine.size or curve["share"][-1] == 1.0
    assert len(json.dumps([drawn, found], allow_nan=False)) < 40_000 * max(1, arms / 50)


def test_ages_have_their_bins():
    edges = module.AGES
    ages = np.array([-5.0, 0.0, 59.9, 60.0, edges[-1], 10 * edges[-1]])
    found = module._ages(ages)
    assert [one["count"] for one in found] == [3, 1, *[0] * 9, 2]
    assert (found[0]["from"], found[-1]["to"]) == (0.0, None)
    assert all(a["to"] == b["from"] for a, b in itertools.pairwise(found))
    assert module._ages(np.zeros(0)) == []


def test_the_history_ends_where_the_report_is(url):
    clock = Hand()
    mail, rng = created(url, strict=False, clock=clock, floor=0.02), np.random.default_rng(0)
    for batch in range(6):
        decisions = mail.ask(6).decisions
        clock.now += DAY / 2
        mail.tell([(d.id, float(rng.normal())) for d in decisions[: 6 - batch % 2]])
        mail.refresh(force=True)
        if batch == 1:
            mail.add_arm("D")
        if batch == 3:
            mail.retire_arm("B")
    report = mail.report(fresh=True)
    drawn = report["history"]
    for arm, own in zip(report["arms"], drawn["arms"], strict=True):
        assert (own["arm"], own["decisions"][-1], own["rewards"][-1]) == (arm["arm"], arm["units"], arm["rewards"])
        assert own["mean"][-1] == (pytest.approx(arm["naive"]["value"], rel=1e-5) if arm["rewards"] else None)
    versions = drawn["policies"]
    rows = mail.policies(after=0).rows
    assert versions["version"] == [row["version"] for row in rows]
    assert (versions["t"], versions["at"]) == ([row["t"] for row in rows], [row["at"] for row in rows])
    for label, shares in versions["allocation"].items():
        assert shares == pytest.approx([row["allocation"].get(label, 0.0) for row in rows], rel=1e-5)
    assert versions["allocation"]["D"][:3] == [0.0] * 3
    assert versions["allocation"]["B"][-1] == 0.0


def test_many_versions_are_thinned(tmp_path, monkeypatch):
    mail = made(tmp_path, strict=False)
    for _ in range(12):
        mail.tell([(d.id, 1.0) for d in mail.ask(1).decisions])
        mail.refresh(force=True)
    monkeypatch.setattr(history, "VERSIONS", 10)
    versions = mail.report(fresh=True)["history"]["policies"]["version"]
    assert len(versions) == 10
    assert (versions[0], versions[-1]) == (1, 13)
    assert np.diff(versions).max() <= 2
