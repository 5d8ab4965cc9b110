"""Which columns of a table the files of a sink cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import LayoutInvalid

if TYPE_CHECKING:
    from rivermouth.engine.table.problems import Problems
    from rivermouth.sinks.files import FilesSink
    from rivermouth.spec import Flow

_NESTED: Final = (T.ArrayType, T.MapType, T.StructType)
_NOT_IN: Final[dict[str, tuple[type[T.DataType], ...]]] = {
    "csv": (*_NESTED, T.BinaryType, T.VariantType),
    "orc": (T.VariantType,),
    "avro": (T.VariantType,),
}
_IN_FOLDERS: Final = (T.StringType, T.IntegralType, T.DateType, T.BooleanType)
# https://avro.apache.org/docs/1.12.0/specification/#names
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SELECT: Final = "select columns without it, or rename it there"


def check_file_columns(flow: Flow, sink: FilesSink, columns: T.StructType, problems: Problems) -> None:
    """Keeps in ``problems`` each column that files of the sink cannot have, or that cannot be the name of a folder."""
    for place, name in enumerate(sink.partition_by):
        with problems.kept():
            _check_folder(flow, columns, name, ("sink", "partition_by", place))
    for column in columns:
        with problems.kept():
            refused = _NOT_IN.get(sink.format, ())
            kind = next((each for each in _types(column.dataType) if isinstance(each, refused)), None)
            if kind is not None:
                detail = (
                    f"column {column.name!r} has a type {kind.typeName()}, and files of {sink.format} cannot have it"
                )
                raise LayoutInvalid(flow=flow.name, detail=detail, fix="format: json").about("sink", "format")
            if sink.format == "avro" and not _AVRO_NAME.fullmatch(column.name):
                detail = f"column {column.name!r} has a name that files of avro cannot have"
                raise LayoutInvalid(flow=flow.name, detail=detail, fix=_SELECT).about("sink", "format")


def _check_folder(flow: Flow, columns: T.StructType, name: str, path: tuple[str | int, ...]) -> None:
    if name not in columns.names:
        detail, fix = f"there is no column {name!r} for folders", names.did_you_mean(name, columns.names)
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about(*path)
    kind = columns[name].dataType
    if not isinstance(kind, _IN_FOLDERS):
        detail = f"column {name!r} is {kind.simpleString()}; folders are by text, whole numbers, dates or booleans"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=f"remove {name}").about(*path)
    parts = [part if isinstance(part, str) else next(iter(part)) for part in flow.table.partition_by]
    if isinstance(kind, T.StringType) and name not in parts:
        detail = f"column {name!r} is text, and no folder can have each text as its name"
        fix = f"table: {{name: ..., partition_by: [{name}]}}"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about(*path)


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
