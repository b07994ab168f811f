"""Batching schemes: after which rounds the agent sees its rewards and the posterior is refreshed."""

from .aged import Aged as Aged
from .asking import Asking as Asking
from .asking import Clocked as Clocked
from .asking import PlaysDoubled as PlaysDoubled
from .asking import PrecisionGrown as PrecisionGrown
from .base import Batching as Batching
from .chance import Geometric as Geometric
from .choice import OneOf as OneOf
from .clock import Fixed as Fixed
from .clock import Grid as Grid
from .clock import Sequential as Sequential
from .clock import StaticDoubling as StaticDoubling
from .counts import DoubledSinceSwitch as DoubledSinceSwitch
from .counts import DoublingCounts as DoublingCounts
from .determinant import Determinant as Determinant
from .exchanges import Exchanges as Exchanges
