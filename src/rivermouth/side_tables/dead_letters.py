"""The table of dead letters where it lies: made when the first one comes, written once per ledger entry.

It is a secondary of the flow's table. A flow's transaction number in it is the number of the newest ledger
entry whose dead letters it holds, so that a range that is looked at again adds nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.names import COORDINATES
from rivermouth.ports.delta import delta_append, delta_ddl, delta_table
from rivermouth.ports.delta.added_rows import rows_behind
from rivermouth.ports.delta.table_ledger import app_id
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows import explode
from rivermouth.rows.columns.codegen import by_reference
from rivermouth.rows.dead_letter import COLUMNS, POSITION, WHY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.ports.lake.lake_files import LakeFiles


class DeadLetterTable:
    """The dead letters of one flow's table.

    Args:
        spark: The flow's session.
        files: Where the table lies.
        location: The table's folder.
        target: Full name of the table that the records were meant for.
        columns: Its columns, as ``rows.dead_letter.columns`` says; one that was made with fewer gets the others.
    """

    def __init__(
        self, spark: SparkSession, files: LakeFiles, location: str, *, target: str, columns: StructType = COLUMNS
    ) -> None:
        self._spark = spark
        self._files = files
        self.location = location
        self.target = target
        self.written = 0
        """How often some were written by this object."""
        self._columns = columns
        self._table_id: str | None = None
        # Version and newest ledger entry after our own last commit: as long as nobody else commits, no look at
        # the log or at the transaction numbers is needed.
        self._last: tuple[int, int] | None = None

    def exists(self) -> bool:
        """Whether there has been a dead letter yet."""
        return self._table_id is not None or delta_table.exists(self._files, self.location)

    def newest_entry(self, *flows: str | None) -> int:
        """Number of the newest ledger entry whose dead letters are here; -1 without any.

        Args:
            flows: The flow's name, and the one that it had before.
        """
        if not self.exists():
            return -1
        state = delta_snapshot.table_state(self._spark, self.location)
        self._known(state)
        return max(state.transactions.get(app_id(flow, state.table_id), -1) for flow in flows if flow)

    def write(self, rows: DataFrame, entry: Entry) -> int | None:
        """Appends the dead letters of one ledger entry and says how many there were; None if they were there.

        Args:
            rows: In the shape of ``rows.dead_letter.columns``.
            entry: The ledger entry of their batch.

        Guarantees:
            Run twice with one entry: they are there once. Stopped half-way: all of them or none.
        """
        metadata = _metadata(entry)
        transaction = TableTransaction(app_id(entry.flow, self._identity()), entry.number, metadata)
        if self._last is None:
            state = delta_snapshot.table_state(self._spark, self.location)
            self._last = (state.version, state.transactions.get(transaction.app_id, -1))
        version, newest = self._last
        onto = version if entry.number > newest else None
        delta_append.append(rows, self.location, transaction, onto=onto)
        self.written += 1
        while (commit := delta_table.read_commit(self._files, self.location, version := version + 1)) is not None:
            if commit.user_metadata == metadata:
                self._last = (version, entry.number)
                return commit.rows_written or 0
        return None

    def complete(self, rows: DataFrame, entry: Entry, expected: int, previously: str | None = None) -> None:
        """Sees to it that the dead letters of ``entry`` are those of ``rows``, of which there are ``expected``.

        Args:
            rows: In the shape of ``rows.dead_letter.columns``; all of ``entry``'s batch.
            entry: The newest ledger entry; none of its dead letters has been replayed yet.
            expected: Their number.
            previously: The name that the flow had before.

        Guarantees:
            Run twice: the second time finds them. Stopped half-way: as before, or all of them.
        """
        if self.newest_entry(entry.flow, previously) < entry.number and (
            expected == 0 or self.write(rows, entry) == expected
        ):
            return
        mine = f"batch = {entry.number}"
        there = self.frame().where(mine)
        known, found = self._told_apart(there), self._told_apart(rows)
        if there.count() == expected and known.join(found, known.columns, "left_anti").isEmpty():
            return
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", mine)
        writer.option("userMetadata", _metadata(entry)).save(self.location)

    def frame(self) -> DataFrame:
        """All dead letters of the table, whatever their status."""
        found = self._spark.read.format("delta").load(self.location)
        return explode.with_position(found) if POSITION in self._columns.fields else found

    def after(self, entry: int) -> DataFrame:
        """The dead letters of the ledger entries behind one, whatever their status."""

        def is_known(metadata: str) -> bool:
            try:
                return int(json.loads(metadata)["entry"]) <= entry
            except (ValueError, KeyError, TypeError):
                return False  # the commit is no batch's: a replay, or maintenance

        found = rows_behind(self._spark, self._files, self.location, is_known)
        return (self.frame() if found is None else found).where(
            f"batch > {by_reference(f'CAST({entry} AS BIGINT)', 'kafka_partition')}"
        )

    def mark(self, verdicts: DataFrame) -> None:
        """Sets what became of open dead letters.

        Args:
            verdicts: ``kafka_topic``, ``kafka_partition``, ``kafka_offset``, ``batch`` (the coordinates alone may
                be those of another epoch) and ``new_status``; a letter that stays open has been tried once more.
                With ``kafka_position`` where records are exploded, ``explode.WHOLE`` for one as a whole. With
                ``new_stage``, ``new_reason``, ``new_field``, ``new_message`` and ``new_failed_expectations`` where it
                is known why a letter fails now; it is not where ``new_reason`` is null.

        Guarantees:
            Run twice: a letter that is no longer open is left as it is. Stopped half-way: all or none.
        """
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        parts = [f"letter.{name} = verdict.{name}" for name in (*COORDINATES, "batch")]
        if POSITION.name in verdicts.columns:
            parts.append(f"coalesce(letter.{POSITION.name}, {explode.WHOLE}) = verdict.{POSITION.name}")
        same = " AND ".join(parts)
        (
            DeltaTable.forPath(self._spark, self.location)
            .alias("letter")
            .merge(verdicts.alias("verdict"), f"{same} AND letter.status = 'open'")
            .whenMatchedUpdate(set=_changes(verdicts))
            .execute()
        )

    def _identity(self) -> str:
        if self._table_id is None:
            if not delta_table.exists(self._files, self.location):
                layout = delta_table.TableLayout(
                    columns=self._columns,
                    comment=f"Dead letters of {self.target}",
                    properties={
                        "delta.checkpointInterval": "100",
                        "delta.dataSkippingStatsColumns": "kafka_offset,kafka_timestamp,dead_lettered_at",
                    },
                )
                delta_table.create(
                    self._spark, self.location, layout, metadata=json.dumps({"dead_letters_of": self.target})
                )
                self._last = (0, -1)
            return self._known(delta_snapshot.table_state(self._spark, self.location))
        return self._table_id

    def _known(self, state: TableState) -> str:
        """The table's id; it has all columns from now on."""
        if added := [each for each in self._columns if each.name not in state.columns.names]:
            delta_ddl.alter(self._spark, self.location, added=added, widened=())
        self._table_id = state.table_id
        return state.table_id

    def _told_apart(self, letters: DataFrame) -> DataFrame:
        """What dead letters are told apart by: the coordinates of a record, or of an element of it."""
        return letters.selectExpr(*COORDINATES, *([explode.PLACE] if POSITION in self._columns.fields else []))


def _changes(verdicts: DataFrame) -> dict[str, str | Column]:
    """SQL of what ``mark`` changes of a letter."""
    stays_open = "verdict.new_status = 'open'"
    changes: dict[str, str | Column] = {
        "status": "verdict.new_status",
        "attempt": f"CASE WHEN {stays_open} THEN letter.attempt + 1 ELSE letter.attempt END",
    }
    if "new_reason" in verdicts.columns:
        is_known = f"{stays_open} AND verdict.new_reason IS NOT NULL"
        changes |= {name: f"CASE WHEN {is_known} THEN verdict.new_{name} ELSE letter.{name} END" for name in WHY}
    return changes


def _metadata(entry: Entry) -> str:
    return json.dumps({"dead_letters_of": entry.flow, "entry": entry.number, "attempt": entry.attempt})
