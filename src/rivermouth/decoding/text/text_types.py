"""How declared types are read from text, as SQL that is null where the text does not fit exactly."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json import json_types
from rivermouth.decoding.times import time_texts

# Not $, which also matches before a line break at the end.
_WHOLE: Final = r"^[+-]?[0-9]{1,40}\z"
# Oracle, for one, writes no zero before the point.
_DECIMAL: Final = r"^[+-]?([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})\z"
_FLOATING: Final = r"^[+-]?([0-9]{1,400}([.][0-9]{0,400})?|[.][0-9]{1,400})([eE][+-]?[0-9]{1,3})?\z"
_ISO_8859_1: Final = r"^[\x00-\xFF]*\z"

WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATING: Final = (T.FloatType, T.DoubleType)
_OTHERS: Final = (T.StringType, T.BooleanType, T.BinaryType, T.DecimalType, T.DateType, T.TimestampType)
_READ: Final = (*WHOLE, *FLOATING, *_OTHERS, T.TimestampNTZType)


def check(schema: T.StructType) -> None:
    """Makes sure that every column can be read from a text, and that names are unambiguous.

    Raises:
        ValueError: One cannot, or two differ in nothing but case; the text says which.
    """
    for field in schema.fields:
        if not is_read(field.dataType):
            kind = field.dataType.simpleString()
            msg = f"column {field.name}: type {kind} is not read from text: declare string"
            raise ValueError(msg)
    json_types.check(schema)


def is_read(declared: T.DataType) -> bool:
    """Whether values of a type are read from text."""
    is_collated = isinstance(declared, T.StringType) and declared != T.StringType()
    return type(declared) in _READ and not is_collated


def of_text(text: str, declared: T.DataType, *, exact_times: bool = False) -> str:
    """SQL of the declared type; null where ``text`` does not fit it. Binary is base64.

    Times with digits behind the microsecond do not fit where times are ``exact_times``, else they are cut.
    """
    if exact_times and isinstance(declared, T.TimestampType | T.TimestampNTZType):
        return f"CASE WHEN NOT {time_texts.is_finer(text)} THEN {of_text(text, declared)} END"
    sql = declared.simpleString()
    match declared:
        case T.StringType():
            return text
        case T.BooleanType():
            no = f"WHEN lower({text}) IN ('0', 'false') THEN false"
            return f"CASE WHEN lower({text}) IN ('1', 'true') THEN true {no} END"
        case T.BinaryType():
            return base64(text)
        case T.DecimalType():
            return decimal(text, declared)
        case T.DateType():
            return time_texts.date(text)
        case T.TimestampType():
            return time_texts.instant(text)
        case T.TimestampNTZType():
            return time_texts.local(text)
        case _ if isinstance(declared, FLOATING):
            finite = f"nullif(nullif(try_cast({text} AS {sql}), {sql}('Infinity')), {sql}('-Infinity'))"
            return f"CASE WHEN {text} RLIKE r'{_FLOATING}' THEN {finite} END"
    return f"CASE WHEN {text} RLIKE r'{_WHOLE}' THEN try_cast({text} AS {sql}) END"


def base64(text: str) -> str:
    """SQL of the bytes of a text in base64 with padding, else null."""
    # Spark passes over blanks, missing padding and bits that make no byte.
    made = f"try_to_binary({text}, 'base64')"
    return f"CASE WHEN replace(base64({made}), concat(char(13), char(10))) = {text} THEN {made} END"


def hexadecimal(text: str) -> str:
    """SQL of the bytes of a text of two hexadecimal digits each, else null."""
    return f"CASE WHEN octet_length({text}) % 2 = 0 THEN try_to_binary({text}, 'hex') END"


def decimal(text: str, declared: T.DecimalType) -> str:
    """SQL of a decimal whose text has no more digits behind the point than the type, but for zeros."""
    point = f"instr({text}, '.')"
    unrounded = f"{point} = 0 OR octet_length(rtrim('0', {text})) - {point} <= {declared.scale}"
    fits = f"{text} RLIKE r'{_DECIMAL}' AND ({unrounded})"
    return f"CASE WHEN {fits} THEN try_cast({text} AS {declared.simpleString()}) END"


def bytes_as_characters(text: str) -> str:
    """SQL of binary that came as text with a character a byte; null where one is no byte."""
    return f"CASE WHEN {text} RLIKE r'{_ISO_8859_1}' THEN encode({text}, 'ISO-8859-1') END"
