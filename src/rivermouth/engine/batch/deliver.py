"""Rows of a flow's table delivered to the topic or the archive of its sink: commit by commit, each at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.row_values import WHOLE_TIMES
from rivermouth.domain.ledger.ledger import Entry
from rivermouth.engine.flow.delivery import abandoned_where_it_fails
from rivermouth.errors import DeliveryGap
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.added_rows import added_rows
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.kafka.kafka_transactions import KafkaTransactions, SinkCluster, SinkNames
from rivermouth.ports.lake.file_archive import Archive, FileArchive
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.rows import envelope, kafka_records
from rivermouth.sinks.files import FilesSink
from rivermouth.sinks.kafka import TOPIC_COLUMN, KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.kafka.sink_options import KafkaSinkOptions
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.delivery import Delivery
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.spec import Flow

DELIVERS: Final = ("batch", "replay")
"""The kinds of entries whose commits add rows that are records of the topic."""


def open_delivery(run: FlowRun) -> None:
    """Makes the flow ready to deliver, and delivers what a crash left; nothing of a flow that only has a table.

    A trial (``debug``) delivers into an archive of its own, and into no topic.

    Where there is no ledger of the flow yet, the topic or archive gets the rows of commits from now on: the table is
    new, or its flow had another sink before.

    Raises:
        RivermouthError: The cluster does not take the records.

    Guarantees:
        Run twice: as once. The producer of a process before can write no more.
    """
    close_delivery(run)
    delivery = _opened(run)
    if delivery is None:
        return
    with _level(run, delivery):
        text = delivery.newest_entry()
        if text is None:
            delivery.begin()
            delivery.commit(run.entry.to_json())
            return
        newest = Entry.from_json(text, table=delivery.ledger_place, version=-1)
        if newest is not None:
            _deliver_after(run, delivery, newest.number)


@contextmanager
def _level(run: FlowRun, delivery: Delivery) -> Iterator[None]:
    """The flow has a delivery only while all of the table is delivered: the block delivers what is not.

    Where it fails, the flow has none, and the next opening finds what is missing.
    """
    run.delivery = None
    with abandoned_where_it_fails(delivery):
        yield
    run.delivery = delivery


def _opened(run: FlowRun) -> Delivery | None:
    sink = run.sink
    if isinstance(sink, FilesSink):
        archive = archive_of(run.places, sink)
        return FileArchive(files_for(archive.location, run.spark), archive, run.flow.name)
    found = _topic_of(run)
    return None if found is None else KafkaTransactions(run.spark, *found)


def _topic_of(run: FlowRun) -> tuple[KafkaSinkOptions, SinkNames] | None:
    """The cluster and the topic into which the flow delivers; None of a flow or a trial that delivers into none."""
    sink, source = run.sink, run.source
    if not isinstance(sink, KafkaSink) or not isinstance(source, KafkaSource) or run.places.is_trial:
        return None
    return sink.options_with(_cluster(source)), _names(run.places, run.flow)


def archive_of(places: FlowPlaces, sink: FilesSink) -> Archive:
    """The archive of the flow's sink."""
    return Archive(places.archive, sink.format, sink.options, sink.partition_by)


def delivered_number(run: FlowRun) -> int | None:
    """The number of the newest ledger entry whose rows are in the topic of the flow's sink; None where none are.

    Raises:
        RivermouthError: The cluster does not say.
    """
    found = _topic_of(run)
    if found is None:
        return None
    cluster = SinkCluster(run.spark, *found)
    text = cluster.newest_entry()
    entry = None if text is None else Entry.from_json(text, table=cluster.names.ledger_topic, version=-1)
    return None if entry is None else entry.number


def _cluster(source: KafkaSource) -> dict[str, str]:
    return {**source.options, "bootstrap.servers": source.bootstrap_servers}


def close_delivery(run: FlowRun | None) -> None:
    """Closes what a flow that is not run on delivers by."""
    if run is not None and run.delivery is not None:
        run.delivery.close()
        run.delivery = None


def deliver(run: FlowRun) -> None:
    """Delivers the rows of the newest entry, which are in the table; nothing of a flow that only has a table.

    Raises:
        RivermouthError: The cluster does not take the records.

    Guarantees:
        Stopped anywhere: readers of committed records see the rows of an entry once. Those that are missing are
        delivered before the next batch, or when the flow is opened again.
    """
    delivery = run.delivery
    if delivery is None:
        open_delivery(run)
        return
    with _level(run, delivery):
        _deliver(run, delivery, run.entry, run.position.version)


def _names(places: FlowPlaces, flow: Flow) -> SinkNames:
    # Not by the flow's name, which may be another one later.
    found = SinkNames.of(flow.name, flow.name, places.full_name, places.table)
    return replace(found, creates="write create_topic: {partitions: 3} in the sink, and the topic is created")


def _deliver_after(run: FlowRun, delivery: Delivery, number: int) -> None:
    """Delivers the entries behind one, the oldest first.

    Raises:
        DeliveryGap: The log was cleaned since the sink got rows.
    """
    missing: list[tuple[Entry, int]] = []
    for version in reversed(delta_table.commit_versions(run.files, run.places.table)):
        commit = delta_table.read_commit(run.files, run.places.table, version)
        text = None if commit is None else commit.user_metadata
        entry = Entry.from_json(text, table=run.places.table, version=version) if text else None
        if entry is not None and entry.number <= number:
            break
        if entry is not None:
            missing.append((entry, version))
    _check_whole(run, delivery, number, missing[-1][0].number if missing else run.entry.number + 1)
    for entry, version in reversed(missing):
        _deliver(run, delivery, entry, version)


def _check_whole(run: FlowRun, delivery: Delivery, delivered: int, oldest: int) -> None:
    """Checks that the oldest entry that can be delivered is the one behind that which was."""
    if oldest <= delivered + 1:
        return
    fix = "write another path into the sink: its archive gets the rows of later commits"
    if isinstance(run.sink, KafkaSink):
        fix = f"kafka-topics.sh --delete --topic {delivery.ledger_place}, and the topic gets the rows of later commits"
    raise DeliveryGap(
        flow=run.flow.name,
        sink=run.sink.type,
        table=run.places.table,
        delivered=delivered,
        first=delivered + 1,
        last=oldest - 1,
        fix=fix,
    )


def _deliver(run: FlowRun, delivery: Delivery, entry: Entry, version: int) -> None:
    run.reached("deliver")
    delivery.begin()
    rows = _rows(run.context, run.flow, entry, version)
    if rows is not None:
        delivery.send(rows)
    run.reached("sent")
    delivery.commit(entry.to_json())
    run.reached("delivered")


def _rows(context: FlowContext, flow: Flow, entry: Entry, version: int) -> DataFrame | None:
    """What is delivered of an entry, in the order of the records that its rows were; None if there is nothing."""
    if entry.kind not in DELIVERS:
        return None
    found = added_rows(context.spark, context.files, context.places.table, version)
    if found is None:
        return None
    called = flow.metadata_columns
    if entry.kind == "batch" and entry.unsettled:
        # Delta looks only into the files that may have these offsets.
        inside = envelope.inside(entry.unsettled)
        rows = found.withColumns({target: F.col(names.quoted(called[name])) for target, name in names.IN_TABLE.items()})
        found = rows.where(inside).drop(*names.IN_TABLE)
    if isinstance(context.sink, FilesSink):
        return found.drop(names.EPOCH_COLUMN)
    return _records(found, flow, context.sink) if isinstance(context.sink, KafkaSink) else None


def _records(found: DataFrame, flow: Flow, sink: KafkaSink) -> DataFrame:
    """Rows of the table as records of the topic."""
    called = flow.metadata_columns
    place = [F.col(names.quoted(called[name])) for name in flow.identity.values()]
    kinds = {each.name: each.dataType.typeName() for each in found.schema}

    def part(name: str | None) -> Column:
        """A column as text or bytes; null where none is named."""
        column = F.lit(None) if name is None else F.col(names.quoted(name))
        return column if name is None or kinds[name] == "binary" else column.cast("string")

    if sink.value is not None:
        value = part(sink.value)
    elif sink.encoding is not None:
        value = sink.encoding.encoded(found.sparkSession, found.schema)
    else:
        left_out = {*called.values(), names.EPOCH_COLUMN}
        columns = (F.col(names.quoted(each)) for each in found.columns if each not in left_out)
        value = F.to_json(F.struct(*columns), WHOLE_TIMES)
    headers = [F.struct(F.lit(name), part(column).cast("binary")) for name, column in sink.headers.items()]
    parts = {
        "key": part(sink.key),
        "value": value,
        "topic": part(TOPIC_COLUMN if sink.topic is None else None),
        "partition": F.lit(None) if sink.partition is None else F.col(names.quoted(sink.partition)),
        "headers": F.array(*headers) if headers else F.lit(None),
    }
    # All rows of a partition that was read come one after the other, so that those of a key keep their order.
    rows = found.repartition(*place[:2]).sortWithinPartitions(*place)
    return kafka_records.records(rows.select(*(each.alias(name) for name, each in parts.items())), sink.topic)
