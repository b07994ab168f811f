"""What is believed about rewards."""

from .arms import arm as arm
from .arms import arm_count as arm_count
from .arms import first_arm as first_arm
from .arms import numbers_of as numbers_of
from .arms import stack as stack
from .base import Model as Model
from .base import Theory as Theory
from .base import require_model as require_model
from .bernoulli import Bernoulli as Bernoulli
from .functions import from_functions as from_functions
from .gaussian import Gaussian as Gaussian
from .gaussian import GaussianUnknownVariance as GaussianUnknownVariance
from .linear import Linear as Linear
from .location import Laplace as Laplace
from .location import StudentT as StudentT
from .moments import Moments as Moments
from .numpyro import from_numpyro as from_numpyro
from .poisson import Poisson as Poisson
from .positive import Exponential as Exponential
from .positive import Gamma as Gamma
from .positive import LogNormal as LogNormal
from .positive import ZeroInflatedLogNormal as ZeroInflatedLogNormal
from .tabular import Tabular as Tabular
