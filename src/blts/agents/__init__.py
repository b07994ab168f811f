"""Who decides."""

from .base import Agent as Agent
from .beliefs import Exact as Exact
from .beliefs import Perturb as Perturb
from .beliefs import Pool as Pool
from .index import UCB1 as UCB1
from .index import BayesUCB as BayesUCB
from .index import EpsilonGreedy as EpsilonGreedy
from .index import SuccessiveElimination as SuccessiveElimination
from .index import Uniform as Uniform
from .thompson import Thompson as Thompson
