"""What a learner keeps of its rounds: a log of rows, or summaries of them."""

from .log import Log as Log
from .log import block_of as block_of
from .recent import Recent as Recent
from .recent import example_row as example_row
from .recent import told_again as told_again
from .summaries import counts_of as counts_of
from .summaries import remember_summary as remember_summary
