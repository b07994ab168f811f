"""What is best in a named MDP, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import envs, planning
from ..errors import ConfigError
from .base import Problem


def optimum(build: Callable[[], Problem]) -> dict[str, Any]:
    """`gain`, `policy`, `span` and `residual` of an MDP.

    The residual bounds what the policy may lose a round. A policy is a list of actions, or what describes it: a base stock,
    a threshold, a feedback gain. A world without a table of states has no span; its residual is that of its own equation.
    """
    with jax.enable_x64(True):
        env = build().env
        if isinstance(env, envs.MDP):
            plan = env.solve()
            return _of_plan(plan)
        if isinstance(env, envs.ParametricMDP):
            world, theta = env.dynamics, env.truth
            found = {"gain": float(world.gain(theta)), "policy": _plain(world.plan(theta)), "span": None, "residual": None}
            if hasattr(world, "table"):
                # The plan is by a formula of the world's own; its certificate comes from the finite MDP that it stands for.
                certified = planning.solve(*world.table(theta))
                gap = abs(found["gain"] - float(certified.gain))
                found |= {"span": float(certified.span), "residual": float(certified.residual) + gap}
            elif hasattr(world, "residual"):
                found["residual"] = float(world.residual(theta))
            return found
    raise ConfigError("Each replication of this problem draws an MDP of its own, so there is no one optimum; name a fixed MDP.")


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
