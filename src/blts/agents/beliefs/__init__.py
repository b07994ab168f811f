"""What is frozen within a batch, and how each round draws from it: exactly, around a chain's end, or from a pool."""

from .base import Belief as Belief
from .choice import DEFAULT_STEPS as DEFAULT_STEPS
from .choice import default_belief as default_belief
from .discounted import Discounted as Discounted
from .exact import Exact as Exact
from .laplace import LaplaceApproximation as LaplaceApproximation
from .last_layer import LastLayer as LastLayer
from .perturb import Perturb as Perturb
from .pool import Pool as Pool
from .private import Private as Private
from .restarting import Restarting as Restarting
from .tempered import Tempered as Tempered
from .windowed import Windowed as Windowed
