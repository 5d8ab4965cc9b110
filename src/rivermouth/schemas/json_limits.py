"""How deep, long and large JSON may be: the limits of Jackson and of Spark's VARIANT, to which every reader is held."""

from __future__ import annotations

import re
from typing import Final

from rivermouth import names

MAX_DEPTH: Final = 1000
"""Levels of objects and arrays."""
MAX_NUMBER: Final = 1000
"""Characters of a number."""
MAX_NAME: Final = 50_000
"""Characters of a field's name."""
MAX_STRING: Final = 20_000_000
"""Characters of a string, as ``characters`` counts them."""
MAX_VARIANT: Final = 1 << 24
"""Bytes of a VARIANT."""

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
    """How long a text is to Jackson, in units of UTF-16; too few are counted only where that is far from the limit."""
    return len(text) if 2 * len(text) <= MAX_STRING else len(text.encode("utf-16-le", "surrogatepass")) // 2


SAMPLE_EVERY: Final = 1024
"""The sample has this many offsets at the start of a partition, and then every offset that is a multiple of it."""
SAMPLED: Final = f"({names.OFFSET} < {SAMPLE_EVERY} OR pmod({names.OFFSET}, {SAMPLE_EVERY}) = 0) AND {names.DECODED}"
"""SQL: whether a record is looked at for fields that the schema does not have."""
