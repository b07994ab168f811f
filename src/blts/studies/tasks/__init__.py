"""The tasks of studies. Importing this registers them."""

from .counts import Counts as Counts
from .gradients import Gradients as Gradients
from .posterior import Posterior as Posterior
from .rows import RowsTask as RowsTask
from .simulate import Simulate as Simulate
