"""The optimal policy of a named MDP, in double precision: `blts mdp solve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import envs, planning
from ..declared import provides, why_lost
from ..dynamics.base import why_not
from ..errors import ConfigError
from .base import Problem

ALLOWED = 1e-6  # the largest residual, relative to the gain


def optimum(build: Callable[[], Problem]) -> dict[str, Any]:
    """Solve an MDP.

    Args:
        build: builds the problem; it is called in double precision.

    Returns:
        `gain`; `policy`, a list of actions or the number that describes it (a base stock, a threshold, a feedback gain); `span` of
        the bias, None with infinitely many states; and `residual`, a bound on what the policy loses per round, truncation of the
        states included.

    Raises:
        ConfigError: the optimum is unknown: each replication draws its own MDP, a subclass overrides the transitions, or the
            residual exceeds a millionth of the gain.
    """
    with jax.enable_x64(True):
        env = build().env
        if isinstance(env, envs.MDP):
            if (why := why_lost(env, "solve")) is not None:
                raise ConfigError(f"The optimum is not known: {why}")
            return _of_plan(env.solve())
        if isinstance(env, envs.ParametricMDP) and not env.drawn:
            if (why := why_lost(env, "truth") or why_not(env.dynamics)) is not None:
                raise ConfigError(f"The optimum is not known: {why}")
            return _checked(_parametric(env.dynamics, jnp.asarray(env.truth, float)))
    raise ConfigError("Each replication of this problem draws an MDP of its own, so there is no one optimum; name a fixed MDP.")


def _parametric(world: Any, theta: Any) -> dict[str, Any]:
    found = {"gain": float(world.gain(theta)), "policy": _plain(world.plan(theta)), "span": None, "residual": None}
    if provides(world, "certify"):
        found["residual"] = float(world.certify(theta).residual)
    if provides(world, "table") and not provides(world, "why_cut"):
        # The plan comes from a formula; the finite MDP certifies it.
        certified = planning.solve(*world.table(theta))
        gap = abs(found["gain"] - float(certified.gain))
        found |= {"span": float(certified.span), "residual": float(certified.residual) + gap}
    return found


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """Refuse a plan that may lose more than a millionth of its gain."""
    if found["residual"] is None or found["residual"] <= ALLOWED * max(1.0, abs(found["gain"])):
        return found
    raise ConfigError(
        f"This world was not solved: its best plan, with the gain {found['gain']:.6g}, may lose {found['residual']:.2g} a round."
    )


def _of_plan(plan: Any) -> dict[str, Any]:
    return {
        "gain": float(plan.gain),
        "policy": np.asarray(plan.policy).tolist(),
        "span": float(plan.span),
        "residual": float(plan.residual),
    }


def _plain(value: Any) -> Any:
    """Numbers, lists and dictionaries of arrays."""
    if value is None:
        return None
    if hasattr(value, "_asdict"):
        return {name: _plain(x) for name, x in value._asdict().items()}
    return np.asarray(value).tolist()
