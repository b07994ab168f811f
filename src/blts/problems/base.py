"""`Problem`: what a named environment consists of."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import envs, models
from ..declared import provides
from ..dynamics import Dynamics
from ..dynamics.base import why_not
from ..errors import ConfigError, UnknownName

PRIORS = {
    "informative": "The prior that knows the order of the arms, as in the paper's experiments.",
    "uninformative": "The same weak prior for every arm.",
    "gaussian": "Wrong on purpose: Gaussian rewards of unknown variance, where they are nothing like it.",
    "uniform": "Dirichlet(1) rows of transitions, as in the paper's experiments.",
    "sparse": "Dirichlet(1/S) rows of transitions: most next states are unlikely.",
    "own": "The prior that a parametric world states, or that the arms of a contextual bandit are drawn from.",
    "weak": "A prior five times as wide as that: the ridge parameter 0.01 where the noise has sd 0.5.",
}


class Problem(NamedTuple):
    """An environment under a name, with the models that agents may use for it.

    Args:
        env: the environment, such as a `Bandit`.
        priors: a dict from the names of priors to the agents' model with that prior; the first is the default.
        horizon: the default number of rounds.

    >>> from blts import Bandit, Bernoulli, Problem
    >>> Problem(Bandit.with_means(Bernoulli(), [0.1, 0.3]), {"uninformative": Bernoulli()}, horizon=500).world
    'bandit'
    """

    env: Any
    """The environment."""
    priors: dict[str, Any]
    """The model for each named prior; the first is the default."""
    horizon: int
    """The default number of rounds."""

    def model(self, prior: str | None = None) -> Any:
        """The agent's model.

        Args:
            prior: a name in `priors`; by default the first.

        Returns:
            The model.

        Raises:
            UnknownName: there is no such prior.
        """
        name = next(iter(self.priors)) if prior is None else prior
        if name not in self.priors:
            raise UnknownName("prior", name, self.priors)
        return self.priors[name]

    @property
    def world(self) -> str:
        """The kind of environment, which decides which agents fit: "bandit", "contextual" (a bandit with contexts), "table" (a
        tabular MDP) or "parametric" (an MDP with θ ∈ R^d).

        Raises:
            ConfigError: the dynamics has lost a method that it needs.
        """
        model = self.model()
        if isinstance(model, models.Tabular):
            return "table"
        if isinstance(self.env, envs.ParametricMDP) and (why := why_not(model)) is not None:
            raise ConfigError(why)
        if provides(model, Dynamics):
            return "parametric"
        return "contextual" if isinstance(model, models.Model) and model.contextual else "bandit"

    def drawn(self, prior: str | None = None) -> Problem:
        """The same problem with an environment that each replication draws from the prior (Bayesian regret).

        Args:
            prior: a name in `priors`; by default the first.

        Returns:
            The problem.

        Raises:
            ConfigError: this kind of environment cannot be drawn from a prior.
        """
        model, env = self.model(prior), self.env
        kind = type(env)  # not isinstance: a subclass would be replaced by its base class
        if kind is envs.Bandit:
            return self._replace(env=envs.Bandit(model, arms=env.actions))
        if kind is envs.Contextual:
            return self._replace(env=envs.Contextual(model, env.contexts, None, env.actions, env.shared, env.features))
        if kind in (envs.MDP, envs.DrawnMDP):
            return self._replace(env=envs.DrawnMDP(model, env.law, env.sd))
        if kind is envs.ParametricMDP:
            return self._replace(env=envs.ParametricMDP(model, drawn=True))
        if kind in (envs.Bootstrap, envs.Classification):
            raise ConfigError("Recorded rewards cannot be drawn from a prior; leave out --drawn.")
        raise ConfigError(f"How a {kind.__name__} is drawn from a prior is not known; leave out --drawn, or draw it in its reset.")
