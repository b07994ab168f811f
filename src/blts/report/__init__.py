"""Reports of stored studies: tables, figures, comparisons, and one HTML page. Importing this loads no JAX and no matplotlib."""

from .markdown import insert as insert
from .markdown import markdown_table as markdown_table
from .outcome import Outcome as Outcome
from .writing import check_libraries as check_libraries
from .writing import outcomes_of as outcomes_of
from .writing import tables_of as tables_of
from .writing import write as write
