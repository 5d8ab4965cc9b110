"""A query into Kafka: each batch is a transaction that holds its records and its ledger entry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry
from rivermouth.engine.query import counted_view
from rivermouth.engine.query.query_batch import is_known, keep_files, next_entry
from rivermouth.engine.query.query_events import BatchWritten
from rivermouth.engine.query.query_run import QueryRun
from rivermouth.errors import QueryStateLost, SinkStateLost
from rivermouth.ports.delta.query_ledger import QueryPosition
from rivermouth.ports.kafka.kafka_transactions import KafkaTransactions
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint
from rivermouth.rows import kafka_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.sink_options import KafkaSinkOptions
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.ports.kafka.kafka_transactions import SinkNames


class KafkaBatch:
    """Carries batches of a query into Kafka.

    Args:
        transactions: Of the flow into its sink.
        topic: Of all records; None where the column ``topic`` says it.
    """

    def __init__(self, transactions: KafkaTransactions, topic: str | None) -> None:
        self._transactions = transactions
        self._topic = topic

    def __call__(self, frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
        """Writes one batch.

        1. ledger: a batch that was committed already is left out.
        2. sources: where they were at the end of the batch, as Spark has written it; files are kept by name.
        3. send: the rows as records of a transaction.
        4. commit: the transaction, with the ledger entry and its counts.

        Raises:
            RivermouthError: The cluster does not take the records; the transaction was aborted.

        Guarantees:
            Run twice: the second time writes nothing. Stopped anywhere: readers of committed records see the whole
            batch and the ledger has its entry, or neither.
        """
        started, context = time.monotonic(), run.context
        if is_known(frame, batch_id, query_id, run):
            return
        entry = next_entry(batch_id, query_id, run)
        keep_files(frame, entry, run)
        counted_view.reset(run.views)
        rows = kafka_records.records(frame, self._topic)
        context.step("sink")
        self._transactions.begin()
        try:
            sent = self._transactions.send(rows)
            context.step("sink_sent")
            counts = counted_view.with_views(QueryCounts(read=sent, written=sent), run.views)
            entry = entry.counted(counts)
            self._transactions.commit(entry.to_json())
        except BaseException:
            self._transactions.abandon()
            raise
        context.step("sink_written")
        run.position = QueryPosition(entry, -1)
        context.files.write(context.places.side_file, entry.to_json())
        run.counts += counts
        seconds = time.monotonic() - started
        context.emit(BatchWritten(context.dataset, context.flow, entry.number, counts, seconds))


@contextmanager
def opened(
    spark: SparkSession, context: QueryContext, options: KafkaSinkOptions, names: SinkNames
) -> Iterator[tuple[QueryRun, KafkaBatch]]:
    """A flow into Kafka where it is in its ledger, and what carries its batches; closed at the end of the block.

    Where Kafka has no entry of it and there is a checkpoint, the flow goes on where that is: it is older than the
    ledger, or the topic of the ledger was deleted.

    Raises:
        RivermouthError: The cluster cannot be used, or the ledger cannot be read.
    """
    with KafkaTransactions(spark, options, names) as transactions:
        position = QueryPosition(_newest(transactions) or _of_checkpoint(context), -1)
        run = QueryRun(context, columns=T.StructType(), table_id="", position=position)
        yield run, KafkaBatch(transactions, options.topic)


def _newest(transactions: KafkaTransactions) -> QueryEntry | None:
    text = transactions.newest_entry()
    return None if text is None else QueryEntry.from_json(text, table=transactions.names.ledger_topic, version=-1)


def _of_checkpoint(context: QueryContext) -> QueryEntry:
    """An entry that says what the checkpoint says; one without offsets where there is none."""
    none = QueryEntry(context.flow, number=-1)
    if not isinstance(context.checkpoint, QueryCheckpoint):
        return none
    found = context.checkpoint.inspect()
    if found.state != "usable" or found.committed < 0:
        return none
    offsets = context.checkpoint.offsets(found.committed)
    return QueryEntry(context.flow, number=-1, query_id=found.query_id, batch_id=found.committed, offsets=offsets)


@contextmanager
def naming_the_sink(context: QueryContext) -> Iterator[None]:
    """Errors about the state of a query name the sink in the place of a table.

    Raises:
        SinkStateLost: In the place of ``QueryStateLost``.
    """
    try:
        yield
    except QueryStateLost as error:
        facts = {name: error.facts[name] for name in ("flow", "checkpoint", "detail")}
        raise SinkStateLost(sink=context.dataset, **facts) from error


def reset(spark: SparkSession, context: QueryContext, options: KafkaSinkOptions, names: SinkNames) -> None:
    """Lets the flow read its sources from the beginning; records that were written stay.

    Guarantees:
        Run twice: as once.
    """
    with KafkaTransactions(spark, options, names) as transactions:
        entry = _newest(transactions) or _of_checkpoint(context)
        transactions.begin()
        transactions.commit(entry.after_reset(cleared=False).to_json())
