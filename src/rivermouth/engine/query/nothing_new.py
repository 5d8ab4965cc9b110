"""Whether a streaming query over Delta tables alone has read all of them, found without a start of the query.

A query that starts again asks its sources for their last batch, which costs jobs of Delta's, and then finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.query.query_run import QueryRun

NOTHING_NEW: Final = "no table that it reads has a new version"


def has_nothing_new(spark: SparkSession, run: QueryRun, tables: Iterable[str]) -> bool:
    """Whether a start of the query would carry nothing. False where that cannot be known.

    Args:
        spark: Any session.
        run: The flow.
        tables: The folders of the Delta tables that its query reads as streams.
    """
    entry, checkpoint = run.position.entry, run.context.checkpoint
    if run.stateful or entry.stateful or entry.fingerprint != run.fingerprint:
        return False
    read = [_all_read_before(line) for line in entry.offsets[1:]]
    if not read or not isinstance(checkpoint, QueryCheckpoint):
        return False
    found = checkpoint.inspect()
    if found.state != "usable" or found.owner != run.context.owner or found.planned != found.committed:
        return False
    if not found.goes_on_after(entry.query_id, entry.batch_id, entry.attempt):
        return False
    states = [table_state(spark, each) for each in tables]
    next_versions = {state.table_id: state.version + 1 for state in states}
    return all(each is not None and next_versions.get(each[0]) == each[1] for each in read)


def _all_read_before(line: str) -> tuple[str, int] | None:
    """Of an offset of Delta's: the table's UUID, and the version before which all is read. None for any other offset.

    Such an offset is ``{"sourceVersion": 1, "reservoirId": "…", "reservoirVersion": 7, "index": -1,
    "isStartingVersion": false}``. Another index is within the files of that version.
    """
    try:
        offset = json.loads(line)
        if offset["index"] == -1 and offset["isStartingVersion"] is False:
            return str(offset["reservoirId"]), int(offset["reservoirVersion"])
    except (ValueError, KeyError, TypeError):
        pass
    return None
