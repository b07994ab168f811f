"""What decisions are made about."""

from .bandit import Bandit as Bandit
from .base import Env as Env
from .base import Step as Step
from .bootstrap import Bootstrap as Bootstrap
from .bootstrap import rand_hie as rand_hie
from .linear import LinearBandit as LinearBandit
