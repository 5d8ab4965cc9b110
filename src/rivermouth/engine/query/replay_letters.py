"""Dead letters of a pipeline's table tried again, or given up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.table_transaction import CountedTransaction, TableTransaction
from rivermouth.domain.query.failure_texts import cause
from rivermouth.domain.query.query_entry import QueryEntry, replay_text
from rivermouth.engine.query.query_table import conformed
from rivermouth.engine.query.replays.replayed_rows import LeftRecords, ReplayedRows
from rivermouth.errors import CommitLost, LettersNotTaken
from rivermouth.names import quoted
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import row_expectations
from rivermouth.side_tables.held_letters import HeldLetters
from rivermouth.side_tables.row_dead_letters import OLDER_ROW, REWRITES, ROW, RowDeadLetters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.rows.row_expectations import RowExpectation

LETTER: Final = "__letter"
"""A dead letter whole, next to what is known of it."""
REPLAYING: Final = "replaying"
"""The status of a dead letter whose replay was begun."""
_TRIES: Final = 5
"""How often a replay begins its commit, where each time a flow commits first."""
_PICKED: Final = "__picked"
_RECORD: Final = "record"
"""What a dead letter is that has no row."""


@dataclass(frozen=True, slots=True)
class LetterTable:
    """A table with its dead letters, and the expectations on its rows as they are now.

    Attributes:
        dataset: Its name, as the pipeline writes it.
        location: Its folder.
        dead_letters: The folder of its dead letters, which is there.
        expectations: Those of now.
    """

    dataset: str
    location: str
    dead_letters: str
    expectations: Sequence[RowExpectation]

    @property
    def spared(self) -> list[RowExpectation]:
        """Its expectations, changed so that none ends a job: a row that fails one of action fail is dead-lettered."""
        return [_Spared(each) for each in self.expectations]

    def held(self, spark: SparkSession) -> HeldLetters:
        """Dead letters that a replay found, until they are in their table."""
        return HeldLetters(files_for(self.location, spark), self.location)

    def side_table(self, spark: SparkSession) -> RowDeadLetters:
        """The table of its dead letters."""
        return RowDeadLetters(files_for(self.dead_letters, spark), self.dead_letters, dataset=self.dataset)

    def replay_entry(self, number: int) -> QueryEntry:
        """The entry under which the dead letters of a replay are held."""
        return QueryEntry(f"replay of {self.dataset}", number, attempt=str(number))

    def lost(self, number: int) -> CommitLost:
        """The error of a replay whose commit another process was before."""
        return CommitLost(flow=self.replay_entry(number).flow, entry=number, table=self.location)


def app_id(table_id: str) -> str:
    """The application of the transactions of replays in a table.

    Args:
        table_id: Delta's UUID of the table.
    """
    return f"rivermouth/replay/{table_id}"


def replay(
    spark: SparkSession, table: LetterTable, failed: str | None, *, dry_run: bool = False
) -> tuple[ReplayedRows, dict[str, int]]:
    """Writes open dead letters that are rows, and meet the expectations of now, into their table.

    Args:
        spark: The session.
        table: The table.
        failed: Only those that failed the expectation of this name.
        dry_run: Only counts.

    Returns:
        What became of them; and by flow how many open ones are records that were not decoded.

    Raises:
        CommitLost: Another process did the same at the same time.
        LettersNotTaken: The table does not take the rows of all that pass; none was written.

    Guarantees:
        Run twice: the second time moves none. Stopped anywhere: the next replay completes this one first; each row is
        in the table once.
    """
    if not dry_run:
        complete(spark, table)
    letters, version = letters_of(spark, table)
    groups = letters.where(is_open(failed)).groupBy("flow", _kind(letters).alias("kind")).count().orderBy("flow")
    by_kind: dict[str, dict[str, int]] = {kind: {} for kind in (ROW, OLDER_ROW, _RECORD)}
    for flow, kind, count in groups.collect():
        by_kind[kind][flow] = count
    tried, passing = sum(by_kind[ROW].values()), 0
    if tried:
        state = table_state(spark, table.location)
        routed = _routed(letters, table, state.columns, failed)
        passes = F.col(_PICKED) & (F.col(names.ROUTE) == row_expectations.TABLE)
        passing, newest = routed.select(F.count_if(passes), F.max(f"{LETTER}.replay")).first() or (0, None)
        if passing and not dry_run:
            number = next_number(state, newest)
            rewrite(table, routed, version, passes, REPLAYING, number)
            complete(spark, table, {number: False})
    older = sum(by_kind[OLDER_ROW].values())
    left = (LeftRecords(older),) if older else ()
    return ReplayedRows(table.dataset, tried, passing, tried - passing, left=left, dry_run=dry_run), by_kind[_RECORD]


def _kind(letters: DataFrame) -> Column:
    """What a dead letter is: a row, a row that is kept as JSON, or a record that was not decoded."""
    older = F.col(OLDER_ROW) if OLDER_ROW in letters.columns else F.lit(None)
    return F.when(F.col(ROW).isNotNull(), ROW).when(older.isNotNull(), OLDER_ROW).otherwise(_RECORD)


def discard(spark: SparkSession, table: LetterTable, failed: str | None, *, dry_run: bool = False) -> int:
    """Marks open dead letters as given up; how many.

    Raises:
        CommitLost: Another process changed the dead letters at the same time.

    Guarantees:
        Run twice: the second time finds none.
    """
    letters, version = letters_of(spark, table)
    picked = letters.withColumn(LETTER, F.struct("*")).withColumn(_PICKED, is_open(failed))
    ((found,),) = picked.select(F.count_if(_PICKED)).collect()
    if found and not dry_run:
        rewrite(table, picked, version, F.col(_PICKED), "discarded")
    return int(found)


def complete(spark: SparkSession, table: LetterTable, begun: Mapping[int, bool] | None = None) -> None:
    """Brings replays that were begun to their end: their rows into the table, then their mark.

    Rows of records are made by the query, which may be another one by now. Where they are not in the table, the replay
    of these records is given up: the dead letters are open again. So is a replay of rows that cannot be written.

    Args:
        spark: The session.
        table: The table.
        begun: The numbers of the replays that were begun, and whether they are about records; None to look.

    Raises:
        CommitLost: Another process did the same at the same time.
        LettersNotTaken: The rows of a replay could not be written; its dead letters are open again.
    """
    begun = dict(_begun(letters_of(spark, table)[0])) if begun is None else begun
    given_up, refused = list[int](), list[LettersNotTaken]()
    for number in sorted(begun):
        try:
            if not _written(spark, table, number, records=begun[number]):
                given_up.append(number)
        except LettersNotTaken as error:
            given_up.append(number)
            refused.append(error)
        except delta_table.conflicts() as error:
            raise table.lost(min(begun)) from error
    if begun:
        letters, version = letters_of(spark, table)
        mark = F.when(F.col("replay").isin(given_up), "open").otherwise("replayed") if given_up else "replayed"
        rewrite(table, letters.withColumn(LETTER, F.struct("*")), version, F.col("status") == REPLAYING, mark)
        table.held(spark).forget(table.replay_entry(0).flow)
    for each in refused:
        raise each


def _begun(letters: DataFrame) -> list[tuple[int, bool]]:
    """The numbers of the replays that were begun, and whether they are about records."""
    found = letters.where(F.col("status") == REPLAYING).groupBy("replay")
    return [(row[0], row[1]) for row in found.agg(F.bool_or(F.col(ROW).isNull())).collect()]


def _written(spark: SparkSession, table: LetterTable, number: int, *, records: bool) -> bool:
    """Whether the rows of a replay are in the table; those that dead letters hold are written now."""
    if not records:
        return _write_rows(spark, table, number)
    is_there = _is_there(spark, table, number)
    if is_there:
        _write_held(spark, table, number)
    return is_there


def _is_there(spark: SparkSession, table: LetterTable, number: int) -> bool:
    """Whether the rows of a replay are in the table; if not, they cannot be committed any more."""
    state = table_state(spark, table.location)
    newest = newest_number(state)
    if newest < number:
        # The process that began it may still be at work: with a later number in the table, its commit is refused.
        carried = TableTransaction(app_id(state.table_id), number + 1, replay_text(table.dataset, number + 1))
        delta_append.append(no_rows(spark, state.columns), table.location, carried)
    return newest == number


def _write_rows(spark: SparkSession, table: LetterTable, number: int) -> bool:
    """Writes the rows that dead letters hold whose replay was begun; False if a later replay is in the table already.

    Raises:
        CommitLost: A full refresh gave them up, or flows commit all the time.
        LettersNotTaken: The table does not take them.
    """
    for state in states_to_commit_onto(spark, table, number):
        letters = begun_letters(spark, table, number)
        carried = TableTransaction(app_id(state.table_id), number, replay_text(table.dataset, number))
        try:
            rows = conformed(letters.select(f"{ROW}.*"), state.columns)
            done = delta_append.append_alone(rows, table.location, carried, onto=state.version)
        except (PySparkException, Py4JJavaError) as error:
            if not _is_there(spark, table, number):
                detail = ": ".join(cause(error))
                raise LettersNotTaken(dataset=table.dataset, rows=letters.count(), detail=detail) from error
            done = True
        if done:
            return True
    newest = newest_number(table_state(spark, table.location))
    if newest < number:
        raise table.lost(number)
    return newest == number


def states_to_commit_onto(spark: SparkSession, table: LetterTable, number: int) -> Iterator[TableState]:
    """The table as each try of a replay to commit its rows finds it; no more once these can be committed no longer.

    That is so where the table has a replay of this number or a later one, and where the dead letters were given up. A
    full refresh gives them up before it empties the table. So they are looked at when the table's version is known,
    and no flow may commit between that look and the commit of the rows.
    """
    for _ in range(_TRIES):
        state = table_state(spark, table.location)
        if newest_number(state) >= number or begun_letters(spark, table, number).isEmpty():
            return
        yield state


def _write_held(spark: SparkSession, table: LetterTable, number: int) -> None:
    """Writes the dead letters that a replay of records found, if there are any."""
    found = table.held(spark).held(spark, table.replay_entry(number))
    if found is None:
        return
    app = app_id(table_state(spark, table.dead_letters).table_id)
    said = json.dumps({"dead_letters_of": table.replay_entry(number).flow, "replay": number})
    table.side_table(spark).append(found, TableTransaction(app, number, said))


def _routed(letters: DataFrame, table: LetterTable, columns: StructType, failed: str | None) -> DataFrame:
    """Each letter, whether it is picked, and where its row would go by the expectations of now."""
    picked = (is_open(failed) & F.col(ROW).isNotNull()).alias(_PICKED)
    whole = letters.select(F.struct("*").alias(LETTER), picked, f"{ROW}.*")
    there = {name.lower() for name in whole.columns}
    missing = {each.name: F.lit(None).cast(each.dataType) for each in columns if each.name.lower() not in there}
    # What fails an expectation whose action is fail stays where it is.
    return row_expectations.route(whole.withColumns(missing), table.spared)


_SPARED: Final = {
    "fail": row_expectations.DEAD_LETTER,
    row_expectations.NOT_NULL: row_expectations.NOT_NULL_SPARED,
}
"""By action one that ends no job."""


class _Spared:
    """An expectation that ends no job."""

    def __init__(self, expectation: RowExpectation) -> None:
        self.name, self.condition = expectation.name, expectation.condition
        self.action = _SPARED.get(expectation.action, expectation.action)


def letters_of(spark: SparkSession, table: LetterTable) -> tuple[DataFrame, int]:
    """The dead letters of a table, and the version of their table."""
    version = table_state(spark, table.dead_letters).version
    return spark.read.format("delta").option("versionAsOf", version).load(table.dead_letters), version


def begun_letters(spark: SparkSession, table: LetterTable, number: int) -> DataFrame:
    """The dead letters whose replay of this number was begun."""
    return letters_of(spark, table)[0].where((F.col("status") == REPLAYING) & (F.col("replay") == number))


def is_open(failed: str | None = None) -> Column:
    """Whether a dead letter is open, and failed the expectation of this name."""
    found = F.col("status").eqNullSafe("open")
    return found if failed is None else found & F.array_contains("failed_expectations", failed)


def has_open_rows(spark: SparkSession, table: LetterTable) -> bool:
    """Whether open dead letters of a table are rows, and not only records that were not decoded."""
    return not letters_of(spark, table)[0].where(is_open() & F.col(ROW).isNotNull()).isEmpty()


def next_number(state: TableState, newest: int | None) -> int:
    """The number of the next replay, which is even; no replay of the table had it, also none that was given up.

    The odd number after it is for the process that gives that replay up.

    Args:
        state: Of the table.
        newest: The greatest number of a replay among the dead letters.
    """
    found = max(newest_number(state), -1 if newest is None else newest) + 1
    return found + found % 2


def newest_number(state: TableState) -> int:
    """The number of the newest replay in a table, or of the newest that was given up; -1 without any."""
    return state.transactions.get(app_id(state.table_id), -1)


def rewrite(
    table: LetterTable,
    letters: DataFrame,
    version: int,
    chosen: Column,
    status: Column | str,
    number: int | None = None,
) -> None:
    """Replaces the dead letters by the same with another status where ``chosen``, if nobody else changed them.

    Args:
        table: Their table.
        letters: All of them, each as ``LETTER``.
        version: The version of their table that was read.
        chosen: Whose status is changed.
        status: The new status.
        number: Of the replay that changes it.

    Raises:
        CommitLost: Another process changed them.
    """
    changed = F.col(LETTER).withField("status", F.lit(status))
    if number is not None:
        changed = changed.withField("replay", F.lit(number).cast("bigint"))
    rows = letters.select(F.when(chosen, changed).otherwise(F.col(LETTER)).alias(LETTER)).select(f"{LETTER}.*")
    columns = table_state(letters.sparkSession, table.dead_letters).columns
    rows = rows.select(*(F.col(quoted(name)) for name in columns.names))
    said = json.dumps({"dead_letters_marked": status if isinstance(status, str) else "replayed"})
    carried = CountedTransaction(REWRITES, version + 1, lambda: said, replaces=True)
    lost = CommitLost(flow=f"dead letters of {table.dataset}", entry=version + 1, table=table.dead_letters)
    try:
        done = delta_append.write_counted(rows, table.dead_letters, carried, onto=version)
    except delta_table.conflicts() as error:
        raise lost from error
    if not done:
        raise lost
