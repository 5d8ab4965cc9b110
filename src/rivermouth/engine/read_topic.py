"""The records of topics as a frame of Spark, judged as a flow judges them, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.engine.schemas import fixed, inferred_now
from rivermouth.engine.sources import source_of
from rivermouth.engine.steps import judge
from rivermouth.engine.table import table_shape
from rivermouth.errors import ArgumentInvalid
from rivermouth.ports.kafka import Kafka
from rivermouth.rows import changes, envelope, ledger, routing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.orders import FlowOrder
    from rivermouth.rows.ledger import Ranges
    from rivermouth.spec import Flow


def frame_of(spark: SparkSession, order: FlowOrder) -> DataFrame:
    """What the flow's table would hold if it were made now: rows of records, or one row a key, the newest.

    Records that would be dead letters, or be dropped, are not in it. All that Kafka holds at this moment is read
    whenever the frame is, between the flow's starting and ending offsets.

    Args:
        spark: Any session with our settings.
        order: The flow; nothing of its places is looked at.

    Returns:
        The columns of the flow's table. Of a flow with a keyed sink the newest row of each key that is not deleted.

    Raises:
        ArgumentInvalid: The flow's records may truncate its table, or one is several rows.
        TopicMissing: There is no such topic.
        RivermouthError: What else is wrong with the flow.

    Guarantees:
        Reads only: no table, no checkpoint, no consumer group's offsets are written.
    """
    _check_newest(order.flow)
    with Kafka(order.bootstrap_servers, order.options) as kafka:
        flow = inferred_now(order.flow, kafka)[0] if order.flow.format.infers else fixed(spark, order.flow)
        # Whatever becomes of the flow's own schema: what is there is to be seen.
        flow = flow.model_copy(update={"evolution": None})
        ranges = _ranges(flow, kafka)
    shape = table_shape(spark, flow)
    if not ranges:
        return spark.createDataFrame([], shape.columns)
    rows = envelope.read(source_of(flow, order.bootstrap_servers, order.options).batch(spark, ranges))
    rows = judge(rows, flow).where(f"{names.ROUTE} = '{routing.TABLE}'")
    columns = [names.quoted(name) for name in shape.columns.names]
    of_table = changes.order_of(flow, shape.columns.names)
    if of_table is None:
        return rows.selectExpr(*columns)
    way = [names.quoted(name) for name in dict.fromkeys((*shape.columns.names, names.DELETE, names.SEQUENCE))]
    parts = changes.by_partition(rows.selectExpr(*way), of_table)
    return changes.newest(parts, of_table).where(f"NOT {names.DELETE}").selectExpr(*columns)


def _ranges(flow: Flow, kafka: Kafka) -> Ranges:
    topics = kafka.topics(flow)
    return ledger.between(kafka.resolve_starting(flow, topics), kafka.resolve_ending(flow, topics))


def _check_newest(flow: Flow) -> None:
    if flow.keyed is None:
        return
    if flow.splits or flow.format.truncates or flow.keyed.apply_as_truncates or flow.keyed.versions:
        detail = f"what is newest of a key takes a table where the format is {flow.format.type}"
        if flow.keyed.versions or flow.keyed.apply_as_truncates:
            detail = "what is newest of a key takes a table where versions are kept or truncations are told"
        raise ArgumentInvalid(argument="latest_per_key", detail=detail, fix="rivermouth ingest TOPIC ...")
