"""``spark`` as pipeline files see it: a real session, in which the pipeline's datasets are found by name."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.streaming.readwriter import DataStreamReader

from rivermouth.domain.kinesis.options import read_options
from rivermouth.errors import SourceNotRepeatable
from rivermouth.pipelines.session import jdbc_source, kinesis_source
from rivermouth.pipelines.session.flow_settings import SessionOfFlows
from rivermouth.pipelines.session.jdbc_source import JDBC
from rivermouth.pipelines.session.kinesis_source import KINESIS
from rivermouth.pipelines.session.local_rows import with_floats
from rivermouth.pipelines.session.sql_frames import frame_of
from rivermouth.pipelines.sql.definitions.sql_session import shown_in
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals.query_plans import read_json_fast

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql.types import StructType

    from rivermouth.domain.kinesis.options import KinesisOptions
    from rivermouth.pipelines.session.sql_frames import SqlWithViews

AUTO_LOADER = "cloudfiles"
_FILES = ("", AUTO_LOADER, "delta", "json", "csv", "parquet", "orc", "text", "avro", "xml", "binaryfile")
"""Formats whose option ``path`` is a path of files."""


class Catalogue(Protocol):
    """What a session asks for the names and places that only a pipeline knows.

    Attributes:
        in_test: Whether a test runs the pipeline; files that were read are not cleaned then.
    """

    in_test: bool

    def table(self, name: str, *, stream: bool, options: Mapping[str, str]) -> DataFrame | None:
        """A frame of the table ``name``; None where Spark itself is to find it."""

    def has_table(self, name: str) -> bool:
        """Whether ``name`` is a view of the pipeline, or a table that is in the lake by now."""

    def sql(self, text: str, args: Any) -> SqlWithViews:
        """``text`` with the pipeline's names, parameters and table functions as Spark finds them."""

    def files(self, path: str, options: Mapping[str, str], schema: StructType | str | None) -> DataFrame:
        """A stream of the files in a folder: Auto Loader."""

    def current(self) -> tuple[str | None, str]:
        """The catalog and the schema of names that have none."""

    def located(self, path: str) -> str:
        """A path of Databricks' as one of this lake; a relative one below the pipeline's folder."""

    def reads(
        self, what: str, *, stream: bool = False, notes: tuple[str, ...] = (), location: str | None = None
    ) -> None:
        """Hears of a source that is no dataset of the pipeline, what a plan says of it, and a Delta table's folder."""

    def kinesis(self, options: KinesisOptions) -> None:
        """Hears with which options streams of Kinesis are read."""

    def kafka(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Options of Spark's Kafka source, with what the project says of its cluster."""

    def given_records(self, options: Mapping[str, str], *, stream: bool) -> DataFrame | None:
        """The records that a test gives in the place of Kafka; None outside of tests."""


class PipelineSession(SessionOfFlows):
    """A session of Spark's with temporary views and settings of its own.

    Args:
        spark: The session whose context and catalog it shares.
        catalogue: Finds the pipeline's datasets.
        now: The current time of its queries; None for that of the machine.
    """

    def __init__(self, spark: SparkSession, catalogue: Catalogue, now: dt.datetime | None = None) -> None:
        super().__init__(spark.sparkContext, sessions.new_session(spark, now))
        read_json_fast(self)
        self.catalogue = catalogue
        self.view_numbers = itertools.count(1)
        """Of the temporary views that are made for queries in SQL."""

    @property
    def catalog(self) -> Catalog:
        """Spark's catalog, which knows the tables of the lake."""
        return _Catalog(self)

    @property
    def read(self) -> DataFrameReader:
        """A reader that finds datasets by name."""
        return _BatchReader(self)

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802
        """A reader of streams that finds datasets by name, and files by Auto Loader."""
        return _StreamReader(self)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """A batch frame of a dataset or table."""
        return self.read.table(tableName)

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        """A query over datasets and tables."""
        run = super().sql
        kwargs = {name: self.here(each) if isinstance(each, DataFrame) else each for name, each in kwargs.items()}

        def frame(text: str) -> DataFrame:
            return run(text, args, **kwargs) if args is not None else run(text, **kwargs)

        with self.catalogue.sql(shown_in(sqlQuery, self.catalogue.current()[1]), args) as query:
            return frame_of(query, frame)

    def createDataFrame(self, data: Any, schema: Any = None, *more: Any, **named: Any) -> DataFrame:  # type: ignore[override]  # noqa: N802
        """A frame of rows of Python; whole numbers are values of columns of floats too."""
        return super().createDataFrame(with_floats(data, schema), schema, *more, **named)

    def plain_sql(self, text: str) -> DataFrame:
        """A query that is Spark's SQL already."""
        return super().sql(text)

    def stop(self) -> None:
        """Does nothing: a file of a pipeline does not end the session of all."""


class _Catalog(Catalog):
    def __init__(self, spark: PipelineSession) -> None:
        super().__init__(spark)
        self._spark, self._catalogue = spark, spark.catalogue

    def currentDatabase(self) -> str:  # noqa: N802
        return self._catalogue.current()[1]

    def currentCatalog(self) -> str:  # noqa: N802
        return self._catalogue.current()[0] or super().currentCatalog()

    def setCurrentDatabase(self, dbName: str) -> None:  # noqa: N802, N803
        self._spark.sql(f"USE SCHEMA {_quoted(dbName)}")

    def setCurrentCatalog(self, catalogName: str) -> None:  # noqa: N802, N803
        self._spark.sql(f"USE CATALOG {_quoted(catalogName)}")

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:  # noqa: N802, N803
        name = tableName if dbName is None else f"{dbName}.{tableName}"
        return self._catalogue.has_table(name) or super().tableExists(tableName, dbName)


class _BatchReader(DataFrameReader):
    def __init__(self, spark: PipelineSession) -> None:
        super().__init__(spark)
        self._catalogue = spark.catalogue
        self._format: str | None = None
        self._options: dict[str, str] = {}

    def format(self, source: str) -> DataFrameReader:
        self._format = source.lower()
        return super().format(source)

    def option(self, key: str, value: Any) -> DataFrameReader:
        self._options[key] = _text(value)
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameReader:
        self._options |= {key: _text(value) for key, value in options.items()}
        return super().options(**options)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        found = self._catalogue.table(tableName, stream=False, options=self._options)
        if found is not None:
            return found
        self._catalogue.reads(f"table {tableName}")
        return super().table(tableName)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002
        kind = (format or self._format or "").lower()
        said = self._options | {name: _text(value) for name, value in options.items()}
        if kind == KINESIS:
            raise kinesis_source.refuse_batch(said)
        option = None if path is not None or kind not in _FILES else _path_option(said)
        one = option or (path if isinstance(path, str) else None)
        place = None if one is None else _located(self._catalogue, kind, one)
        several = None if one is not None or path is None else [_located(self._catalogue, kind, each) for each in path]
        what = jdbc_source.named(said) if kind == JDBC else f"{kind or 'files'} {place or several or ''}".strip()
        self._catalogue.reads(what, location=place if is_followed(kind, said) else None)
        if kind == JDBC:
            super().options(**jdbc_source.driver_options(said))
            with jdbc_source.errors_of(self._spark, said):
                return super().load(path, format, schema, **options)
        if kind == "kafka":
            if (given := self._catalogue.given_records(said, stream=False)) is not None:
                return given
            super().options(**self._catalogue.kafka(said))
        if option is not None:
            super().option("path", place)
            place, options = None, _without_path(options)
        return super().load(place or several, format, schema, **options)

    def jdbc(self, url: str, table: str, *args: Any, **named: Any) -> DataFrame:
        said = {"url": url, "dbtable": table}
        self._catalogue.reads(jdbc_source.named(said))
        super().options(**jdbc_source.driver_options({**self._options, **said}))
        with jdbc_source.errors_of(self._spark, said):
            return super().jdbc(url, table, *args, **named)

    def json(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().json(self._at(path), *args, **options)

    def csv(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().csv(self._at(path), *args, **options)

    def parquet(self, *paths: str, **options: Any) -> DataFrame:
        return super().parquet(*(self._at(path) for path in paths), **options)

    def text(self, paths: Any, *args: Any, **options: Any) -> DataFrame:
        return super().text(self._at(paths), *args, **options)

    def orc(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().orc(self._at(path), *args, **options)

    def xml(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().xml(self._at(path), *args, **options)

    def _at(self, path: Any) -> Any:
        found = self._catalogue.located(path) if isinstance(path, str) else path
        self._catalogue.reads(f"files {found if isinstance(found, str) else ''}".strip())
        return [self._catalogue.located(each) for each in found] if isinstance(found, list) else found


class _StreamReader(DataStreamReader):
    def __init__(self, spark: PipelineSession) -> None:
        super().__init__(spark)
        self._catalogue = spark.catalogue
        self._format: str | None = None
        self._options: dict[str, str] = {}
        self._wanted: StructType | str | None = None

    def format(self, source: str) -> DataStreamReader:
        self._format = source.lower()
        return self if self._format == AUTO_LOADER else super().format(source)

    def schema(self, schema: StructType | str) -> DataStreamReader:
        self._wanted = schema
        return super().schema(schema)

    def option(self, key: str, value: Any) -> DataStreamReader:
        return self.options(**{key: value})

    def options(self, **options: Any) -> DataStreamReader:
        self._options |= {key: _text(value) for key, value in options.items()}
        if self._catalogue.in_test:
            options = {key: value for key, value in options.items() if key.lower() != "cleansource"}
        return super().options(**options)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        found = self._catalogue.table(tableName, stream=True, options=self._options)
        if found is not None:
            return found
        self._catalogue.reads(f"table {tableName}", stream=True)
        return super().table(tableName)

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002
        kind = (format or self._format or "").lower()
        given = self._options | {key: _text(value) for key, value in options.items()}
        option = None if path or kind not in _FILES else _path_option(given)
        place = path or option
        if kind == AUTO_LOADER:
            wanted = schema if schema is not None else self._wanted
            # A path that is an argument as well is refused, as by Spark.
            return self._catalogue.files(place or "", given if option is None else _without_path(given), wanted)
        if kind == JDBC:
            return self._rows_of_database(given)
        if kind == "socket":
            raise SourceNotRepeatable(format=kind)
        if kind == KINESIS:
            return self._records_of_kinesis(given)
        what = f"{kind} {given.get('subscribe') or given.get('subscribePattern') or ''}" if kind == "kafka" else None
        place = place and _located(self._catalogue, kind, place)
        location = place if is_followed(kind, given) else None
        self._catalogue.reads(what or f"{kind or 'files'} {place or ''}".strip(), stream=True, location=location)
        if kind == "kafka":
            if (records := self._catalogue.given_records(given, stream=True)) is not None:
                return records
            super().options(**self._catalogue.kafka(given))
        if option is not None:
            super().option("path", place)
            place, options = None, _without_path(options)
        return super().load(place, format, schema, **options)

    def json(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().json(self._at(path), *args, **options)

    def csv(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().csv(self._at(path), *args, **options)

    def parquet(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().parquet(self._at(path), *args, **options)

    def text(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().text(self._at(path), *args, **options)

    def orc(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().orc(self._at(path), *args, **options)

    def xml(self, path: str, *args: Any, **options: Any) -> DataFrame:
        return super().xml(self._at(path), *args, **options)

    def _rows_of_database(self, options: dict[str, str]) -> DataFrame:
        self._catalogue.reads(jdbc_source.named(options), stream=True)
        jdbc_source.check_stream(options)
        with jdbc_source.errors_of(self._spark, options):
            super().format(jdbc_source.STREAM)
            super().options(**options, **jdbc_source.driver_options(options))
            found = super().load()
        jdbc_source.check_columns(self._spark, options, found.schema)
        return found

    def _records_of_kinesis(self, options: dict[str, str]) -> DataFrame:
        found = read_options(options)
        given = self._catalogue.given_records({"subscribe": ",".join(found.streams)}, stream=True)
        notes = kinesis_source.looked_at(self._spark, found) if given is None else ()
        self._catalogue.reads(found.name, stream=True, notes=notes)
        if given is not None:
            return kinesis_source.of_topics(given)
        self._catalogue.kinesis(found)
        super().format(kinesis_source.SOURCE)
        super().options(**options)
        return super().load()

    def _at(self, path: str) -> str:
        found = self._catalogue.located(path)
        self._catalogue.reads(f"files {found}", stream=True)
        return found


def is_followed(kind: str, options: Mapping[str, str]) -> bool:
    """Whether a reader reads a Delta table at its newest version, so that what changes there can be known."""
    return kind == "delta" and not {"versionasof", "timestampasof"} & {name.lower() for name in options}


def _quoted(name: str) -> str:
    """A name of several parts in SQL."""
    return name if "`" in name else ".".join(f"`{part}`" for part in name.split("."))


def _located(catalogue: Catalogue, kind: str, text: str) -> str:
    """What a reader loads: a path as one of this lake; the name of a table, or a query, as it is written."""
    is_of_files = kind.rpartition(".")[2] in _FILES
    is_path = is_of_files or ("/" in text and not re.match(r"\s*(SELECT|WITH)\b", text, re.IGNORECASE))
    return catalogue.located(text) if is_path else text


def _path_option(options: Mapping[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.lower() == "path"), None)


def _without_path(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a call whose path is set already; Spark refuses a path that is an option and an argument."""
    return {name: value for name, value in options.items() if name.lower() != "path"}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
