"""What a flow reads, opened for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from rivermouth.domain.kafka.kafka_options import java_options
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.engine.table.problems import fix_of
from rivermouth.errors import SourceWhereInvalid, first_line
from rivermouth.ports.internals.expressions import forbidden, forbidden_within, is_of_the_day, repeatable
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.ports.lake.lake_reader import reader_for
from rivermouth.ports.lake.storage_checks import check_same_place
from rivermouth.ports.sources.snapshot_source import SnapshotSource
from rivermouth.ports.sources.table_source import TableSource
from rivermouth.ports.sources.table_values import TableValues
from rivermouth.ports.spark.local_frames import no_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.project.source_table import SourceTable
    from rivermouth.engine.flow.jobs import FamilyJob, FlowJob
    from rivermouth.engine.flow.table_per_topic import Finder
    from rivermouth.ports.sources.protocols import OffsetSource, RecordSource
    from rivermouth.spec import Flow

_AGAIN: Final = "it may say something else of a row that is read again"


@contextmanager
def reading(
    spark: SparkSession, job: FlowJob, options: Mapping[str, str] | None = None, *, checked: bool = False
) -> Iterator[tuple[OffsetSource, RecordSource]]:
    """What the flow reads, to be looked at and as Spark reads it, while the block lasts.

    Args:
        spark: Any session.
        job: The flow.
        options: Client options instead of the order's.
        checked: Whether the condition on the rows of a table is known to be one.

    Raises:
        MskJarMissing: Spark's client has no class to log in with.
    """
    if job.given is not None:
        yield job.given, job.given
        return
    if job.source is not None:
        check_same_place(spark, job.source.places)
        if not checked:
            check_where(spark, job.source, job.flow.name)
        table = TableSource(job.source, PlacedFiles(spark), reader=job.flow.name, spark=spark)
        yield table, table
        return
    if job.snapshots is not None:
        snapshots = SnapshotSource(job.snapshots, PlacedFiles(spark), reader=job.flow.name, spark=spark)
        yield snapshots, snapshots
        return
    options = job.options if options is None else options
    with Kafka(job.bootstrap_servers, options) as kafka:
        source = source_of(job.flow, job.bootstrap_servers, options, kafka)
        source.check_login(spark)
        yield kafka, source


@contextmanager
def finding(spark: SparkSession, job: FamilyJob) -> Iterator[Finder]:
    """What has the topics of a family, or the values of a column in their place, while the block lasts."""
    if job.source is not None and job.flow.routed_by is not None:
        reader = reader_for(spark, job.places.lake)
        yield TableValues(reader, job.source, job.flow.routed_by, family=job.flow.name)
        return
    with Kafka(job.bootstrap_servers, job.options) as kafka:
        yield kafka


def check_where(spark: SparkSession, source: SourceTable, reader: str) -> None:
    """Checks that the reader's condition is one over the columns of the table.

    Raises:
        SourceWhereInvalid: It is no such condition, or is refused.
    """
    if source.where is None:
        return
    columns = table_shape(spark, source.flow).columns
    fix = f"write a condition over {', '.join(columns.names)}"
    try:
        # First: to analyse reflection is to load a class.
        detail = forbidden(spark, source.where) or (_AGAIN if is_of_the_day(source.where) else None)
        if detail is None:
            chosen = no_rows(spark, columns).where(source.where)
            detail = forbidden_within(chosen) or (None if repeatable(chosen) else _AGAIN)
    except PySparkException as error:
        detail, near = first_line(error), fix_of(error, columns.names, fix)
        fix = near if near.startswith("did you mean") else fix
    if detail:
        table = source.places.full_name
        told = SourceWhereInvalid(flow=reader, condition=source.where, table=table, detail=detail, fix=fix)
        raise told.about("source", "where")


def source_of(
    flow: Flow, bootstrap_servers: str, options: Mapping[str, str], kafka: Kafka | None = None
) -> KafkaSource:
    """The flow's cluster as Spark reads it; options are resolved and checked, and ``kafka`` looks up timestamps."""
    return KafkaSource(
        bootstrap_servers=bootstrap_servers,
        options=java_options(options),
        # A source without headers is faster: Spark cannot leave a column of Kafka unread.
        headers=flow.reads_headers,
        min_partitions=flow.trigger.min_partitions,
        first_at=None if kafka is None else kafka.first_at,
    )
