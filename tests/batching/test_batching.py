"""Flush times of every scheme against plain-Python readings of the text, and the paper's two statements about them."""

from __future__ import annotations

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blts import random, theory
from blts.batching import DoubledSinceSwitch, DoublingCounts, Fixed, Grid, OneOf, Sequential, StaticDoubling
from blts.errors import ConfigError

LENGTH, ARMS = 64, 4


@cache
def _scan(scheme_type, arguments, actions: int, length: int):
    scheme = scheme_type(*arguments)

    def flush(obs, played):
        def body(state, x):
            return scheme.step(state, *x)

        return jax.lax.scan(body, scheme.init(random.key(0), actions), (obs, played))[1]

    return jax.jit(flush)


def flushes(scheme, played, actions=ARMS, obs=None, arguments=()) -> list[int]:
    """The rounds (from 1) after which a batch ends. Padded to one length, so that one compilation serves all."""
    n = len(played)
    length = max(LENGTH, n)
    pad = lambda x: np.concatenate([np.asarray(x, int), np.zeros(length - n, int)])  # noqa: E731
    due = _scan(scheme, arguments, actions, length)(pad(np.zeros(n) if obs is None else obs), pad(played))
    return [t + 1 for t in range(n) if due[t]]


# Plain-Python references, from the text


def algorithm_2(played, actions) -> list[int]:
    """k_a ← k_a + 1; if k_a = 2^{l_a}: l_a ← l_a + 1, terminate the batch."""
    k, level, ends = [0] * actions, [0] * actions, []
    for t, a in enumerate(played, 1):
        k[a] += 1
        if k[a] == 2 ** level[a]:
            level[a] += 1
            ends.append(t)
    return ends


def tsde_counts(played, actions) -> list[int]:
    """The switch of Ouyang et al.: N_t(a) > 2 N_{t_k}(a) for some a, with counts marked at the switch."""
    now, mark, ends = [0] * actions, [0] * actions, []
    for t, a in enumerate(played, 1):
        now[a] += 1
        if any(now[b] > 2 * mark[b] for b in range(actions)):
            mark = list(now)
            ends.append(t)
    return ends


plays = st.lists(st.integers(0, ARMS - 1), min_size=1, max_size=LENGTH)


@given(plays)
@settings(max_examples=150, deadline=None)
def test_doubling_counts_is_algorithm_2(played):
    assert flushes(DoublingCounts, played) == algorithm_2(played, ARMS)


@given(plays)
@settings(max_examples=150, deadline=None)
def test_doubled_since_switch_is_tsde(played):
    assert flushes(DoubledSinceSwitch, played) == tsde_counts(played, ARMS)


def test_the_two_readings_by_hand():
    assert flushes(DoublingCounts, [0] * 20) == [1, 2, 4, 8, 16]
    assert flushes(DoubledSinceSwitch, [0] * 20) == [1, 3, 7, 15]
    #                                 0  1  0  0  1  1  0  1  1  0
    played = [0, 1, 0, 0, 1, 1, 0, 1, 1, 0]
    assert flushes(DoublingCounts, played) == [1, 2, 3, 5, 7, 8]
    assert flushes(DoubledSinceSwitch, played) == [1, 2, 4, 6]
    # An arm that another arm's switch has marked needs more plays; under Algorithm 2 it does not.
    played = [0, 0, 1, 0, 0, 0, 0]
    assert flushes(DoublingCounts, played) == [1, 2, 3, 5]
    assert flushes(DoubledSinceSwitch, played) == [1, 3, 6]


@pytest.mark.parametrize("scheme", [DoublingCounts, DoubledSinceSwitch])
def test_with_states_the_pairs_are_counted(scheme):
    rng = np.random.default_rng(0)
    obs, played = rng.integers(0, 3, 60), rng.integers(0, 2, 60)
    reference = algorithm_2 if scheme is DoublingCounts else tsde_counts
    assert flushes(scheme, played, actions=2, obs=obs, arguments=(3,)) == reference(list(obs * 2 + played), 6)
    assert flushes(scheme, played, actions=2, obs=obs) == reference(list(played), 2)  # a bandit's context is not a state


# The clock


@given(plays, st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_clocks_do_not_look_at_actions(played, size):
    n = len(played)
    assert flushes(Sequential, played) == flushes(Fixed, played, arguments=(1,)) == list(range(1, n + 1))
    assert flushes(StaticDoubling, played) == [t for t in (1, 3, 7, 15, 31, 63) if t <= n]


@pytest.mark.parametrize("size", [1, 2, 10, 64, 65])
def test_fixed(size):
    assert flushes(Fixed, [0] * LENGTH, arguments=(size,)) == [t for t in range(1, LENGTH + 1) if t % size == 0]


def test_static_doubling_starts_batches_at_powers_of_two():
    """Algorithm 3: t_k = T_k = 2^{k-1}, so batch k is 2^{k-1} … 2^k - 1."""
    ends = flushes(StaticDoubling, [0] * 1000)
    starts = [1] + [end + 1 for end in ends]
    assert starts[:10] == [2**k for k in range(10)]
    assert ends == [1, 3, 7, 15, 31, 63, 127, 255, 511]


def test_grid_ends_where_it_says():
    assert flushes(Grid, [0] * LENGTH, arguments=((3, 4, 20, 60, 100),)) == [3, 4, 20, 60]


@pytest.mark.parametrize(("horizon", "batches"), [(650, 3), (650, 5), (10_000, 4), (10_000, 1), (7, 7), (2, 2), (100_000, 8)])
def test_grids_of_gao(horizon, batches):
    minimax, geometric = Grid.minimax(horizon, batches).times, Grid.geometric(horizon, batches).times
    for times in (minimax, geometric):
        assert times[-1] == horizon
        assert list(times) == sorted(set(times))
        assert 1 <= len(times) <= batches
    # t_1 = a, t_m = a √t_{m-1} with a = T^{1/(2 - 2^{1-M})}; solved, t_m = a^{2 - 2^{1-m}}.
    a = horizon ** (1 / (2 - 2.0 ** (1 - batches)))
    expected = {int(a ** (2 - 2.0 ** (1 - m)) + 1e-9) for m in range(1, batches)} | {horizon}
    assert set(minimax) == {t for t in expected if t >= 1}
    assert set(geometric) == {int(horizon ** (j / batches) + 1e-9) for j in range(1, batches)} | {horizon}


def test_grids_by_hand():
    assert Grid.minimax(10_000, 2).times == (464, 10_000)  # T^{2/3}
    assert Grid.geometric(10_000, 4).times == (10, 100, 1000, 10_000)
    assert Grid.minimax(10_000, 1).times == Grid.geometric(10_000, 1).times == (10_000,)


# `most` sizes the record of batch ends: never exceeded, and attained


def greedy(cost, arms: int, horizon: int) -> list[int]:
    """Plays that close as many batches as possible: the cheapest next closing first, each arm in one run."""
    closed, left, played = [0] * arms, horizon, []
    while True:
        a = min(range(arms), key=lambda b: cost(closed[b]))
        if cost(closed[a]) > left:
            return played + [a] * left
        played += [a] * cost(closed[a])
        left -= cost(closed[a])
        closed[a] += 1


@pytest.mark.parametrize(("arms", "horizon"), [(1, 1), (1, 2), (1, 50), (2, 3), (3, 11), (4, 64), (4, 30)])
def test_most_is_attained_by_doubling(arms, horizon):
    one_more = lambda j: 1 if j < 2 else 2 ** (j - 1)  # noqa: E731  # closings at 1, 2, 4, 8, …
    two_and_one_more = lambda j: 2**j  # noqa: E731  # closings at 1, 3, 7, …
    assert len(flushes(DoublingCounts, greedy(one_more, arms, horizon), arms)) == DoublingCounts().max_batches(horizon, arms)
    assert len(flushes(DoubledSinceSwitch, greedy(two_and_one_more, arms, horizon), arms)) == DoubledSinceSwitch().max_batches(
        horizon, arms
    )


@pytest.mark.parametrize("arms", [1, 2, 3])
def test_most_is_the_maximum_over_all_sequences(arms):
    for horizon in range(1, 9 if arms < 3 else 8):
        sequences = list(product(range(arms), repeat=horizon))
        assert max(len(algorithm_2(p, arms)) for p in sequences) == DoublingCounts().max_batches(horizon, arms)
        assert max(len(tsde_counts(p, arms)) for p in sequences) == DoubledSinceSwitch().max_batches(horizon, arms)


@given(plays)
@settings(max_examples=100, deadline=None)
def test_most_is_never_exceeded(played):
    n = len(played)
    assert len(algorithm_2(played, ARMS)) <= DoublingCounts().max_batches(n, ARMS)
    assert len(tsde_counts(played, ARMS)) <= DoubledSinceSwitch().max_batches(n, ARMS)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 64])
def test_most_of_the_clocks_is_exact(horizon):
    for scheme, arguments in ((Sequential, ()), (Fixed, (5,)), (StaticDoubling, ()), (Grid, ((2, 3, 40),))):
        assert len(flushes(scheme, [0] * horizon, arguments=arguments)) == scheme(*arguments).max_batches(horizon, ARMS)


# The paper's statements


def observed_and_played(played, ends, actions):
    """For every round t: (a_t's plays so far, of all arms; those whose reward was in when the round's batch began)."""
    k, at_start = np.zeros(actions, int), np.zeros(actions, int)
    for t, a in enumerate(played, 1):
        k[a] += 1
        yield a, k.copy(), at_start.copy()
        if t in ends:
            at_start = k.copy()


@given(plays)
@settings(max_examples=200, deadline=None)
def test_lemma_half_of_the_plays_are_observed(played):
    """k_a(t)/2 ≤ k_a(B(t)) ≤ k_a(t), at every round and for every arm, except in the round of an arm's first play.

    There k_a(t) = 1 and k_a(B(t)) = 0: the lemma as printed fails for that one round, and the batch ends with it.
    """
    ends = set(algorithm_2(played, ARMS))
    for t, (a, k, start) in enumerate(observed_and_played(played, ends, ARMS), 1):
        assert (start <= k).all()
        first = (start == 0) & (k > 0)
        assert (k[~first] <= 2 * start[~first]).all()
        if first.any():
            assert np.flatnonzero(first).tolist() == [a]
            assert k[a] == 1
            assert t in ends


@given(plays)
@settings(max_examples=100, deadline=None)
def test_under_tsdes_rule_the_lemma_is_off_by_one(played):
    """TSDE closes a batch at 2 N + 1 plays, so in that round k_a(t) ≤ 2 k_a(B(t)) + 1, and before it the lemma holds."""
    ends = set(tsde_counts(played, ARMS))
    for t, (_, k, start) in enumerate(observed_and_played(played, ends, ARMS), 1):
        assert (k <= 2 * start + (t in ends)).all()


def test_tsdes_rule_attains_the_one():
    played = [0, 0, 0]
    *_, (_, k, start) = observed_and_played(played, set(tsde_counts(played, 1)), 1)
    assert (k[0], start[0]) == (3, 1)


def compositions(total: int, parts: int):
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def test_the_sharp_bound_is_the_maximum_over_all_splits():
    for arms in (1, 2, 3, 4):
        for horizon in range(1, 26):
            best = max(sum(k.bit_length() for k in split) for split in compositions(horizon, arms))  # ⌊log2 k⌋ + 1, and 0 at 0
            assert theory.batches_sharp(arms, horizon) == best
            best = max(sum((k + 1).bit_length() - 1 for k in split) for split in compositions(horizon, arms))  # ⌊log2(k + 1)⌋
            assert DoubledSinceSwitch().max_batches(horizon, arms) == best


def test_where_the_printed_bound_fails():
    """K ≤ N log2(T + 1) drops the first play, which doubles nothing: for a single arm it fails, for more it is loose."""
    fails = [
        (n, t) for n in (1, 2, 3, 15) for t in range(1, 2000) if theory.batches_sharp(n, t) > theory.batches_bound(n, t) + 1e-9
    ]
    # One arm: ⌊log2 T⌋ + 1 > log2(T + 1) unless T = 2^j - 1, where they are equal.
    assert [t for n, t in fails if n == 1] == [t for t in range(1, 2000) if t & (t + 1)]
    assert [(n, t) for n, t in fails if n > 1] == []  # with more arms the N in front of log T leaves room
    # TSDE's rule, whose closings are at 1, 3, 7, …, obeys the printed bound always.
    assert all(
        DoubledSinceSwitch().max_batches(t, n) <= theory.batches_bound(n, t) + 1e-9 for n in (1, 2, 3, 15) for t in range(1, 2000)
    )
    # With N arms the sum is concave, so the true order is N log2(T/N): here 15 arms and 650 rounds.
    assert theory.batches_sharp(15, 650) < theory.batches_bound(15, 650)


# Bad input


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Fixed(0), "Fixed: size must be a whole number ≥ 1; got 0."),
        (lambda: Fixed(2.5), "Fixed: size must be a whole number ≥ 1; got 2.5."),
        (lambda: Fixed(True), "Fixed: size must be a whole number ≥ 1; got True."),
        (lambda: DoublingCounts(0), "DoublingCounts: states must be a whole number ≥ 1; got 0."),
        (lambda: DoubledSinceSwitch(-1), "DoubledSinceSwitch: states must be a whole number ≥ 1; got -1."),
        (lambda: Grid(()), "Grid: times must be rounds from 1 upwards in increasing order; got ()."),
        (lambda: Grid((0, 3)), "Grid: times must be rounds from 1 upwards in increasing order; got (0, 3)."),
        (lambda: Grid((3, 3)), "Grid: times must be rounds from 1 upwards in increasing order; got (3, 3)."),
        (lambda: Grid((1.5, 3)), "Grid: times must be rounds from 1 upwards in increasing order; got (1.5, 3)."),
        (lambda: Grid("abc"), "Grid: times must be rounds from 1 upwards in increasing order; got 'abc'."),
        (lambda: Grid(5), "Grid: times must be rounds from 1 upwards in increasing order; got 5."),
        (lambda: Grid.minimax(10, 0), "Grid: batches must be a whole number from 1 to 10; got 0."),
        (lambda: Grid.geometric(10, 11), "Grid: batches must be a whole number from 1 to 10; got 11."),
    ],
)
def test_bad_input_is_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value) == sentence


def test_schemes_say_what_they_do():
    for scheme in (Sequential(), Fixed(10), StaticDoubling(), Grid((1, 5)), DoublingCounts(), DoubledSinceSwitch()):
        assert str(scheme).startswith("Rewards are seen ")
        assert str(scheme).endswith(".")


def test_a_scheme_maps_over_replications():
    state = jax.vmap(lambda _: DoublingCounts().init(random.key(0), 3))(jnp.arange(2))
    due = []
    for a in ([0, 1], [0, 2], [0, 1]):
        state, now = jax.vmap(lambda s, a: DoublingCounts().step(s, (), a))(state, jnp.array(a))
        due.append(now.tolist())
    assert due == [[True, True], [True, True], [False, True]]


def test_one_of_several_is_that_one():
    """All schemes are followed and one is heeded; the others cannot be told from it by its flush times alone."""
    schemes = (Sequential(), StaticDoubling(), DoublingCounts(), DoubledSinceSwitch.tsde(1))
    played = np.random.default_rng(0).integers(0, ARMS, LENGTH)
    alone = [flushes(type(scheme), played, arguments=_arguments(scheme)) for scheme in schemes]
    assert len({tuple(ends) for ends in alone}) == len(schemes)
    for number, ends in enumerate(alone):
        assert flushes(OneOf, played, arguments=(schemes, number)) == ends
        assert str(OneOf(schemes, number)) == str(schemes[number])
    assert OneOf(schemes, 1).max_batches(LENGTH, ARMS) == LENGTH
    for number in (-1, 4):
        with pytest.raises(ConfigError, match="number must be from 0 to 3"):
            OneOf(schemes, number)


def _arguments(scheme) -> tuple:
    return (1, 0.0, True) if isinstance(scheme, DoubledSinceSwitch) else ()
