"""Types of columns as schemas have them: nullable, with the name of each field in its document."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
)

from rivermouth import names

# A double keeps every decimal of this many digits, so such a number is not changed when it is read as a double.
EXACT_IN_DOUBLE: Final = 15


_PADDED: Final = re.compile(r"\bchar\(")
_LENGTHS: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""In the metadata of a column: its type as it was declared, where that has ``char`` or ``varchar``."""
NAME_IN_JSON: Final = "json_name"
"""In a column's metadata: the name that its field has in the documents, where it is another one."""


def has_bounds(kind: DataType) -> bool:
    """Whether Delta keeps the least and the greatest value that a column of this type has in a file."""
    # Of texts with a collation it keeps none.
    times = (T.DateType, T.TimestampType, T.TimestampNTZType)
    return kind == T.StringType() or isinstance(kind, (T.NumericType, T.CharType, T.VarcharType, *times))


def field_type(columns: StructType, path: str) -> DataType | None:
    """The type of a column or of a field in one (``address.city``), in any case of letters; None if there is none."""
    by_name = {each.name.lower(): each.dataType for each in columns}
    if path.lower() in by_name:
        return by_name[path.lower()]
    first, _, rest = path.partition(".")
    kind = by_name.get(first.lower())
    return field_type(kind, rest) if rest and isinstance(kind, StructType) else None


def nullable(declared: T.DataType) -> T.DataType:
    """The same type, all of it nullable, without metadata other than comments: what the table gets."""
    match declared:
        case T.StructType():
            return T.StructType([_nullable_field(field) for field in declared.fields])
        case T.ArrayType():
            return T.ArrayType(nullable(declared.elementType), True)
        case T.MapType():
            return T.MapType(declared.keyType, nullable(declared.valueType), True)
    return declared


def _nullable_field(field: T.StructField) -> T.StructField:
    comment = {"comment": field.metadata["comment"]} if "comment" in field.metadata else None
    return T.StructField(field.name, nullable(field.dataType), True, comment)


def made_as(column: T.StructField) -> T.DataType:
    """The type with which a column of a table was made: of texts with a length, which its own type does not say."""
    told = column.metadata.get(_LENGTHS)
    return column.dataType if told is None else T.DataType.fromDDL(told)


def is_padded(kind: T.DataType) -> bool:
    """Whether values of a type have texts to which Spark adds blanks where it reads them."""
    return _PADDED.search(kind.simpleString()) is not None


def without_padding(kind: T.DataType) -> str:
    """The type as text, with ``varchar`` in the place of ``char``."""
    return _PADDED.sub("varchar(", kind.simpleString())


def nullable_columns(declared: T.StructType) -> T.StructType:
    """``nullable`` for a whole schema."""
    return T.StructType([_nullable_field(field) for field in declared.fields])


def name_in_json(field: T.StructField) -> str:
    """The name that a column's field has in the documents, which a table cannot always have."""
    return str(field.metadata.get(NAME_IN_JSON, field.name))


def read_from(name: str) -> dict[str, str]:
    """The metadata of a column that is read from the field ``name`` of the documents."""
    return {NAME_IN_JSON: name}


RESCUED: Final = "_rescued"
"""The column for fields that the schema does not have: text of a JSON object, from JSON pointers to values."""


def ddl(data_type: DataType) -> str:
    """A type as SQL, whatever the names in it."""
    match data_type:
        case StructType():
            fields = (f"{names.quoted(field.name)}: {ddl(field.dataType)}" for field in data_type.fields)
            return f"struct<{', '.join(fields)}>"
        case ArrayType():
            return f"array<{ddl(data_type.elementType)}>"
        case MapType():
            return f"map<{ddl(data_type.keyType)}, {ddl(data_type.valueType)}>"
    return data_type.simpleString()
