"""The dead letters of a pipeline's table: rows that failed an expectation, as the query returned them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding import row_values
from rivermouth.domain.delta.table_transaction import CountedTransaction, NewLayout, TableTransaction
from rivermouth.errors import CommitLost
from rivermouth.ports.delta import delta_append, delta_ddl, delta_table
from rivermouth.ports.internals.delta_snapshot import TableState, table_state
from rivermouth.rows import row_expectations
from rivermouth.schemas.column_types import nullable, nullable_columns
from rivermouth.schemas.type_widening import holds, takes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.rows.row_expectations import RowExpectation

ROW: Final = "row"
OLDER_ROW: Final = "older_row"
"""The column of rows whose columns had other types when they were written, as JSON."""
REWRITES: Final = "rivermouth/letters"
"""The application of the transactions that replace all dead letters of a table by the same ones, changed."""
WHY: Final = T.StructType(
    [
        T.StructField("flow", T.StringType()),
        T.StructField("entry", T.LongType()),
        T.StructField("failed_expectations", T.ArrayType(T.StringType())),
        T.StructField("status", T.StringType()),
        T.StructField("dead_lettered_at", T.TimestampType()),
        T.StructField("replay", T.LongType()),
    ]
)
"""The columns besides ``row``."""
_KNOWN: Final = (*WHY.names, ROW, OLDER_ROW)
_TRIES: Final = 5
"""How often the table is changed again, where each time somebody else commits first."""
_OF_DOUBLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.FloatType)
"""Types whose values a double has as they are."""


class RowDeadLetters:
    """The Delta table of a dataset's dead letters, made when the first one comes.

    Its columns: ``flow``, ``entry`` (bigint, number of the ledger entry), ``failed_expectations`` (array of strings),
    ``status`` (``open``, ``replaying``, ``replayed`` or ``discarded``), ``dead_lettered_at`` (timestamp), ``replay``
    (bigint, number of the replay that changed its status last) and ``row`` (a struct: the query's columns). A row that
    a replay of records found has that replay's number, and no ``entry``.

    Where a column comes to have a type that cannot hold the values of before, rows of before are kept in ``older_row``
    as JSON, and their ``row`` is null.

    Where the query decodes records there are also those that were refused. They have no ``row``, but ``reason``,
    ``field``, ``message``, and the record itself: ``kafka_topic`` … ``kafka_value``, as the dead letters of flows.

    Args:
        files: Where the table lies.
        location: The table's folder.
        dataset: Name of the dataset.
    """

    def __init__(self, files: LakeFiles, location: str, *, dataset: str) -> None:
        self._files = files
        self.location = location
        self._dataset = dataset

    def exists(self) -> bool:
        """Whether there has been a dead letter yet."""
        return delta_table.exists(self._files, self.location)

    @staticmethod
    def letters(
        routed: DataFrame, expectations: Sequence[RowExpectation], entry: QueryEntry, table: T.StructType
    ) -> DataFrame:
        """The rows that failed an expectation, as dead letters of one ledger entry.

        Args:
            routed: The rows of a query, as ``row_expectations.route`` returns them.
            expectations: By which they were routed.
            entry: The entry of their batch.
            table: The columns of the table. Values have their types, so that those of several flows go together.
        """
        way = (*row_expectations.way_columns(expectations), names.DELETE, names.TRUNCATE, names.SEQUENCE)
        columns = [each for each in routed.schema if each.name not in way]
        types = {each.name.lower(): each.dataType for each in table}
        typed = [each if each.name in way else _typed(each, types.get(each.name.lower())) for each in routed.schema]
        failed = row_expectations.failed_names(expectations)
        routed = routed.to(T.StructType(typed))
        return routed.where(f"{names.ROUTE} = '{row_expectations.DEAD_LETTER}'").select(
            F.lit(entry.flow).alias("flow"),
            F.lit(entry.number).cast("bigint").alias("entry"),
            F.expr(failed).alias("failed_expectations"),
            F.lit("open").alias("status"),
            F.current_timestamp().alias("dead_lettered_at"),
            F.lit(None).cast("bigint").alias("replay"),
            F.struct(*(F.col(names.quoted(each.name)) for each in columns)).alias(ROW),
        )

    def write(self, letters: DataFrame, entry: QueryEntry) -> None:
        """Appends the dead letters of one ledger entry, as ``letters`` returns them.

        Guarantees:
            Run twice with one entry: they are there once. Stopped half-way: all of them or none.
        """
        said = json.dumps({"dead_letters_of": entry.flow, "entry": entry.number, "attempt": entry.attempt})
        state = self._prepared(letters.sparkSession, letters.schema)
        self.append(letters, TableTransaction(f"rivermouth/{entry.flow}/{state.table_id}", entry.number, said), state)

    def append(self, letters: DataFrame, carried: TableTransaction, state: TableState | None = None) -> None:
        """Appends dead letters in one commit.

        Args:
            letters: As ``letters`` returns them.
            carried: Its transaction number and metadata.
            state: Of the table, which can take them; None to look, and to give it what it lacks.

        Guarantees:
            Run twice with one number: they are there once. Stopped half-way: all of them or none.
        """
        state = state or self._prepared(letters.sparkSession, letters.schema)
        # By name, also within rows: a query may have its columns in another order now, or fewer of them.
        letters = letters.to(nullable_columns(state.columns))
        is_new = carried.app_version > state.transactions.get(carried.app_id, -1)
        delta_append.append(letters, self.location, carried, onto=state.version if is_new else None)

    def forget_before(self, spark: SparkSession, entry: QueryEntry) -> None:
        """Deletes the dead letters of the flow's older entries, whose rows the table no longer has.

        Records that were not decoded stay: what replaces the rows does not read them again.

        Guarantees:
            Run twice: as once. Stopped half-way: all of them are there, or none.
        """
        if not self.exists():
            return
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        older = (F.col("flow") == F.lit(entry.flow)) & (F.col("entry") < F.lit(entry.number))
        if "kafka_topic" in table_state(spark, self.location).columns.names:
            older &= F.col("kafka_topic").isNull()
        DeltaTable.forPath(spark, self.location).delete(older)

    def give_up(self, spark: SparkSession, flow: str) -> None:
        """Discards the open dead letters of a flow, whose table was emptied: what they hold is read again.

        Guarantees:
            Run twice: as once. Stopped half-way: all of them are discarded, or none.
        """
        if not self.exists():
            return
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        waiting = (F.col("flow") == F.lit(flow)) & F.col("status").isin("open", "replaying")
        DeltaTable.forPath(spark, self.location).update(waiting, {"status": F.lit("discarded")})

    def newest_entry(self, spark: SparkSession, flow: str) -> int:
        """Number of the newest ledger entry of a flow whose dead letters are here; -1 without any."""
        if not self.exists():
            return -1
        state = table_state(spark, self.location)
        return state.transactions.get(f"rivermouth/{flow}/{state.table_id}", -1)

    def _prepared(self, spark: SparkSession, columns: T.StructType) -> TableState:
        """The table as it is once it can take such rows."""
        wanted = T.StructField(ROW, nullable(columns[ROW].dataType))
        more = [T.StructField(each.name, nullable(each.dataType)) for each in columns if each.name not in _KNOWN]
        if not self.exists():
            layout = delta_table.TableLayout(
                columns=nullable_columns(T.StructType([*WHY, wanted, *more])),
                comment=f"Dead letters of {self._dataset}",
                properties={
                    "delta.checkpointInterval": "100",
                    "delta.dataSkippingStatsColumns": "flow,entry,dead_lettered_at",
                },
            )
            delta_table.create(spark, self.location, layout, metadata=json.dumps({"dead_letters_of": self._dataset}))
        state = table_state(spark, self.location)
        merged = united(state.columns[ROW].dataType, wanted.dataType)
        if merged is None:
            state, merged = self._with_older_rows(spark, wanted.dataType), wanted.dataType
        added = [each for each in more if each.name not in state.columns.names]
        widened = [T.StructField(ROW, merged)] if merged != state.columns[ROW].dataType else []
        if added or widened:
            delta_ddl.alter(spark, self.location, added=added, widened=widened)
            state = table_state(spark, self.location)
        return state

    def _with_older_rows(self, spark: SparkSession, row: T.DataType) -> TableState:
        """The table whose column ``row`` has a type that does not go with the one before: rows of before are JSON now.

        Raises:
            CommitLost: Others change the table all the time.

        Guarantees:
            Stopped half-way: all of them are JSON, or none.
        """
        said = json.dumps({"dead_letters_kept": OLDER_ROW})
        delta_ddl.allow_columns(spark, self.location, [T.StructField(ROW, row)])
        for _ in range(_TRIES):
            state = table_state(spark, self.location)
            known = [each for each in state.columns.names if each not in (ROW, OLDER_ROW)]
            letters = spark.read.format("delta").option("versionAsOf", state.version).load(self.location)
            older = F.col(OLDER_ROW) if OLDER_ROW in letters.columns else F.lit(None)
            rows = letters.select(
                *map(names.quoted, known),
                F.lit(None).cast(row).alias(ROW),
                F.coalesce(older, F.to_json(ROW, row_values.OPTIONS)).alias(OLDER_ROW),
            )
            layout = NewLayout(nullable_columns(rows.schema).json())
            carried = CountedTransaction(REWRITES, state.version + 1, lambda: said, replaces=layout)
            with suppress(*delta_table.conflicts()):
                if delta_append.write_counted(rows, self.location, carried, onto=state.version):
                    return table_state(spark, self.location)
        raise CommitLost(flow=f"dead letters of {self._dataset}", entry=state.version + 1, table=self.location)


def _typed(column: T.StructField, table: T.DataType | None) -> T.StructField:
    """A column of a query with the type that it has in the table, where no value says something else then."""
    is_time = isinstance(column.dataType, T.TimestampType | T.TimestampNTZType | T.DateType)
    if table is None or (is_time and not isinstance(table, T.StringType)) or not takes(table, column.dataType):
        return T.StructField(column.name, nullable(column.dataType))
    return T.StructField(column.name, nullable(table))


def united(there: T.DataType, wanted: T.DataType) -> T.DataType | None:
    """A type that holds the values of both; None where there is none.

    Structs have the fields of both.

    Args:
        there: A type that a Delta table has.
        wanted: The type of new values.
    """
    match there, wanted:
        case T.StructType(), T.StructType():
            return _united_struct(there, wanted)
        case T.ArrayType(), T.ArrayType():
            element = united(there.elementType, wanted.elementType)
            return None if element is None else T.ArrayType(element)
        case T.MapType(), T.MapType():
            key, value = united(there.keyType, wanted.keyType), united(there.valueType, wanted.valueType)
            return None if key is None or value is None else T.MapType(key, value)
    if isinstance(wanted, T.NullType) or holds(wanted, there):
        return there
    if holds(there, wanted):
        return wanted
    return T.DoubleType() if isinstance(there, _OF_DOUBLE) and isinstance(wanted, _OF_DOUBLE) else None


def _united_struct(there: T.StructType, wanted: T.StructType) -> T.StructType | None:
    new = {each.name.lower(): each for each in wanted}
    fields = []
    for each in there:
        mine = new.pop(each.name.lower(), None)
        kind = each.dataType if mine is None else united(each.dataType, mine.dataType)
        if kind is None:
            return None
        fields.append(T.StructField(each.name, kind, True, each.metadata))
    return T.StructType([*fields, *new.values()])
