"""What ``select`` says, as far as its words tell it."""

from __future__ import annotations

import re
from typing import Final

# All columns that the format reads, or all except some. Internal columns (``__…``) are separate from them.
STAR: Final = re.compile(r"^\s*\*")


def is_star(expression: str) -> bool:
    """Whether the expression means all columns that the format reads, or all except some."""
    return STAR.match(expression) is not None
