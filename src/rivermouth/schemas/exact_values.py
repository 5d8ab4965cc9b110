"""Whether types keep all that a document says: each digit of a number, each part of a second.

Plain Python beside ``json.Exact`` in Spark's JVM, which says the same.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Final

_LESS_THAN_MICROS: Final = re.compile(r"[.][0-9]{6}0*[1-9]")


def is_double(text: str) -> bool:
    """Whether a double is a number of JSON: the very same, or the one that is written as its shortest text."""
    nearest = float(text)
    if math.isinf(nearest):
        return False
    try:
        sent = Decimal(text)
    except InvalidOperation:
        # Of an exponent without end only a zero is what it is.
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    return sent == Decimal(repr(nearest)) or sent == Decimal(nearest)


def is_micros(text: str) -> bool:
    """Whether the text of a time says nothing that is less than a microsecond."""
    found = _LESS_THAN_MICROS.search(text)
    return found is None or found.start() != text.find(".")
