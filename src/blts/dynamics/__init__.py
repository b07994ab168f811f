"""Worlds with a parameter vector: what is believed of it, how it is planned, how it moves."""

from .admission import Admission as Admission
from .admission import Queue as Queue
from .base import Certified as Certified
from .base import Dynamics as Dynamics
from .custom import Parametric as Parametric
from .custom import from_probabilities as from_probabilities
from .finite import Finite as Finite
from .inventory import Inventory as Inventory
from .linear_quadratic import Feedback as Feedback
from .linear_quadratic import LinearQuadratic as LinearQuadratic
from .lost_sales import LostSales as LostSales
from .oracle import GridPosterior as GridPosterior
from .oracle import quadrature as quadrature
from .recommender import Recommender as Recommender
from .recommender import recommender as recommender
from .replacement import Replacement as Replacement
from .riverswim import LogitRiverSwim as LogitRiverSwim
from .rollout import Rollout as Rollout
from .rollout import rollout as rollout
from .transitions import Transitions as Transitions
from .transitions import summary_of as summary_of
