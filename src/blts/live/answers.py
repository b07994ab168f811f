"""What an experiment answers. The types are also those of `blts.client`, which needs no database: they are in `blts.answers`."""

from __future__ import annotations

from ..answers import Answer as Answer
from ..answers import Decision as Decision
from ..answers import Page as Page
from ..answers import Refreshed as Refreshed
from ..answers import Told as Told


def rewards_in_words(count: int) -> str:
    return f"{count} reward{'' if count == 1 else 's'}"
