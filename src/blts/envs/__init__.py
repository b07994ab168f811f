"""Environments: bandits and average-reward MDPs that pay rewards."""

from .bandit import Bandit as Bandit
from .base import Arrival as Arrival
from .base import Env as Env
from .base import Step as Step
from .bootstrap import Bootstrap as Bootstrap
from .bootstrap import rand_hie as rand_hie
from .classification import Classification as Classification
from .contextual import Contextual as Contextual
from .datasets import dataset as dataset
from .garnet import garnet as garnet
from .gymnasium import from_gymnasium as from_gymnasium
from .gymnasium import states_of as states_of
from .late import Late as Late
from .parametric import ParametricMDP as ParametricMDP
from .riverswim import riverswim as riverswim
from .riverswim import riverswim_paper as riverswim_paper
from .riverswim import riverswim_strehl as riverswim_strehl
from .riverswim import strens_chain as strens_chain
from .sources import ConstantColumn as ConstantColumn
from .sources import ContextTable as ContextTable
from .sources import GaussianContexts as GaussianContexts
from .tabular import MDP as MDP
from .tabular import DrawnMDP as DrawnMDP
from .wheel import Wheel as Wheel
