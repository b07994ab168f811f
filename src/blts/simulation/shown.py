"""After a simulation gave numbers that are not finite: the round whose context was the reason."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, contexts
from .._module import short
from .._typing import Array, Bool, PRNGKey, Tree
from ..contexts import Context
from ..envs import Contextual, Env
from ..errors import ConfigError
from ..trace import Trace


def check_contexts(root: PRNGKey, env: Env, first: int, trace: Trace) -> None:
    """Refuse a result that is not finite because a context was not, or because a round showed no arm that can be played.

    A function that returns such a context once in a thousand rounds passes the checks before a simulation.

    Args:
        root: the key of the simulation.
        env: its environment.
        first: the number of its first replication.
        trace: its result.

    Raises:
        ConfigError: the round and what it showed.
    """
    good = np.isfinite(trace.regret).all(1) & np.isfinite(trace.mean_reward) & np.asarray(trace.diagnostics.finite)
    if good.all() or not isinstance(env, Contextual) or not env.regret_fits_rewards:
        return
    replication = first + int(np.argmin(good))
    right, where, obs = _first_wrong(_random.fold_in(root, replication), env, trace.horizon)
    if not right:
        found = f"x {short(np.asarray(obs))}" if not isinstance(obs, Context) else _described(obs)
        raise ConfigError(
            f"Contextual: contexts must be finite and leave an arm to play; round {int(where) + 1} of replication {replication} "
            f"shows {found}."
        )


def _described(obs: Context) -> str:
    return ", ".join(f"{name} {short(np.asarray(part))}" for name, part in obs._asdict().items() if not isinstance(part, tuple))


@partial(jax.jit, static_argnames=("horizon",))
def _first_wrong(key: PRNGKey, env: Contextual, horizon: int) -> tuple[Array, Array, Tree]:
    """Whether all rounds of a replication show right contexts; if not, the first that does not, from 0, and what it shows.

    Contexts do not depend on actions, so that those of any actions are those of the run.
    """
    state, obs = env.reset(_random.split(_random.fold_in(key, 0))[0])
    none = jnp.zeros((), int)

    def play(carry, t):
        state, obs, wrong, where = carry
        now = ~_is_right(obs) & ~wrong[0]
        wrong = (wrong[0] | now, jax.tree.map(lambda new, old: jnp.where(now, new, old), obs, wrong[1]))
        state, step = env.step(_random.round_key(key, _random.Round.of(t + 1), _random.ENV), state, none)
        return (state, step.obs, wrong, jnp.where(now, t, where)), None

    start = (state, obs, (jnp.zeros((), bool), obs), none)
    (_, _, (any_wrong, shown), where), _ = jax.lax.scan(play, start, jnp.arange(horizon))
    return ~any_wrong, where, shown


def _is_right(obs: Tree) -> Bool[Array, ""]:
    numbers = [part for part in jax.tree.leaves(obs) if jnp.issubdtype(part.dtype, jnp.floating)]
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in numbers])) if numbers else jnp.ones((), bool)
    mask = contexts.available(obs)
    return finite if mask is None else finite & jnp.any(mask)
