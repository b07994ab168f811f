"""Studies: specs, the store of their results, and the engines that compute them. Importing this loads no JAX."""

from .engines import engine_named as engine_named
from .reading import plan_file as plan_file
from .reading import read as read
from .running import Shard as Shard
from .running import run as run
from .spec import Cell as Cell
from .spec import Study as Study
from .store import Heading as Heading
from .store import Result as Result
from .store import Store as Store
