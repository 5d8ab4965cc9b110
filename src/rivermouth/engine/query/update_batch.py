"""Batches of an update flow: each row replaces the row of the table that has its keys."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.query import query_batch
from rivermouth.engine.query.query_table import conformed
from rivermouth.engine.query.steps.batch_letters import (
    MARK,
    Routed,
    at_its_time,
    counting_columns,
    hold,
    write_dead_letters,
)
from rivermouth.errors import UpdateKeysRepeated
from rivermouth.names import quoted
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows import row_expectations
from rivermouth.rows.keyed.merge_plan import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryRun


@dataclass(frozen=True)
class UpdateBatch:
    """Writes the batches of an update flow; see ``query_batch.process``.

    Attributes:
        keys: Names of the columns by which a row replaces another one; null is a value like others.
    """

    keys: tuple[str, ...]

    def __call__(self, frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
        """Merges the rows of one batch, in one commit with its ledger entry.

        Raises:
            UpdateKeysRepeated: Several rows of the batch have the same keys.

        Guarantees:
            As ``query_batch.process``: the table has the whole batch with its entry, or nothing of it.
        """
        started, context = time.monotonic(), run.context
        if query_batch.is_known(frame, batch_id, query_id, run):
            return
        entry = query_batch.next_entry(batch_id, query_id, run)
        frame, entry = query_batch.sourced(frame, entry, run)
        context.step("check")
        expectations = context.expectations
        routed = at_its_time(row_expectations.route(frame, expectations), entry, run)
        run.begin_counts()
        mark = row_expectations.letter_mark(routed.schema, expectations)
        with computed(routed, *counting_columns(expectations, mark)) as (ready, told):
            counts = run.whole_counts(row_expectations.counted(expectations, told.asDict()))
            rows = conformed(ready.where(row_expectations.IN_TABLE), run.columns)
            self._check_keys(rows, run)
            entry = hold(Routed(ready, kept=True), entry.counted(counts), told[MARK], run)
            context.step("write")
            self._merge(rows, entry, run)
            context.step("written")
        if counts.dead_lettered:
            write_dead_letters(frame.sparkSession, run)
        query_batch.report_batch(counts, started, run)

    def _check_keys(self, rows: DataFrame, run: QueryRun) -> None:
        if repeated := query_batch.count_repeated(rows, self.keys):
            context, columns = run.context, ", ".join(self.keys)
            raise UpdateKeysRepeated(flow=context.flow, dataset=context.dataset, keys=repeated, columns=columns)

    def _merge(self, rows: DataFrame, entry: QueryEntry, run: QueryRun) -> None:
        plan = Merge(
            on=F.expr(" AND ".join(f"s.{quoted(name)} <=> t.{quoted(name)}" for name in self.keys)),
            ranges={},
            delete="false",
            update="true",
            insert="true",
            values={quoted(each.name): f"s.{quoted(each.name)}" for each in run.columns},
        )
        with computed(rows.withColumn(names.CHANGE, F.monotonically_increasing_id())) as (ready, told):
            query_batch.merge_rows(ready, told["rows"], plan, entry, run)
