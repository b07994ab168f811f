"""The log against a plain Python list."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blts._typing import Row
from blts.arrays import count, order, where
from blts.history import Log, block_of

ACTIONS, CAPACITY, LENGTH = 4, 12, 16

append = jax.jit(Log.append)
grouped = jax.jit(Log.grouped)


def row(action, reward, obs=(0.0, 0.0)):
    return Row(jnp.asarray(obs, float), jnp.asarray(action), jnp.asarray(reward, float), (jnp.asarray(-action),))


@jax.jit
def fill(actions, rewards, live) -> Log:
    def body(log, x):
        action, reward, ok = x
        return log.append(Row(jnp.stack([reward, 2 * reward]), action, reward, (-action,)), ok), ()

    return jax.lax.scan(body, Log.empty(row(0, 0.0), CAPACITY, ACTIONS), (actions, rewards, live))[0]


def written(rows):
    """The log of (action, reward, live) rows; the fixed length is filled up with rows that are not live."""
    padded = rows + [(3, 99.0, False)] * (LENGTH - len(rows))
    actions, rewards, live = (np.array(x) for x in zip(*padded, strict=True))
    log = fill(actions, rewards.astype(np.float32), live)
    return log, [(a, r) for a, r, ok in rows if ok]


entries = st.lists(
    st.tuples(st.integers(0, ACTIONS - 1), st.integers(-1000, 1000).map(lambda k: k / 8), st.booleans()), max_size=LENGTH
).filter(lambda rows: sum(ok for *_, ok in rows) <= CAPACITY)


@given(entries)
@settings(max_examples=200, deadline=None)
def test_a_log_is_a_list_of_the_live_rows(rows):
    log, kept = written(rows)
    n = len(kept)
    assert int(log.size) == n
    assert int(log.seen) == 0
    assert log.rank.shape == (CAPACITY,)
    assert log.rows.action[:n].tolist() == [a for a, _ in kept]
    assert log.rows.reward[:n].tolist() == [np.float32(r) for _, r in kept]
    assert log.rows.obs[:n, 1].tolist() == [np.float32(2 * r) for _, r in kept]
    assert log.rows.next_obs[0][:n].tolist() == [-a for a, _ in kept]
    assert log.counts.tolist() == [sum(a == b for a, _ in kept) for b in range(ACTIONS)]
    assert log.rank[:n].tolist() == [sum(kept[j][0] == a for j in range(i)) for i, (a, _) in enumerate(kept)]
    assert not np.any(log.rows.reward[n:])  # nothing was written beyond the cursor


@given(entries)
@settings(max_examples=200, deadline=None)
def test_grouping_is_a_stable_sort(rows):
    log, kept = written(rows)
    group = grouped(log)
    n = len(kept)
    actions = np.array([a for a, _ in kept], int)
    order = np.argsort(actions, kind="stable")
    assert group.rows.action[:n].tolist() == actions[order].tolist()
    assert group.rows.reward[:n].tolist() == [np.float32(kept[i][1]) for i in order]
    assert group.rows.obs[:n, 0].tolist() == [np.float32(kept[i][1]) for i in order]
    assert group.counts.tolist() == np.bincount(actions, minlength=ACTIONS).tolist()
    assert group.start.tolist() == [int(np.sum(actions < a)) for a in range(ACTIONS)]
    for a in range(ACTIONS):  # what a sampler reads
        own = group.rows.reward[int(group.start[a]) : int(group.start[a] + group.counts[a])]
        assert own.tolist() == [np.float32(r) for b, r in kept if b == a]


def test_a_dead_row_changes_nothing():
    log, _ = written([(1, 2.0, True), (0, 3.0, True)])
    after = append(log, row(2, 1e9), jnp.asarray(False))
    for old, new in zip(jax.tree.leaves(log), jax.tree.leaves(after), strict=True):
        assert (old == new).all()


def test_rows_beyond_the_capacity_are_dropped_and_write_over_nothing():
    log, kept = written([(i % 3, float(i), True) for i in range(CAPACITY)])
    assert len(kept) == CAPACITY
    over = append(log, row(0, 1e9), jnp.asarray(True))
    assert (over.rows.reward == log.rows.reward).all()
    assert (over.rank == log.rank).all()


def test_a_full_log_groups_its_last_row_too():
    log, kept = written([(i % 3, float(i), True) for i in range(CAPACITY)])
    group = grouped(log)
    assert sorted(group.rows.reward.tolist()) == [float(r) for _, r in kept]


def test_logs_map_over_replications():
    logs = jax.vmap(lambda _: Log.empty(row(0, 0.0), 3, 2))(jnp.arange(2))
    live = jnp.array([True, False])
    logs = jax.vmap(Log.append)(logs, jax.tree.map(lambda x: jnp.stack([x, x]), row(1, 5.0)), live)
    assert logs.size.tolist() == [1, 0]
    assert logs.counts.tolist() == [[0, 1], [0, 0]]
    assert logs.rows.reward[:, 0].tolist() == [5.0, 0.0]


def test_a_block_of_lanes_has_their_rows():
    """Logs with the lanes last, longer than what is moved at a time; rows beyond the longest of the block may be left out."""
    capacity, lanes, sizes = 150, 5, np.array([3, 150, 70, 0, 64])
    rng = np.random.default_rng(0)
    filled = lambda x: jnp.asarray(rng.normal(size=(*x.shape, lanes)).astype(np.float32)).astype(x.dtype)  # noqa: E731
    logs = jax.tree.map(filled, Log.empty(row(0, 0.0), capacity, ACTIONS, jnp.zeros(ACTIONS)))._replace(size=jnp.asarray(sizes))
    for some in ([1, 3], [4, 0], [2], [3]):
        block = jax.jit(block_of)({"log": logs, "other": logs.size}, jnp.array(some))
        whole = jax.tree.map(lambda x: jnp.moveaxis(x[..., np.array(some)], -1, 0), logs)  # noqa: B023
        longest = sizes[some].max()
        for a, b in zip(
            jax.tree.leaves((block["log"].rows, block["log"].rank)), jax.tree.leaves((whole.rows, whole.rank)), strict=True
        ):
            assert np.array_equal(a[:, :longest], b[:, :longest])
            assert a.shape == b.shape
        assert block["other"].tolist() == sizes[some].tolist()
        assert np.array_equal(block["log"].summary, whole.summary)


def test_lanes_of_a_block_that_are_not_used_have_empty_logs():
    logs = jax.vmap(lambda _: Log.empty(row(0, 0.0), 8, ACTIONS), out_axes=-1, axis_size=3)(jnp.arange(3))
    logs = logs._replace(size=jnp.array([3, 5, 2]), counts=jnp.array([[1, 2, 1], [2, 3, 1]]))
    block = block_of(logs, jnp.array([2, 1]), jnp.array([True, False]))
    assert block.size.tolist() == [2, 0]
    assert block.counts.tolist() == [[1, 1], [0, 0]]
    assert block_of(logs, jnp.array([2, 1])).counts.tolist() == [[1, 1], [2, 3]]


@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_order(values, few):
    values = [v % 7 for v in values] if few else values
    places = np.asarray(order(jnp.array(values), 6 if few else 2**30))
    assert sorted(places) == list(range(len(values)))
    slack = 0 if few else 2 ** max(0, 31 + len(values).bit_length() - 31)
    found = np.array(values)[places]
    assert (np.diff(found) >= -slack).all()


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.integers(0, 2), st.booleans())
@settings(max_examples=30, deadline=None)
def test_count(counts, action, live):
    expected = list(counts)
    expected[action] += live
    assert count(jnp.array(counts), jnp.asarray(action), jnp.asarray(live)).tolist() == expected


def test_where_selects_lanes_of_every_rank():
    new = {"a": jnp.ones((3, 2, 2)), "b": jnp.ones(3, int)}
    old = jax.tree.map(jnp.zeros_like, new)
    out = jax.vmap(where)(jnp.array([True, False, True]), new, old)
    assert out["a"][:, 0, 0].tolist() == [1, 0, 1]
    assert out["b"].tolist() == [1, 0, 1]
