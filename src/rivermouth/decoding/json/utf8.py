"""Whether bytes are UTF-8, in the form that costs least where they are."""

from __future__ import annotations

from typing import Final

REPLACEMENT: Final = "\ufffd"


def is_utf8(binary: str) -> str:
    """SQL: whether a binary column is valid UTF-8; null where it is null.

    Java decodes bytes to text with fast code and puts U+FFFD where they are wrong, so text without U+FFFD
    was valid. Only text with it is looked at byte by byte, which is slower.

    Args:
        binary: Name of the column.
    """
    text = f"CAST({binary} AS STRING)"
    return f"(size(split({text}, '{REPLACEMENT}')) = 1 OR is_valid_utf8({text}))"
