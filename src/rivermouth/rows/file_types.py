"""What columns files of a format cannot have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

_NESTED: Final = (T.ArrayType, T.MapType, T.StructType)
_NOT_IN: Final[dict[str, tuple[type[T.DataType], ...]]] = {
    "csv": (*_NESTED, T.BinaryType, T.VariantType),
    "orc": (T.VariantType,),
    "avro": (T.VariantType,),
}
# https://avro.apache.org/docs/1.12.0/specification/#names
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_FOLDERS: Final = (T.StringType, T.IntegralType, T.DateType, T.BooleanType)


def unfit_column(kind: str, columns: T.StructType) -> str | None:
    """Why files of the format ``kind`` cannot have one of the columns; None if they can have all."""
    for column in columns:
        unfit = next((each for each in _types(column.dataType) if isinstance(each, _NOT_IN.get(kind, ()))), None)
        if unfit is not None:
            return f"column {column.name!r} has type {unfit.typeName()}, and files of {kind} cannot have it"
        if kind == "avro" and not _AVRO_NAME.fullmatch(column.name):
            return f"column {column.name!r} has a name that files of avro cannot have"
    return None


def unfit_folder(name: str, columns: T.StructType, checked: Collection[str] = ()) -> str | None:
    """Why values of a column cannot be names of folders; None if they can.

    Args:
        name: The column.
        columns: Those of the rows.
        checked: Columns of text whose values are known to be names of folders.
    """
    if name not in columns.names:
        return f"there is no column {name!r} for folders"
    kind = columns[name].dataType
    if not isinstance(kind, _IN_FOLDERS):
        return f"column {name!r} is {kind.simpleString()}; folders are by text, whole numbers, dates or booleans"
    if isinstance(kind, T.StringType) and name not in checked:
        return f"column {name!r} is text, and no folder can have each text as its name"
    return None


def _types(kind: T.DataType) -> Iterator[T.DataType]:
    yield kind
    match kind:
        case T.ArrayType():
            yield from _types(kind.elementType)
        case T.MapType():
            yield from _types(kind.keyType)
            yield from _types(kind.valueType)
        case T.StructType():
            for each in kind:
                yield from _types(each.dataType)
