"""Checks given records by a flow's rules: without Kafka, and without writing anything."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.registry import schema_headers
from rivermouth.decoding.row_values import OPTIONS, row_of
from rivermouth.domain.ledger.sampling import Record
from rivermouth.domain.project.sample_records import RecordVerdict
from rivermouth.engine.batch.pipeline import transform, without_fail
from rivermouth.engine.flow import task_failures
from rivermouth.engine.flow.lookup_tables import LookupTables
from rivermouth.engine.schema.infer import Seen, schema_of_seen, shape_of
from rivermouth.engine.schema.kept_schemas import look_of, resolved_schema, with_columns
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import RecordsNotChecked, SchemaNotKept, first_line
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.sources.given_source import COLUMNS, source_row
from rivermouth.rows import dead_letter, envelope, explode, lookups, routing
from rivermouth.rows.checks import failed_column
from rivermouth.spec import EvolvingFormat, require_capability

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.domain.project.sample_records import Placed
    from rivermouth.spec import Flow

FAIL: Final = "fail"
_AT: Final = (names.TOPIC, names.PARTITION, names.OFFSET)
_LETTER_AT: Final = (*names.COORDINATES, dead_letter.POSITION.name)

_Place = tuple[str, int, int, int | None]


def judged_records(
    spark: SparkSession, flow: Flow, places: FlowPlaces, records: Sequence[Placed]
) -> list[RecordVerdict]:
    """What the flow's rules say of these records, in their order; a verdict for each row of a record that is several.

    Args:
        spark: Any session with our settings.
        flow: The flow. Where it infers its schema and none is kept in the lake, the schema of ``records`` counts.
        places: Where a kept schema would be.
        records: No two with the same coordinates.

    Raises:
        RecordsNotChecked: Spark could not check them.
        RivermouthError: What is wrong with the flow, or keeps it from its schema.

    Guarantees:
        Reads the lake's state and a schema registry only; nothing is written.
    """
    if not records:
        return []
    flow = _with_schema(spark, flow, places, records)
    shape = table_shape(spark, flow)
    given = spark.createDataFrame([source_row(each) for each in records], COLUMNS)
    rows = envelope.read(given)
    # One that stops the flow says nothing of the rest.
    merciful, tables = without_fail(flow, routing.DEAD_LETTER), LookupTables()
    try:
        routed = transform(rows, merciful, tables=tables.frames(spark, merciful))
        found = _described(routed, merciful, shape.columns).collect()
        reasons = _reasons(routed, merciful)
        suspects = _suspects(rows, flow)
    except (PySparkException, Py4JJavaError) as error:
        typed = task_failures.of_flow(flow, str(error))
        if typed is not None:
            raise typed from error
        raise RecordsNotChecked(flow=flow.name, detail=first_line(error)) from error
    finally:
        tables.close()
    by_record = defaultdict(list)
    for row in found:
        by_record[row[names.TOPIC], row[names.PARTITION], row[names.OFFSET]].append(row)
    return [
        verdict
        for number, each in enumerate(records)
        for verdict in _verdicts(number, by_record[_place(each)], flow, reasons, shape.columns, suspects)
    ]


def _with_schema(spark: SparkSession, flow: Flow, places: FlowPlaces, records: Sequence[Placed]) -> Flow:
    try:
        return resolved_schema(spark, flow, files_for(places.lake, spark), places)
    except SchemaNotKept:
        began_at, look = time.monotonic(), look_of(flow)
        sample = (Record(*_place(each), each.key, each.value, schema_headers.has_id(each.headers)) for each in records)
        shape = shape_of(flow, sample, look)
        seen = Seen("the records", shape, len(records), len(records), True, False, time.monotonic() - began_at)
        return with_columns(flow, schema_of_seen(flow, seen, times=look.times).inferred.schema)


def _place(record: Placed) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _described(routed: DataFrame, flow: Flow, columns: StructType) -> DataFrame:
    """What is reported of each routed row, in a few columns with names of their own."""
    failed = [F.when(F.col(failed_column(index)), F.lit(each.name)) for index, each in enumerate(flow.all_expectations)]
    table = F.struct(*(F.col(names.quoted(name)) for name in columns.names))
    is_row = F.col(names.ROUTE) == routing.TABLE
    keyed = flow.keyed is not None
    position = F.lit(None).cast("int")
    if flow.explosion is not None or flow.splits:
        position = F.col(names.POSITION if flow.explosion is not None else names.ORDINAL)
    return routed.select(
        *_AT,
        position.alias("position"),
        F.col(names.ROUTE).alias("route"),
        F.array_compact(F.array(*failed, F.lit(None).cast("string"))).alias("failed"),
        F.col(names.VALUE).isNull().alias("is_null"),
        (F.col(names.DELETE) if keyed else F.lit(False)).alias("deletes"),
        (F.col(names.TRUNCATE) if keyed else F.lit(False)).alias("truncates"),
        F.when(is_row, F.to_json(table, OPTIONS)).alias("row"),
    )


def _reasons(routed: DataFrame, flow: Flow) -> dict[_Place, Row]:
    """The dead letters by coordinates and position."""
    letters = dead_letter.dead_letters(routed, flow, target="", entry=0, topic_ids={})
    told = explode.with_position(letters).select(*_LETTER_AT, "reason", "field", "message")
    return {(row[0], row[1], row[2], row[3]): row for row in told.collect()}


def _suspects(rows: DataFrame, flow: Flow) -> set[tuple[str, int, int]]:
    """The records that a run would look at for a change of the schema."""
    if not (flow.policies.grows or flow.policies.says(FAIL)):
        return set()
    decoded = envelope.decode(explode.split(rows, flow), flow)
    form = require_capability(flow.value_format, EvolvingFormat)
    found = decoded.where(form.rows_to_inspect(rows.sparkSession)).select(*_AT).distinct()
    return {(row[0], row[1], row[2]) for row in found.collect()}


def _verdicts(
    number: int,
    rows: Sequence[Row],
    flow: Flow,
    reasons: dict[_Place, Row],
    columns: StructType,
    suspects: set[tuple[str, int, int]],
) -> Iterator[RecordVerdict]:
    """Of one record: one of its rows each; of changes that are refused together one."""
    stopping = {each.name for each in flow.expectations if each.route == FAIL}
    for nth, row in enumerate(sorted(rows, key=lambda each: each["position"] or 0)):
        route, failed, text = row["route"], tuple(row["failed"]), row["row"]
        if route != routing.TABLE and nth and flow.splits:
            return
        position = row["position"] if flow.explosion is not None and row["position"] >= 0 else None
        why = reasons.get((row[names.TOPIC], row[names.PARTITION], row[names.OFFSET], position))
        if flow.splits and route == routing.TABLE and len(rows) > 1:
            position = nth
        reason, field, message = (why["reason"], why["field"], why["message"]) if why else (None, None, None)
        if route == routing.DROPPED:
            reason, message = _why_dropped(row, flow)
        would_fail = reason == "EXPECTATION" and route == routing.DEAD_LETTER and stopping.intersection(failed)
        change = None
        if route == routing.TABLE and flow.keyed is not None:
            change = "truncate" if row["truncates"] else "delete" if row["deletes"] else "upsert"
        yield RecordVerdict(
            record=number,
            position=position,
            verdict=FAIL if would_fail else route,
            reason=reason,
            field=field,
            message=message,
            failed_expectations=failed,
            change=change,
            changes_schema=(row[names.TOPIC], row[names.PARTITION], row[names.OFFSET]) in suspects,
            row=None if text is None else row_of(text, columns),
            row_json=text,
        )


def _why_dropped(row: Row, flow: Flow) -> tuple[str | None, str]:
    """Reason and message of a record that is dropped."""
    dropping = [
        each.name for each in flow.all_expectations if each.route == routing.DROPPED and each.name in row["failed"]
    ]
    missing = next((each for each in flow.lookup if each.name in dropping), None)
    if missing is not None:
        return lookups.REASON, lookups.not_found(missing)
    if dropping:
        return "EXPECTATION", f"failed: {', '.join(dropping)}"
    if row["is_null"]:
        return "NULL_VALUE", "the value is null"
    if flow.explosion is not None and row["position"] == explode.NONE:
        return None, "it has no element"
    return None, "it is no change of a row" if flow.change_envelope else "the format leaves it out"
