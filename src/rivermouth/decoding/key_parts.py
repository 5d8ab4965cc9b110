"""Parts of Kafka's key as values of key columns: exactly as they were sent, or null.

A key that is rounded or wrapped around to another one would delete the row of that other key.
"""

from __future__ import annotations

from itertools import count

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json import json_types
from rivermouth.decoding.text import text_types


def of_text(text: str, declared: T.DataType) -> str:
    """SQL of the declared type for a text; null where the text does not fit. Blanks around it are ignored.

    Binary is the bytes of the text.
    """
    if isinstance(declared, T.StringType):
        return text
    if isinstance(declared, T.BinaryType) or not text_types.is_read(declared):
        return f"try_cast({text} AS {declared.simpleString()})"
    return text_types.of_text(f"trim({text})", declared)


def of_json(read: str, declared: T.DataType) -> str:
    """SQL of the declared type for a field that was read as ``json_types.read_as`` says; null where it does not fit."""
    numbers = count()
    misfit = json_types.misfit(read, declared, numbers)
    done = json_types.convert(read, declared, numbers)
    return f"IF(coalesce({misfit}, false), NULL, {done})" if misfit else done


def of_value(value: str, kind: T.DataType, declared: T.DataType) -> str:
    """SQL of the declared type for a value of the type ``kind``; null where the value would become another one."""
    if kind == declared:
        return value
    if isinstance(kind, T.StringType):
        return of_text(value, declared)
    made = f"try_cast({value} AS {declared.simpleString()})"
    if isinstance(declared, T.StringType):
        return made
    return f"CASE WHEN try_cast({made} AS {kind.simpleString()}) = {value} THEN {made} END"
