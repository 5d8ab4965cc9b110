"""A query into a sink with a ledger, Kafka or an archive of files: each batch is committed with its ledger entry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry
from rivermouth.engine.flow.delivery import abandoned_where_it_fails
from rivermouth.engine.query import counted_view
from rivermouth.engine.query.query_batch import is_known, next_entry, sourced
from rivermouth.engine.query.query_events import BatchWritten
from rivermouth.engine.query.query_run import QueryRun
from rivermouth.errors import QueryStateLost, SinkStateLost
from rivermouth.ports.delta.query_ledger import QueryPosition
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.engine.flow.delivery import Delivery
    from rivermouth.engine.query.query_run import QueryContext


class DeliveredBatch:
    """Writes batches of a query into a sink.

    Args:
        delivery: Of the flow into its sink.
        shape: Makes rows as the sink takes them of a batch.
    """

    def __init__(self, delivery: Delivery, shape: Callable[[DataFrame], DataFrame]) -> None:
        self._delivery = delivery
        self._shape = shape

    def __call__(self, frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
        """Writes one batch.

        1. ledger: a batch that was committed already is left out.
        2. sources: where they were at the end of the batch, as Spark has written it; files are kept by name.
        3. send: the rows, where nobody sees them yet.
        4. commit: what was sent, with the ledger entry and its counts.

        Raises:
            RivermouthError: The sink does not take the rows; nothing of the batch is seen.

        Guarantees:
            Run twice: the second time writes nothing. Stopped anywhere: readers of what is committed see the whole
            batch and the ledger has its entry, or neither.
        """
        started, context = time.monotonic(), run.context
        if is_known(frame, batch_id, query_id, run):
            return
        entry = next_entry(batch_id, query_id, run)
        frame, entry = sourced(frame, entry, run)
        counted_view.reset(run.views)
        rows = self._shape(frame)
        context.step("sink")
        with abandoned_where_it_fails(self._delivery):
            self._delivery.begin()
            sent = self._delivery.send(rows)
            context.step("sink_sent")
            counts = QueryCounts(read=sent, written=sent, late=run.late_rows())
            counts = counted_view.with_views(counts, run.views)
            entry = entry.counted(counts)
            self._delivery.commit(entry.to_json())
        context.step("sink_written")
        run.position = QueryPosition(entry, -1)
        context.files.write(context.places.side_file, entry.to_json())
        run.counts += counts
        seconds = time.monotonic() - started
        context.emit(BatchWritten(context.dataset, context.flow, entry.number, counts, seconds))


def opened(context: QueryContext, delivery: Delivery) -> QueryRun:
    """A flow into a sink where it is in its ledger.

    Where the sink has no entry of it and there is a checkpoint, the flow goes on where that is: it is older than the
    ledger, or the ledger was deleted.

    Raises:
        RivermouthError: The sink cannot be used, or the ledger cannot be read.
    """
    position = QueryPosition(_newest(delivery) or _of_checkpoint(context), -1)
    return QueryRun(context, columns=T.StructType(), table_id="", position=position)


def _newest(delivery: Delivery) -> QueryEntry | None:
    text = delivery.newest_entry()
    return None if text is None else QueryEntry.from_json(text, table=delivery.ledger_place, version=-1)


def _of_checkpoint(context: QueryContext) -> QueryEntry:
    """An entry that says what the checkpoint says; one without offsets where there is none."""
    none = QueryEntry(context.flow, number=-1)
    if not isinstance(context.checkpoint, QueryCheckpoint):
        return none
    found = context.checkpoint.inspect()
    if found.state != "usable" or found.committed < 0:
        return none
    offsets = context.checkpoint.offsets(found.committed)
    return QueryEntry(
        context.flow,
        number=-1,
        query_id=found.query_id,
        batch_id=found.committed,
        offsets=offsets,
        streams=found.streams,
    )


@contextmanager
def naming_the_sink(context: QueryContext) -> Iterator[None]:
    """Errors about the state of a query name the sink in the place of a table.

    Raises:
        SinkStateLost: In the place of ``QueryStateLost``.
    """
    try:
        yield
    except QueryStateLost as error:
        detail, checkpoint = error.facts["detail"], context.places.checkpoint
        raise SinkStateLost(flow=context.flow, sink=context.dataset, checkpoint=checkpoint, detail=detail) from error


def reset(context: QueryContext, delivery: Delivery) -> None:
    """Lets the flow read its sources from the beginning; what was written stays.

    Guarantees:
        Run twice: as once.
    """
    entry = _newest(delivery) or _of_checkpoint(context)
    delivery.begin()
    delivery.commit(entry.after_reset(cleared=False).to_json())
