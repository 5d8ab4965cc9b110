"""Times that Python has with nanoseconds (of pandas, or in Arrow arrays), cut to microseconds toward the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it


def cutter(declared: T.DataType) -> Callable[[Any], Any] | None:
    """A function that cuts the times within a value of the type; None if it holds none."""
    match declared:
        case T.TimestampType() | T.TimestampNTZType():
            return _cut
        case T.StructType():
            inner = {field.name: cutter(field.dataType) for field in declared.fields}
            parts = {name: part for name, part in inner.items() if part is not None}
            return (lambda value: _cut_fields(value, parts)) if parts else None
        case T.ArrayType():
            item = cutter(declared.elementType)
            return None if item is None else _items_cut(item)
        case T.MapType():
            key_of, item_of = (cutter(each) or _itself for each in (declared.keyType, declared.valueType))
            if key_of is _itself and item_of is _itself:
                return None
            return lambda value: (
                {key_of(name): item_of(each) for name, each in value.items()} if isinstance(value, dict) else value
            )
    return None


def cut_arrays(found: Any) -> Any:
    """An array whose timestamps of nanoseconds, also within structs, lists and maps, are of microseconds.

    What is no array is as it was.
    """
    if not isinstance(found, pa.Array):
        return found
    if found.offset:
        # The parts of a slice cannot be put together again.
        found = pa.concat_arrays([found])
    kind = found.type
    if kinds.is_timestamp(kind) and kind.unit == "ns":
        floored = pc.floor_temporal(found.cast(pa.int64()).cast(pa.timestamp("ns")), unit="microsecond")
        return floored.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", kind.tz))
    if kinds.is_struct(kind):
        parts = [cut_arrays(found.field(place)) for place in range(kind.num_fields)]
        fields = [kind.field(place).with_type(part.type) for place, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=found.is_null())
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        made = pa.ListArray if kinds.is_list(kind) else pa.LargeListArray
        return made.from_arrays(found.offsets, cut_arrays(found.values), mask=found.is_null())
    if kinds.is_map(kind):
        keys, items = cut_arrays(found.keys), cut_arrays(found.items)
        return pa.MapArray.from_arrays(found.offsets, keys, items, mask=found.is_null())
    return found


def _itself(value: Any) -> Any:
    return value


def _items_cut(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [item(each) for each in value] if isinstance(value, list | tuple) else value


def _cut(value: Any) -> Any:
    # Those of pandas have it; NaT has it as NaN.
    nanosecond = getattr(value, "nanosecond", 0)
    return value.floor("us") if isinstance(nanosecond, int) and nanosecond else value


def _cut_fields(value: Any, parts: dict[str, Callable[[Any], Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: parts[name](each) if name in parts else each for name, each in value.items()}
