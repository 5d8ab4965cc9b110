"""Kafka records that a query could not decode, tried again: the query as a batch over its dead letters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.table_transaction import CountedTransaction
from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts, QueryEntry, replay_text
from rivermouth.engine.batch.pipeline import transform
from rivermouth.engine.query import replay_letters
from rivermouth.engine.query.query_table import conformed, prepare
from rivermouth.engine.query.replay_letters import LETTER, REPLAYING, LetterTable
from rivermouth.engine.query.streaming import failure_of
from rivermouth.errors import CommitLost, RecordsNotReplayed
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.internals.observed import Observed
from rivermouth.ports.internals.query_plans import over_rows
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.rows import dead_letter, routing, row_expectations
from rivermouth.side_tables.row_dead_letters import OLDER_ROW, ROW, RowDeadLetters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from rivermouth.engine.query.decoded_stream import DecodedStream
    from rivermouth.engine.query.query_table import QueryTable

_PASSES: Final = "__passes"
_DROPPED: Final = "__dropped"
_PICKED: Final = "__picked"
_RENEWED: Final = "__renewed"
_MARKS: Final = (_PICKED, _PASSES, _DROPPED, _RENEWED)
_WHY: Final = ("reason", "field", "message")
_NOT_ANY_MORE: Final = "its decode(...) took them a moment ago, and refuses them now"


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query whose refused records are tried again. It keeps no state, and decodes records at one place.

    Attributes:
        flow: Name of its flow.
        frame: The query, a stream.
        decoded: The records that it decodes.
        table: How its table is made; it may get new columns.
    """

    flow: str
    frame: DataFrame
    decoded: DecodedStream
    table: QueryTable


@dataclass(frozen=True, slots=True)
class ReplayedRecords:
    """What became of the open dead letters of a query that are records: ``tried = replayed + remaining``.

    Attributes:
        tried: How many there were.
        replayed: How many the query decodes now, or leaves out by its settings.
        rows: How many rows they brought into the table.
        dropped: How many of them, or of their rows, a setting, the query or an expectation left out.
        dead_lettered: How many of their rows failed an expectation, and are new dead letters.
    """

    tried: int
    replayed: int
    rows: int
    dropped: int
    dead_lettered: int


def replay_records(
    spark: SparkSession, table: LetterTable, query: RecordQuery, *, dry_run: bool = False
) -> ReplayedRecords:
    """Writes the rows that a query makes of the records of its open dead letters into the table.

    Those that are refused again stay open, and say why they are refused now.

    Args:
        spark: The session; settings of the commits are those of its thread.
        table: The table with its dead letters.
        query: The query as it is now.
        dry_run: Only counts.

    Raises:
        CommitLost: Another process replayed dead letters of the table at the same time.
        RecordsNotReplayed: What decodes them took some when they were tried, and refused them when they were written.
        TableSchemaChanged: The table cannot take the columns of the query.
        RivermouthError: Why the query cannot make rows of the records.

    Guarantees:
        Run twice: the second time finds none. Stopped anywhere: the next replay completes this one, or makes its
        records open again if the table has none of their rows; each row is in the table once.
    """
    try:
        judged, version = _judged(spark, table, query)
        picked, passing, dropped, renewed, newest = judged.select(
            *map(F.count_if, _MARKS), F.max(f"{LETTER}.replay")
        ).first() or (0, 0, 0, 0, None)
        counts = NO_COUNTS
        if passing and dry_run:
            rows = _rows(query, judged.where(_PASSES).select(f"{LETTER}.*"))
            counts = _counted(row_expectations.route(rows, table.spared), table)
        elif passing:
            state = prepare(spark, files_for(table.location, spark), query.table)
            number = replay_letters.next_number(state, newest)
            replay_letters.rewrite(table, judged, version, F.col(_PASSES), REPLAYING, number)
            counts = _written(spark, table, query, number)
        elif renewed and not dry_run:
            replay_letters.rewrite(table, judged, version, F.lit(False), "open")
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error, query.flow) from error
    left_out = max(counts.dropped + dropped, passing - counts.written - counts.dead_lettered)
    return ReplayedRecords(picked, passing, counts.written, left_out, counts.dead_lettered)


def _judged(spark: SparkSession, table: LetterTable, query: RecordQuery) -> tuple[DataFrame, int]:
    """All dead letters, each whole: whether it is picked, passes, is left out then, or says something else now."""
    letters, version = replay_letters.letters_of(spark, table)
    letters, flow = letters.withColumn(LETTER, F.struct("*")), query.decoded.flow
    picked = replay_letters.is_open() & F.col(ROW).isNull() & F.col("flow").eqNullSafe(query.flow)
    if OLDER_ROW in letters.columns:
        picked &= F.col(OLDER_ROW).isNull()
    routed = transform(dead_letter.as_envelope(letters.where(picked), LETTER), flow, (LETTER,))
    passing = routed.where(f"{names.ROUTE} <> '{routing.DEAD_LETTER}'")
    refused = dead_letter.dead_letters(routed, flow, target=table.dataset, entry=0, topic_ids={}, beside=(LETTER,))
    letter, said = F.col(LETTER), F.col(LETTER)
    for name in _WHY:
        said = said.withField(name, F.col(name))
    same = reduce(and_, (letter[name].eqNullSafe(F.col(name)) for name in _WHY))
    no, yes = F.lit(False), F.lit(True)
    tried = _marked(passing, letter, (yes, yes, F.col(names.ROUTE) == routing.DROPPED, no)).unionByName(
        _marked(refused, said, (yes, no, no, ~same))
    )
    if flow.explosion is not None:
        tried = _each_once(tried)
    return _marked(letters.where(~picked), letter, (no, no, no, no)).unionByName(tried), version


def _marked(rows: DataFrame, letter: Column, marks: Sequence[Column]) -> DataFrame:
    """The dead letters of rows, each whole, and what is known of them."""
    return rows.select(letter.alias(LETTER), *(each.alias(name) for each, name in zip(marks, _MARKS, strict=True)))


def _each_once(tried: DataFrame) -> DataFrame:
    """Each dead letter once, also where its record makes several rows: it passes if none of them is refused."""
    told: Any = tried.schema[LETTER].dataType
    whose = [F.col(LETTER)[name] for name in told.names if name not in {ROW, *_WHY}]
    found = {
        LETTER: F.max_by(LETTER, _RENEWED),
        _PICKED: F.bool_or(_PICKED),
        _PASSES: F.bool_and(_PASSES),
        _DROPPED: F.bool_and(_DROPPED),
        _RENEWED: F.bool_or(_RENEWED),
    }
    return tried.groupBy(*whose).agg(*(each.alias(name) for name, each in found.items())).select(*found)


def _rows(query: RecordQuery, letters: DataFrame) -> DataFrame:
    """The rows that a query makes of the records of dead letters."""
    there = dead_letter.as_kafka(letters)
    columns = [
        (F.col(each.name) if each.name in there.columns else F.lit(None)).cast(each.dataType).alias(each.name)
        for each in query.decoded.records
    ]
    return over_rows(query.frame, query.decoded.alias, there.select(*columns))


def _counted(routed: DataFrame, table: LetterTable) -> QueryCounts:
    found = routed.select(*row_expectations.counting_columns(table.spared)).first()
    return NO_COUNTS if found is None else row_expectations.counted(table.spared, found.asDict())


def _written(spark: SparkSession, table: LetterTable, query: RecordQuery, number: int) -> QueryCounts:
    """Writes the rows of the records whose replay was begun, and marks these.

    Whatever ends it: it is completed, or given up, by what the table has.
    """
    try:
        counts = _write(spark, table, query, number)
    except Exception:
        with suppress(CommitLost):  # another process does it
            replay_letters.complete(spark, table)
        raise
    replay_letters.complete(spark, table, {number: True})
    return counts


def _write(spark: SparkSession, table: LetterTable, query: RecordQuery, number: int) -> QueryCounts:
    """The rows in one commit with the replay's entry and counts; what failed an expectation is held before."""
    routed = row_expectations.route(_rows(query, replay_letters.begun_letters(spark, table, number)), table.spared)
    observed = Observed(routed, row_expectations.counting(table.spared))
    query.decoded.observed.reset()
    found: list[QueryCounts] = []

    def said() -> str:
        counts = row_expectations.counted(table.spared, observed.get())
        if refused := query.decoded.counts.dead_lettered:
            raise RecordsNotReplayed(dataset=table.dataset, records=refused, detail=_NOT_ANY_MORE)
        if counts.dead_lettered:
            table.held(spark).hold(_letters(routed, table, query, number), table.replay_entry(number))
        found.append(counts)
        told = {"read": counts.read, "written": counts.written, "dropped": counts.dropped}
        return replay_text(table.dataset, number, **told, dead_lettered=counts.dead_lettered)

    try:
        for state in replay_letters.states_to_commit_onto(spark, table, number):
            rows = conformed(observed.rows.where(row_expectations.IN_TABLE), state.columns)
            carried = CountedTransaction(replay_letters.app_id(state.table_id), number, said)
            if delta_append.write_counted(rows, table.location, carried, onto=state.version, alone=True):
                return found[0]
    except delta_table.conflicts() as error:
        raise table.lost(number) from error
    raise table.lost(number)


def _letters(routed: DataFrame, table: LetterTable, query: RecordQuery, number: int) -> DataFrame:
    """The rows that failed an expectation, as dead letters of no ledger entry."""
    letters = RowDeadLetters.letters(routed, table.spared, QueryEntry(query.flow, number), query.table.columns)
    nothing, mine = F.lit(None).cast("bigint"), F.lit(number).cast("bigint")
    return letters.withColumns({"entry": nothing, "replay": mine, "reason": F.lit("EXPECTATION")})
