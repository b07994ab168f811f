"""Live experiments: ask for decisions, tell rewards when they come, lose nothing."""

from .experiment import Answer as Answer
from .experiment import Decision as Decision
from .experiment import Experiment as Experiment
from .experiment import Refreshed as Refreshed
from .experiment import Told as Told
from .spec import Arm as Arm
from .spec import Spec as Spec
