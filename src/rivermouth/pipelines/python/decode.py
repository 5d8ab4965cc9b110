"""``decode`` and ``encode``: Kafka records to columns and back, by the formats of flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rivermouth.pipelines.python.registry import current

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SETTINGS: Final = ("format", "key_format", "null_values", "metadata_columns", "compression", "explode", "select")
"""The settings of a flow that ``decode`` takes."""


def decode(
    frame: DataFrame,
    format: str | Mapping[str, Any],  # noqa: A002 - the word of the project file
    **settings: Any,
) -> DataFrame:
    """The rows that a flow with this format would write, of a stream of Kafka records.

    A record that does not fit becomes a dead letter of the table, with the reason and coordinates that a flow gives.

    Args:
        frame: A stream with the columns of Spark's Kafka source: ``key``, ``value``, ``topic``, ``partition``,
            ``offset``, ``timestamp``, and ``timestampType`` and ``headers`` where they are there.
        format: As ``format`` of a flow: ``{"type": "json", "schema": "id bigint"}``, or the name of a type alone.
        settings: Further settings of a flow that say how records are read: ``key_format``, ``null_values``,
            ``metadata_columns``, ``compression``, ``explode``, ``select``.

    Returns:
        The columns of the format and the flow's metadata columns.

    Raises:
        DefinitionInvalid: A setting is wrong, the frame is no stream of Kafka records, or no query is evaluated now.
        DefinitionOutside: No pipeline is run now.

    Guarantees:
        Each record is a row, a dead letter, or counted as dropped; once, also after a crash.
    """
    decoded: DataFrame = current("decode").reader.decode(frame, {"format": format, **settings})
    return decoded


def encode(
    frame: DataFrame,
    format: str | Mapping[str, Any],  # noqa: A002 - the word of the project file
) -> Column:
    """The column ``value`` of records for a Kafka sink, in Avro or Protobuf.

    Args:
        frame: The rows. Each field of the schema is made of the column of its name.
        format: As ``format`` of a flow: ``{"type": "avro", "framing": "confluent", "subject": "orders-value",
            "version": 1}`` writes with a schema of the project's schema registry, ``{"type": "avro", "schema":
            "orders.avsc"}`` without one.

    Returns:
        A binary column of the frame.

    Raises:
        DefinitionInvalid: A setting is wrong, the columns are not those of the schema, or no query is evaluated now.
        DefinitionOutside: No pipeline is run now.
    """
    encoded: Column = current("encode").reader.encode(frame, format)
    return encoded
