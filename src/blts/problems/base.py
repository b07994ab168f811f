"""What a problem is."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import envs, models
from ..dynamics import Dynamics
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
        return "table" if isinstance(model, models.Tabular) else "parametric" if isinstance(model, Dynamics) else "bandit"

    def drawn(self, prior: str | None = None) -> Problem:
        """The same problem with each replication's world drawn from the prior: its mean regret is the Bayesian regret."""
        model, env = self.model(prior), self.env
        if isinstance(env, envs.Bandit):
            return self._replace(env=envs.Bandit(model, arms=env.actions))
        if isinstance(env, envs.LinearBandit):
            return self._replace(env=envs.LinearBandit(models.stack(model, env.actions)))
        if isinstance(env, envs.MDP | envs.DrawnMDP):
            return self._replace(env=envs.DrawnMDP(model))
        if isinstance(env, envs.ParametricMDP):
            return self._replace(env=envs.ParametricMDP(model, drawn=True))
        raise ConfigError("Recorded rewards cannot be drawn from a prior; leave out --drawn.")
