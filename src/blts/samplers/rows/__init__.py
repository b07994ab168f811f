"""How rows of transition probabilities are drawn."""

from .base import BLOCK as BLOCK
from .base import Draw as Draw
from .base import RowSampler as RowSampler
from .exact import ExactRows as ExactRows
from .log_gamma import LogGammaRows as LogGammaRows
from .mirrored import MirroredRows as MirroredRows
