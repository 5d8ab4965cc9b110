"""Rebuilds deleted state of a flow as far as its table allows, and reports what is lost."""

from __future__ import annotations

import datetime as dt
import re
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructField, StructType

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.ledger.lost_state import COUNTS, LEDGER_COPY, SCHEMA, LostState
from rivermouth.engine.batch.pipeline import complete, rows_within
from rivermouth.engine.batch.recover_counts import letters_within
from rivermouth.engine.batch.recovery import recount, recover
from rivermouth.engine.events import StateLost
from rivermouth.engine.flow.lost_state import lost_at, lost_with
from rivermouth.engine.schema.infer import infer
from rivermouth.engine.schema.kept_schemas import look_of, newest, with_columns
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import RivermouthError
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows.columns.table_columns import derived_columns
from rivermouth.schemas.schema_versions import KeptSchema, file_name, versions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.events import Event
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow

# Of an inferred column whose name may not be that of its field: see schemas/inferred.py.
_RENAMED: Final = re.compile(r"_\d+$|^unnamed$")


def restore_state(
    spark: SparkSession,
    flow: Flow,
    files: LakeFiles,
    places: FlowPlaces,
    kafka: OffsetSource,
    tell: Callable[[Event], None],
) -> bool:
    """Rebuilds deleted state of the flow from its table, and reports what is lost; returns whether it was deleted.

    The copy of the newest ledger entry and the counts of its batch are rebuilt by ``complete_restored``.

    Raises:
        RivermouthError: The lake cannot be read or written.

    Guarantees:
        No table changes. Run twice: the second time finds the state, once the recovery is done. Stopped half-way: it
        is noticed again.
    """
    entry = lost_at(flow, files, places)
    if entry is None:
        return False
    rebuilt, lost = [LEDGER_COPY], [*lost_with(flow, entry)]
    if entry.unsettled:
        rebuilt.append(COUNTS)
    if flow.infers and newest(flow, files, places) is None:
        kept = _schema_of_table(spark, flow, places, kafka)
        if kept is None:
            lost.append(SCHEMA)
        else:
            version = max(versions_of(files.names(places.schemas())), default=0) + 1
            text = KeptSchema(flow.name, version, _now(), 0, 0, whole=False, changes=_CHANGES, schema=kept).to_text()
            files.create(f"{places.schemas()}/{file_name(version)}", text)
            rebuilt.append(SCHEMA)
    if lost:
        files.write(places.lost, LostState(entry.number, _now(), tuple(lost)).to_text())
    tell(StateLost(flow.name, places.state, entry.number, tuple(rebuilt), tuple(lost)))
    return True


def foreseen(
    spark: SparkSession, flow: Flow, files: LakeFiles, places: FlowPlaces, kafka: OffsetSource
) -> tuple[Flow | None, bool]:
    """The flow with the schema that would be rebuilt, None where none would be; and whether its state was deleted.

    Reads only.
    """
    if lost_at(flow, files, places) is None:
        return None, False
    if not flow.infers or newest(flow, files, places) is not None:
        return None, True
    columns = _schema_of_table(spark, flow, places, kafka)
    return None if columns is None else with_columns(flow, columns), True


def complete_restored(run: FlowRun) -> None:
    """Counts the newest entry's batch again, by the tables and by what Kafka still holds of it; emits no event.

    An earlier run has reported the batch. What Kafka does not hold any more was read, so it is not lost: its rows and
    dead letters are counted.

    Guarantees:
        No row is written. Dead letters that are missing, because the state was deleted after a crash, are written once.
    """
    started, ranges = time.monotonic(), run.entry.unsettled
    if run.position.counts is not None or not ranges:
        recover(run)
        return
    run.reached("recover")
    gone = _gone(run.kafka, run.entry, ranges)
    counts = replace(recount(run, ranges, gone), lost=0)
    if gone and run.flow.keyed is not None:
        merged = rows_within(run, gone).distinct().count()
        whole = not offset_ranges.without(ranges, gone) and run.dead_letters.exists()
        letters = letters_within(run.dead_letters, run.entry, gone).count() if whole else 0
        counts += Counts(consumed=merged + letters, merged=merged, dead_lettered=letters)
    complete(run, ranges, counts, time.monotonic() - started)


def _gone(kafka: OffsetSource, entry: Entry, ranges: Ranges) -> Ranges:
    """What of these ranges Kafka does not hold any more."""
    topics = kafka.describe(ranges.keys())
    first, ends = kafka.beginning_offsets(topics), kafka.end_offsets(topics, "read_uncommitted")
    known = entry.topic_ids
    gone: Ranges = {}
    for topic, parts in ranges.items():
        same = topic in topics and topics[topic].id == known.get(topic, topics[topic].id)
        for partition, (start, end) in parts.items():
            there = same and end <= ends.get(topic, {}).get(partition, 0)
            until = min(end, first[topic][partition]) if there else end
            if start < until:
                gone.setdefault(topic, {})[partition] = (start, until)
    return gone


_CHANGES: Final = ("rebuilt from the table",)


def _schema_of_table(spark: SparkSession, flow: Flow, places: FlowPlaces, kafka: OffsetSource) -> StructType | None:
    """The columns that the flow reads, as its table has them; None where they do not make the same table.

    That is so for a flow that selects or explodes: its table does not show which fields the flow reads.
    """
    state = delta_snapshot.table_state(spark, places.table)
    others = {name.lower() for name in (*flow.metadata_columns.values(), *derived_columns(flow))}
    fields = [each for each in state.columns if each.name.lower() not in others]
    try:
        names = _fields_of_columns(flow, kafka) if any(_RENAMED.search(each.name) for each in fields) else {}
        columns = StructType([StructField(e.name, e.dataType, metadata=names.get(e.name)) for e in fields])
        shape = table_shape(spark, with_columns(flow, columns))
    except (RivermouthError, ValueError):
        return None
    # A column that came later is the table's last, behind those that are not of the records.
    return columns if set(shape.columns.names) == set(state.columns.names) else None


def _fields_of_columns(flow: Flow, kafka: OffsetSource) -> dict[str, dict[str, object]]:
    """What a new inference says of columns that have another name than their field."""
    with suppress(RivermouthError):
        return {each.name: each.metadata for each in infer(flow, kafka, look_of(flow)).inferred.schema if each.metadata}
    return {}


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
