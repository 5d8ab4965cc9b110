"""How far a flow or a query is behind Kafka, for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rivermouth.cli.output import count
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from rivermouth.engine.report.flow_status import PartitionStatus


def lag_lines(lag: int | None, furthest: PartitionStatus | None) -> list[str]:
    """How much is left to read; no line where that is not known."""
    if lag is None:
        return []
    where = f", furthest behind is {furthest.topic} partition {furthest.partition}" if furthest is not None else ""
    return [f"  lag: {count(lag, 'offset')}{where}"]


def partition_lines(partitions: Sequence[PartitionStatus]) -> list[str]:
    """A table of the partitions; no line where there are none."""
    if not partitions:
        return []
    rows = [(each.topic, str(each.partition), each.next_offset, each.end_offset, each.lag) for each in partitions]
    return [columns(("topic", "partition", "next offset", "end offset", "lag"), rows, indent="    ")]
