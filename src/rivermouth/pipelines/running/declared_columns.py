"""The columns that a dataset declares: as DDL, in SQL or in Python, or as a StructType."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.errors import DatasetSchemaInvalid, first_line
from rivermouth.pipelines.sql.columns import check_columns
from rivermouth.schemas.column_types import nullable_columns
from rivermouth.schemas.type_widening import widens

if TYPE_CHECKING:
    from rivermouth.pipelines.spec import Dataset


def declared_columns(dataset: Dataset) -> T.StructType | None:
    """The columns; None where the dataset declares none.

    Raises:
        DatasetSchemaInvalid: They cannot be read.
        SqlNotSupported: A column has an identity or a mask.
    """
    if dataset.schema is None or isinstance(dataset.schema, T.StructType):
        return dataset.schema
    try:
        found = T.StructType.fromDDL(str(dataset.schema))
    except PySparkException as error:
        check_columns(str(dataset.schema), dataset.at)
        raise DatasetSchemaInvalid(at=str(dataset.at), dataset=dataset.name, detail=first_line(error)) from error
    if not isinstance(found, T.StructType):
        raise DatasetSchemaInvalid(at=str(dataset.at), dataset=dataset.name, detail="it has no names of columns")
    return found


def united(schemas: list[T.StructType]) -> T.StructType | None:
    """The columns of several queries into one table, each once, with the wider type; None without a query."""
    if not schemas:
        return None
    fields: dict[str, T.StructField] = {}
    for schema in schemas:
        for each in nullable_columns(schema):
            known = fields.get(each.name.lower())
            if known is None:
                fields[each.name.lower()] = each
            elif widens(known.dataType, each.dataType):
                fields[each.name.lower()] = T.StructField(known.name, each.dataType)
    return T.StructType(list(fields.values()))
