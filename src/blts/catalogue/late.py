"""Late rewards by name: options that any simulation takes."""

from __future__ import annotations

from ..agents import Agent, Conversions
from ..agents.conversions import LEARNED
from ..delays import LostRewards, delay_of
from ..envs import Env, Late
from ..errors import ConfigError
from ..registry import register

CORRECTIONS = ("off", "known", LEARNED)


@register("feedback", "late")
def late(
    env: Env,
    agent: Agent,
    delay: str | float = 0,
    never: float = 0.0,
    window: int | None = None,
    silence: str = "missing",
    correction: str | None = None,
) -> tuple[Env, Agent]:
    """Rewards come late or never, in any environment: delay="geometric 50", never=0.5, window=200; with silence="zero" conversions.

    Args:
        env: the environment.
        agent: the agent.
        delay: "fixed 10", "geometric 50", "pareto 1.5 10", or a number of rounds.
        never: the probability that a reward never comes.
        window: later rewards never come.
        silence: "missing" or "zero": see `Late`.
        correction: how silence is counted while it may still end, where it means zero. "off": as a failure; "known": weighed by the
            law of the delays; "learned": by the delays seen so far. None: rewards are learned from when they are told.

    Returns:
        Both, wrapped.

    Raises:
        ConfigError: an option is invalid.
    """
    law = delay_of(delay)
    law = LostRewards(never, law) if never else law
    world = Late(env, law, window, silence)
    if correction is None:
        return world, agent
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction must be one of {', '.join(map(repr, CORRECTIONS))}; got {correction!r}.")
    given = {"off": None, "known": law, LEARNED: LEARNED}[correction]
    return world, Conversions(agent, given, window)  # type: ignore[arg-type]
