"""Keys of records that are read as the format of that name reads values: columns, or one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.spec import KeyFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from rivermouth.spec import Flow, Format

TEXT: Final = f"CAST({names.KEY} AS STRING)"
"""SQL of Kafka's key as text."""
_HAS_SCHEMA: Final = f"get_json_object({TEXT}, '$.schema') IS NOT NULL"
ROW_KEY: Final = (
    f"coalesce(CASE WHEN {_HAS_SCHEMA} THEN get_json_object({TEXT}, '$.payload') END, "
    f"CASE WHEN startswith({TEXT}, '{{') THEN get_json_object({TEXT}, '$') "
    f"WHEN startswith({TEXT}, '\"') THEN try_variant_get(try_parse_json({TEXT}), '$', 'string') END, {TEXT})"
)
"""SQL of Kafka's key as a JSON object without its schema; a string without quotes, and what is no JSON as it is."""

# What a format makes of values, while it makes the same of keys.
_ASIDE: Final = {
    names.VALUE: "__of_value",
    names.DECODED: "__value_decoded",
    names.DATA: "__value_data",
    names.VERDICT: "__value_verdict",
    names.UNDECLARED: "__value_undeclared",
    names.REASON: "__value_reason",
    names.FIELD: "__value_field",
    names.MESSAGE: "__value_message",
}
_TOLD: Final = {names.REASON: "__key_reason", names.FIELD: "__key_field", names.MESSAGE: "__key_message"}
_VERDICT: Final = "__key_verdict"
OURS: Final = frozenset({*_ASIDE.values(), *_TOLD.values(), _VERDICT})
"""Columns that rows have only for a while."""


def column_type(spark: SparkSession, flow: Flow) -> DataType:
    """The type of ``kafka_key`` in the flow's table.

    Raises:
        ValueError: The schema of the keys cannot be read; the text says why.
    """
    from pyspark.sql.types import BinaryType, StringType  # noqa: PLC0415 - status needs no Spark

    if flow.key_columns is not None:
        return _key_type(spark, flow.key_columns)
    return StringType() if flow.key_as_text else BinaryType()


def columns(flow: Flow) -> tuple[str, ...]:
    """Columns that rows have from ``decode`` on, for a flow whose key's format says why it refuses a key."""
    return (_VERDICT,) if flow.key_columns is not None and flow.key_columns.has_verdict else ()


def decode(rows: DataFrame, form: Format) -> DataFrame:
    """Decoded rows with ``__key_data`` (null where there is no key or it was refused) and ``__key_valid``.

    ``__key_data`` is of the format's ``key_type``. ``__key_valid`` (boolean) is never null, and true where there is no
    key. The verdicts of a format that ``has_verdict`` are added too.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415 - status needs no Spark

    decoded = form.decode(_as_values(rows, names.KEY))
    row = decoded.schema[names.DATA].dataType
    made = names.DATA
    if isinstance(row, StructType) and not isinstance(_key_type(rows.sparkSession, form), StructType):
        made = f"{names.DATA}.{names.quoted(row[0].name)}"
    data = f"CASE WHEN {names.KEY} IS NOT NULL AND {names.DECODED} THEN {made} END AS {names.KEY_DATA}"
    verdict = [f"{names.VERDICT} AS {_VERDICT}"] if form.has_verdict else []
    return _back(decoded, f"{names.DECODED} AS {names.KEY_VALID}", data, *verdict)


def _key_type(spark: SparkSession, form: Format) -> DataType:
    return form.key_type(spark) if isinstance(form, KeyFormat) else form.columns(spark)


def explain(rows: DataFrame, form: Format) -> DataFrame:
    """Rows with ``__key_reason``, ``__key_field`` and ``__key_message``: why those keys are refused that are."""
    asked = _as_values(rows, names.KEY)
    asked = asked.withColumn(names.DECODED, asked[names.KEY_VALID])
    if form.has_verdict:
        asked = asked.withColumn(names.VERDICT, asked[_VERDICT])
    told = (f"{name} AS {target}" for name, target in _TOLD.items())
    return _back(form.explain(asked), *told)


def in_columns(known: StructType, flow: Flow, wanted: Sequence[str]) -> dict[str, str]:
    """SQL of what ``kafka_key`` has for each of the columns ``wanted`` that it has, in their types.

    It is null where a part of the key does not fit its column exactly. A key that is one value is that of the only
    column that is wanted.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415 - status needs no Spark

    from rivermouth.decoding import key_parts  # noqa: PLC0415 - status needs no Spark

    column = flow.metadata_columns["kafka_key"]
    key, kind = names.quoted(column), known[column].dataType
    if isinstance(kind, StructType):
        there = {name: f"{key}.{names.quoted(name)}" for name in kind.names}
    else:
        there = dict.fromkeys(wanted, key) if len(wanted) == 1 else {}
    parts = {each.name: each.dataType for each in kind.fields} if isinstance(kind, StructType) else {}
    return {
        name: key_parts.of_value(there[name], parts.get(name, kind), known[name].dataType)
        for name in wanted
        if name in there
    }


def with_columns_of_keys(rows: DataFrame, flow: Flow, wanted: Sequence[str]) -> DataFrame:
    """Conformed rows. Those without a value have in the columns ``wanted`` what their key has, or null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark

    of_keys = in_columns(rows.schema, flow, wanted)
    found = {name: f"IF({names.VALUE} IS NULL, {sql}, {names.quoted(name)})" for name, sql in of_keys.items()}
    return rows.withColumns({name: F.expr(sql) for name, sql in found.items()}) if found else rows


def with_columns_of_tombstones(rows: DataFrame, form: Format, wanted: Sequence[str]) -> DataFrame:
    """Conformed rows. Those without a value have in the columns ``wanted`` what their key says.

    Args:
        rows: Conformed rows.
        form: How keys are read as rows, as of ``for_tombstone_keys``. A key that is no object is the value of the
            only column that is wanted.
        wanted: The columns.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark

    from rivermouth.decoding import key_parts  # noqa: PLC0415 - status needs no Spark

    aside = rows.withColumnsRenamed(_ASIDE)
    keys = aside.withColumn(names.VALUE, F.expr(f"CASE WHEN {_ASIDE[names.VALUE]} IS NULL THEN {names.KEY} END"))
    read = _back(form.decode(keys), f"CASE WHEN {names.DECODED} THEN {names.DATA} END AS {names.KEY_DATA}")
    found = {name: f"{names.KEY_DATA}.{names.quoted(name)}" for name in wanted}
    if len(wanted) == 1:
        alone = key_parts.of_text(ROW_KEY, rows.schema[wanted[0]].dataType)
        plain = f"CASE WHEN NOT startswith({ROW_KEY}, '{{') THEN {alone} END"
        found[wanted[0]] = f"coalesce({found[wanted[0]]}, {plain})"
    told = {name: F.expr(f"IF({names.VALUE} IS NULL, {sql}, {names.quoted(name)})") for name, sql in found.items()}
    return read.withColumns(told).drop(names.KEY_DATA)


def _as_values(rows: DataFrame, column: str) -> DataFrame:
    aside = rows.withColumnsRenamed(_ASIDE)
    return aside.withColumn(names.VALUE, aside[column])


def _back(rows: DataFrame, *made: str) -> DataFrame:
    """The columns that were aside in their place again, with what was made of keys added."""
    aside = {other: name for name, other in _ASIDE.items() if other in rows.columns}
    foreign = [name for name in (*_ASIDE, *aside) if name in rows.columns]
    return rows.selectExpr(
        f"* EXCEPT ({', '.join(foreign)})", *made, *(f"{other} AS {name}" for other, name in aside.items())
    )
