"""The dead letters of a pipeline's tables: listed, shown, tried again, given up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rivermouth.errors import LettersNotReplayed, LettersOfOtherTypes, RecordsNotReplayed
from rivermouth.pipelines.commands import opened
from rivermouth.pipelines.running.known import KnownDataset, read_known
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from rivermouth.engine.query.replay_letters import LetterTable
    from rivermouth.engine.query.replays.replayed_rows import ReplayedRows
    from rivermouth.errors import RivermouthError
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.rows.row_expectations import RowExpectation

_TIMEOUT_S = 20.0
EXPECTATION: Final = "EXPECTATION"
"""The reason of rows that failed an expectation."""


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant.

    Attributes:
        status: ``open``, ``replayed`` or ``discarded``; None for all.
        expectation: Name of an expectation that they failed; None for any.
        reason: Reason code: ``EXPECTATION``, or one of a record that was not decoded; None for any.
        field: Dotted path of the field of a record that was not decoded; None for any.
        topic: Kafka topic of such a record; None for any.
        partition: Its partition; None for any.
    """

    status: str | None = None
    expectation: str | None = None
    reason: str | None = None
    field: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class RowLetterGroup:
    """Dead letters of one table that have status, reason, field and failed expectations in common.

    Attributes:
        table: The table, as the pipeline writes it.
        flow: The flow that read the rows.
        status: ``open``, ``replaying`` (a replay was cut off; the next one completes it), ``replayed``, ``discarded``.
        failed_expectations: Names of the expectations that they failed.
        letters: How many there are.
        last_at: When the newest was written, in UTC.
        reason: ``EXPECTATION``, or why a record was not decoded.
        field: Dotted path of the field that did not fit.
    """

    table: str
    flow: str
    status: str
    failed_expectations: tuple[str, ...]
    letters: int
    last_at: dt.datetime
    reason: str = EXPECTATION
    field: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A Kafka record that a query could not decode.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        field: Dotted path of the field that did not fit.
        message: A sentence about it, without what the record holds.
        key: Its key.
        value: Its value.
    """

    topic: str
    partition: int
    offset: int
    field: str | None
    message: str | None
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RowLetter:
    """A dead letter of a table, whole.

    Attributes:
        table: The table, as the pipeline writes it.
        flow: The flow that read the row.
        entry: Number of the ledger entry of its batch; None of a row that a replay of records found.
        status: What became of it.
        failed_expectations: Names of the expectations that it failed.
        dead_lettered_at: When it was written, in UTC.
        row: The row as JSON; None of a record that was not decoded.
        reason: ``EXPECTATION``, or why the record was not decoded.
        record: The record that was not decoded.
    """

    table: str
    flow: str
    entry: int | None
    status: str
    failed_expectations: tuple[str, ...]
    dead_lettered_at: dt.datetime
    row: str | None
    reason: str = EXPECTATION
    record: RefusedRecord | None = None


def with_letters(pipeline: Pipeline, names: Collection[str] = ()) -> list[KnownDataset]:
    """The tables of these names, or all, that have dead letters; in the order in which they are refreshed.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    files = LakeReader(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S)
    wanted = tables_called(pipeline, names)
    return [each for each in wanted if delta_table.exists(files, each.dead_letters)]


def tables_called(pipeline: Pipeline, names: Collection[str] = ()) -> list[KnownDataset]:
    """The tables of these names, or all, that the pipeline's newest update knew.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    known = read_known(LakeReader(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S), pipeline).datasets
    tables = [each for each in known if each.location]
    return [each for each in tables if not names or each.dataset in names or each.table in names]


def listed(
    pipeline: Pipeline, names: Collection[str], wanted: LetterFilter, hooks: RunHooks = NO_HOOKS
) -> list[RowLetterGroup]:
    """The dead letters of these tables, or of all, by status and failed expectations.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    found: list[RowLetterGroup] = []
    tables = with_letters(pipeline, names)
    if not tables:
        return found
    with ManagedSession(pipeline.project, hooks) as spark:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - loads Spark

        for table in tables:
            kind = ("flow", "status", "reason", "field", "failed_expectations")
            groups = _chosen(spark, table, wanted).groupBy(*kind)
            counted = groups.agg(F.count("*").alias("n"), F.unix_micros(F.max("dead_lettered_at")).alias("at"))
            found += [
                RowLetterGroup(
                    table.dataset,
                    row.flow,
                    row.status,
                    tuple(row.failed_expectations),
                    row.n,
                    _time(row["at"]),
                    row.reason,
                    row.field,
                )
                for row in counted.orderBy("flow", "status", F.desc("n"), *kind[2:]).collect()
            ]
    return found


def shown(
    pipeline: Pipeline, names: Collection[str], wanted: LetterFilter, *, limit: int, hooks: RunHooks = NO_HOOKS
) -> list[RowLetter]:
    """At most ``limit`` dead letters of each of these tables, whole: what rows hold is handed out.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    found: list[RowLetter] = []
    tables = with_letters(pipeline, names)
    if not tables:
        return found
    with ManagedSession(pipeline.project, hooks) as spark:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - loads Spark

        from rivermouth.decoding import row_values  # noqa: PLC0415 - as above
        from rivermouth.side_tables.row_dead_letters import OLDER_ROW, ROW  # noqa: PLC0415 - as above

        for table in tables:
            letters = _chosen(spark, table, wanted).select(
                "flow",
                "entry",
                "status",
                "failed_expectations",
                F.unix_micros("dead_lettered_at").alias("at"),
                F.coalesce(F.to_json(ROW, row_values.OPTIONS), OLDER_ROW).alias("row_json"),
                *_OF_RECORDS,
            )
            found += [
                RowLetter(
                    table.dataset,
                    row.flow,
                    row.entry,
                    row.status,
                    tuple(row.failed_expectations),
                    _time(row["at"]),
                    row.row_json,
                    row.reason,
                    _record(row),
                )
                for row in letters.orderBy("at", "entry", "row_json", "kafka_offset").limit(limit).collect()
            ]
    return found


def replayed(
    pipeline: Pipeline,
    names: Sequence[str],
    expectation: str | None = None,
    *,
    dry_run: bool = False,
    hooks: RunHooks = NO_HOOKS,
) -> list[ReplayedRows]:
    """Tries open dead letters of these tables, or of all, again, by the present queries and expectations.

    Rows are checked by the expectations. Records that were not decoded go through their query, where it keeps no state.

    Raises:
        LettersNotReplayed: A named table is a materialized view, or a target of AUTO CDC, or has other rows with each
            batch.
        RecordsNotReplayed: All open dead letters of the named tables are records that their queries cannot try again.
        LettersOfOtherTypes: The columns of all open dead letters of the named tables had other types.
        LettersNotTaken: A table does not take the rows of all dead letters that pass.
        CommitLost: Another process did the same at the same time.
        RivermouthError: What is wrong with the pipeline.

    Guarantees:
        Run twice: the second time moves none. Stopped anywhere: the next replay completes this one.
    """
    tables = {each.table: each for each in with_letters(pipeline, names)}
    if not tables:
        return []
    with opened(pipeline, hooks, writes=False) as loaded:
        from rivermouth.pipelines.running.flows.replayed_records import replayed_node  # noqa: PLC0415 - loads Spark

        chosen = [node for node in loaded.graph.nodes if str(node.name) in tables]
        refused = {node.name: why for node in chosen if (why := _not_replayed(loaded, node))}
        for node in chosen if names else ():
            if detail := refused.get(node.name):
                raise LettersNotReplayed(at=str(node.at), dataset=loaded.graph.names.shown(node.name), detail=detail)
        done = [
            replayed_node(loaded, node, _letter_table(loaded, node), expectation, dry_run=dry_run)
            for node in chosen
            if node.name not in refused
        ]
        if names and (only := [each for each in done if each.left]) and not any(each.tried for each in done):
            raise letters_left(only[0])[0]
        return done


def letters_left(done: ReplayedRows) -> list[RivermouthError]:
    """Why dead letters of a table were left out, as errors."""
    return [
        RecordsNotReplayed(dataset=done.table, records=each.records, detail=each.why)
        if each.why
        else LettersOfOtherTypes(dataset=done.table, rows=each.records)
        for each in done.left
    ]


def discarded(
    pipeline: Pipeline,
    names: Sequence[str],
    expectation: str | None = None,
    *,
    dry_run: bool = False,
    hooks: RunHooks = NO_HOOKS,
) -> dict[str, int]:
    """Marks open dead letters of these tables, or of all, as given up; how many of each table.

    Raises:
        CommitLost: Another process changed them at the same time.
    """
    tables = with_letters(pipeline, names)
    if not tables:
        return {}
    with ManagedSession(pipeline.project, hooks) as spark:
        from rivermouth.engine.query.replay_letters import LetterTable, discard  # noqa: PLC0415 - loads Spark

        found = {}
        for each in tables:
            table = LetterTable(each.dataset, each.location, each.dead_letters, ())
            found[each.dataset] = discard(spark, table, expectation, dry_run=dry_run)
        return found


def _not_replayed(loaded: Loaded, node: Node) -> str:
    from rivermouth.engine.query.replay_letters import has_open_rows  # noqa: PLC0415 - loads Spark
    from rivermouth.pipelines.running.flows.replayed_records import has_other_rows_with_each_batch  # noqa: PLC0415 - as above

    if node.kind == "materialized_view":
        return "it is a materialized view, and its next refresh computes all of its rows by the expectations of now"
    if any(flow.cdc is not None for flow in node.flows):
        return "it is a target of AUTO CDC, and changes cannot be applied out of their order"
    if any(flow.keys for flow in node.flows):
        return "it has the newest row of each key by an update flow, and a refused row may be older"
    if has_other_rows_with_each_batch(loaded, node) and has_open_rows(
        loaded.workspace.session, _letter_table(loaded, node)
    ):
        return "each batch replaces all of its rows, and checks them by the expectations of then"
    return ""


def _letter_table(loaded: Loaded, node: Node) -> LetterTable:
    from rivermouth.engine.query.replay_letters import LetterTable  # noqa: PLC0415 - loads Spark

    location = node.location or ""
    judged: list[RowExpectation] = [*node.expectations, *node.not_null]
    return LetterTable(loaded.graph.names.shown(node.name), location, f"{location}__dead_letters", judged)


def _chosen(spark: SparkSession, table: KnownDataset, wanted: LetterFilter) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - loads Spark

    from rivermouth.side_tables.row_dead_letters import OLDER_ROW  # noqa: PLC0415 - as above

    letters = spark.read.format("delta").load(table.dead_letters)
    not_in_all = {**_OF_RECORDS, OLDER_ROW: "string"}
    missing = {name: F.lit(None).cast(kind) for name, kind in not_in_all.items() if name not in letters.columns}
    letters = letters.withColumns(missing).fillna(EXPECTATION, "reason")
    if wanted.status is not None:
        letters = letters.where(F.col("status") == wanted.status)
    if wanted.expectation is not None:
        letters = letters.where(F.array_contains("failed_expectations", wanted.expectation))
    of_record: dict[str, str | int | None] = {"reason": wanted.reason, "field": wanted.field}
    of_record |= {"kafka_topic": wanted.topic, "kafka_partition": wanted.partition}
    for name, value in of_record.items():
        if value is not None:
            letters = letters.where(F.col(name) == value)
    return letters


_OF_RECORDS: Final = {
    "reason": "string",
    "field": "string",
    "message": "string",
    "kafka_topic": "string",
    "kafka_partition": "int",
    "kafka_offset": "bigint",
    "kafka_key": "binary",
    "kafka_value": "binary",
}
"""Columns that dead letters only have where a query decodes records."""


def _record(row: Row) -> RefusedRecord | None:
    if row.kafka_topic is None:
        return None
    key, value = (None if each is None else bytes(each) for each in (row.kafka_key, row.kafka_value))
    return RefusedRecord(row.kafka_topic, row.kafka_partition, row.kafka_offset, row.field, row.message, key, value)


def _time(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def as_body(letter: RowLetter) -> dict[str, Any]:
    """A dead letter for a program: the row as JSON's own values."""
    import json  # noqa: PLC0415 - for this alone

    return {
        "table": letter.table,
        "flow": letter.flow,
        "entry": letter.entry,
        "status": letter.status,
        "failed_expectations": list(letter.failed_expectations),
        "dead_lettered_at": letter.dead_lettered_at.isoformat(),
        "reason": letter.reason,
        "row": None if letter.row is None else json.loads(letter.row),
    }
