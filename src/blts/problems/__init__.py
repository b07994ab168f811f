"""Named problems: an environment, the models (with their priors) that agents may use, and a horizon."""

from . import bandits as bandits
from . import contextual as contextual
from . import drifting as drifting
from . import mdps as mdps
from .base import PRIORS as PRIORS
from .base import Problem as Problem
from .optimum import optimum as optimum
