"""Private releases: the noise is as wide as ρ says, no row moves a release further, and the posterior counts the noise."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import Exact, Gaussian, Linear, Perturb, Pool, Private, Thompson, condition, mala, privacy, sgld, simulate, ula
from blts._random import as_key, split
from blts._typing import Row
from blts.batching import DoublingCounts, Exchanges, Fixed, OneOf, PlaysDoubled, StaticDoubling
from blts.envs import Bandit, Contextual
from blts.errors import ConfigError
from blts.models import Bernoulli, GaussianUnknownVariance, stack

ARMS, D, BLOCK = 3, 4, 4000
MODEL = stack(Gaussian(prior_mean=0.3, prior_sd=0.4, sd=0.5), ARMS)
LINEAR = stack(Linear(prior_mean=[0.3, -0.2, 0.0, 0.1], prior_sd=0.5, sd=0.5), ARMS)
BELIEFS = {"rewards": Private(Exact(), 0.7, -0.5, 1.5, rows=2), "contexts": Private(Exact(), 0.7, -0.5, 1.5, norm=2.0)}
MODELS = {"rewards": MODEL, "contexts": LINEAR}
SURE = 1e-4


def rows_of(kind: str, seed: int, count: int, size: float = 1.0) -> list[Row]:
    """Rows that are far outside what is clipped to, where `size` is large."""
    rng = np.random.default_rng(seed)
    return [
        Row(
            jnp.asarray(size * rng.normal(size=D)) if kind == "contexts" else (),
            jnp.asarray(int(rng.integers(ARMS))),
            jnp.asarray(float(size * rng.normal())),
        )
        for _ in range(count)
    ]


def memory(kind: str, rows: list[Row], belief: Private | None = None):
    belief, model = (belief or BELIEFS[kind]).check_model(MODELS[kind]), MODELS[kind]
    history = belief.empty(model, rows[0], 0)
    for row in rows:
        history = remembered(belief, model, history, row)
    return history


@jax.jit
def remembered(belief, model, history, row):
    return belief.remember(model, history, row, jnp.asarray(True))


def released(kind: str, histories: list, belief: Private | None = None, block: int = BLOCK, seed: int = 0):
    """What a block of replications released after each of these memories, and the belief's states."""
    belief, model = (belief or BELIEFS[kind]).check_model(MODELS[kind]), MODELS[kind]
    spread = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (block, *jnp.shape(x))), tree)  # noqa: E731
    state = spread(belief.init(as_key(0), model))
    refresh = jax.jit(lambda keys, state, history: belief.refresh(keys, model, state, history)[0])
    out = []
    for i, history in enumerate(histories):
        state = refresh(split(as_key(seed + i), block), state, spread(history))
        out.append(jax.tree.map(np.asarray, state))
    return out


# The noise


def noise(kind: str, belief: Private) -> dict[str, np.ndarray]:
    """The noise of a release in units of what ρ asks for, which is computed here from the definition."""
    history = memory(kind, rows_of(kind, 1, 12))
    (state,) = released(kind, [history], belief)
    first, second = state.released.first, state.released.second
    if kind == "rewards":
        sigma = belief.rows * 2.0 / math.sqrt(2 * 0.7)
        n = np.asarray(history.rows, float)
        worth = n * 0.25 / (n * 0.25 + sigma**2)
        return {"sums": (second / worth - np.asarray(history.total.value)) / sigma}
    sigma = math.sqrt(4.5) / math.sqrt(2 * 0.7)
    gram = (first - np.asarray(history.gram.value)) / (4.0 * sigma)
    np.testing.assert_allclose(gram, np.swapaxes(gram, -1, -2), atol=1e-5)
    i, j = np.triu_indices(D, 1)
    return {
        "diagonal": gram[..., np.arange(D), np.arange(D)],
        "off the diagonal": math.sqrt(2) * gram[..., i, j],
        "moment": (second - np.asarray(history.moment.value)) / (2.0 * 1.5 * sigma),
    }


def check_noise(kind: str, belief: Private) -> None:
    for name, z in noise(kind, belief).items():
        z = z.reshape(BLOCK, -1)
        square = float((z**2).sum())
        low, high = stats.chi2.ppf([SURE / 2, 1 - SURE / 2], z.size)
        assert low < square < high, name
        assert stats.kstest(z[:, 0], "norm").pvalue > SURE, name
        assert np.abs(np.corrcoef(z.T) - np.eye(z.shape[1])).max() < 6 / math.sqrt(BLOCK), name


@pytest.mark.parametrize("kind", BELIEFS)
def test_the_noise_is_what_rho_asks_for(kind):
    check_noise(kind, BELIEFS[kind])


class TenPerCentLess(Private):
    def noise_sd(self):
        return 0.9 * super().noise_sd()


class TenPerCentMore(Private):
    def noise_sd(self):
        return 1.1 * super().noise_sd()


class RowsForgotten(Private):
    def noise_sd(self):
        return super().noise_sd() / self.rows


class Asymmetric(Private):
    """Independent noise of variance 1 off the diagonal too: more noise than is needed in these directions."""

    def release(self, key, model, released, new):
        after = super().release(key, model, released, new)
        gram = after.first - new.gram.value
        return after._replace(first=new.gram.value + gram * jnp.where(jnp.eye(gram.shape[-1]) > 0, 1.0, math.sqrt(2.0)))


MUTANTS = [("rewards", TenPerCentLess), ("rewards", TenPerCentMore), ("rewards", RowsForgotten)]


@pytest.mark.parametrize(("kind", "mutant"), [*MUTANTS, ("contexts", TenPerCentLess), ("contexts", Asymmetric)])
def test_noise_of_another_scale_is_noticed(kind, mutant):
    belief = BELIEFS[kind]
    fields = {field.name: getattr(belief, field.name) for field in dataclasses.fields(belief)}
    with pytest.raises(AssertionError):
        check_noise(kind, mutant(**fields))


# What one row can change


def moved(kind: str, one: Row, other: Row, belief: Private) -> float:
    """How far a release moves, in sds of its noise, when one row is replaced: √(2ρ) for the most that is allowed."""
    rest = rows_of(kind, 2, 3)
    a, b = (jax.tree.map(np.asarray, memory(kind, [*rest, row], belief)) for row in (one, other))
    if kind == "rewards":
        return float(np.linalg.norm(a.total.value - b.total.value)) * belief.rows / (belief.rows * 2.0) * math.sqrt(2 * 0.7)
    sd = math.sqrt(4.5) / math.sqrt(2 * 0.7)
    gram, moment = (a.gram.value - b.gram.value) / (4.0 * sd), (a.moment.value - b.moment.value) / (2.0 * 1.5 * sd)
    return math.sqrt(float((gram**2).sum() + (moment**2).sum()))


@pytest.mark.parametrize("kind", BELIEFS)
def test_no_row_moves_a_release_further_than_rho(kind):
    """However large the rewards and features are, and whichever arm a context was played with."""
    belief, most = BELIEFS[kind], math.sqrt(2 * 0.7)
    for size in (0.3, 1.0, 1e4):
        for one, other in zip(rows_of(kind, 3, 40, size), rows_of(kind, 4, 40, size), strict=True):
            other = other._replace(action=one.action) if kind == "rewards" else other  # plays are public there
            assert moved(kind, one, other, belief) <= most * (1 + 1e-5)


def test_some_row_moves_a_release_as_far_as_rho():
    """So that no noise is wasted: the ends of the range; and two contexts at 60° with opposite rewards."""
    reward = [Row((), jnp.asarray(1), jnp.asarray(r)) for r in (-9.0, 9.0)]
    assert moved("rewards", *reward, BELIEFS["rewards"]) == pytest.approx(math.sqrt(1.4), rel=1e-5)
    belief = Private(Exact(), 0.7, -1.5, 1.5, norm=2.0)
    x = [jnp.array([5.0, 0.0, 0.0, 0.0]), jnp.array([2.5, 2.5 * math.sqrt(3), 0.0, 0.0])]
    contexts = [Row(x[i], jnp.asarray(1), jnp.asarray((4e3, -4e3)[i])) for i in range(2)]  # rewards are scaled with their rows
    assert moved("contexts", *contexts, belief) < math.sqrt(1.4)
    contexts = [Row(x[i] * 0.4, jnp.asarray(1), jnp.asarray((4.0, -4.0)[i])) for i in range(2)]
    assert moved("contexts", *contexts, belief) == pytest.approx(math.sqrt(1.4), rel=1e-5)


def test_a_row_is_in_one_release():
    """Replacing a row of the first batch changes what the second adds by nothing: so their ρ do not add up."""
    for kind, belief in BELIEFS.items():
        one, other = rows_of(kind, 5, 2)
        later, added = rows_of(kind, 6, 5), []
        other = other._replace(action=one.action)
        for row in (one, other):
            first, second = released(kind, [memory(kind, [row], belief), memory(kind, [row, *later], belief)], belief, block=2)
            added.append([second.released.first - first.released.first, second.released.second - first.released.second])
            assert int(second.released.releases[0]) == 2
        for a, b in zip(*added, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_noise_is_drawn_once_a_batch():
    """A refresh adds the noise of its own batch, and leaves that of earlier ones; nothing new, nothing released."""
    history = memory("rewards", rows_of("rewards", 1, 12))
    first, again = released("rewards", [history, history], block=3)
    np.testing.assert_array_equal(first.released.second, again.released.second)


# What is made of it


def calibrated(belief: Private, batches: list[int], seed: int = 0, runs: int = 3000) -> np.ndarray:
    """(θ - mean)/sd of the posterior where θ comes from the prior; rewards are Gaussian and hardly ever clipped."""
    belief = belief.check_model(MODEL)
    rng = np.random.default_rng(seed)
    theta = 0.3 + 0.4 * rng.normal(size=(runs, ARMS))
    spread = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (runs, *jnp.shape(x))), tree)  # noqa: E731
    state, history = spread(belief.init(as_key(0), MODEL)), spread(belief.empty(MODEL, None, 0))
    refresh = jax.jit(lambda keys, state, history: belief.refresh(keys, MODEL, state, history)[0])
    for i, n in enumerate(batches):
        total = n * theta + 0.5 * math.sqrt(n) * rng.normal(size=theta.shape)
        history = history._replace(rows=history.rows + n, total=history.total.plus(jnp.asarray(total)))
        state = refresh(split(as_key(seed + i), runs), state, history)
    laws = belief.laws(MODEL, state, ())
    return (theta - np.asarray(laws.mean)) / np.asarray(laws.sd)  # type: ignore[union-attr]


def check_calibrated(belief: Private) -> None:
    z = calibrated(belief, [1, 1, 40, 3, 200]).ravel()
    assert stats.kstest(z, "norm").pvalue > SURE
    low, high = stats.chi2.ppf([SURE / 2, 1 - SURE / 2], z.size)
    assert low < (z**2).sum() < high


class NoiseNotCounted(Private):
    def release(self, key, model, released, new):
        noisy = new.total.value + self.noise_sd() * jax.random.normal(jax.random.key(0), new.total.value.shape)
        return released._replace(first=released.first + new.rows, second=released.second + noisy, plays=released.plays + new.rows)


def test_the_posterior_counts_the_noise_exactly():
    check_calibrated(Private(Exact(), 0.02, -50.0, 50.0))
    with pytest.raises(AssertionError):
        check_calibrated(NoiseNotCounted(Exact(), 0.02, -50.0, 50.0))


def test_large_rho_is_no_privacy():
    """With hardly any noise and nothing clipped the posterior is the exact one, with contexts and without."""
    for kind, model in MODELS.items():
        rows = rows_of(kind, 9, 60)
        belief = Private(Exact(), 1e12, -50.0, 50.0, norm=50.0).check_model(model)
        state = released(kind, [memory(kind, rows, belief)], belief, block=1)[0]
        history = Exact().empty(model, rows[0], 0)
        for row in rows:
            history = Exact().remember(model, history, row, jnp.asarray(True))
        exact, _ = Exact().refresh(split(as_key(0), 1), model, None, jax.tree.map(lambda x: x[None], history))
        if kind == "rewards":
            np.testing.assert_allclose(state.belief.mean, exact.mean, atol=1e-3)
            np.testing.assert_allclose(state.belief.sd, exact.sd, rtol=1e-3)
        else:
            covariance = lambda root: np.asarray(root) @ np.swapaxes(root, -1, -2)  # noqa: E731
            np.testing.assert_allclose(state.belief.mean, exact.mean, atol=5e-3)
            np.testing.assert_allclose(covariance(state.belief.root), covariance(exact.root), atol=2e-4)


class GramNoiseNotCounted(Private):
    """As if the noise were in Σ x r alone, and small there."""

    def _equations(self, single, gram, moment, releases):
        return super()._equations(single, gram, moment, 0 * releases)


def with_contexts(kind: type[Private], rho: float, rows: int, runs: int = 600) -> tuple[float, float]:
    """Mean squares of the errors of θ, drawn from the prior: in posterior sds, and in prior sds."""
    model = stack(Linear(prior_mean=np.zeros(D), prior_sd=0.5, sd=0.5), 1)
    belief = kind(Exact(), rho, -3.0, 3.0, norm=2.0).check_model(model)
    rng = np.random.default_rng(3)
    theta = 0.5 * rng.normal(size=(runs, D))
    x = rng.normal(size=(runs, rows, D)) / math.sqrt(2)
    x *= np.minimum(1, 2.0 / np.linalg.norm(x, axis=-1, keepdims=True))
    r = np.einsum("nij,nj->ni", x, theta) + 0.5 * rng.normal(size=(runs, rows))
    spread = lambda tree: jax.tree.map(lambda z: jnp.broadcast_to(z, (runs, *z.shape)), tree)  # noqa: E731
    state, history = spread(belief.init(as_key(0), model)), spread(belief.empty(model, None, 0))
    refresh = jax.jit(lambda keys, state, history: belief.refresh(keys, model, state, history)[0])
    for i, part in enumerate(np.array_split(np.arange(rows), [rows // 8, rows // 2])):
        gram = jnp.asarray(np.einsum("nij,nik->njk", x[:, part], x[:, part]))[:, None]
        moment = jnp.asarray(np.einsum("nij,ni->nj", x[:, part], r[:, part]))[:, None]
        history = history._replace(gram=history.gram.plus(gram), moment=history.moment.plus(moment))
        state = refresh(split(as_key(i), runs), state, history)
    mean, root = (np.asarray(part)[:, 0] for part in state.belief)
    error = np.linalg.solve(root, (theta - mean)[..., None])[..., 0]
    return float((error**2).mean()), float(((theta - mean) ** 2).mean() / (theta**2).mean())


@pytest.mark.parametrize(("rho", "rows", "left"), [(0.05, 200, 0.85), (1.0, 200, 0.2), (1.0, 3000, 0.01)])
def test_with_contexts_the_posterior_is_usable_and_nearly_calibrated(rho, rows, left):
    """Errors are at most 1.15 times what the posterior says, and little of the prior's variance is left."""
    square, share = with_contexts(Private, rho, rows)
    assert 0.8 < square < 1.15**2
    assert share < left
    assert not 0.8 < with_contexts(GramNoiseNotCounted, rho, rows)[0] < 1.15**2


# The accountant


def test_epsilon_is_that_of_a_published_accountant():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import pld_privacy_accountant as pld
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = [1 + 10 ** (i / 200) for i in range(-800, 801)]
    for rho in (0.005, 0.1, 0.5, 3.0):
        for delta in (1e-8, 1e-6, 1e-3):
            theirs = rdp.RdpAccountant(orders)
            theirs.compose(dp.ZCDpEvent(rho))
            assert privacy.epsilon(rho, delta) == pytest.approx(theirs.get_epsilon(delta), rel=2e-3)
            assert privacy.epsilon(rho, delta) <= theirs.get_epsilon(delta) * (1 + 1e-9)  # theirs is least on a grid of orders
    # The Gaussian mechanism itself, by another method: zCDP says a little more than is spent, and never less.
    exact = pld.PLDAccountant()
    exact.compose(dp.GaussianDpEvent(1.0))  # sd 1 for sensitivity 1: ρ = 1/2
    assert exact.get_epsilon(1e-6) <= privacy.epsilon(0.5, 1e-6) <= 1.1 * exact.get_epsilon(1e-6)


@pytest.mark.parametrize("delta", [1e-8, 1e-3])
def test_rho_for_is_the_inverse(delta):
    for epsilon in (0.1, 1.0, 8.0):
        assert privacy.epsilon(privacy.rho_for(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("arguments", [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_an_impossible_budget_is_refused(arguments):
    with pytest.raises(ConfigError):
        privacy.epsilon(*arguments)


# In simulations

CLICKS = Bandit.with_means(Bernoulli(), [0.1, 0.3, 0.5])


def test_fewer_batches_lose_less_at_the_same_rho():
    agent = Thompson(Gaussian(prior_mean=[0.3] * 3, prior_sd=0.3, sd=0.5), Private(Exact(), 0.05, 0.0, 1.0))
    schemes = StaticDoubling(), Fixed(1)
    few, many = (simulate(0, CLICKS, agent, scheme, horizon=1000, replications=100, times=1) for scheme in schemes)
    gap = many.final_regret - few.final_regret
    assert gap.mean() > 5 * gap.std() / 10
    assert few.engine == "step"


def test_pools_draw_from_the_same_sums():
    """Chains on the releases lose as much as exact draws from them."""
    model = Gaussian(prior_mean=[0.3] * 3, prior_sd=0.3, sd=0.5)
    beliefs = (Exact(), Pool(mala(steps=20), 32))
    agents = [Thompson(model, Private(belief, 0.5, 0.0, 1.0)) for belief in beliefs]
    traces = [simulate(0, CLICKS, agent, StaticDoubling(), horizon=300, replications=60, times=1) for agent in agents]
    gap = traces[0].final_regret.mean() - traces[1].final_regret.mean()
    assert abs(gap) < 4 * np.hypot(*(trace.summary()["regret_se"] for trace in traces))
    assert not traces[1].warnings


def world() -> Contextual:
    return Contextual(Linear(prior_mean=np.zeros(2), prior_sd=1.0, sd=0.3), lambda key: jax.random.normal(key, (2,)), arms=3)


OVERRIDDEN = (
    *("check_model", "init", "empty", "remember", "refresh", "release", "sensitivity", "noise_sd"),
    *("draw", "laws", "members", "values"),
)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_a_subclass_that_may_release_more_has_no_guarantee(name):
    """Such as one that remembers rewards without clipping them. What is made of releases alone (`summary`) may be another."""
    inherited = lambda self, *args: getattr(super(type(self), self), name)(*args)  # noqa: E731
    model = Gaussian(prior_mean=[0.5, 0.5], prior_sd=0.5, sd=0.5)
    guarantee = lambda cls: Thompson(model, cls(Exact(), 0.5, 0.0, 1.0)).privacy  # noqa: E731
    assert guarantee(type("Mine", (Private,), {name: inherited})) is None
    assert guarantee(type("Mine", (Private,), {})).rho == 0.5
    assert guarantee(type("Mine", (Private,), {"summary": lambda *args: Private.summary(*args)})).rho == 0.5


def test_with_contexts_batch_ends_must_not_tell_what_is_played():
    agent = Thompson(Linear(prior_mean=np.zeros(2), prior_sd=1.0, sd=0.3), Private(Exact(), 5.0, -3.0, 3.0, 2.0), arms=3)
    for scheme in (DoublingCounts(), Exchanges(2, PlaysDoubled())):
        with pytest.raises(ConfigError, match="must not show what it plays"):
            simulate(0, world(), agent, scheme, horizon=50, replications=2)
    choice = Fixed(7), DoublingCounts()
    with pytest.raises(ConfigError, match="must not show what it plays"):
        simulate(0, world(), agent, OneOf(choice, 1), horizon=60, replications=2)
    assert OneOf(choice, 0).by_rounds
    trace = simulate(0, world(), agent, Exchanges(2, StaticDoubling()), horizon=60, replications=2)
    assert np.isfinite(trace.regret).all()


@pytest.mark.parametrize(
    ("model", "belief", "words"),
    [
        (Bernoulli(), Exact(), "Bernoulli has none; use Gaussian"),
        (GaussianUnknownVariance(), Exact(), "GaussianUnknownVariance has none"),
        (Linear(prior_mean=[0.0], alpha=[[1.0], [2.0]]), Exact(), "Linear has none"),
        (Gaussian(), Perturb(ula()), "draws from them with Exact"),
        (Gaussian(), Pool(sgld()), "draws from them with Exact"),
        (Linear(prior_mean=[0.0, 0.0]), Pool(ula()), "draws from them with Exact"),
    ],
)
def test_what_cannot_be_private_is_refused(model, belief, words):
    with pytest.raises(ConfigError, match=words):
        Thompson(model, Private(belief, 1.0, 0.0, 1.0), arms=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0.0, 0.0, 1.0), "rho"), ((1.0, 1.0, 1.0), "high must be above low"), ((1.0, 0.0, 1.0, -1.0), "norm")],
)
def test_numbers_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Private(Exact(), *arguments)


def test_the_name_needs_to_know_what_is_clipped():
    with pytest.raises(ConfigError, match="give low and high"):
        condition("bernoulli", "private-ts", prior="gaussian")
    agent = condition("bernoulli", "private-ts", prior="gaussian", options={"low": 0.0, "high": 1.0, "rho": 0.5}).agent
    assert "ε = 5.22 at δ = 1e-06" in str(agent.privacy)
