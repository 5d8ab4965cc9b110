"""``decode``: Kafka records to columns, by the formats of flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rivermouth.pipelines.python.registry import current

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
