"""Confluent's framing of values: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_FIRST: Final = (0,)
_LOW_BITS: Final = 0x7F


def frame(schema_id: int, place: Sequence[int] | None = None) -> bytes:
    """What comes before a value: a zero, the id of its schema, and of Protobuf which message of its file it is.

    Args:
        schema_id: The id of the schema in its registry.
        place: Of Protobuf the number of the message among its siblings, behind that of what it is nested in.
    """
    found = b"\0" + schema_id.to_bytes(4, "big", signed=True)
    if place is None:
        return found
    numbers = (0,) if tuple(place) == _FIRST else (len(place), *place)
    return found + b"".join(map(_zigzag, numbers))


def _zigzag(number: int) -> bytes:
    """A number of Protobuf's type sint32 that is not negative."""
    rest, found = number << 1, bytearray()
    while rest > _LOW_BITS:
        found.append(rest & _LOW_BITS | 0x80)
        rest >>= 7
    return bytes([*found, rest])
