"""What a belief is: what is frozen within a batch, and how each round draws from it."""

from __future__ import annotations

from ..._module import Contract
from ..._typing import Array, Bool, Float, Info, Key, PRNGKey, Row, Thetas, Tree
from ...declared import default, optional, required
from ...models import marginal
from ...models.base import Model, Normal


class Belief(Contract):
    """How `Thompson` holds the posterior of a model within a batch: inherit from this to write a belief.

    Everything is for all arms at once: `model` is stacked, with one more axis in front of every number, and `jax.vmap` over it
    gives one arm. A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define `init`,
    `empty`, `remember`, `refresh` and `draw`.

    >>> from blts import Belief, Gaussian, Laplace, Thompson
    >>> Thompson(Gaussian(prior_mean=[0.0, 1.0])).belief
    Exact()
    >>> [type(Thompson(model(prior_mean=[0.0, 1.0])).belief).__name__ for model in (Gaussian, Laplace)]
    ['Exact', 'Pool']
    >>> isinstance(Thompson(Gaussian(prior_mean=[0.0, 1.0])).belief, Belief)
    True
    """

    @required
    def init(self, key: PRNGKey, model: Model) -> Tree:
        """What is believed before any reward.

        Args:
            key: for what is drawn once.
            model: of all arms.

        Returns:
            The state that `draw` draws from, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def empty(self, model: Model, row: Row, capacity: int) -> Tree:
        """A memory of no rounds, any pytree of arrays: see `Agent.empty`.

        Args:
            model: of all arms.
            row: a round of zeros, for its shapes and types.
            capacity: for how many rounds there must be room: the horizon or more.

        Returns:
            The memory.
        """
        raise NotImplementedError

    @required
    def remember(self, model: Model, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """Add a round to the memory: see `Agent.remember`.

        Args:
            model: of all arms.
            history: as `empty` or the last `remember` returned it.
            row: the round; `row.action` is the arm.
            live: False for a replication that waits; its memory must be returned as it is.

        Returns:
            The new memory, of the same structure, shapes and types.
        """
        raise NotImplementedError

    @required
    def refresh(self, keys: Key[Array, " block"], model: Model, state: Tree, history: Tree) -> tuple[Tree, Info]:
        """The posterior of all that is remembered, for a block of replications, in front of every array: see `Agent.observe`.

        Args:
            keys: one for each replication, of shape `(block,)`.
            model: of all arms, the same for all replications.
            state: their states so far.
            history: their memories.

        Returns:
            The new states, and an `Info` of arrays of shape `(block,)`: `Info.of(finite)`.
        """
        raise NotImplementedError

    @required
    def draw(self, key: PRNGKey, model: Model, state: Tree) -> Thetas:
        """Draw the parameters of every arm, as a round of Thompson sampling does.

        Args:
            key: the round's own.
            model: of all arms.
            state: as `init` or the last `refresh` returned it.

        Returns:
            θ of every arm, of shape `(arms, model.dim)`.
        """
        raise NotImplementedError

    def check_model(self, model: Model) -> Belief:
        """Refuse a model that it cannot hold, or take what it needs from it; called once, by `Thompson`.

        Args:
            model: of all arms.

        Returns:
            The belief that is used: by default itself.

        Raises:
            ConfigError: what the model lacks.
        """
        return self

    def incremental(self, model: Model) -> bool:
        """Whether `refresh` is a few operations an arm, so that running it every round beats waiting.

        Args:
            model: of all arms.

        Returns:
            False by default.
        """
        return False

    starts_from_prior = default(False)
    """Whether a refresh on no data leaves the state that `init` gave."""
    plain_memory = default(False)
    """Whether what is remembered is the model's summary or a log of rows: rewards can then be added many at a time."""
    draws_posterior = default(False)
    """Whether `draw` is a draw from the posterior (of a chain: as near as its chains come)."""
    draws_members = default(False)
    """Whether an arm with data draws one of `members`, each with the same probability, of the mean reward `values`."""

    privacy = default(None)
    """A `privacy.Guarantee`, where what is drawn depends on private releases alone."""

    def laws(self, model: Model, state: Tree, obs: Tree) -> marginal.Marginal | None:
        """The distributions of the arms' mean rewards under `draw`.

        Args:
            model: of all arms.
            state: that of the batch.
            obs: the context of every arm, with the arms as first axis; `()` without contexts.

        Returns:
            The distributions, stacked over arms; None, the default, without a closed form.
        """
        return None

    def normal(self, model: Model, state: Tree) -> Normal | None:
        """The distributions of θ under `draw`, where they are normal.

        Args:
            model: of all arms.
            state: that of the batch.

        Returns:
            Mean and root of the covariance of every arm; None, the default, where they are not normal.
        """
        return None

    @optional
    def members(self, state: Tree) -> Float[Array, "arms size dim"]:
        """What an arm with data draws from, where `draws_members`.

        Args:
            state: that of the batch.

        Returns:
            The parameters, of shape `(arms, size, dim)`.
        """
        raise NotImplementedError

    @optional
    def values(self, model: Model, thetas: Float[Array, "arms size dim"], obs: Tree) -> Float[Array, "arms size"]:
        """The mean reward at every member.

        Args:
            model: of all arms.
            thetas: the members.
            obs: the context of every arm, with the arms as first axis; `()` without contexts.

        Returns:
            The mean rewards, of shape `(arms, size)`.
        """
        raise NotImplementedError
