"""Keys of records that become columns: read as the format of that name reads values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from rivermouth.spec import Flow, Format

# What a format makes of values, while it makes the same of keys.
_ASIDE: Final = {
    names.VALUE: "__of_value",
    names.DECODED: "__value_decoded",
    names.DATA: "__value_data",
    names.REASON: "__value_reason",
    names.FIELD: "__value_field",
    names.MESSAGE: "__value_message",
}
_TOLD: Final = {names.REASON: "__key_reason", names.FIELD: "__key_field", names.MESSAGE: "__key_message"}
OURS: Final = frozenset({*_ASIDE.values(), *_TOLD.values()})
"""Columns that stand beside others for a while."""


def column_type(spark: SparkSession, flow: Flow) -> DataType:
    """The type of ``kafka_key`` in the flow's table.

    Raises:
        ValueError: The schema of the keys cannot be read; the text says why.
    """
    from pyspark.sql.types import BinaryType, StringType  # noqa: PLC0415 - status needs no Spark

    if flow.key_columns is not None:
        return flow.key_columns.columns(spark)
    return StringType() if flow.key_as_text else BinaryType()


def decode(rows: DataFrame, form: Format) -> DataFrame:
    """Decoded rows with ``__key_data`` (struct, null where there is no key or it was refused) and ``__key_valid``.

    ``__key_valid`` (boolean) is never null, and true where there is no key.
    """
    decoded = form.decode(_as_values(rows, names.KEY))
    data = f"CASE WHEN {names.KEY} IS NOT NULL AND {names.DECODED} THEN {names.DATA} END AS {names.KEY_DATA}"
    return _back(decoded, f"{names.DECODED} AS {names.KEY_VALID}", data)


def explain(rows: DataFrame, form: Format) -> DataFrame:
    """Rows with ``__key_reason``, ``__key_field`` and ``__key_message``: why those keys are refused that are."""
    asked = _as_values(rows, names.KEY)
    asked = asked.withColumn(names.DECODED, asked[names.KEY_VALID])
    told = (f"{name} AS {target}" for name, target in _TOLD.items())
    return _back(form.explain(asked), *told)


def with_columns_of_keys(rows: DataFrame, flow: Flow, wanted: Sequence[str]) -> DataFrame:
    """Conformed rows of which those without a value have in the columns ``wanted`` what their key has; else null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark
    from pyspark.sql.types import StructType  # noqa: PLC0415

    key = names.quoted(flow.metadata_columns["kafka_key"])
    kind = rows.schema[flow.metadata_columns["kafka_key"]].dataType
    there = set(kind.names) if isinstance(kind, StructType) else set()
    found = {}
    for name in (each for each in wanted if each in there):
        of_key = f"try_cast({key}.{names.quoted(name)} AS {rows.schema[name].dataType.simpleString()})"
        found[name] = F.expr(f"IF({names.VALUE} IS NULL, {of_key}, {names.quoted(name)})")
    return rows.withColumns(found) if found else rows


def _as_values(rows: DataFrame, column: str) -> DataFrame:
    aside = rows.withColumnsRenamed(_ASIDE)
    return aside.withColumn(names.VALUE, aside[column])


def _back(rows: DataFrame, *made: str) -> DataFrame:
    """What was aside in its place again, with what was made of keys beside it."""
    aside = {other: name for name, other in _ASIDE.items() if other in rows.columns}
    foreign = [name for name in (*_ASIDE, *aside) if name in rows.columns]
    return rows.selectExpr(
        f"* EXCEPT ({', '.join(foreign)})", *made, *(f"{other} AS {name}" for other, name in aside.items())
    )
