"""Planners for average-reward MDPs. Every plan carries a bound on what its policy loses (`Plan.residual`).

`plan` solves thousands of sampled models at each refresh, `solve` one model in double precision or raises; both try the methods
`howard` (policy iteration) and `relative_value_iteration`. `structure` gives the communicating classes of a model.
"""

from .base import Plan as Plan
from .base import Sparse as Sparse
from .base import expected as expected
from .base import residual as residual
from .batch import plan as plan
from .checks import check as check
from .classes import Structure as Structure
from .classes import structure as structure
from .policy_iteration import howard as howard
from .solution import NotConverged as NotConverged
from .solution import solve as solve
from .value_iteration import relative_value_iteration as relative_value_iteration
