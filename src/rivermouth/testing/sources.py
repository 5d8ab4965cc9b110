"""What a test gives in the place of a pipeline's sources: tables, Kafka records and files."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.streaming.readwriter import DataStreamReader

from rivermouth.errors import ArgumentInvalid, TopicNotGiven
from rivermouth.pipelines.names import Names, TableName
from rivermouth.pipelines.running.given import GivenSources
from rivermouth.pipelines.running.pipeline import file_name
from rivermouth.ports.sources.given_source import COLUMNS, source_row
from rivermouth.testing.records import GivenRecords
from rivermouth.testing.sessions import table_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.pipelines.spec import Definitions

Rows = Sequence[Mapping[str, Any]] | DataFrame
"""Rows of a table: dicts, whose columns are found as Spark finds them, or a frame."""
Records = Iterable[Any] | DataFrame
"""Kafka records: values or ``Record``s; or a frame with ``value`` and any other columns of Spark's Kafka source."""
Files = Sequence[Mapping[str, Any]] | Mapping[str, str | bytes] | str | Path
"""Files: rows for a file of JSON lines; or contents by the name of the file; or a folder whose files are copied."""

_KAFKA: Final = "key, value, topic, partition, offset, timestamp, timestampType"


class PipelineSources(GivenSources):
    """The sources of a test's pipeline, as Delta tables and files in its folder. Implements ``GivenSources``.

    Args:
        spark: The test's session.
        folder: Of the test.
        names: How the pipeline resolves names.
    """

    def __init__(self, spark: SparkSession, folder: Path, names: Names) -> None:
        self._spark = spark
        self._folder = folder / "sources"
        self._names = names
        self._tables: dict[TableName | str, str] = {}
        self._records = GivenRecords()
        self._added = 0
        self.now: dt.datetime | None = None
        """See ``GivenSources``."""
        self.paths: dict[str, str] = {}
        """By path that the pipeline reads the folder in its place."""

    def add(
        self, tables: Mapping[str, Rows] | None, topics: Mapping[str, Records] | None, files: Mapping[str, Files] | None
    ) -> None:
        """Adds to what there is.

        Raises:
            ArgumentInvalid: Something of it cannot be rows, records or files.
        """
        self._added += 1
        for name, rows in (tables or {}).items():
            self._add_rows(name, rows)
        for topic, records in (topics or {}).items():
            self._add_records(topic, records)
        for path, what in (files or {}).items():
            self._add_files(path, what)

    def _add_rows(self, name: str, rows: Rows) -> None:
        key = self._names.resolve(name) or name.lower()
        location = self._tables.setdefault(key, str(self._folder / "tables" / file_name(str(key))))
        is_new = not Path(location, "_delta_log").exists()
        writer = self._frame(name, rows, None if is_new else location).write.format("delta").mode("append")
        if is_new:
            writer = writer.option("delta.enableChangeDataFeed", "true")
        writer.option("mergeSchema", "true").save(location)

    def _frame(self, name: str, rows: Rows, there: str | None) -> DataFrame:
        if isinstance(rows, DataFrame):
            return rows
        listed = [dict(each) for each in rows]
        columns = None if there is None else table_frame(self._spark, there).schema
        if columns is not None and all(each.keys() <= set(columns.names) for each in listed):
            return self._spark.createDataFrame([tuple(each.get(n) for n in columns.names) for each in listed], columns)
        if not listed:
            fix = f'spark.createDataFrame([], "id bigint"), in the place of [], for {name}'
            raise ArgumentInvalid(argument="tables", detail=f"{name} has no rows that tell its columns", fix=fix)
        return self._spark.createDataFrame(listed)

    def _add_records(self, topic: str, records: Records) -> None:
        if isinstance(records, DataFrame):
            records = [_record_of(row.asDict()) for row in _with_bytes(records).collect()]
        found = self._records.add(records, topic, self.now)
        rows = self._spark.createDataFrame([source_row(each) for each in found], COLUMNS)
        rows.coalesce(1).write.format("delta").mode("append").save(self._topics)

    @property
    def _topics(self) -> str:
        return str(self._folder / "topics")

    def _add_files(self, path: str, what: Files) -> None:
        number = len(self.paths)
        folder = Path(self.paths.setdefault(path.rstrip("/"), str(self._folder / "files" / str(number))))
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(what, str | Path):
            shutil.copytree(what, folder, dirs_exist_ok=True)
        elif isinstance(what, Mapping):
            for name, content in what.items():
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content if isinstance(content, bytes) else content.encode())
        else:
            lines = "".join(json.dumps(dict(row), default=str) + "\n" for row in what)
            (folder / f"rows-{self._added}.json").write_text(lines, encoding="utf-8")

    # --- what the pipeline asks ---

    def table(self, text: str, name: TableName | None) -> str | None:
        """See ``GivenSources``."""
        found = self._tables.get(name) if name is not None else None
        return found or self._tables.get(text.replace("`", "").lower())

    def records(self, session: SparkSession, options: Mapping[str, str], *, stream: bool) -> DataFrame:
        """See ``GivenSources``.

        Raises:
            TopicNotGiven: The test gives no records of a topic.
        """
        said = {name.lower(): value for name, value in options.items()}
        wanted = [each.strip() for each in said.get("subscribe", "").split(",") if each.strip()]
        assigned: dict[str, list[int]] = json.loads(said.get("assign", "{}"))
        for topic in (*wanted, *assigned):
            if topic not in self._records.topics:
                raise TopicNotGiven(topic=topic)
        pattern = said.get("subscribepattern")
        if pattern is not None and not self._records.topics:
            raise TopicNotGiven(topic=pattern)
        reader: Any = DataStreamReader(session) if stream else session.read
        rows: DataFrame = reader.format("delta").load(self._topics)
        kept = F.col("topic").isin(wanted) if pattern is None else F.col("topic").rlike(f"^(?:{pattern})$")
        for topic, partitions in assigned.items():
            kept |= (F.col("topic") == topic) & F.col("partition").isin(partitions)
        headers = ", headers" if said.get("includeheaders", "false").lower() == "true" else ""
        return rows.where(kept).selectExpr(*(name.strip() for name in f"{_KAFKA}{headers}".split(",")))

    def definitions(self, found: Definitions, names: Names) -> Definitions:
        """See ``GivenSources``."""
        datasets = tuple(each for each in found.datasets if names.resolve(each.name) not in self._tables)
        flows = tuple(each for each in found.flows if names.resolve(each.target) not in self._tables)
        sinks = tuple(
            each if each.function is not None else replace(each, given=self.sink(each.name)) for each in found.sinks
        )
        return replace(found, datasets=datasets, flows=flows, sinks=sinks)

    def sink(self, name: str) -> str:
        """The folder of the Delta table that has what a sink was given."""
        return str(self._folder.parent / "sinks" / file_name(name.lower()))


def _with_bytes(records: DataFrame) -> DataFrame:
    """A frame of records, whose value and key are bytes."""
    if "value" not in records.columns:
        detail = f"a frame of records has a column value, and this one has {', '.join(records.columns)}"
        raise ArgumentInvalid(argument="topics", detail=detail, fix="a frame with the columns key and value")
    for name in ("value", "key"):
        if name not in records.columns:
            continue
        kind = records.schema[name].dataType.typeName()
        column = F.to_json(F.col(name)) if kind in ("struct", "map", "array") else F.col(name)
        records = records.withColumn(name, column if kind == "binary" else column.cast("string").cast("binary"))
    return records


def _record_of(row: dict[str, Any]) -> Any:
    from rivermouth.domain.project.sample_records import Record  # noqa: PLC0415

    at = row.get("timestamp")
    return Record(
        value=None if row["value"] is None else bytes(row["value"]),
        key=None if row.get("key") is None else bytes(row["key"]),
        headers=tuple((each["key"], each["value"]) for each in row.get("headers") or ()),
        timestamp=None if at is None else at.astimezone(dt.UTC),  # Spark gives it in the zone of this machine
        topic=row.get("topic"),
        partition=row.get("partition") or 0,
        offset=row.get("offset"),
    )
