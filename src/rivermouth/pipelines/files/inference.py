"""The fields of files that are there, with the types that Spark infers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import DataFrameReader
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.errors import FileSchemaNotInferred, first_line
from rivermouth.pipelines.files import schemas
from rivermouth.pipelines.files.known_options import FIXED
from rivermouth.pipelines.files.options import bytes_of
from rivermouth.pipelines.files.paths import visible
from rivermouth.pipelines.files.rows import csv_rows
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.pipelines.files.listing import File
    from rivermouth.pipelines.files.options import FileOptions

MAX_FILES: Final = 1000
"""Of more new files than that the newest are looked at; what only others have is in the rescued data column."""
_SAMPLE_SIZE: Final = "spark.databricks.cloudfiles.schemainference.samplesize"
"""The start of two settings of Auto Loader, in lower case."""
_CORRUPT: Final = "__corrupt"
_AS_IS: Final = {"__globPaths__": "false"}
"""Spark's own option for paths that are those of files, whatever signs they have."""
_NO_AVRO: Final = "No Avro files found"
_IS_CORRUPT: Final = "UNABLE_TO_INFER_SCHEMA"
_LONG_WHOLE: Final = T.DecimalType(38, 0)
_CANDIDATES: Final[tuple[T.DataType, ...]] = (
    T.IntegerType(),
    T.LongType(),
    _LONG_WHOLE,
    T.DoubleType(),
    T.BooleanType(),
    T.DateType(),
    T.TimestampType(),
)
_LOOKS_LIKE: Final[dict[T.DataType, str]] = {
    _LONG_WHOLE: "{text} RLIKE '^[+-]?[0-9]+$'",
    # A double does not hold all digits of these.
    T.DoubleType(): "NOT {text} RLIKE '^[+-]?[0-9]{{16,}}$'",
    T.BooleanType(): "lower({text}) IN ('true', 'false')",
    T.TimestampType(): "{text} RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:'",
}


def shape_of(
    spark: SparkSession, files: Sequence[File], path: str, options: FileOptions, at: str | None = None
) -> T.StructType:
    """The fields of files.

    Args:
        spark: Has the access to them.
        files: The files, oldest first; at least one.
        path: Of the source.
        options: Its options.
        at: Where it is written.

    Raises:
        FileSchemaNotInferred: Spark cannot infer them.
    """
    try:
        newest = [each.location for each in sampled(spark, files)]
    except ValueError as error:
        raise FileSchemaNotInferred(at=at, path=path, detail=str(error)) from None
    try:
        found = _shape(spark, files, newest, path, options)
    except jvm_classes.JAVA_ERRORS as error:
        raise FileSchemaNotInferred(at=at, path=path, detail=first_line(error)) from None
    return found


def _shape(
    spark: SparkSession, files: Sequence[File], newest: Sequence[str], path: str, options: FileOptions
) -> T.StructType:
    match options.format:
        case "avro":
            return _avro(spark, files, options)
        case "orc" | "parquet":
            given = {**options.skips, **options.reader, "mergeSchema": "true", "recursiveFileLookup": "true"}
            glob = {} if options.glob is None else {"pathGlobFilter": options.glob}
            read = DataFrameReader(spark).format(options.format).options(**given)
            try:
                return read.options(**glob).load(visible(path)).schema
            except jvm_classes.JAVA_ERRORS:
                return _merged(read.options(**_AS_IS), files, options)
        case "csv":
            return _csv(spark, newest, options)
        case kind if kind in FIXED:
            return DataFrameReader(spark).format(kind).options(**_AS_IS, **options.skips).load(newest[-1]).schema
    if options.format == "json":
        # Fields of JSON are found by their exact names, and Spark refuses two spellings of one where it is not told so.
        spark = sessions.cloned(spark)
        spark.conf.set("spark.sql.caseSensitive", "true")
    given = {**_AS_IS, **options.skips, **options.reader, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    shape = DataFrameReader(spark).format(options.format).options(**given).load(list(newest)).schema
    return schemas.one_spelling(schemas.without(shape, [_CORRUPT]))


def _merged(read: DataFrameReader, files: Sequence[File], options: FileOptions) -> T.StructType:
    """The fields of files. Spark merges none of them where a column has two types: then each half is merged alone."""
    try:
        return read.load([each.location for each in files]).schema
    except jvm_classes.JAVA_ERRORS as error:
        if len(files) == 1:
            if not _is_ignored(error, _IS_CORRUPT, options):
                raise
            return T.StructType()
    middle = len(files) // 2
    return schemas.widened(_merged(read, files[:middle], options), _merged(read, files[middle:], options))


def _avro(spark: SparkSession, files: Sequence[File], options: FileOptions) -> T.StructType:
    read = DataFrameReader(spark).format("avro").options(**{**_AS_IS, **options.skips, **options.reader})
    shape, skipped = T.StructType(), None
    for each in files:
        try:
            shape = schemas.widened(shape, read.load(each.location).schema)
        except jvm_classes.JAVA_ERRORS as error:
            if not _is_ignored(error, _NO_AVRO, options):
                raise
            skipped = error
    if skipped is not None and not shape.fields:
        raise skipped
    return shape


def _is_ignored(error: Exception, words: str, options: FileOptions) -> bool:
    """Whether these are Spark's words for one file that it cannot read, where ``ignoreCorruptFiles`` is true."""
    return words in str(error) and options.skips.get("ignoreCorruptFiles") == "true"


def sampled(spark: SparkSession, files: Sequence[File]) -> Sequence[File]:
    """The newest files, as many as the settings of Auto Loader say; oldest first, and at least one.

    Raises:
        ValueError: A setting is no number; the text says which.
    """
    said = {name.lower(): value.strip() for name, value in sessions.all_settings(spark).items()}
    most, size = said.get(f"{_SAMPLE_SIZE}.numfiles", str(MAX_FILES)), said.get(f"{_SAMPLE_SIZE}.numbytes", "50gb")
    bytes_left, taken = bytes_of(size), 0
    if not most.isdecimal() or int(most) == 0 or bytes_left is None:
        wrong = f"numFiles {most}" if bytes_left is not None else f"numBytes {size}"
        message = f"{wrong} of spark.databricks.cloudFiles.schemaInference.sampleSize is no number of that kind"
        raise ValueError(message)
    for each in reversed(files[-int(most) :]):
        bytes_left -= each.bytes
        if taken and bytes_left < 0:
            break
        taken += 1
    return files[-taken:]


def _csv(spark: SparkSession, files: Sequence[str], options: FileOptions) -> T.StructType:
    texts = DataFrameReader(spark).format("text").options(**_AS_IS, **options.skips, wholetext="true").load(list(files))
    values = texts.selectExpr(f"CAST(value AS BINARY) AS {names.VALUE}", "_metadata.file_path AS __file")
    header = csv_rows.reader(spark, options, [], named=True).header(names.VALUE)
    found = values.select("__file", ClassicColumn(header).alias("header")).collect()
    order = {path: place for place, path in enumerate(files)}
    shape = T.StructType()
    for row in sorted(found, key=lambda each: order.get(unquote(each["__file"]), 0)):
        shape = schemas.united(shape, T.StructType([T.StructField(name, T.StringType()) for name in row["header"]]))
    return _csv_types(texts, shape, options) if options.infer_types and shape.fields else shape


def _csv_types(texts: DataFrame, shape: T.StructType, options: FileOptions) -> T.StructType:
    """The narrowest type of each column that takes all its texts; a string where there is none."""
    rows = csv_rows.exploded(texts, options, shape.names, named=True)
    counts = []
    for place in range(len(shape.fields)):
        text = f"__row.texts[{place}]"
        for number, kind in enumerate(_CANDIDATES):
            is_told = isinstance(kind, T.TimestampType) and "timestampFormat" in options.reader
            looks = "true" if is_told else _LOOKS_LIKE.get(kind, "true").format(text=text)
            fits = f"({csv_rows.of_text(text, kind, options)}) IS NOT NULL AND {looks}"
            counts.append(F.expr(f"count_if({text} IS NOT NULL AND NOT ({fits}))").alias(f"m{place}_{number}"))
        counts.append(F.expr(f"count({text})").alias(f"n{place}"))
    (told,) = rows.agg(*counts).collect()
    fields = []
    for place, each in enumerate(shape.fields):
        fitting = [kind for number, kind in enumerate(_CANDIDATES) if told[f"m{place}_{number}"] == 0]
        fields.append(T.StructField(each.name, fitting[0] if fitting and told[f"n{place}"] else T.StringType()))
    return T.StructType(fields)


def partition_types(values: Sequence[dict[str, str | None]], columns: Sequence[str]) -> dict[str, T.DataType]:
    """The types of columns that folders make: whole numbers, else strings."""
    found: dict[str, T.DataType] = {}
    for name in columns:
        texts = [each[name] for each in values if each.get(name) is not None]
        found[name] = _partition_type([text for text in texts if text is not None])
    return found


def _partition_type(texts: Sequence[str]) -> T.DataType:
    digits = [text.removeprefix("-") for text in texts]
    most = len(str(2**31 - 1)) - 1
    is_whole = all(text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0")) for text in digits)
    if texts and is_whole and max(map(len, digits)) < len(str(2**63 - 1)):
        return T.IntegerType() if max(map(len, digits)) <= most else T.LongType()
    return T.StringType()
