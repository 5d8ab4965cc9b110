"""Records that the Kinesis Producer Library has put together into one. Pure.

Four bytes, a message of Protobuf, and the MD5 of the message: https://github.com/awslabs/amazon-kinesis-producer, in
``aggregation-format.md``. The message has a table of partition keys (field 1) and records (field 3). A record has the
place of its key in the table (field 1) and its data (field 3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

_MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST: Final = 16
_KEYS: Final = 1
_RECORDS: Final = 3
_KEY: Final = 1
_DATA: Final = 3
_VARINT: Final = 0
_BYTES: Final = 2
_MORE: Final = 0x80


def parts(data: bytes) -> list[tuple[str, bytes]] | None:
    """The records that one was made of, each as partition key and data; None where it is one record itself."""
    message, digest = data[len(_MAGIC) : -_DIGEST], data[-_DIGEST:]
    if not data.startswith(_MAGIC) or hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return None
    keys, found = [], []
    try:
        for number, value in _fields(message):
            if number == _KEYS and isinstance(value, bytes):
                keys.append(value.decode())
            elif number == _RECORDS and isinstance(value, bytes):
                record = dict(_fields(value))
                found.append((record[_KEY], record.get(_DATA, b"")))
        return [(keys[place], content) for place, content in found]  # type: ignore[index,misc]
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers and bytes.

    Raises:
        IndexError: It ends too early.
        ValueError: It has a field of another kind.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        value, at = _varint(message, at)
        if kind == _VARINT:
            yield number, value
        elif kind == _BYTES:
            if at + value > len(message):
                raise IndexError
            yield number, message[at : at + value]
            at += value
        else:
            raise ValueError(kind)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & ~_MORE) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return value, at
