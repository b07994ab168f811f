"""Checks before a simulation (the agent's model gives rewards a density) and after it (regret is computed from the means paid)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _random, contexts, freshness
from ._module import parts_within, short
from ._typing import Array, Float, Row
from .agents.base import argmax
from .agents.beliefs.forgetting import Forgetting
from .agents.conversions import Conversions
from .agents.index import SequentialHalving
from .agents.stopping import OnPosterior, StopAtEvidence, Stopping
from .declared import provides, why_lost
from .delays import Delay
from .dynamics import Finite
from .envs import MDP, Bandit, Contextual, Late
from .errors import ConfigError
from .models import Bernoulli, Model, Tabular
from .models.arms import arm, stack
from .models.drawing import prior_draws
from .models.proper import check_prior
from .models.support import SUPPORTS, WITHIN, support_of_likelihood

SURE = 6.0  # standard errors: large, so that heavy-tailed rewards raise no false alarm
RUNS, ROUNDS = 32, 8  # of random play, where the support of the rewards is not declared
SAMPLES = 4096  # rewards of each arm, where it is not declared that their mean is `mean_reward`
INSTANCES = 8  # draws of θ and of a context for which they are drawn


def check_rewards(env: Any, agent: Any) -> None:
    """Refuse an agent whose model gives some of the environment's rewards no density, and priors that are not finite.

    If both declare a `support`, these are compared. Otherwise (a user's environment or model, a subclass that overrides `step` or
    `sample`) a few hundred rewards of random play are tried.

    Args:
        env: the environment.
        agent: the agent.

    Raises:
        ConfigError: which rewards do not fit the model, or whose prior is not finite.
    """
    model = _believed(agent)
    if model is not None:
        check_prior(model)
    if isinstance(env, Bandit | Contextual) and env.theta is None:
        check_prior(env.model)
    if (rule := _first(agent, Stopping)) is not None:
        name = type(rule).__name__
        if isinstance(rule, OnPosterior):
            _check_model(
                env,
                agent,
                rule.believed,
                f"the {type(rule.believed).__name__} model of {name} is",
                "give the rule a model that fits",
            )
        elif isinstance(rule, StopAtEvidence) and rule.binary:
            _check_model(env, agent, stack(Bernoulli(), rule.actions), f"{name} with binary=True is", "leave binary out")
    if model is not None:
        _check_model(env, agent, model, f"the agent's {type(model).__name__} model is", "give the agent a model that fits")


def _check_model(env: Any, agent: Any, model: Any, who: str, mend: str) -> None:
    """Refuse a model of rewards that gives some of the environment's rewards no density, in the words that are given."""
    if not env.actions:
        return
    ours, theirs = support_of_likelihood(model), env.support
    if ours == "real":
        return
    if ours is not None and theirs is not None:
        if ours not in WITHIN[theirs]:
            _refuse(f"rewards that are {SUPPORTS[theirs][1]}", model, who, mend)
        return
    if ours is None and env.pays_as_model and _same(env.model, model):
        return  # environment and agent share one model
    rewards, possible = map(np.asarray, _tried(_random.as_key(0), env, agent, model))
    holds, _ = SUPPORTS[model.support]
    wrong = rewards[~np.array([bool(ok) and holds(r) for ok, r in zip(possible, rewards.tolist(), strict=True)])]
    if wrong.size:
        _refuse(f"{wrong[0]:.4g}", model, who, mend)


def check_private(env: Any, agent: Any, batching: Any) -> None:
    """Refuse batches whose ends, or counts of rewards, tell of what an agent promises to protect.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.

    Raises:
        ConfigError: what to use instead.
    """
    if agent.privacy is not None and not agent.privacy.hides_actions and isinstance(env, Late) and env.silence == "zero":
        raise ConfigError(
            "A private agent shows how many rewards it was told in each batch, and with silence='zero' zeros are told later than "
            "others, so that this tells of rewards; use silence='missing'."
        )
    if agent.privacy is not None and agent.privacy.hides_actions and not batching.by_rounds:
        raise ConfigError(
            f"With contexts a private agent must not show what it plays, and batches of {type(batching).__name__} depend on that; "
            "use Fixed, StaticDoubling or Grid (fixed, static, minimax-grid, geometric-grid)."
        )


def check_told(env: Any, agent: Any) -> None:
    """Refuse an agent that learns from conversions alone, waits for another window, or counts rounds by rewards.

    Args:
        env: the environment.
        agent: the agent.

    Raises:
        ConfigError: what to change.
    """
    if not isinstance(env, Late):
        return
    if counting := counts_rounds_by_rewards(agent):
        raise ConfigError(
            f"{type(counting).__name__} counts a round for each reward that it is told, and rewards are late or missing here; "
            "leave it out, or the delays."
        )
    if env.silence == "zero" and env.window is None and not agent.counts_plays:
        raise ConfigError(
            "Zeros are never told here (silence='zero' without a window), and the agent would learn from conversions alone; put "
            "the agent into Conversions(…), or give a window."
        )
    if env.silence == "missing" and agent.counts_plays:
        raise ConfigError(
            "Conversions is for silence='zero'; with silence='missing' zeros are told too: give the agent without Conversions."
        )
    waits = _first(agent, Conversions)
    if waits is not None and isinstance(waits.delay, Delay) and waits.window != env.window:
        raise ConfigError(
            f"Conversions waits for window={waits.window} and the environment for window={env.window}, so that silence would be "
            f"weighed by the wrong share; write Conversions(…, window={env.window})."
        )


def check_states(env: Any, agent: Any) -> None:
    """Refuse an agent whose table has other states than the environment: it would count moves as moves between other states.

    Args:
        env: the environment.
        agent: the agent.

    Raises:
        ConfigError: how many states each has.
    """
    world, model = env.dynamics if env.states is None else env, agent.model
    theirs = world.states if env.states is not None or isinstance(world, Finite) else None
    ours = model.states if isinstance(model, Tabular | Finite) else None
    said = theirs != 1 or not freshness.from_elsewhere(env)  # an environment of one's own need not say how many it has
    if ours is not None and theirs is not None and said and int(ours) != int(theirs):
        raise ConfigError(
            f"The environment has {theirs} states and the agent's {type(model).__name__} model {ours}; give both the same states."
        )


def counts_rounds_by_rewards(part: Any) -> Any:
    """What of an agent counts rounds by rewards, however deep it is wrapped: a stopping rule, a belief that forgets, or phases;
    None where nothing does."""
    return _first(part, Stopping | Forgetting | SequentialHalving)


def _first(part: Any, kind: Any) -> Any:
    """The first part of a kind that an agent is, or is wrapped around; None where there is none."""
    return next((each for each in parts_within(part) if isinstance(each, kind)), None)


def stale_regret(env: Any, plays: np.ndarray, rewards: np.ndarray, regrets: np.ndarray) -> tuple[str, ...]:
    """Detect a bandit whose own `step` or `means`, or whose model's `sample`, pays other means than its regret is computed from.

    Args:
        env: the environment.
        plays: how often each arm was played, `[replications, arms]`.
        rewards: the mean reward of each replication.
        regrets: the regret of each replication at the horizon.

    Returns:
        A warning, or nothing.
    """
    if isinstance(env, Contextual) and not env.regret_fits_rewards:
        return _stale_step(env)
    if isinstance(env, Bandit | Contextual) and not env.model.mean_of_samples and why_lost(env, "pays_as_model") is None:
        return _stale_mean(env)
    if isinstance(env, Contextual):
        return ()
    if why_lost(env, "pays_as_model") is None or env.theta is None or len(rewards) < 2:
        return ()
    means = np.asarray(env.means(env.theta), float)
    rounds = plays.sum(1)
    expected = plays @ means
    if not np.allclose(regrets, rounds * means.max() - expected, rtol=1e-3, atol=1e-3):
        return ()  # the override computes its own regret
    gap = rewards - expected / rounds
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    if abs(gap.mean()) <= SURE * error:
        return ()
    overrides = str(why_lost(env, "pays_as_model")).split(",")[0]
    means_alone = overrides.endswith(" means")
    mend = "let its step pay these means too" if means_alone else "give its Step a regret of its own, or override means"
    return (
        f"{overrides} and pays {gap.mean():+.3g} a round beside the means {short(means)}, from which its regret is computed; "
        f"{mend}.",
    )


FAR = 0.01  # of the range of mean rewards: numbers that are farther apart than this cannot tell them apart well


NEAR = 1e3  # mean rewards up to here are not looked at, so that nothing is compiled for them


def too_far_from_zero(env: Any, rewards: np.ndarray) -> tuple[str, ...]:
    """Detect mean rewards that are so far from zero that their differences have few digits.

    Args:
        env: the environment.
        rewards: the mean reward of each replication.

    Returns:
        A warning, or nothing.
    """
    means = np.zeros(1)
    if not np.abs(rewards).max(initial=0.0) > NEAR:
        return ()
    if isinstance(env, Bandit) and env.theta is not None:
        means = np.asarray(env.means(env.theta))
    elif isinstance(env, MDP):
        means = np.asarray(env.rewards)
    largest, held = np.abs(means).max(initial=0.0), jax.dtypes.canonicalize_dtype(float)
    apart, spread = float(np.spacing(held.type(largest))), float(np.ptp(means))
    if not 0 < FAR * spread < apart:
        return ()
    return (
        f"Mean rewards around {largest:.3g} differ by {spread:.3g}, and numbers of this precision are {apart:.2g} apart there: "
        "subtract a constant from all rewards, or set JAX_ENABLE_X64=1.",
    )


def _stale_step(env: Contextual) -> tuple[str, ...]:
    """A warning where rewards and regrets of a first round do not add up to the same number for all arms, the best mean."""
    keys = _random.split(_random.as_key(0), INSTANCES)
    paid, error, regret = (np.asarray(x, float) for x in _stepped(keys, env))
    best = np.argmin(np.where(np.isfinite(regret), regret, np.inf), 1)[:, None]
    less = np.take_along_axis(paid, best, 1) - paid
    more = regret - np.take_along_axis(regret, best, 1)
    wrong = np.argwhere(np.abs(less - more) > SURE * np.hypot(error, np.take_along_axis(error, best, 1)) + 1e-3 * np.abs(paid))
    if not wrong.size:
        return ()
    i = tuple(wrong[0])
    return (
        f"{str(why_lost(env, 'regret_fits_rewards')).split(',')[0]}: arm {i[1]} pays {less[i]:.3g} a round less than arm "
        f"{best[i[0], 0]}, and its regret is larger by {more[i]:.3g}; give its Step a regret of its own, or override means.",
    )


@jax.jit
def _stepped(keys: Array, env: Contextual) -> tuple[Array, Array, Array]:
    """The mean reward of each arm in a first round, its standard error, and the regret; all NaN for arms that are not available."""

    def once(key):
        key_reset, key_steps = _random.split(key)
        state, _ = env.reset(key_reset)

        def of_arm(a):
            keys = _random.split(_random.fold_in(key_steps, a), SAMPLES)
            steps = jax.vmap(lambda key: env.step(key, state, a)[1])(keys)
            return jnp.mean(steps.reward), jnp.std(steps.reward) / SAMPLES**0.5, jnp.mean(steps.regret)

        return jax.vmap(of_arm)(jnp.arange(env.actions))

    return jax.vmap(once)(keys)


def _stale_mean(env: Any) -> tuple[str, ...]:
    """A warning where `sample` of the environment's model has another mean than its `mean_reward`."""
    keys = _random.split(_random.as_key(0), INSTANCES if env.model.contextual or env.theta is None else 1)
    paid, error, said = (np.asarray(x, float) for x in _sampled(keys, env))
    wrong = np.argwhere(~(np.abs(paid - said) <= SURE * error + 1e-3 * np.abs(said)))
    if not wrong.size:
        return ()
    i = tuple(wrong[0])
    overrides = str(why_lost(env.model, "mean_of_samples")).split(",")[0]
    return (
        f"{overrides}: arm {i[1]} pays {paid[i]:.3g} a round, and mean_reward, from which regret is computed, says {said[i]:.3g}; "
        "override sample and mean_reward so that they agree.",
    )


@jax.jit
def _sampled(keys: Array, env: Any) -> tuple[Array, Array, Array]:
    """The mean of some rewards of each arm, its standard error, and what `mean_reward` says, for an instance of each key."""
    return jax.vmap(lambda key: _sampled_once(key, env))(keys)


def _sampled_once(key: Array, env: Any) -> tuple[Array, Array, Array]:
    key_obs, key_theta, key_rewards = _random.split(key, 3)
    _, obs = env.reset(key_obs)
    theta = env.parameters(key_theta)

    def of_arm(a):
        own = 0 * a if env.shared else a
        single, x, seen = arm(env.model, own), theta[own], (env.features or contexts.features)(obs, a)
        keys = _random.split(_random.fold_in(key_rewards, a), SAMPLES)
        rewards = jax.vmap(lambda key: single.sample(key, x, seen, a))(keys)
        return jnp.mean(rewards), jnp.std(rewards) / SAMPLES**0.5, single.mean_reward(x, seen, a)

    return jax.vmap(of_arm)(jnp.arange(env.actions))


def _believed(agent: Any) -> Any:
    """The model of rewards that an agent learns, stacked over arms or pairs; None where it learns none."""
    model = agent.model
    if isinstance(model, Tabular):
        model = model.rewards if model.learns_rewards else None
    return model if isinstance(model, Model) and provides(model, Model) else None


def _same(one: Any, other: Any) -> bool:
    (a, kind), (b, other_kind) = jax.tree.flatten(one), jax.tree.flatten(other)
    return kind == other_kind and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _refuse(paid: str, model: Any, who: str, mend: str) -> None:
    possible = SUPPORTS[model.support][1]
    raise ConfigError(
        f"The environment pays {paid}, and {who} for rewards that are {possible}; {mend}, or misspecified=True to run it as it is."
    )


@jax.jit
def _tried(key: Array, env: Any, agent: Any, model: Any) -> tuple[Float[Array, " rows"], Array]:
    """Rewards of random play, and whether each has a finite log-density at a draw from the prior."""
    arms = jax.tree.leaves(model)[0].shape[0]

    def run(key: Array) -> Row:
        key_env, key_actions, key_steps = _random.split(key, 3)
        order = _random.uniform(key_actions, (ROUNDS, env.actions))

        def step(carry, x):
            state, obs = carry
            values, i = x
            action = argmax(values, contexts.available(obs))
            state, out = env.step(_random.fold_in(key_steps, i), state, action)
            if arms > env.actions:  # a table's rewards have one model a pair
                return (state, out.obs), Row((), obs * env.actions + action, out.reward)
            return (state, out.obs), agent.seen(Row(obs, action, out.reward))

        return jax.lax.scan(step, env.reset(key_env), (order, jnp.arange(ROUNDS)))[1]

    rows = jax.tree.map(lambda x: x.reshape(RUNS * ROUNDS, *x.shape[2:]), jax.vmap(run)(_random.split(key, RUNS)))
    theta = prior_draws(_random.fold_in(key, RUNS), model)
    density = jax.vmap(lambda row: arm(model, row.action).log_likelihood(theta[row.action], row))(rows)
    return rows.reward, jnp.isfinite(rows.reward) & jnp.isfinite(density)
