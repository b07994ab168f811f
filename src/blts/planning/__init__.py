"""Policies that are best on average in the long run, each with a certificate."""

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
