"""Random MDPs with a given number of successors: Garnets (Archibald et al. 1995)."""

from __future__ import annotations

import numpy as np

from ..errors import ConfigError, whole
from .tabular import MDP


def garnet(states: int = 10, actions: int = 3, successors: int = 3, seed: int = 0, reward_share: float = 0.3) -> MDP:
    """A random MDP: each pair has `successors` next states, with spacings of uniform numbers as probabilities.

    The first successor of action 0 follows a random cycle through all states, so every state can be reached.

    Args:
        states: how many states.
        actions: how many actions.
        successors: next states per pair.
        seed: of the instance.
        reward_share: the expected fraction of pairs that pay a reward, drawn from U(0, 1).

    Returns:
        The MDP.

    Raises:
        ConfigError: a number is out of range.

    >>> from blts.envs import garnet
    >>> garnet(states=8, actions=2).actions
    2
    """
    for name, value, least in (("states", states, 2), ("actions", actions, 1), ("successors", successors, 1), ("seed", seed, 0)):
        whole(f"garnet: {name}", value, least)
    if successors > states:
        raise ConfigError(f"garnet: successors must be at most the {states} states; got {successors}.")
    if not 0 < reward_share <= 1:
        raise ConfigError(f"garnet: reward_share must be between 0 and 1; got {reward_share!r}.")
    rng = np.random.default_rng(seed)
    cycle = rng.permutation(states)
    following = np.empty(states, int)
    following[cycle] = np.roll(cycle, -1)
    transitions = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            chosen = rng.choice(states, successors, replace=False)
            if a == 0 and following[s] not in chosen:
                chosen[0] = following[s]
            cuts = np.sort(rng.uniform(size=successors - 1))
            transitions[s, a, chosen] = np.diff(np.concatenate([[0.0], cuts, [1.0]]))
    pays = rng.uniform(size=(states, actions)) < reward_share
    rewards = np.where(pays, rng.uniform(size=(states, actions)), 0.0)
    return MDP(transitions, rewards)
