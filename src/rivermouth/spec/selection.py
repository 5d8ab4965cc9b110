"""What ``select`` says, as far as its words tell it."""

from __future__ import annotations

import re
from typing import Final

# All columns that the format reads, or all but some of them; those of the way stand beside them.
STAR: Final = re.compile(r"^\s*\*")


def is_star(expression: str) -> bool:
    """Whether it stands for all columns that the format reads, or all but some."""
    return STAR.match(expression) is not None
