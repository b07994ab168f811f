"""Names: agents, batching schemes, models and published methods that the command line and studies refer to.

`condition` builds the objects of one simulation from names. Environments are named in `problems`.
"""

from .. import problems as problems  # registers the environments
from ..agents import Agent
from ..batching import Batching
from ..models import Model
from ..problems import Problem
from ..registry import builds
from ..samplers import Chain
from . import bandit_agents as bandit_agents
from . import batching as batching
from . import contextual_agents as contextual_agents
from . import late as late
from . import mdp_agents as mdp_agents
from . import methods as methods
from . import models as models
from . import stopping as stopping
from .condition import Condition as Condition
from .condition import condition as condition
from .methods import Method as Method

for _kind, _base in {"agent": Agent, "batching": Batching, "environment": Problem, "model": Model, "sampler": Chain}.items():
    builds(_kind, _base)
