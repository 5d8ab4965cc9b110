"""Rows of Python as ``createDataFrame`` of Spark Connect takes them, where Spark's own pipelines run.

A whole number is a value of a column of floats there; the classic session refuses it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it


def with_floats(rows: Any, schema: Any) -> Any:
    """The rows with floats in the place of whole numbers in columns of FLOAT and DOUBLE; what is no list as it is.

    Args:
        rows: What ``createDataFrame`` is given.
        schema: A StructType, or DDL of columns; with another one the rows stay as they are.
    """
    kind = T.DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(rows, list) or not isinstance(kind, T.StructType):
        return rows
    return [_value(row, kind) for row in rows]


def _value(value: Any, kind: T.DataType) -> Any:
    match kind:
        case T.FloatType() | T.DoubleType():
            return float(value) if type(value) is int else value
        case T.ArrayType() if isinstance(value, list):
            return [_value(each, kind.elementType) for each in value]
        case T.MapType() if isinstance(value, dict):
            return {key: _value(each, kind.valueType) for key, each in value.items()}
        case T.StructType() if isinstance(value, dict):
            kinds = {each.name: each.dataType for each in kind}
            return {name: _value(each, kinds[name]) if name in kinds else each for name, each in value.items()}
        case T.StructType() if isinstance(value, list | tuple) and not isinstance(value, Row):
            if len(value) == len(kind):
                return tuple(_value(each, of.dataType) for each, of in zip(value, kind, strict=True))
    return value
