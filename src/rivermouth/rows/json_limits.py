"""How deep, long and large JSON may be: the limits of Jackson, to which every reader here is held."""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 1000
MAX_NUMBER: Final = 1000
MAX_NAME: Final = 50_000
MAX_STRING: Final = 20_000_000
MAX_VARIANT: Final = 1 << 24

_OUTSIDE_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def deeper_than(limit: int, text: str) -> bool:
    """Whether the brackets of a JSON text are nested deeper than that."""
    depth = 0
    for token in _OUTSIDE_STRINGS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > limit:
                return True
        elif token[0] in "]}":
            depth -= 1
    return False


def characters(text: str) -> int:
    """As Jackson counts them: in units of UTF-16. Counted only where it can matter."""
    return len(text) if 2 * len(text) <= MAX_STRING else len(text.encode("utf-16-le", "surrogatepass")) // 2
