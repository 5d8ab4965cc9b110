"""Whether a streaming query over Delta tables and topics has read all of them, found without a start of the query.

A query that starts again asks its sources for their last batch, which costs jobs of Delta's, and then finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.kafka_size import is_kafka
from rivermouth.domain.query.query_entry import read_json
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint

if TYPE_CHECKING:
    from rivermouth.engine.query.query_run import QueryRun

NOTHING_NEW: Final = "nothing that it reads has new rows"


def has_nothing_new(
    run: QueryRun,
    tables: Iterable[tuple[str, int]],
    topics: Callable[[], Mapping[str, Mapping[str, int]] | None] = lambda: None,
) -> bool:
    """Whether a start of the query would write nothing. False where that cannot be known.

    Args:
        run: The flow.
        tables: Of the Delta tables that its query reads as streams the UUID and the newest version. They are looked at
            only where that can decide.
        topics: Gives where the topics end that its query reads; None where that is not known. Called only where that
            can decide.
    """
    entry, checkpoint = run.entry, run.context.checkpoint
    if run.stateful or entry.stateful or entry.fingerprint != run.fingerprint:
        return False
    if len(entry.offsets) < 2 or not isinstance(checkpoint, QueryCheckpoint):  # noqa: PLR2004 - metadata and a source
        return False
    found = checkpoint.inspect()
    if found.state != "usable" or found.owner != run.context.owner or found.planned != found.committed:
        return False
    if not found.goes_on_after(entry.query_id, entry.batch_id, entry.attempt):
        return False
    offsets = read_json(entry.offsets)
    records = [each for each in offsets if is_kafka(each)]
    read = [_all_read_before(each) for each in offsets if not is_kafka(each)]
    if None in read or (records and not _is_end(records, topics())):
        return False
    next_versions = {table_id: version + 1 for table_id, version in tables} if read else {}
    return all(each is not None and next_versions.get(each[0]) == each[1] for each in read)


def _is_end(records: Iterable[Mapping[str, Mapping[str, int]]], ends: Mapping[str, Mapping[str, int]] | None) -> bool:
    """Whether sources have read all partitions of all of their topics."""
    found = [(topic, dict(partitions)) for each in records for topic, partitions in each.items()]
    return ends is not None and len(found) == len(ends) and all(ends.get(topic) == each for topic, each in found)


def _all_read_before(offset: object) -> tuple[str, int] | None:
    """Of an offset of Delta's: the table's UUID, and the version before which all is read. None for any other offset.

    Such an offset is ``{"sourceVersion": 1, "reservoirId": "…", "reservoirVersion": 7, "index": -1,
    "isStartingVersion": false}``. Another index is within the files of that version.
    """
    match offset:
        case {"index": -1, "isStartingVersion": False, "reservoirId": table_id, "reservoirVersion": version}:
            return str(table_id), int(version)
    return None
