"""The option `forget` of Thompson sampling: what is forgotten, in words."""

from __future__ import annotations

from typing import Any

from .. import agents
from ..errors import ConfigError

WAYS = '"discount 0.998", "window 800", "restart" or "restart everywhere"'


def forgetting(belief: agents.Belief, forget: Any) -> agents.Belief:
    """A belief that forgets.

    Args:
        belief: how the posterior is held.
        forget: what is forgotten: None or "nothing", or one of `WAYS`, with other numbers; "restart 0.05" has other false alarms.

    Returns:
        The belief.

    Raises:
        ConfigError: what to write instead.

    >>> from blts import Exact
    >>> from blts.catalogue.forgetting import forgetting
    >>> print(forgetting(Exact(), "window 800"))
    exact posterior draws each round, of the last 800 rounds
    """
    if forget in (None, "nothing"):
        return belief
    match forget.split() if isinstance(forget, str) else []:
        case ["discount", number] if _is_number(number):
            return agents.Discounted(belief, float(number))
        case ["window", number] if number.isdecimal():
            return agents.Windowed(belief, int(number))
        case ["restart", *rest] if (numbers := [word for word in rest if word != "everywhere"]) == [] or (
            len(numbers) == 1 and _is_number(numbers[0])
        ):
            alarm = float(numbers[0]) if numbers else 0.01
            return agents.Restarting(belief, alarm, everywhere="everywhere" in rest)
    raise ConfigError(f"forget must be {WAYS}; got {forget!r}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
