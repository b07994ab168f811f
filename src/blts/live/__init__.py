"""Live experiments: ask for decisions, tell rewards when they come, lose nothing."""

try:
    import sqlalchemy as sqlalchemy
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'Live experiments need SQLAlchemy; install it with: pip install "blts[live]".', name="sqlalchemy"
    ) from None

from .answers import Answer as Answer
from .answers import Decision as Decision
from .answers import Refreshed as Refreshed
from .answers import Told as Told
from .experiment import Experiment as Experiment
from .parts import Arm as Arm
from .spec import Spec as Spec
