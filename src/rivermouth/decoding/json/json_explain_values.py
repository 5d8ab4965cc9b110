"""Whether one value of a document is of its column's type, and what it is instead: numbers, strings, times."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json.json_python_parser import Number, kind, parts
from rivermouth.decoding.json.json_types import LONGEST_DECIMAL, FloatOfRows
from rivermouth.decoding.times.json_times import EPOCHS, TimeByForm
from rivermouth.schemas import type_limits

BEYOND_RANGE: Final = "a whole number beyond its range"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.]\d*)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?", re.ASCII
)
_CLOCK: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?", re.ASCII)
_DATE_LENGTH: Final = len("2026-01-31")
_OFFSET: Final = re.compile(r"([+-])(\d{2}):?(\d{2})?$", re.ASCII)
_HOUR_MINUTES: Final = 60
# As Java has it.
_MOST_OFFSET_MINUTES: Final = 18 * _HOUR_MINUTES
_LIKE_A_DATE: Final = re.compile(r"\s*[+-]?\d{4,7}-\d{1,2}", re.ASCII)
_NTZ: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.]\d{1,9})?)?)?", re.ASCII)
_ISO: Final[dict[type[T.DataType], tuple[re.Pattern[str], str]]] = {
    T.DateType: (_DATE, "date (YYYY-MM-DD)"),
    T.TimestampType: (_TIMESTAMP, "timestamp (YYYY-MM-DDThh:mm:ss, with an offset or in UTC)"),
    T.TimestampNTZType: (_NTZ, "timestamp without an offset (YYYY-MM-DDThh:mm:ss)"),
}
_DECIMAL: Final = re.compile(r"[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def misfit(value: Any, declared: T.DataType) -> str | None:
    """What a value is instead of its declared type; None if it fits."""
    match declared:
        case T.StringType():
            return None
        case T.BooleanType():
            return None if isinstance(value, bool) else kind(value)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return _integer(value, type(declared))
        case T.FloatType() | T.DoubleType() | FloatOfRows():
            return _floating(value, declared)
        case T.DecimalType():
            return _decimal(value, declared)
        case T.BinaryType():
            return _binary(value)
        case TimeByForm():
            return _by_form(value, declared)
        case T.VariantType():
            return not_a_variant(value)
        case _ if type(declared) in _ISO:
            return _time(value, *_ISO[type(declared)])
    return kind(value)


def is_word(value: Any, declared: T.DataType) -> bool:
    """Whether a value is one of the texts that are numbers in documents of rows."""
    return isinstance(declared, FloatOfRows) and isinstance(value, str) and value in FloatOfRows.WORDS


def lost_digits(value: Any) -> str | None:
    """What a value of the right type says more exactly than its column keeps it."""
    if isinstance(value, Number):
        return None if type_limits.is_double(value.text) else "a number with more digits than a double keeps"
    if isinstance(value, str) and not type_limits.is_micros(value):
        return "a time with digits behind the microsecond, which timestamp_precision: truncate cuts off"
    return None


def _integer(value: Any, declared: type[T.DataType]) -> str | None:
    if not (isinstance(value, Number) and value.whole):
        return kind(value)
    return None if type_limits.is_whole(int(value.text), declared) else BEYOND_RANGE


def _floating(value: Any, declared: T.DataType) -> str | None:
    if is_word(value, declared):
        return None
    if not isinstance(value, Number):
        return kind(value)
    found = float(value.text)
    is_float = declared.simpleString() == T.FloatType().simpleString()
    fits = type_limits.is_in_float_range(found) if is_float else math.isfinite(found)
    return None if fits else "a number beyond its range"


def not_a_variant(value: Any) -> str | None:
    """What keeps a value of any shape from being a VARIANT, whose numbers are decimals or doubles."""
    numbers = (part for part in parts(value) if isinstance(part, Number))
    return "a number beyond its range" if any(math.isinf(float(each.text)) for each in numbers) else None


def _decimal(value: Any, declared: T.DecimalType) -> str | None:
    if isinstance(value, str):
        text = value.strip("".join(map(chr, range(33))))
        if not _DECIMAL.fullmatch(text) or len(value) > LONGEST_DECIMAL:
            return "a string that is no decimal number"
    elif isinstance(value, Number):
        text = value.text
    else:
        return kind(value)
    # Of a number with an exponent the parser makes a double.
    as_double = isinstance(value, Number) and "e" in text.lower()
    if as_double or not _is_decimal(text, declared):
        return "a number with more digits than that, before or after the point"
    return None


def _is_decimal(text: str, declared: T.DecimalType) -> bool:
    """Whether a number fits a decimal exactly."""
    try:
        return type_limits.as_decimal(Decimal(text), declared) is not None
    except (InvalidOperation, ValueError):
        return False


def _binary(value: Any) -> str | None:
    if not isinstance(value, str):
        return kind(value)
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return "a string that is no base64"
    return None


def may_fit(value: Any, declared: T.DataType) -> bool:
    """Whether Spark may take a value that does not look as if it fitted.

    It knows more forms of a timestamp, and the digits of a double depend on the version of Java.
    """
    match declared:
        case T.TimestampType():
            return isinstance(value, str) and _LIKE_A_DATE.match(value) is not None
        case T.DecimalType():
            return isinstance(value, Number) and "e" in value.text.lower()
        case TimeByForm():
            # Its text is that of the nearest double.
            return isinstance(value, Number) and not value.whole and declared.form not in EPOCHS
    return False


def _time(value: Any, form: re.Pattern[str], what: str) -> str | None:
    if not isinstance(value, str):
        return kind(value)
    return None if form.fullmatch(value) and _is_in_the_calendar(value) else f"a string that is no {what}"


def _by_form(value: Any, declared: TimeByForm) -> str | None:
    if declared.form in EPOCHS:
        wrong = _integer(value, T.LongType)
        return wrong or (None if declared.fits(value.text) else "a number beyond the years 1 to 9999")
    if not isinstance(value, str | Number):
        return kind(value)
    text = value if isinstance(value, str) else value.text
    return None if declared.fits(text) else f"{kind(value)} that does not fit its format"


def _is_in_the_calendar(text: str) -> bool:
    """Whether there is such a day, time and offset in the years 1 to 9999; ``text`` has the form of one."""
    clock = _CLOCK.match(text)
    offset = _OFFSET.search(text[_DATE_LENGTH:])
    try:
        found = dt.datetime.fromisoformat(clock[0].replace(" ", "T") if clock else text)
        if offset is None:
            return True
        hours, minutes = int(offset[2]), int(offset[3] or 0)
        if minutes >= _HOUR_MINUTES or hours * _HOUR_MINUTES + minutes > _MOST_OFFSET_MINUTES:
            return False
        shift = dt.timedelta(hours=hours, minutes=minutes)
        return isinstance(found + shift if offset[1] == "-" else found - shift, dt.datetime)
    except (ValueError, OverflowError):
        return False
