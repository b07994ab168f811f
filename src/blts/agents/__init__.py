"""Who decides."""

from .base import Agent as Agent
from .beliefs import Belief as Belief
from .beliefs import Exact as Exact
from .beliefs import LaplaceApproximation as LaplaceApproximation
from .beliefs import LastLayer as LastLayer
from .beliefs import Perturb as Perturb
from .beliefs import Pool as Pool
from .beliefs import Tempered as Tempered
from .conversions import Conversions as Conversions
from .estimates import UCB as UCB
from .estimates import Greedy as Greedy
from .estimates import SquareCB as SquareCB
from .index import UCB1 as UCB1
from .index import BayesUCB as BayesUCB
from .index import EpsilonGreedy as EpsilonGreedy
from .index import SuccessiveElimination as SuccessiveElimination
from .index import Uniform as Uniform
from .oful import OFUL as OFUL
from .psrl import PSRL as PSRL
from .psrl import Follow as Follow
from .thompson import Thompson as Thompson
from .transitions import Parameters as Parameters
from .transitions import Rows as Rows
from .ucrl2 import UCRL2 as UCRL2
