"""Arrow arrays that a user's function returned, as arrays of declared types where nothing can be lost by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.rows.python_values import Misfit, arrow_type, has_required

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
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
        raise NotPlain from None
    return pa.StructArray.from_arrays(columns, fields=list(target))


def rows_of(found: pa.StructArray) -> Iterator[Any]:
    """Each row as a dict; or a ``Misfit`` where Python has no such values."""
    for place in range(len(found)):
        try:
            yield found[place].as_py()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the record is a dead letter
            yield Misfit("FUNCTION_FAILED", None, f"what it returned cannot be read: {type(error).__name__}")


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
