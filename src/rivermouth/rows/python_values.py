"""Python values as Arrow arrays of declared types: each fits wholly, or is named with its reason.

A column is built at once where its values have the one Python type that its declared type is for. Nothing is cast,
rounded or made null: what pyarrow would convert is looked at before. No text holds a value.
"""

from __future__ import annotations

import datetime as dt
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.pandas.types import to_arrow_type

from rivermouth.rows.json_types import nullable

_NAME_LENGTH: Final = 100
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


def check(declared: T.StructType, path: str = "") -> None:
    """Makes sure that Python has values for every type and that names are unambiguous.

    Args:
        declared: The schema, or a struct within it.
        path: Of that struct.

    Raises:
        ValueError: It has not; or two fields differ in nothing but case; the text says which.
    """
    if not declared.fields:
        msg = f"{f'column {path}' if path else 'the schema'} has no fields"
        raise ValueError(msg)
    seen: dict[str, str] = {}
    for each in declared.fields:
        name = _below(path, each.name)
        if "json_name" in each.metadata:
            msg = f"column {name}: json_name is for columns of the table itself, in the format json"
            raise ValueError(msg)
        twin = seen.setdefault(each.name.lower(), each.name)
        if twin is not each.name:
            msg = f"columns {twin!r} and {each.name!r} are the same to Spark and Delta"
            raise ValueError(msg)
        _check_type(each.dataType, name)


def _check_type(declared: T.DataType, path: str) -> None:
    match declared:
        case T.StructType():
            check(declared, path)
        case T.ArrayType():
            _check_type(declared.elementType, f"{path}[]")
        case T.MapType():
            if type(declared.keyType) in _NESTED:
                msg = f"column {path}: the keys of a dict are no {declared.keyType.simpleString()}"
                raise ValueError(msg)
            _check_type(declared.keyType, f"{path}[]")
            _check_type(declared.valueType, f"{path}[]")
        case _ if type(declared) not in _LEAVES or (isinstance(declared, T.StringType) and declared != T.StringType()):
            msg = f"column {path}: no values of Python become type {declared.simpleString()}"
            raise ValueError(msg)


def rows(values: Sequence[Any], declared: T.StructType) -> pa.StructArray:
    """Dicts with the declared columns, and no others, as rows.

    Raises:
        Misfit: One of them does not fit.
    """
    return _struct(values, declared, "")


def sifted(values: Sequence[Any], declared: T.StructType) -> tuple[pa.StructArray, dict[int, Misfit]]:
    """The rows of those dicts that fit, in their order, and by the places of the others why they do not."""
    parts: list[pa.StructArray] = []
    misfits: dict[int, Misfit] = {}
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(rows(values[start:end], declared))
        except Exception as error:  # noqa: BLE001 - methods of a user's own classes may raise whatever they like
            if end - start == 1:
                misfits[start] = error if isinstance(error, Misfit) else _unreadable(error)
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return pa.concat_arrays(parts) if parts else pa.array([], arrow_type(declared)), misfits


def _unreadable(error: Exception) -> Misfit:
    return Misfit("FUNCTION_FAILED", None, f"what it returned cannot be read: {type(error).__name__}")


def has_required(declared: T.DataType) -> bool:
    """Whether something in the type is declared NOT NULL."""
    match declared:
        case T.StructType():
            return any(not field.nullable or has_required(field.dataType) for field in declared.fields)
        case T.ArrayType():
            return not declared.containsNull or has_required(declared.elementType)
        case T.MapType():
            return not declared.valueContainsNull or has_required(declared.valueType)
    return False


def _column(values: Sequence[Any], declared: T.DataType, path: str, *, required: bool) -> pa.Array:
    """Values of one field, None among them."""
    present = [value for value in values if value is not None]
    if len(present) < len(values) and required:
        raise Misfit("FIELD_MISSING", path, f"field {path} is declared NOT NULL and is None")
    if type(declared) in _NESTED:
        array = _NESTED[type(declared)](present, declared, path)
        if len(present) == len(values):
            return array
        places, count = [], 0
        for value in values:
            places.append(None if value is None else count)
            count += value is not None
        return array.take(pa.array(places, pa.int64()))
    kinds = set(map(type, present))
    if any(kind.__module__ == "numpy" and kind.__name__ in _NUMPY for kind in kinds):
        values = [_plain(value) for value in values]
        kinds = {type(value) for value in values if value is not None}
    convert = _LEAVES[type(declared)]
    return _array(convert(values, kinds, declared, path), declared, path)


def _array(values: Sequence[Any], declared: T.DataType, path: str) -> pa.Array:
    try:
        array = pa.array(values, arrow_type(declared))
    except (pa.ArrowInvalid, OverflowError):
        raise _wrong(path, declared, "a value beyond its range") from None
    except UnicodeEncodeError:
        raise _wrong(path, declared, "a string with half a character (a surrogate without its pair)") from None
    if isinstance(array, pa.ChunkedArray):
        msg = f"the strings of field {path} in one batch are longer than 2 GiB"
        raise MemoryError(msg)  # noqa: TRY004 - no type is wrong, there is too much of it
    return array


def _struct(values: Sequence[Any], declared: T.StructType, path: str) -> pa.StructArray:
    names, target = declared.names, arrow_type(declared)
    wanted = set(names)
    for value in values:
        if not isinstance(value, dict):
            raise _wrong(path, declared, _kind(value))
        if value.keys() != wanted:
            raise _other_fields(value, names, path)
    columns = [
        _column(
            [value[field.name] for value in values],
            field.dataType,
            _below(path, field.name),
            required=not field.nullable,
        )
        for field in declared.fields
    ]
    return pa.StructArray.from_arrays(columns, fields=[target.field(place) for place in range(target.num_fields)])


def _other_fields(value: Mapping[Any, Any], names: Sequence[str], path: str) -> Misfit:
    missing = next((name for name in names if name not in value), None)
    if missing is not None:
        name = _below(path, missing)
        return Misfit("FIELD_MISSING", name, f"field {name} is declared, and the dict lacks it")
    extra = next(iter(value.keys() - set(names)))
    shown = repr(extra[:_NAME_LENGTH]) if isinstance(extra, str) else _kind(extra)
    where = f"the dict of field {path}" if path else "the dict"
    message = f"{where} has a key that the schema lacks: {shown}"
    return Misfit("FIELD_UNKNOWN", path or None, message.encode("utf-8", "backslashreplace").decode())


def _list(values: Sequence[Any], declared: T.ArrayType, path: str) -> pa.ListArray:
    offsets: list[int] = [0]
    items: list[Any] = []
    for value in values:
        if not isinstance(value, list | tuple):
            raise _wrong(path, declared, _kind(value))
        items += value
        offsets.append(len(items))
    inner = _column(items, declared.elementType, f"{path}[]", required=not declared.containsNull)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=arrow_type(declared))


def _map(values: Sequence[Any], declared: T.MapType, path: str) -> pa.MapArray:
    offsets: list[int] = [0]
    keys: list[Any] = []
    items: list[Any] = []
    for value in values:
        if not isinstance(value, dict):
            raise _wrong(path, declared, _kind(value))
        keys += value.keys()
        items += value.values()
        offsets.append(len(keys))
    keyed = _column(keys, declared.keyType, f"{path}[]", required=True)
    inner = _column(items, declared.valueType, f"{path}[]", required=not declared.valueContainsNull)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keyed, inner, type=arrow_type(declared))


# --- leaves: each returns values that pyarrow puts into the declared type as they are -------------------

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
        if value is not None and value == value and not _fits_a_float(value):  # noqa: PLR0124 - NaN is not itself
            raise _wrong(path, declared, "a number that a float would round: declare double")
    return found


def _fits_a_float(value: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


def _exact_float(value: Any, declared: T.DataType, path: str) -> float | None:
    if value is None or type(value) is float:
        return value
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(path, declared, _kind(value))
    try:
        exact = float(value)
    except OverflowError:
        raise _wrong(path, declared, "a value beyond its range") from None
    if int(exact) != value:
        raise _wrong(path, declared, "a whole number that it would round")
    return exact


def _decimal(values: Sequence[Any], _kinds: _Kinds, declared: Any, path: str) -> Sequence[Any]:
    return [_exact_decimal(value, declared, path) for value in values]


def _exact_decimal(value: Any, declared: T.DecimalType, path: str) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, float):
        raise _wrong(path, declared, "a float, which is no exact number: return a decimal.Decimal")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _wrong(path, declared, _kind(value))
    if isinstance(value, int) and abs(value) >= 10 ** (declared.precision - declared.scale):
        raise _wrong(path, declared, "a value beyond its range")
    number = Decimal(value)
    if not number.is_finite():
        raise _wrong(path, declared, "a Decimal that is no finite number")
    sign, digits, exponent = number.as_tuple()
    places = int(exponent)
    while len(digits) > 1 and digits[-1] == 0:
        digits, places = digits[:-1], places + 1
    if digits == (0,):
        return Decimal(0)
    if -places > declared.scale or len(digits) + places > declared.precision - declared.scale:
        raise _wrong(path, declared, "a number with more digits than that, before or after the point")
    return Decimal((sign, digits, places))


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
    for value in values:
        if value is not None and (value.utcoffset() is not None) is not zoned:
            raise _wrong(path, declared, f"a datetime {'without' if zoned else 'with'} a time zone")
    return values


def _datetime(value: Any, declared: T.DataType, path: str) -> dt.datetime | None:
    if value is None or type(value) is dt.datetime:
        return value
    # Those of pandas: NaT is not itself.
    if not isinstance(value, dt.datetime) or value != value:  # noqa: PLR0124
        raise _wrong(path, declared, _kind(value))
    if getattr(value, "nanosecond", 0):
        raise _wrong(path, declared, "a time with nanoseconds, which it would cut off")
    plain = getattr(value, "to_pydatetime", None)
    return plain() if plain is not None else value


def _only(values: Sequence[Any], kinds: _Kinds, allowed: _Kinds, declared: T.DataType, path: str) -> Sequence[Any]:
    if not kinds <= allowed:
        raise _wrong(
            path, declared, next(_kind(value) for value in values if value is not None and type(value) not in allowed)
        )
    return values


def _each(
    value: Any, declared: T.DataType, path: str, fits: Callable[[Any], bool], convert: Callable[[Any], Any]
) -> Any:
    if value is None:
        return None
    if not fits(value):
        raise _wrong(path, declared, _kind(value))
    return convert(value)


def _plain(value: Any) -> Any:
    kind = type(value)
    return value.item() if kind.__module__ == "numpy" and kind.__name__ in _NUMPY else value


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__[:_NAME_LENGTH]
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _wrong(path: str, declared: T.DataType, what: str) -> Misfit:
    if not path:
        return Misfit("FUNCTION_FAILED", None, f"it returned {what}, and no dict or None")
    return Misfit("FIELD_TYPE", path, f"field {path} is declared {declared.simpleString()} and holds {what}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_LEAVES: Final[Mapping[type[T.DataType], Callable[..., Sequence[Any]]]] = {
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
_NESTED: Final[Mapping[type[T.DataType], Callable[..., pa.Array]]] = {
    T.StructType: _struct,
    T.ArrayType: _list,
    T.MapType: _map,
}
