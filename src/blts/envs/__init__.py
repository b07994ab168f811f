"""What decisions are made about."""

from .bandit import Bandit as Bandit
from .base import Env as Env
from .base import Step as Step
