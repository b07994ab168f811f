"""`blts experiment`: live experiments from a shell.

Exit codes: 0 done, 1 an error of ours, 2 refused (one sentence says why), 3 a refresh, or all decisions that were asked for,
must wait, 4 `verify` found differences, 5 `tell` had no rows or accepted none, or with `--strict` not all.
"""

# The order of these imports is that of the commands in --help.
# isort: off
from . import rehearsing as rehearsing
from . import creating as creating
from . import running as running
from . import looking as looking
from . import changing as changing
from .base import app as app
