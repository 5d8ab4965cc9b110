"""The records of topics as a frame of Spark, processed by a flow's rules, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch.pipeline import transform
from rivermouth.engine.flow.lookup_tables import LookupTables
from rivermouth.engine.open.sources import source_of
from rivermouth.engine.schema.kept_schemas import fixed, inferred_now
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import envelope, routing
from rivermouth.rows.keyed import change_order, changes
from rivermouth.side_tables.deleted_keys import truncations_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.spec import Flow


def frame_of(spark: SparkSession, job: FlowJob) -> DataFrame:
    """What the flow's table would hold if it were made now: rows of records, or one row a key, the newest.

    Records that would be dead letters, or be dropped, are not in it. All that Kafka holds at this moment is read
    whenever the frame is, between the flow's starting and ending offsets.

    Args:
        spark: Any session with our settings.
        job: The flow, whose records are whole rows or changes of them; nothing of its places is looked at.

    Returns:
        The columns of the flow's table. Of a flow with a keyed sink the newest row of each key that is not deleted.
        Where records may delete all rows together, the topic is looked through for such records before.

    Raises:
        TopicMissing: There is no such topic.
        RivermouthError: What else is wrong with the flow.

    Guarantees:
        Reads only: no table, no checkpoint, no consumer group's offsets are written.
    """
    with Kafka(job.bootstrap_servers, job.options) as kafka:
        flow = inferred_now(job.flow, kafka)[0] if job.flow.infers else fixed(spark, job.flow)
        # Whatever becomes of the flow's own schema: what is there is to be seen.
        flow = flow.model_copy(update={"evolution": None})
        ranges = _ranges(flow, kafka)
        source = source_of(flow, job.bootstrap_servers, job.options, kafka)
        held = source.batch(spark, ranges) if ranges else None
    shape = table_shape(spark, flow)
    if held is None:
        return no_rows(spark, shape.columns)
    rows = envelope.read(held)
    rows = transform(rows, flow, tables=LookupTables(cached=False).frames(spark, flow)).where(
        f"{names.ROUTE} = '{routing.TABLE}'"
    )
    columns = [names.quoted(name) for name in shape.columns.names]
    of_table = change_order.order_of(flow, shape.columns.names)
    if of_table is None:
        return rows.selectExpr(*columns)
    way = [names.DELETE, names.SEQUENCE, *([names.ORDINAL] if flow.splits else [])]
    if of_table.truncates:
        kind = rows.schema[names.SEQUENCE].dataType.simpleString()
        gone = truncations_of(rows, of_table, kind)
        rows = rows.where(f"NOT {names.TRUNCATE}").alias("s")
        rows = rows if gone is None else rows.where(~gone.older("s", names.SEQUENCE))
    told = [names.quoted(name) for name in dict.fromkeys((*shape.columns.names, *way))]
    parts = changes.by_partition(rows.selectExpr(*told), of_table)
    return changes.newest(parts, of_table).where(f"NOT {names.DELETE}").selectExpr(*columns)


def _ranges(flow: Flow, kafka: Kafka) -> Ranges:
    topics = kafka.topics(flow)
    return offset_ranges.between(kafka.resolve_starting(flow, topics), kafka.resolve_ending(flow, topics))
