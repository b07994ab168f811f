"""What is believed about rewards."""

from .base import Conjugate as Conjugate
from .base import Model as Model
from .base import Moments as Moments
from .base import Sufficient as Sufficient
from .base import Theory as Theory
from .base import stack as stack
from .bernoulli import Bernoulli as Bernoulli
from .custom import from_functions as from_functions
from .custom import from_numpyro as from_numpyro
from .gaussian import Gaussian as Gaussian
from .gaussian import GaussianUnknownVariance as GaussianUnknownVariance
from .linear import Linear as Linear
from .location import Laplace as Laplace
from .location import StudentT as StudentT
from .poisson import Poisson as Poisson
from .positive import Exponential as Exponential
from .positive import Gamma as Gamma
from .positive import LogNormal as LogNormal
from .positive import ZeroInflatedLogNormal as ZeroInflatedLogNormal
from .tabular import Tabular as Tabular
