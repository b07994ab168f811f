"""Batched Langevin Thompson Sampling.

Names are loaded when they are first used, so that `import blts` and `blts --help` do not wait for JAX.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import agents as agents
    from . import batching as batching
    from . import dynamics as dynamics
    from . import envs as envs
    from . import live as live
    from . import models as models
    from . import planning as planning
    from . import random as random
    from . import samplers as samplers
    from . import theory as theory
    from ._module import array as array
    from ._module import from_json as from_json
    from ._module import module as module
    from ._module import static as static
    from ._module import to_json as to_json
    from ._typing import Info as Info
    from ._typing import Played as Played
    from ._typing import Row as Row
    from .agents import PSRL as PSRL
    from .agents import UCB1 as UCB1
    from .agents import UCRL2 as UCRL2
    from .agents import Agent as Agent
    from .agents import BayesUCB as BayesUCB
    from .agents import Belief as Belief
    from .agents import EpsilonGreedy as EpsilonGreedy
    from .agents import Exact as Exact
    from .agents import Follow as Follow
    from .agents import Parameters as Parameters
    from .agents import Perturb as Perturb
    from .agents import Pool as Pool
    from .agents import Rows as Rows
    from .agents import SuccessiveElimination as SuccessiveElimination
    from .agents import Thompson as Thompson
    from .agents import Uniform as Uniform
    from .batching import Batching as Batching
    from .batching import DoubledSinceSwitch as DoubledSinceSwitch
    from .batching import DoublingCounts as DoublingCounts
    from .batching import Fixed as Fixed
    from .batching import Geometric as Geometric
    from .batching import Grid as Grid
    from .batching import Sequential as Sequential
    from .batching import StaticDoubling as StaticDoubling
    from .catalogue import condition as condition
    from .dynamics import Dynamics as Dynamics
    from .envs import MDP as MDP
    from .envs import Bandit as Bandit
    from .envs import Bootstrap as Bootstrap
    from .envs import DrawnMDP as DrawnMDP
    from .envs import Env as Env
    from .envs import LinearBandit as LinearBandit
    from .envs import ParametricMDP as ParametricMDP
    from .envs import Step as Step
    from .errors import BltsError as BltsError
    from .errors import ConfigError as ConfigError
    from .inference import posterior as posterior
    from .models import Bernoulli as Bernoulli
    from .models import Exponential as Exponential
    from .models import Gamma as Gamma
    from .models import Gaussian as Gaussian
    from .models import GaussianUnknownVariance as GaussianUnknownVariance
    from .models import Laplace as Laplace
    from .models import Linear as Linear
    from .models import LogNormal as LogNormal
    from .models import Model as Model
    from .models import Poisson as Poisson
    from .models import StudentT as StudentT
    from .models import Tabular as Tabular
    from .models import ZeroInflatedLogNormal as ZeroInflatedLogNormal
    from .models import from_functions as from_functions
    from .models import from_numpyro as from_numpyro
    from .problems import Problem as Problem
    from .registry import register as register
    from .samplers import MALA as MALA
    from .samplers import Chain as Chain
    from .samplers import ExactRows as ExactRows
    from .samplers import Langevin as Langevin
    from .samplers import LogGammaRows as LogGammaRows
    from .samplers import Mirrored as Mirrored
    from .samplers import MirroredRows as MirroredRows
    from .samplers import Sampler as Sampler
    from .samplers import mala as mala
    from .samplers import sgld as sgld
    from .samplers import ula as ula
    from .simulation import simulate as simulate
    from .trace import Trace as Trace

__version__ = "0.1.0"

_WHERE = {
    "_module": ("array", "from_json", "module", "static", "to_json"),
    "_typing": ("Info", "Played", "Row"),
    "agents": (
        *("PSRL", "UCB1", "UCRL2", "Agent", "BayesUCB", "Belief", "EpsilonGreedy", "Exact", "Follow", "Parameters", "Perturb"),
        *("Pool", "Rows", "SuccessiveElimination", "Thompson", "Uniform"),
    ),
    "batching": ("Batching", "DoubledSinceSwitch", "DoublingCounts", "Fixed", "Geometric", "Grid", "Sequential", "StaticDoubling"),
    "catalogue": ("condition",),
    "dynamics": ("Dynamics",),
    "envs": ("MDP", "Bandit", "Bootstrap", "DrawnMDP", "Env", "LinearBandit", "ParametricMDP", "Step"),
    "errors": ("BltsError", "ConfigError"),
    "inference": ("posterior",),
    "models": (
        *("Bernoulli", "Exponential", "Gamma", "Gaussian", "GaussianUnknownVariance", "Laplace", "Linear", "LogNormal"),
        *("Model", "Poisson", "StudentT", "Tabular", "ZeroInflatedLogNormal", "from_functions", "from_numpyro"),
    ),
    "problems": ("Problem",),
    "registry": ("register",),
    "samplers": (
        *("MALA", "Chain", "ExactRows", "Langevin", "LogGammaRows", "Mirrored", "MirroredRows", "Sampler"),
        *("mala", "sgld", "ula"),
    ),
    "simulation": ("simulate",),
    "trace": ("Trace",),
}
_MODULES = ("agents", "batching", "dynamics", "envs", "live", "models", "planning", "random", "samplers", "theory")
_HOME = {name: module for module, names in _WHERE.items() for name in names}
_ABSENT = () if importlib.util.find_spec("sqlalchemy") else ("live",)
"""Modules whose library is not installed: `from blts import *` leaves them out, `blts.live` says what to install."""
_OFFERED = tuple(name for name in _MODULES if name not in _ABSENT)
__all__ = [*sorted(_HOME), *_OFFERED]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'blts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_HOME, *_MODULES, "__version__"]
