"""A model whose rows have weights."""

from __future__ import annotations

from typing import NamedTuple

from .._module import module
from .._typing import Scalar, Tree
from .base import Model


class Weighed(NamedTuple):
    """What a row with a weight shows: the weight, and what the model is shown."""

    weight: Scalar
    obs: Tree


@module
class Weighted(Model):
    """Another model, with a likelihood in which each row counts as often as its weight says: Σ weight · log p(row | θ).

    Its rows show a `Weighed`. It has no summary: potentials sum over rows.

    Args:
        model: the other model, of one arm or stacked.
    """

    model: Model

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def contextual(self) -> bool:
        return self.model.contextual

    @property
    def log_concave(self) -> bool:
        return self.model.log_concave

    @property
    def identifiable(self) -> bool:
        return self.model.identifiable

    def init(self, key):
        return self.model.init(key)

    def log_prior(self, theta):
        return self.model.log_prior(theta)

    def log_likelihood(self, theta, row):
        return row.obs.weight * self.model.log_likelihood(theta, row._replace(obs=row.obs.obs))

    def mean_reward(self, theta, obs, action):
        return self.model.mean_reward(theta, obs.obs if isinstance(obs, Weighed) else obs, action)

    def information(self, theta):
        return self.model.information(theta)

    def row_information(self, theta, obs):
        return obs.weight * self.model.row_information(theta, obs.obs)

    def prior_precision(self):
        return self.model.prior_precision()

    def theory(self):
        return self.model.theory()
