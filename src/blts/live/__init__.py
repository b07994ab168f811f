"""Live experiments: ask for decisions, tell rewards when they come, lose nothing."""

try:
    import sqlalchemy as sqlalchemy
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'Live experiments need SQLAlchemy; install it with: pip install "blts[live]".', name="sqlalchemy"
    ) from None

from .experiment import Answer as Answer
from .experiment import Decision as Decision
from .experiment import Experiment as Experiment
from .experiment import Refreshed as Refreshed
from .experiment import Told as Told
from .spec import Arm as Arm
from .spec import Spec as Spec
