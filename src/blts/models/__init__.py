"""What is believed about rewards."""

from .base import Conjugate as Conjugate
from .base import Model as Model
from .base import Moments as Moments
from .base import Sufficient as Sufficient
from .base import Theory as Theory
from .base import stack as stack
from .gaussian import Gaussian as Gaussian
from .gaussian import GaussianUnknownVariance as GaussianUnknownVariance
