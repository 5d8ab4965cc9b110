"""Sources of files as frames: a stream that reads each new file once, or all files as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from rivermouth import names
from rivermouth.pipelines.files import options as file_options
from rivermouth.pipelines.files.detection import format_of
from rivermouth.pipelines.files.listing import File, files_of
from rivermouth.pipelines.files.planning import FileSite, Planned, Planner
from rivermouth.pipelines.files.rows import csv_rows, json_rows, typed_rows, xml_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

    from rivermouth.pipelines.files.options import FileOptions
    from rivermouth.pipelines.files.plan import Plan

_IN_A_LIST = 10_000


def stream_files(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    schema: T.StructType | str | None,
    site: FileSite,
    infers_types: bool = False,
) -> DataFrame:
    """A streaming frame of files, as ``spark.readStream.format("cloudFiles")`` makes one.

    Its columns are those of the schema, columns that folders make, and the rescued data column (string), if there is
    one; ``_metadata`` can be selected.

    Args:
        spark: A session with the access to the files.
        path: Of a folder, with or without wildcards, as Spark finds it.
        options: As they are written; names in any letter case, with or without ``cloudFiles.``.
        schema: The columns; None: they are inferred.
        site: Where the source belongs.
        infers_types: Whether types are inferred where no option says so, and the format by the names of the files, as
            ``STREAM read_files`` does.

    Raises:
        FileOptionUnknown: An option is not known.
        FileOptionInvalid: A value of one is not allowed.
        FileOptionRefused: An option cannot be honoured.
        FilePathUnmapped: The folder does not exist, and its path is one of Databricks; or one that is written to has no
            folder here.
        FileSourceMissing: The folder does not exist.
        FileSourceUnreadable: The folder cannot be listed.
        FileSourceEmpty: It has no file, and no schema is given.
        FileSchemaInvalid: The schema or the hints cannot be used.
        FileSchemaNotInferred: Spark can infer no schema.
        FileSchemaShared: Another source has the same ``schemaLocation``.
        FileColumnsNew: There are new columns, and the evolution mode is failOnNewColumns.

    Guarantees:
        With one checkpoint each file is read once. What the schema does not hold is in the rescued data column, or the
        query fails. The schema is written below ``cloudFiles.schemaLocation``, or below ``site.state_folder``.
    """
    options, files = _with_format(spark, path, options, site) if infers_types else (options, None)
    read = file_options.parse(options, has_schema=schema is not None, infers_types=infers_types, at=site.place)
    planned = Planner(spark, path, read, site, keeps=True).planned(schema, files)
    return _frame(DataStreamReader(spark), planned, _of_streams(read, site))


def read_files(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    schema: T.StructType | str | None,
    site: FileSite,
) -> DataFrame:
    """A frame of all files that are there, as ``read_files`` in SQL makes one: types are inferred, and none are kept.

    Raises:
        RivermouthError: As ``stream_files``.
    """
    options, files = _with_format(spark, path, options, site)
    read = file_options.parse(options, has_schema=schema is not None, infers_types=True, at=site.place)
    planned = Planner(spark, path, read, site, keeps=False).planned(schema, files)
    return _frame(DataFrameReader(spark), planned, {})


def _with_format(
    spark: SparkSession, path: str, options: Mapping[str, str], site: FileSite
) -> tuple[Mapping[str, str], list[File] | None]:
    """The options with the format that all files have by their names, and these files; where one is given, no files."""
    given = file_options.by_name(options)
    if "format" in given:
        return options, None
    files = files_of(spark, path, file_options.glob_of(given), site.place)
    found = format_of(each.location for each in files)
    return (options if found is None else {**options, "format": found}), files


def _of_streams(options: FileOptions, site: FileSite) -> dict[str, str]:
    # Without it Spark never reads a file whose time is seven days before the newest that it has read.
    found = {**({} if site.in_test else options.clean), "maxFileAge": "36500d"}
    if "sourceArchiveDir" in found:
        found["sourceArchiveDir"] = site.written(found["sourceArchiveDir"], site.place)
    if options.max_files is not None:
        found["maxFilesPerTrigger"] = str(options.max_files)
    if options.max_bytes is not None:
        found["maxBytesPerTrigger"] = str(options.max_bytes)
    return found


def _frame(reader: Any, planned: Planned, more: dict[str, str]) -> DataFrame:
    """The frame of a reader of batches or streams: what is chosen by time or name is left out before it is decoded.

    The reader is Spark's own: that of a pipeline's session would locate the path once more.
    """
    plan = planned.plan
    found = {**plan.options.skips, **more, "recursiveFileLookup": "true"}
    if plan.options.glob is not None:
        found["pathGlobFilter"] = plan.options.glob
    match plan.options.format:
        case "json":
            return json_rows.rows(_chosen(_texts(reader, plan, found, whole=plan.options.multi_line), planned), plan)
        case "csv":
            return csv_rows.rows(_chosen(_texts(reader, plan, found, whole=True), planned), plan)
        case "xml":
            read = reader.format("xml").options(**found, **xml_rows.read_options(plan))
            return xml_rows.rows(_chosen(read.schema(xml_rows.read_schema(plan)).load(plan.pattern), planned), plan)
    columns = typed_rows.read_schema(plan, planned.shape)
    read = reader.format(plan.options.format).options(**found, **plan.options.reader)
    if plan.options.format != "text":
        read = read.schema(columns)
    return typed_rows.rows(_chosen(read.load(plan.pattern), planned), plan, columns)


def _texts(reader: Any, plan: Plan, found: dict[str, str], *, whole: bool) -> DataFrame:
    given = {**found, "wholetext": str(whole).lower()}
    if not whole and "lineSep" in plan.options.reader:
        given["lineSep"] = plan.options.reader["lineSep"]
    texts: DataFrame = reader.format("text").options(**given).load(plan.pattern)
    return texts


def _chosen(read: DataFrame, planned: Planned) -> DataFrame:
    """Only rows of the files that are asked for; Spark does not open the others."""
    options = planned.plan.options
    changed = "_metadata.file_modification_time"
    for sign, text in ((">", options.modified_after), ("<", options.modified_before)):
        if text is not None:
            read = read.where(f"{changed} {sign} CAST({names.literal(text)} AS TIMESTAMP)")
    for begin in range(0, len(planned.left_out), _IN_A_LIST):
        part = [each for path in planned.left_out[begin : begin + _IN_A_LIST] for each in _spellings(path)]
        read = read.where(f"_metadata.file_path NOT IN ({', '.join(map(names.literal, part))})")
    return read


def _spellings(path: str) -> list[str]:
    """An address as batches and as streams have it: of local files these differ in slashes."""
    local = path.removeprefix("file:")
    return [path] if local == path else [f"file:/{local.lstrip('/')}", f"file:///{local.lstrip('/')}"]
