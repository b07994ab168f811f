"""What a problem is."""

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
    "own": "The prior that a parametric world states.",
}


class Problem(NamedTuple):
    env: Any
    priors: dict[str, Any]
    """A model for each prior; the first is the usual one."""
    horizon: int

    def model(self, prior: str | None = None) -> Any:
        name = next(iter(self.priors)) if prior is None else prior
        if name not in self.priors:
            raise UnknownName("prior", name, self.priors)
        return self.priors[name]

    @property
    def world(self) -> str:
        """What kind of agent can play: "bandit", "table" (a tabular MDP) or "parametric" (θ ∈ R^d)."""
        model = self.model()
        if isinstance(model, models.Tabular):
            return "table"
        if isinstance(self.env, envs.ParametricMDP) and (why := why_not(model)) is not None:
            raise ConfigError(why)
        return "parametric" if provides(model, Dynamics) else "bandit"

    def drawn(self, prior: str | None = None) -> Problem:
        """The same problem with each replication's world drawn from the prior: its mean regret is the Bayesian regret."""
        model, env = self.model(prior), self.env
        kind = type(env)  # and not what it inherits from: a subclass would be replaced by the plain class
        if kind is envs.Bandit:
            return self._replace(env=envs.Bandit(model, arms=env.actions))
        if kind is envs.LinearBandit:
            return self._replace(env=envs.LinearBandit(models.stack(model, env.actions)))
        if kind in (envs.MDP, envs.DrawnMDP):
            return self._replace(env=envs.DrawnMDP(model, env.law, env.sd))
        if kind is envs.ParametricMDP:
            return self._replace(env=envs.ParametricMDP(model, drawn=True))
        if kind is envs.Bootstrap:
            raise ConfigError("Recorded rewards cannot be drawn from a prior; leave out --drawn.")
        raise ConfigError(f"How a {kind.__name__} is drawn from a prior is not known; leave out --drawn, or draw it in its reset.")
