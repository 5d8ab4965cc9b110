"""Tables of flows as frames of Spark: the newest version, or an older one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.errors import ArgumentInvalid, TableMissing, VersionMissing, first_line
from rivermouth.names import did_you_mean, quoted
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.storage_checks import check_place

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.table.describe_tables import DescribedTable


def frame_of(
    spark: SparkSession,
    table: DescribedTable,
    *,
    columns: Sequence[str] | None = None,
    version: int | None = None,
    timestamp: dt.datetime | None = None,
) -> DataFrame:
    """The table's rows, with these columns or all of them.

    Args:
        spark: Any session.
        table: The table.
        columns: Names.
        version: An older version.
        timestamp: As it was then; with a time zone.

    Raises:
        TableMissing: It is not made yet.
        ArgumentInvalid: It has no column of that name, or both a version and a time are named.
        VersionMissing: The log has nothing of that version or time.
    """
    check_place(spark, table.flow, table.location)
    if not delta_table.exists(files_for(table.location, spark), table.location):
        raise TableMissing(table=table.name, flow=table.flow)
    reader = spark.read.format("delta")
    if version is not None and timestamp is not None:
        fix = f"rivermouth tables read {table.name} --version {version}"
        raise ArgumentInvalid(argument="--timestamp", detail="a version is named too, and one is enough", fix=fix)
    asked = ""
    if version is not None:
        asked, reader = f"version {version}", reader.option("versionAsOf", version)
    if timestamp is not None:
        text = timestamp.isoformat(sep=" ", timespec="microseconds")
        asked, reader = text, reader.option("timestampAsOf", text)
    try:
        found = reader.load(table.location)
    except PySparkException as error:
        if not asked:
            raise
        raise VersionMissing(table=table.name, asked=asked, detail=first_line(error)) from error
    return picked(found, table.name, columns)


def picked(frame: DataFrame, called: str, columns: Sequence[str] | None) -> DataFrame:
    """The frame with these columns, or all of them.

    Raises:
        ArgumentInvalid: What is ``called`` so has no column of that name.
    """
    for name in columns or ():
        if name not in frame.columns:
            fix = did_you_mean(name, frame.columns)
            raise ArgumentInvalid(argument="--columns", detail=f"{called} has no column {name!r}", fix=fix)
    return frame.select(*map(quoted, columns)) if columns else frame


def rows_of(frame: DataFrame, limit: int, *, as_json: bool) -> list[list[Any]]:
    """At most ``limit`` rows: texts, bytes and nulls by column, or one text of JSON a row.

    Bytes are base64 in JSON. A time has its offset there, which is that of the session's zone: UTC.
    """
    names = frame.columns
    if as_json:
        options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
        shown = frame.select(F.to_json(F.struct(*map(quoted, names)), options))
    else:
        kinds = dict(frame.dtypes)
        # Texts of Spark's: on its way through Python a time would become one of another zone.
        shown = frame.select(
            *(F.col(quoted(name)).cast("binary" if kinds[name] == "binary" else "string") for name in names)
        )
    return [list(row) for row in shown.limit(limit).collect()]


@contextmanager
def older(table: DescribedTable, asked: str | None) -> Iterator[None]:
    """Makes an error of ours of files that are gone, where an older version is read in the block.

    Raises:
        VersionMissing: VACUUM took files of that version away.
    """
    try:
        yield
    except Py4JJavaError as error:
        if asked is None:
            raise
        detail = f"files of it are gone ({first_line(error)})"
        raise VersionMissing(table=table.name, asked=asked, detail=detail) from error
