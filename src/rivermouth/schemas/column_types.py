"""Types of columns as schemas have them: nullable, with the name of each field in its document."""

from __future__ import annotations

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


NAME_IN_JSON: Final = "json_name"
"""In a column's metadata: the name that its field has in the documents, where it is another one."""


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
