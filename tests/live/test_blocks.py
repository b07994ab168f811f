"""Estimates are computed for some decisions at a time, and ledgers are read so: the results are those of all at once."""

from __future__ import annotations

import numpy as np
import pytest

from blts.live import ledger
from blts.live.conclusions import blocks, estimates
from blts.live.conclusions.blocks import Propensities, Sums
from blts.live.conclusions.sample_ratio import sample_ratio
from blts.live.export import table_of
from blts.live.metrics import guardrails
from experiments import Hand, created, rewarded

REWARDS = {
    "rates": lambda rng, T: (rng.random(T) < 0.1).astype(float),
    "numbers": lambda rng, T: rng.normal(3.0, 1.0, T),
    "revenue": lambda rng, T: (rng.random(T) < 0.3) * rng.exponential(30.0, T),
}


def data(kind: str, T: int, K: int = 3) -> tuple[np.ndarray, np.ndarray, Propensities]:
    """Decisions of nine propensity vectors; some leave an arm out."""
    rng = np.random.default_rng(T)
    vectors = rng.dirichlet(np.ones(K), 9)
    vectors[:3, 0] = 0.0
    vectors /= vectors.sum(1, keepdims=True)
    p = Propensities(vectors, np.sort(rng.integers(0, 9, T)))
    arms = (rng.random((T, 1)) > p[:].cumsum(1)).sum(1).clip(0, K - 1)
    return arms, REWARDS[kind](rng, T), p


@pytest.mark.parametrize("T", [1, 63, 64, 65, 300])
def test_sums_of_guardrails_do_not_depend_on_blocks(monkeypatch, T):
    arms, values, p = data("numbers", T)
    question = guardrails.Question(-1.0, 0.95, 0.1)
    whole = guardrails.terms(arms, values, p[:], (1, 0), question).sums().at(-1)
    monkeypatch.setattr(blocks, "BLOCK", 64)
    assert guardrails.total(arms, values, p, (1, 0), question) == whole
    # The mutant: blocks that do not know what came before.
    monkeypatch.setattr(guardrails, "_terms", lambda *given, of=guardrails._terms: of(*given[:-1], guardrails.Earlier()))
    assert (guardrails.total(arms, values, p, (1, 0), question) == whole) == (T <= 64)


def results(arms, rewards, p) -> list[np.ndarray]:
    gain, ratio = estimates.value_against_equal(arms, rewards, p), sample_ratio(arms, p)
    found = [estimates.ipw(arms, rewards, p), estimates.aipw(arms, rewards, p)]
    return [x for e in found for x in (e.value, e.se, *e.interval())] + [np.array(gain), np.array([ratio.p_value]), ratio.expected]


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 300])
def test_estimates_do_not_depend_on_blocks(monkeypatch, kind, T):
    arms, rewards, p = data(kind, T)
    with np.errstate(all="ignore"):
        whole = results(arms, rewards, p[:])
        monkeypatch.setattr(blocks, "BLOCK", 64)
        parts = results(arms, rewards, p)
    for one, other in zip(whole[:8], parts[:8], strict=True):
        np.testing.assert_array_equal(one, other)  # the sums of IPW and AIPW are added in the same order
    for one, other in zip(whole[8:], parts[8:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_blocks_that_forget_what_was_before_are_noticed(monkeypatch):
    """The mutant: predictions that begin anew with every block."""
    arms, rewards, p = data("numbers", 300)
    whole = estimates.aipw(arms, rewards, p[:])
    monkeypatch.setattr(blocks, "BLOCK", 64)
    right = estimates._earlier_means
    monkeypatch.setattr(estimates, "_earlier_means", lambda arms, rewards, K, before: right(arms, rewards, K, None))
    assert not np.array_equal(estimates.aipw(arms, rewards, p).value, whole.value)


def test_sums_are_added_in_order():
    rng = np.random.default_rng(0)
    x, sums = rng.lognormal(0, 5, (1000, 4)), Sums()
    for start in range(0, 1000, 7):
        sums.add(x=x[start : start + 7])
    np.testing.assert_array_equal(sums.x, x.sum(0))


def test_propensities_are_rows_of_the_distinct_ones():
    p = Propensities(np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]]), np.array([0, 2, 1, 0]))
    assert p.shape == (4, 2)
    assert p[1:3].tolist() == [[0.5, 0.5], [0.1, 0.9]]
    assert p.of(np.array([True, False, True, False]))[:].tolist() == [[0.5, 0.5], [0.1, 0.9]]
    assert p.differ
    assert not p.of(np.array([0, 1, 3])).differ  # other vectors with the same numbers


def test_a_ledger_read_in_pieces_is_the_ledger(url, monkeypatch):
    """With rows that share a position, as all exposures of one request do."""
    clock = Hand()
    experiment = created(url, batching="external", exposure="explicit", clock=clock)
    answer = experiment.ask(11)
    experiment.expose([d.id for d in answer.decisions[:9]])
    experiment.tell(rewarded(answer)[:8])
    clock.now += 5
    experiment.expose([d.id for d in answer.decisions[9:]])
    experiment.correct(answer.decisions[2].id, 4.0)

    def read():
        with experiment.database.read() as c:
            row = experiment.session.row(c)
            return ledger.Fold(experiment.id).until(c, row.position, row.t), table_of(experiment)

    fold, table = read()
    for size in (1, 2, 4, 9, 11):
        monkeypatch.setattr(ledger, "AT_ONCE", size)
        again, other = read()
        for name in ("arms", "at", "exposed", "rewards", "settled"):
            np.testing.assert_array_equal(getattr(again, name), getattr(fold, name), name)
        for name in ("arms", "batches", "policies", "asked_at", "exposed_at", "status", "rewards", "told_at", "p"):
            np.testing.assert_array_equal(getattr(other, name), getattr(table, name), name)
    assert not np.isnan(fold.exposed).any()
    assert table.status.tolist() == ["told"] * 2 + ["corrected"] + ["told"] * 5 + ["pending"] * 3
