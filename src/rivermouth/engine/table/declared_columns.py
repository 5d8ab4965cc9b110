"""The columns that a flow's formats declare, and what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from rivermouth.decoding import record_keys
from rivermouth.decoding.text.java_pattern import PatternRefused
from rivermouth.errors import PatternInvalid, SchemaInvalid, first_line
from rivermouth.names import did_you_mean
from rivermouth.schemas.refused import SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from rivermouth.engine.table.problems import Problems
    from rivermouth.spec import Flow, Format

_TYPES: Final = (
    *("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "string", "timestamp"),
    *("timestamp_ntz", "tinyint", "variant"),
)
_NO_TYPE: Final = re.compile(r"^\[UNSUPPORTED_DATATYPE\] Unsupported data type \"(\w+)\"")
_TWINS: Final = re.compile(r"^columns '[^']+' and '([^']+)' are the same")
_COLUMN: Final = re.compile(r"^column ([^:]+): ")


def declared_columns(spark: SparkSession, flow: Flow, problems: Problems) -> tuple[StructType, DataType]:
    """The payload columns, and the type of ``kafka_key``.

    Raises:
        SchemaInvalid: A schema cannot be read.
        PatternInvalid: The pattern of the format regex cannot be used.
    """
    payload: list[StructType] = []
    key: list[DataType] = []
    for setting, read in (
        ("format", lambda: payload.append(flow.value_format.columns(spark))),
        ("key_format", lambda: key.append(record_keys.column_type(spark, flow))),
    ):
        with problems.kept():
            _read(flow, setting, read)
    problems.report()
    return payload[0], key[0]


def _read(flow: Flow, setting: str, read: Callable[[], None]) -> None:
    try:
        read()
    except PatternRefused as error:
        raise PatternInvalid(flow=flow.name, detail=first_line(error)).about(setting, "pattern") from error
    except (ValueError, PySparkException) as error:
        raise schema_invalid(flow, error, setting) from error


def schema_invalid(flow: Flow, error: Exception, setting: str = "format") -> SchemaInvalid:
    """What is wrong with the schema of one of a flow's formats, with what to write instead."""
    form: Format = getattr(flow, setting) or flow.format
    detail = first_line(error)
    option = detail.split(" ", 1)[0]
    is_option = option in type(form).model_fields and option != "type"
    fix = f"remove {option}, or write the schema that it needs: {form.schema_example}"
    if not is_option:
        fix = error.fix if isinstance(error, SchemaRefused) else _fix(detail, form)
    path = option if is_option else "schema"
    return SchemaInvalid(flow=flow.name, detail=detail, fix=fix).about(setting, path)


def _fix(detail: str, form: Format) -> str:
    if unknown := _NO_TYPE.match(detail):
        return did_you_mean(unknown[1].lower(), _TYPES)
    if twins := _TWINS.match(detail):
        return f"remove the column {twins[1]}, or give it another name"
    if "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION" in detail:
        return "did you mean 'decimal(38, 0)'?"
    if column := _COLUMN.match(detail):
        return f"declare another type for {column[1]}, or leave it out of the schema"
    return f"write it like this: {form.schema_example}"
