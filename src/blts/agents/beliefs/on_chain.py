"""What beliefs that run chains share."""

from __future__ import annotations

from typing import Any

from ...declared import fact
from ...errors import ConfigError, require_object
from ...samplers.base import Sampler
from ...samplers.chain import Chain
from .base import Belief


class OnChain:
    """What beliefs that run chains share: the chain says what is remembered."""

    chain: Chain

    @property
    def plain_memory(self) -> bool:
        return self._remembers_as_chain and self.chain.plain_memory

    _remembers_as_chain = fact("empty", "remember")
    starts_from_prior = fact("init")

    def empty(self, model, row, capacity):
        return self.chain.empty(model, row, capacity)

    def remember(self, model, history, row, live):
        return self.chain.remember(model, history, row, live)


def check_chain(owner: Any, chain: Any) -> None:
    """Refuse what is not a chain, for the belief that is given it.

    Args:
        owner: the belief.
        chain: what it is to run.

    Raises:
        ConfigError: what was given, and what to write.
    """
    where, name = f"{type(owner).__name__}: chain", type(chain).__name__
    if isinstance(chain, Belief):
        raise ConfigError(f"{where} must be a chain such as sgld(), ula() or mala(); {name} draws by itself: give it to Thompson.")
    if isinstance(chain, Sampler):
        raise ConfigError(f"{where} must say how a kernel is run; give Chain({name}(…)), not the kernel {name} alone.")
    if not isinstance(chain, Chain):
        require_object(where, chain, ("resolved", "run", "empty", "remember"), "sgld(), ula() or mala()")
