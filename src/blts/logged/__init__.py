"""Logged data: what another policy than the present one would have earned, and agents that learn from a log."""

from .evaluation import Evaluation as Evaluation
from .evaluation import Value as Value
from .evaluation import compare as compare
from .evaluation import constant_values as constant_values
from .evaluation import evaluate as evaluate
from .evaluation import logged_value as logged_value
from .log import Log as Log
from .log import read_log as read_log
from .policies import policy_of as policy_of
from .replaying import Replay as Replay
from .replaying import learn as learn
from .replaying import replay as replay
from .reward_models import ridge as ridge
