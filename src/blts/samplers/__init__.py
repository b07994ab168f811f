"""How the posterior is drawn."""

from .baoab import BAOAB as BAOAB
from .baoab import baoab as baoab
from .base import Potential as Potential
from .base import Sampler as Sampler
from .base import State as State
from .base import StepInfo as StepInfo
from .blackjax import BlackJAX as BlackJAX
from .blackjax import hmc as hmc
from .blackjax import nuts as nuts
from .chain import Chain as Chain
from .chain import mala as mala
from .chain import sgld as sgld
from .chain import ula as ula
from .exponential import ExponentialIntegrator as ExponentialIntegrator
from .exponential import ulmc as ulmc
from .langevin import Langevin as Langevin
from .metropolis import MALA as MALA
from .mirror import Entropic as Entropic
from .mirror import Identity as Identity
from .mirror import LogBarrier as LogBarrier
from .mirror import Mirror as Mirror
from .mirrored import Mirrored as Mirrored
from .rows import ExactRows as ExactRows
from .rows import LogGammaRows as LogGammaRows
from .rows import MirroredRows as MirroredRows
from .rows import RowSampler as RowSampler
