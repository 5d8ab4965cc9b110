"""Arrow arrays that a user's function returned, as arrays of declared types where nothing can be lost by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.python.python_scalars import Misfit, arrow_type
from rivermouth.decoding.python.python_values import has_required, keys_twice
from rivermouth.schemas.type_limits import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US

_UNITS: Final = ("s", "ms", "us")


class NotPlain(Exception):
    """The array has other types than the declared ones, or values that do not fit."""


def as_declared(found: pa.StructArray, declared: T.StructType) -> pa.StructArray:
    """Rows without a null among them in the declared columns.

    Raises:
        NotPlain: It takes a look at each value to say what fits.
    """
    target = arrow_type(declared)
    names = [field.name for field in found.type]
    if sorted(names) != sorted(declared.names) or any(has_required(field.dataType) for field in declared.fields):
        raise NotPlain
    try:
        found.validate(full=True)
        columns = []
        for wanted, field in zip(target, declared.fields, strict=True):
            column = found.field(wanted.name)
            if (column.null_count and not field.nullable) or not _keeps(column.type, wanted.type):
                raise NotPlain
            columns.append(column.cast(wanted.type))
            if _odd(columns[-1]):
                raise NotPlain
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
        raise NotPlain from None
    return pa.StructArray.from_arrays(columns, fields=list(target))


def rows_of(found: pa.StructArray) -> Iterator[Any]:
    """Each row as a dict; or a ``Misfit`` where Python has no such values."""
    for place in range(len(found)):
        try:
            yield _with_dicts(found[place].as_py(), found.type)
        except Misfit as twice:
            yield twice
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the record is a dead letter
            yield Misfit("FUNCTION_FAILED", None, f"what it returned cannot be read: {type(error).__name__}")


def _odd(array: pa.Array) -> bool:
    """Whether it holds what Arrow allows and no reader expects: a key twice, a time beyond the years 1 to 9999."""
    kind = array.type
    if kinds.is_timestamp(kind) or kinds.is_date32(kind):
        first, last = (FIRST_DAY, LAST_DAY) if kinds.is_date32(kind) else (FIRST_US, LAST_US)
        found = pc.min_max(array)
        if not found["min"].is_valid:
            return False
        return bool(found["min"].value < first or found["max"].value > last)
    if kinds.is_map(kind):
        return keys_twice(array) or _odd(array.keys) or _odd(array.items)
    if kinds.is_struct(kind):
        return any(_odd(array.field(place)) for place in range(kind.num_fields))
    return bool(kinds.is_list(kind) and _odd(array.values))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """A value of that Arrow type, the pairs of maps as dicts."""
    if value is None:
        return None
    if kinds.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if kinds.is_map(kind):
        made = {key: _with_dicts(each, kind.item_type) for key, each in value}
        if len(made) < len(value):
            raise Misfit("FIELD_TYPE", None, "what it returned has a map with a key twice")
        return made
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    return value


def _keeps(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps every value, or fails."""
    if found.equals(wanted) or kinds.is_null(found):
        return True
    if kinds.is_integer(found) and kinds.is_integer(wanted):
        return True
    if kinds.is_timestamp(found) and kinds.is_timestamp(wanted):
        return found.unit in _UNITS and (found.tz is None) is (wanted.tz is None)
    if kinds.is_decimal(found) and kinds.is_decimal(wanted):
        return bool(found.scale <= wanted.scale)
    if kinds.is_struct(found) and kinds.is_struct(wanted):
        same = [field.name for field in found] == [field.name for field in wanted]
        return same and all(_keeps(one.type, other.type) for one, other in zip(found, wanted, strict=True))
    if kinds.is_map(found) and kinds.is_map(wanted):
        return found.key_type.equals(wanted.key_type) and _keeps(found.item_type, wanted.item_type)
    if (kinds.is_list(found) or kinds.is_large_list(found)) and kinds.is_list(wanted):
        return _keeps(found.value_type, wanted.value_type)
    pairs = (
        (kinds.is_float32, kinds.is_float64),
        (kinds.is_large_string, kinds.is_string),
        (kinds.is_large_binary, kinds.is_binary),
    )
    return any(one(found) and other(wanted) for one, other in pairs)
