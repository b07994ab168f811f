"""Problems by name: an environment with the beliefs that agents may start from."""

from . import bandits as bandits
from . import mdps as mdps
from .base import PRIORS as PRIORS
from .base import Problem as Problem
from .optimum import optimum as optimum
