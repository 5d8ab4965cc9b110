"""The columns that a flow's settings name: derived, partition, key and sequence columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Collection

    from rivermouth.spec import Flow


def derived_columns(flow: Flow) -> dict[str, str]:
    """Name to SQL expression of the key and partition columns that are computed, in the YAML's order.

    A bare expression such as ``date(kafka_timestamp)`` is named after itself: ``date_kafka_timestamp``.
    """
    derived: dict[str, str] = {}
    for part in (*(flow.keyed.keys if flow.keyed else ()), *flow.table.partition_by):
        if isinstance(part, dict):
            derived.update(part)
        elif "(" in part:
            derived[names.expression_name(part)] = part
    return derived


def partition_columns(flow: Flow) -> list[str]:
    """The names of the table's partition columns, in order."""
    return names.named(flow.table.partition_by)


def key_columns(flow: Flow) -> list[str]:
    """The names of the columns that identify the table's rows; none for a table without keys."""
    if flow.keyed is None:
        return []
    return names.named(flow.keyed.keys) if flow.keyed.keys else [flow.metadata_columns[flow.default_key]]


def sequence_column(flow: Flow, columns: Collection[str]) -> str | None:
    """The column in which a keyed table keeps the place of each row in the order.

    None without ``sequence_by``; the column that it names if the table has that, else ``__sequence``. In a table with
    every version of a key the start of the version.

    Args:
        flow: The flow.
        columns: The columns that the table has anyway.
    """
    if flow.keyed is None or not flow.keyed.sequence_by:
        return None
    if flow.keyed.versions:
        # Where records change a version in place, that of the last one is another than the version's start.
        return names.START_AT if flow.keyed.tracked(()) is None else names.SEQUENCE
    first, *more = flow.keyed.sequence_by
    return first if not more and first in columns else names.SEQUENCE
