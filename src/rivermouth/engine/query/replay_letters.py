"""Dead letters of a pipeline's table tried again, or given up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.table_transaction import CountedTransaction, TableTransaction
from rivermouth.domain.query.query_entry import replay_text
from rivermouth.engine.query.query_table import conformed
from rivermouth.errors import CommitLost
from rivermouth.names import quoted
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.rows import row_expectations
from rivermouth.side_tables.row_dead_letters import ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from rivermouth.rows.row_expectations import RowExpectation

_LETTER: Final = "__letter"
_PICKED: Final = "__picked"
_REFUSED: Final = "__refused"


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """What became of a table's open dead letters.

    Attributes:
        table: The table, as the pipeline writes it.
        tried: How many were open and picked.
        replayed: How many are in the table now, or would be.
        remaining: How many still fail an expectation.
        not_decoded: How many more are open, because the query could not decode their records; they stay.
        dry_run: Whether nothing was written.
    """

    table: str
    tried: int
    replayed: int
    remaining: int
    not_decoded: int = 0
    dry_run: bool = False


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


def replay(spark: SparkSession, table: LetterTable, failed: str | None, *, dry_run: bool = False) -> ReplayedRows:
    """Writes open dead letters that meet the expectations of now into their table.

    Args:
        spark: The session.
        table: The table.
        failed: Only those that failed the expectation of this name.
        dry_run: Only counts.

    Raises:
        CommitLost: Another process did the same at the same time.

    Guarantees:
        Run twice: the second time moves none. Stopped anywhere: the next replay completes this one first; each row is
        in the table once.
    """
    app = f"rivermouth/replay/{table_state(spark, table.location).table_id}"
    if not dry_run:
        _complete(spark, table, app)
    state = table_state(spark, table.location)
    routed, version = _routed(spark, table, state.columns, failed)
    tried, passing, not_decoded = routed.select(
        F.count_if(_PICKED),
        F.count_if(F.col(_PICKED) & (F.col(names.ROUTE) == row_expectations.TABLE)),
        F.count_if(_REFUSED),
    ).first() or (0, 0, 0)
    if passing and not dry_run:
        number = max(state.transactions.get(app, -1), _newest_replay(spark, table)) + 1
        claimed = F.col(_PICKED) & (F.col(names.ROUTE) == row_expectations.TABLE)
        _rewrite(table, routed, version, claimed, "replaying", number)
        _complete(spark, table, app)
    return ReplayedRows(table.dataset, tried, passing, tried - passing, not_decoded, dry_run)


def discard(spark: SparkSession, table: LetterTable, failed: str | None, *, dry_run: bool = False) -> int:
    """Marks open dead letters as given up; how many.

    Raises:
        CommitLost: Another process changed the dead letters at the same time.

    Guarantees:
        Run twice: the second time finds none.
    """
    letters, version = _letters(spark, table)
    picked = letters.withColumn(_LETTER, F.struct("*")).withColumn(_PICKED, _open(failed))
    ((found,),) = picked.select(F.count_if(_PICKED)).collect()
    if found and not dry_run:
        _rewrite(table, picked, version, F.col(_PICKED), "discarded", None)
    return int(found)


def _complete(spark: SparkSession, table: LetterTable, app: str) -> None:
    """Brings replays that were begun to their end: their rows into the table, then their mark."""
    letters, version = _letters(spark, table)
    begun = [row[0] for row in letters.where("status = 'replaying'").select("replay").distinct().collect()]
    if not begun:
        return
    columns = table_state(spark, table.location).columns
    for number in sorted(begun):
        rows = letters.where(F.col("status").eqNullSafe("replaying") & (F.col("replay") == number))
        try:
            carried = TableTransaction(app, number, replay_text(table.dataset, number))
            delta_append.append(conformed(rows.select(f"{ROW}.*"), columns), table.location, carried)
        except delta_table.conflicts() as error:
            raise CommitLost(flow=f"replay of {table.dataset}", entry=number, table=table.location) from error
    marked = letters.withColumn(_LETTER, F.struct("*"))
    _rewrite(table, marked, version, F.col("status") == "replaying", "replayed", None)


def _routed(spark: SparkSession, table: LetterTable, columns: object, failed: str | None) -> tuple[DataFrame, int]:
    """Each letter, whether it is picked, and where its row would go by the expectations of now."""
    letters, version = _letters(spark, table)
    # A record that was not decoded is no row.
    is_row, is_open = F.col(ROW).isNotNull(), _open(failed)
    marks = ((is_open & is_row).alias(_PICKED), (is_open & ~is_row).alias(_REFUSED))
    whole = letters.select(F.struct("*").alias(_LETTER), *marks, f"{ROW}.*")
    there = {name.lower() for name in whole.columns}
    missing = {
        each.name: F.lit(None).cast(each.dataType)
        for each in columns  # type: ignore[attr-defined]
        if each.name.lower() not in there
    }
    # What fails an expectation whose action is fail stays where it is.
    spared = [_Spared(each) for each in table.expectations]
    return row_expectations.route(whole.withColumns(missing), spared), version


class _Spared:
    """An expectation that ends no job."""

    def __init__(self, expectation: RowExpectation) -> None:
        self.name, self.condition = expectation.name, expectation.condition
        self.action = row_expectations.DEAD_LETTER if expectation.action == "fail" else expectation.action


def _letters(spark: SparkSession, table: LetterTable) -> tuple[DataFrame, int]:
    version = table_state(spark, table.dead_letters).version
    return spark.read.format("delta").option("versionAsOf", version).load(table.dead_letters), version


def _open(failed: str | None) -> Column:
    is_open = F.col("status").eqNullSafe("open")
    return is_open if failed is None else is_open & F.array_contains("failed_expectations", failed)


def _newest_replay(spark: SparkSession, table: LetterTable) -> int:
    ((found,),) = _letters(spark, table)[0].select(F.max("replay")).collect()
    return -1 if found is None else int(found)


def _rewrite(
    table: LetterTable,
    letters: DataFrame,
    version: int,
    chosen: Column,
    status: str,
    number: int | None,
) -> None:
    """Replaces the dead letters by the same with another status where ``chosen``, if nobody else changed them."""
    changed = F.col(_LETTER).withField("status", F.lit(status))
    if number is not None:
        changed = changed.withField("replay", F.lit(number).cast("bigint"))
    rows = letters.select(F.when(chosen, changed).otherwise(F.col(_LETTER)).alias(_LETTER)).select(f"{_LETTER}.*")
    columns = table_state(letters.sparkSession, table.dead_letters).columns
    rows = rows.select(*(F.col(quoted(name)) for name in columns.names))
    said = json.dumps({"dead_letters_marked": status})
    carried = CountedTransaction("rivermouth/letters", version + 1, lambda: said, replaces=True)
    done = delta_append.write_counted(rows, table.dead_letters, carried, onto=version)
    if not done:
        raise CommitLost(flow=f"dead letters of {table.dataset}", entry=version + 1, table=table.dead_letters)
