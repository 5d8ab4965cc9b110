"""The erased records of a table: their coordinates alone, so that nothing brings them back and the audit adds up.

A row is written before the commit that erases, and is true once that commit is there: its mark is then that of the
newest ledger entry, and it is confirmed before the next entry. A row that is not confirmed, and whose mark is not that
of the newest entry, does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.ports.delta import delta_table
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.epochs import epoch_now

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

PLACE: Final = "place"
CHANGE: Final = "change"
ENTRY: Final = "entry"
TABLE: Final = "table"
DEAD_LETTERS: Final = "dead_letters"
ELSEWHERE: Final = "elsewhere"
"""Of a dead letter that went, whose record is still in the table, or was erased there."""

COLUMNS: Final = StructType(
    [
        StructField(names.TOPIC, StringType()),
        StructField(names.PARTITION, IntegerType()),
        StructField(names.OFFSET, LongType()),
        StructField(names.EPOCH, IntegerType()),
        StructField(PLACE, StringType()),
        StructField("batch", LongType()),
        StructField(ENTRY, LongType()),
        StructField("mark", StringType()),
        StructField("request", StringType()),
        StructField("confirmed", BooleanType()),
        StructField("table_id", StringType()),
        StructField("topic_id", StringType()),
        StructField(names.TIMESTAMP, TimestampType()),
        StructField(CHANGE, IntegerType()),
    ]
)
"""``batch`` is that of a dead letter, ``entry`` and ``mark`` are those of the ledger entry that erased, ``topic_id`` is
Kafka's, of a record of the epoch of then, ``__timestamp`` too: by it a record is known in another epoch. ``change`` is
null where a record went as a whole; else it says which of its changes went, by their ``__ordinal``."""

COORDINATES: Final = (names.TOPIC, names.PARTITION, names.OFFSET, names.EPOCH)

_PROPERTIES: Final = {"delta.checkpointInterval": "100"}
_MARKS, _IN_PART = "__marks", "__in_part"
IS_ERASED: Final = "__is_erased"


class Erased:
    """A Delta table of the lake's state.

    It belongs to the table's name: if the table is created again, the records of the same topics stay erased.

    Args:
        files: Where it lies.
        location: Its folder.
        table_id: Delta's UUID of the table.
    """

    def __init__(self, files: LakeFiles, location: str, table_id: str) -> None:
        self._files = files
        self._table_id = table_id
        # By topic and partition the least and the greatest offset; only this writer adds some.
        self._bounds: dict[tuple[str, int], tuple[int, int]] | None = None
        self.location = location

    def exists(self) -> bool:
        """Whether something was erased yet, or nearly."""
        return delta_table.exists(self._files, self.location)

    def remember(self, rows: DataFrame, entry: Entry) -> None:
        """Adds rows with the columns ``COLUMNS``, as those that ``entry`` erases; three of them are told here.

        Guarantees:
            Run twice: they are there twice, which says the same. Stopped half-way: all of them or none.
        """
        if not self.exists():
            delta_table.create(
                rows.sparkSession,
                self.location,
                delta_table.TableLayout(COLUMNS, properties=_PROPERTIES),
                metadata="{}",
            )
        now = epoch_now(entry, F.col(names.TOPIC), F.col(names.PARTITION))
        topic_id = F.when(F.col(names.EPOCH) == now, _topic_id(entry))
        whole = {"confirmed": F.lit(False), "table_id": F.lit(self._table_id), "topic_id": topic_id}
        rows = rows.withColumns(whole)
        typed = (F.col(field.name).cast(field.dataType) for field in COLUMNS)
        rows.select(*typed).coalesce(1).write.format("delta").mode("append").option("mergeSchema", "true").save(
            self.location
        )
        self._bounds = None

    def confirm(self, spark: SparkSession, mark: str) -> None:
        """What was remembered with ``mark`` is true for ever: its entry was committed.

        Guarantees:
            Run twice: once. Stopped half-way: all of it or nothing.
        """
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        mine = (F.col("mark") == mark) & ~F.col("confirmed")
        DeltaTable.forPath(spark, self.location).update(mine, {"confirmed": F.lit(True)})
        self._bounds = None

    def marked(self, spark: SparkSession, mark: str) -> DataFrame | None:
        """What was remembered with ``mark``; None if nothing ever was."""
        return _with_change(self._read(spark)).where(F.col("mark") == mark) if self.exists() else None

    def records(self, spark: SparkSession, newest: Entry) -> DataFrame | None:
        """All erased records, by a ledger whose newest entry is ``newest``.

        The columns are the coordinates, ``__timestamp``, ``entry``, and ``change`` where only a part of a record was
        erased. The epoch is null for a record of another table of this name: only its timestamp identifies it. A record
        may be there more than once. None if nothing was erased.
        """
        if not self.exists():
            return None
        true = (F.col("confirmed") | (F.col("mark") == newest.attempt)) & (F.col(PLACE) != ELSEWHERE)
        mine = F.col("table_id") == self._table_id
        now = epoch_now(newest, F.col(names.TOPIC), F.col(names.PARTITION))
        found = self._read(spark)
        if names.TIMESTAMP not in found.columns:
            found = found.withColumn(names.TIMESTAMP, F.lit(None).cast(TimestampType()))
        found = _with_change(found)
        # What was erased from another table of this name was never in this one. Its epochs were others; without a
        # timestamp the topic says whether they can be these.
        same = F.col(names.TIMESTAMP).isNull() & (F.col("topic_id") == _topic_id(newest))
        epoch = F.when(mine, F.col(names.EPOCH)).when(same, now)
        entry = F.when(mine, F.col(ENTRY)).otherwise(0)
        known = found.where(true).withColumns({names.EPOCH: epoch, ENTRY: entry})
        told = F.col(names.EPOCH).isNotNull() | F.col(names.TIMESTAMP).isNotNull()
        return known.where(told).select(*COORDINATES, names.TIMESTAMP, ENTRY, CHANGE)

    def within(self, spark: SparkSession, newest: Entry, ranges: Ranges) -> DataFrame | None:
        """As ``records``, those within ``ranges`` that can be of the epoch of now; None if there can be none.

        ``__timestamp`` is null for those that are; of the others a record of now that has the same one is one.
        """
        if self._bounds is None:
            self._bounds = self._found(spark, newest)
        near = any(
            self._bounds[topic, partition][0] < end and start <= self._bounds[topic, partition][1]
            for topic, partition, start, end in offset_ranges.flat(ranges)
            if (topic, partition) in self._bounds
        )
        found = self.records(spark, newest) if near else None
        if found is None:
            return None
        now = epoch_now(newest, F.col(names.TOPIC), F.col(names.PARTITION))
        is_now = F.coalesce(F.col(names.EPOCH) == now, F.lit(False))
        found = found.where(envelope.inside(ranges)).where(is_now | F.col(names.TIMESTAMP).isNotNull())
        return found.withColumn(names.TIMESTAMP, F.when(~is_now, F.col(names.TIMESTAMP))).drop(names.EPOCH)

    def _found(self, spark: SparkSession, newest: Entry) -> dict[tuple[str, int], tuple[int, int]]:
        records = self.records(spark, newest)
        if records is None:
            return {}
        ends = F.min(names.OFFSET), F.max(names.OFFSET)
        rows = records.groupBy(names.TOPIC, names.PARTITION).agg(*ends).collect()
        return {(row[0], row[1]): (row[2], row[3]) for row in rows}

    def _read(self, spark: SparkSession) -> DataFrame:
        return spark.read.format("delta").load(self.location)


def without(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """Envelope rows that are none of the records which ``within`` returned, whatever of them was erased."""
    erased = gone.select(*names.IN_TABLE, names.TIMESTAMP).distinct().alias("e")
    same = " AND ".join(f"e.{name} = r.{name}" for name in names.IN_TABLE)
    stamp = f"(e.{names.TIMESTAMP} IS NULL OR e.{names.TIMESTAMP} = r.{names.TIMESTAMP})"
    return rows.alias("r").join(erased, F.expr(f"{same} AND {stamp}"), "left_anti")


def whole(gone: DataFrame, flow: Flow) -> DataFrame:
    """Of what ``within`` returned the records that are to be left out as a whole."""
    return gone.where(F.col(CHANGE).isNull()) if flow.splits else gone


def marked(routed: DataFrame, gone: DataFrame, flow: Flow) -> DataFrame:
    """Routed rows of a flow that splits, with ``__is_erased``: whether a row is a change that ``within`` returned.

    A record that was erased in part, and would now become a dead letter, is dropped: its bytes hold that part.
    """
    number = F.col(CHANGE)
    if flow.change_envelope and flow.change_envelope.splits:
        # In another table of this name other columns may be keys, and a row be one change or two.
        first = (number / 2).cast("int") * 2
        number = F.explode(F.when(F.col(ENTRY) == 0, F.array(first, first + 1)).otherwise(F.array(number)))
    parts = gone.where(F.col(CHANGE).isNotNull()).select(*names.IN_TABLE, names.TIMESTAMP, number.alias(CHANGE))
    marks = F.collect_set(F.struct(names.TIMESTAMP, CHANGE)).alias(_MARKS)
    found = routed.join(F.broadcast(parts.groupBy(*names.IN_TABLE).agg(marks)), [*names.IN_TABLE], "left")
    same = f"(m.{names.TIMESTAMP} IS NULL OR m.{names.TIMESTAMP} = {names.TIMESTAMP})"
    mine = f"exists({_MARKS}, m -> {same} AND m.{CHANGE} = {names.ORDINAL})"
    found = found.withColumns(
        {
            IS_ERASED: F.expr(f"coalesce({mine}, false)"),
            _IN_PART: F.expr(f"coalesce(exists({_MARKS}, m -> {same}), false)"),
        }
    )
    dropped = F.col(_IN_PART) & (F.col(names.ROUTE) == routing.DEAD_LETTER)
    route = F.when(dropped, routing.DROPPED).otherwise(F.col(names.ROUTE))
    return found.withColumn(names.ROUTE, route).drop(_MARKS, _IN_PART)


def kept(rows: DataFrame) -> DataFrame:
    """The rows of ``marked`` that are not erased; the first remaining change of a record gets ``__ordinal`` 0."""
    record = Window.partitionBy(*names.IN_TABLE)
    rest = rows.where(~F.col(IS_ERASED)).drop(IS_ERASED)
    return rest.withColumn(names.ORDINAL, F.col(names.ORDINAL) - F.min(names.ORDINAL).over(record))


def _with_change(found: DataFrame) -> DataFrame:
    """Where no part of a record was erased yet there may be no column for it."""
    return found if CHANGE in found.columns else found.withColumn(CHANGE, F.lit(None).cast(IntegerType()))


def _topic_id(entry: Entry) -> Column:
    """Kafka's UUID of a row's topic, as the ledger knows it; null where the service has none."""
    known = [F.lit(text) for pair in sorted(entry.topic_ids.items()) if pair[1] for text in pair]
    nothing = F.lit(None).cast("string")
    return F.element_at(F.create_map(*known), F.col(names.TOPIC)) if known else nothing
