"""RiverSwim in three published forms, and the Strens chain: chains whose rewarding end is hard to reach."""

from __future__ import annotations

import numpy as np

from ..errors import ConfigError, whole
from .tabular import MDP

LEFT, RIGHT = 0, 1


def riverswim_paper(states: int = 5, left: float = 2.0, right: float = 10.0) -> MDP:
    """RiverSwim exactly as the paper prints it: both ends pay for either action.

    Right succeeds with probability 0.8 and else moves one left; left succeeds with 0.2 and else stays. The optimal gain is 7.51,
    above the 4.15 of the paper's table, so the table cannot come from this chain.

    Args:
        states: the length of the chain.
        left: the reward at the left end.
        right: the reward at the right end.

    Returns:
        The MDP.

    >>> from blts.envs import riverswim_paper
    >>> print(riverswim_paper())
    An MDP of 5 states and 2 actions with the optimal average reward 7.513.
    """
    whole("states", states, 2)
    moves = {
        LEFT: [(-1, 0.2), (0, 0.8)],
        RIGHT: [(-1, 0.2), (1, 0.8)],
    }
    rewards = np.zeros((states, 2))
    rewards[0], rewards[-1] = left, right
    return _line(states, moves, rewards)


def strens_chain(states: int = 5, slip: float = 0.2, left: float = 2.0, right: float = 10.0) -> MDP:
    """The chain of Strens (2000), with rewards that fit the paper's table.

    With probability `slip` the effective move is the opposite of the action. Forward moves one state on, or stays in the last
    state; back moves to state 0. Rewards are averaged over slips.

    Args:
        states: the length of the chain.
        slip: the probability of the opposite move.
        left: the reward in state 0 when the effective move is back.
        right: the reward in the last state.

    Returns:
        The MDP.

    Raises:
        ConfigError: a number is out of range.

    >>> from blts.envs import strens_chain
    >>> print(strens_chain())
    An MDP of 5 states and 2 actions with the optimal average reward 4.176.
    """
    whole("states", states, 2)
    if not 0 <= slip <= 0.5:
        raise ConfigError(f"slip must be a probability between 0 and 0.5; got {slip!r}.")
    s = np.arange(states)
    successors = np.stack([np.minimum(s + 1, states - 1), np.zeros_like(s)], 1)
    forward = np.array([slip, 1 - slip])
    rewards = np.zeros((states, 2))
    rewards[0] = left * (1 - forward)
    rewards[-1] = right
    probabilities = np.stack([forward, 1 - forward], 1)
    return MDP(np.tile(probabilities, (states, 1, 1)), rewards, successors=np.repeat(successors[:, None], 2, 1))


def riverswim(states: int = 6, left: float = 0.005, right: float = 1.0) -> MDP:
    """RiverSwim as in Osband et al. (2013): left never fails and pays at the left end, right pays at the right end.

    Args:
        states: the length of the chain.
        left: the reward for left at the left end.
        right: the reward for right at the right end.

    Returns:
        The MDP.

    >>> from blts.envs import riverswim
    >>> print(riverswim())
    An MDP of 6 states and 2 actions with the optimal average reward 0.4286.
    """
    whole("states", states, 2)
    return _swim(states, left, right, first=(0.4, 0.6), interior=(0.05, 0.6, 0.35), last=(0.4, 0.6))


def riverswim_strehl(states: int = 6, left: float = 5.0, right: float = 10_000.0) -> MDP:
    """RiverSwim as in Strehl and Littman (2008): right moves back, stays or moves on with probabilities 0.1, 0.6 and 0.3.

    Args:
        states: the length of the chain.
        left: the reward for left at the left end.
        right: the reward for right at the right end.

    Returns:
        The MDP.

    >>> from blts.envs import riverswim_strehl
    >>> riverswim_strehl().states
    6
    """
    whole("states", states, 2)
    return _swim(states, left, right, first=(0.7, 0.3), interior=(0.1, 0.6, 0.3), last=(0.7, 0.3))


def _line(states: int, moves: dict[int, list[tuple[int, float]]], rewards: np.ndarray) -> MDP:
    """A chain whose actions have the same steps and probabilities in every state, clamped at its ends."""
    s = np.arange(states)[:, None]
    successors = np.stack([np.clip(s + [step for step, _ in moves[a]], 0, states - 1) for a in (LEFT, RIGHT)], 1)
    probabilities = np.array([[p for _, p in moves[a]] for a in (LEFT, RIGHT)])
    return MDP(np.tile(probabilities, (states, 1, 1)), rewards, successors=successors)


def _swim(states: int, left: float, right: float, first: tuple, interior: tuple, last: tuple) -> MDP:
    """Left is certain. Right: probabilities of (stay, on) at the first state, (back, stay, on) inside, (back, stay) at the last."""
    s = np.arange(states)
    successors = np.clip(np.repeat((s[:, None] + [-1, 0, 1])[:, None], 2, 1), 0, states - 1)
    probabilities = np.zeros((states, 2, 3))
    probabilities[:, LEFT, 0] = 1.0
    probabilities[:, RIGHT] = interior
    probabilities[0, RIGHT] = (0.0, *first)
    probabilities[-1, RIGHT] = (*last, 0.0)
    rewards = np.zeros((states, 2))
    rewards[0, LEFT], rewards[-1, RIGHT] = left, right
    return MDP(probabilities, rewards, successors=successors)
