"""Single Python values as Arrow arrays of declared types: nothing is cast, rounded or made null.

What pyarrow would convert silently is checked before. No text holds a value.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.pandas.types import to_arrow_type

from rivermouth.schemas import type_limits
from rivermouth.schemas.column_types import nullable

NAME_LENGTH: Final = 100
_ENDS: Final = (dt.MINYEAR, dt.MAXYEAR)
# Scalars of numpy, which say by themselves what they are in Python.
_NUMPY: Final = frozenset(
    {"bool", "bool_", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


class Misfit(Exception):
    """A value does not fit its declared type.

    Attributes:
        reason: One of the closed codes.
        field: Path of the declared field; None for the record as a whole.
    """

    def __init__(self, reason: str, field: str | None, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field


@functools.cache
def arrow_type(declared: T.DataType) -> pa.DataType:
    """The Arrow type that Spark takes for a declared one, all of it nullable."""
    return to_arrow_type(nullable(declared), timezone="UTC")


def column(values: Sequence[Any], declared: T.DataType, path: str) -> pa.Array:
    """Values of one field that is no struct, array or map, None among them.

    Raises:
        Misfit: One of them does not fit.
    """
    kinds = {type(value) for value in values if value is not None}
    if any(kind.__module__ == "numpy" and kind.__name__ in _NUMPY for kind in kinds):
        values = [_plain(value) for value in values]
        kinds = {type(value) for value in values if value is not None}
    return _array(SCALARS[type(declared)](values, kinds, declared, path), declared, path)


def _array(values: Sequence[Any], declared: T.DataType, path: str) -> pa.Array:
    try:
        array = pa.array(values, arrow_type(declared))
    except (pa.ArrowInvalid, OverflowError):
        raise wrong(path, declared, "a value beyond its range") from None
    except UnicodeEncodeError:
        raise wrong(path, declared, "a string with half a character (a surrogate without its pair)") from None
    if isinstance(array, pa.ChunkedArray):
        msg = f"the strings of field {path} in one batch are longer than 2 GiB"
        raise MemoryError(msg)  # noqa: TRY004 - no type is wrong, there is too much of it
    return array


# --- each returns values that pyarrow puts into the declared type as they are ----------------------

_Kinds = set[type]


def _boolean(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    return _only(values, kinds, {bool}, declared, path)


def _integer(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    if kinds <= {int}:
        return values
    return [
        _each(value, declared, path, lambda it: isinstance(it, int) and not isinstance(it, bool), int)
        for value in values
    ]


def _double(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    return values if kinds <= {float} else [_exact_float(value, declared, path) for value in values]


def _float(values: Sequence[Any], _kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    found = [_exact_float(value, declared, path) for value in values]
    for value in found:
        if value is not None and not type_limits.is_float(value):
            raise wrong(path, declared, "a number that a float would round: declare double")
    return found


def _exact_float(value: Any, declared: T.DataType, path: str) -> float | None:
    if value is None or type(value) is float:
        return value
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(path, declared, kind_of(value))
    try:
        exact = float(value)
    except OverflowError:
        raise wrong(path, declared, "a value beyond its range") from None
    if int(exact) != value:
        raise wrong(path, declared, "a whole number that it would round")
    return exact


def _decimal(values: Sequence[Any], _kinds: _Kinds, declared: Any, path: str) -> Sequence[Any]:
    return [_exact_decimal(value, declared, path) for value in values]


def _exact_decimal(value: Any, declared: T.DecimalType, path: str) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, float):
        raise wrong(path, declared, "a float, which is no exact number: return a decimal.Decimal")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong(path, declared, kind_of(value))
    if isinstance(value, int) and abs(value) >= 10 ** (declared.precision - declared.scale):
        raise wrong(path, declared, "a value beyond its range")
    number = Decimal(value)
    if not number.is_finite():
        raise wrong(path, declared, "a Decimal that is no finite number")
    found = type_limits.as_decimal(number, declared)
    if found is None:
        raise wrong(path, declared, "a number with more digits than that, before or after the point")
    return found


def _string(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    if kinds <= {str}:
        return values
    return [_each(value, declared, path, lambda it: isinstance(it, str), str.__str__) for value in values]


def _binary(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    if kinds <= {bytes}:
        return values
    return [
        _each(value, declared, path, lambda it: isinstance(it, bytes | bytearray | memoryview), bytes)
        for value in values
    ]


def _date(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    return _only(values, kinds, {dt.date}, declared, path)


def _timestamp(values: Sequence[Any], kinds: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    zoned = isinstance(declared, T.TimestampType)
    if not kinds <= {dt.datetime}:
        values = [_datetime(value, declared, path) for value in values]
    found = []
    for value in values:
        offset = None if value is None else value.utcoffset()
        if value is not None and (offset is not None) is not zoned:
            raise wrong(path, declared, f"a datetime {'without' if zoned else 'with'} a time zone")
        # pyarrow passes over parts of a second in an offset, and over the ends of time.
        odd = offset and (offset.microseconds or value.year in _ENDS)
        found.append(_in_utc(value, declared, path) if odd else value)
    return found


def _in_utc(value: dt.datetime, declared: T.DataType, path: str) -> dt.datetime:
    try:
        return value.astimezone(dt.UTC)
    except OverflowError:
        raise wrong(path, declared, "a value beyond its range") from None


def _datetime(value: Any, declared: T.DataType, path: str) -> dt.datetime | None:
    if value is None or type(value) is dt.datetime:
        return value
    # Those of pandas: NaT is not itself.
    if not isinstance(value, dt.datetime) or value != value:  # noqa: PLR0124
        raise wrong(path, declared, kind_of(value))
    if getattr(value, "nanosecond", 0):
        raise wrong(path, declared, "a time with nanoseconds, which timestamp_precision: truncate cuts off")
    plain = getattr(value, "to_pydatetime", None)
    return plain() if plain is not None else value


def _only(values: Sequence[Any], kinds: _Kinds, allowed: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    if not kinds <= allowed:
        raise wrong(
            path, declared, next(kind_of(value) for value in values if value is not None and type(value) not in allowed)
        )
    return values


def _each(
    value: Any, declared: T.DataType, path: str, fits: Callable[[Any], bool], convert: Callable[[Any], Any]
) -> Any:
    if value is None:
        return None
    if not fits(value):
        raise wrong(path, declared, kind_of(value))
    return convert(value)


def _plain(value: Any) -> Any:
    kind = type(value)
    return value.item() if kind.__module__ == "numpy" and kind.__name__ in _NUMPY else value


def kind_of(value: Any) -> str:
    """What a value is, in words: its type's name, nothing of itself."""
    if value is None:
        return "None"
    name = type(value).__name__[:NAME_LENGTH]
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def wrong(path: str, declared: T.DataType, what: str) -> Misfit:
    """That the field of that path holds something which does not fit its type."""
    if not path:
        return Misfit("FUNCTION_FAILED", None, f"it returned {what}, and no dict or None")
    return Misfit("FIELD_TYPE", path, f"field {path} is declared {declared.simpleString()} and holds {what}")


SCALARS: Final[Mapping[type[T.DataType], Callable[..., Sequence[Any]]]] = {
    T.BooleanType: _boolean,
    **dict.fromkeys((T.ByteType, T.ShortType, T.IntegerType, T.LongType), _integer),
    T.FloatType: _float,
    T.DoubleType: _double,
    T.DecimalType: _decimal,
    T.StringType: _string,
    T.BinaryType: _binary,
    T.DateType: _date,
    T.TimestampType: _timestamp,
    T.TimestampNTZType: _timestamp,
}
