"""Rows of CSV files: fields are found by the names in each file's header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.text import text_types
from rivermouth.pipelines.files.plan import FILE
from rivermouth.pipelines.files.rows import rescue
from rivermouth.pipelines.files.rows.folders import with_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.pipelines.files.options import FileOptions
    from rivermouth.pipelines.files.plan import Plan

_ROWS: Final = "__rows"
_ROW: Final = "__row"


def check(schema: T.StructType) -> None:
    """Makes sure that the columns can be read from CSV.

    Raises:
        ValueError: They cannot; the text says why.
    """
    if schema.fields:
        text_types.check(schema)


def rows(texts: DataFrame, plan: Plan) -> DataFrame:
    """The rows of CSV files.

    Args:
        texts: Have ``value``, a whole file.
        plan: Of the source.
    """
    schema, options = plan.in_files, plan.options
    split = exploded(texts, options, schema.names, named=is_named(plan))
    values = {each.name: _text(place) for place, each in enumerate(schema.fields)}
    done = {each.name: of_text(values[each.name], each.dataType, options) for each in schema.fields}
    corrupt = f"({_ROW}.corrupt IS NOT NULL)"
    broken = f"({corrupt} OR {_ROW}.uneven)" if options.mode != "PERMISSIVE" else corrupt
    typed = {
        each.name: (values[each.name], done[each.name])
        for each in schema.fields
        if not isinstance(each.dataType, T.StringType)
    }
    whole = "CAST(NULL AS STRING)" if plan.has_corrupt else f"to_json(named_struct('/_corrupt_record', {_ROW}.corrupt))"
    told = rescue.joined(f"{_ROW}.others", rescue.misfits(typed))
    pointers = f"CASE WHEN {corrupt} THEN {whole} ELSE {told} END"
    checked = rescue.new_columns(rescue.malformed(split, plan, broken), plan, pointers)
    told_in = rescue.with_text(with_folders(checked, plan), plan, pointers, done)
    return told_in.selectExpr(*plan.selected(done, rescue.RESCUED, f"{_ROW}.corrupt"))


def exploded(texts: DataFrame, options: FileOptions, columns: Sequence[str], *, named: bool) -> DataFrame:
    """``__file`` and ``__row``: of each row of the files in ``value`` its texts, and what is no column."""
    values = texts.selectExpr(f"CAST(value AS BINARY) AS {names.VALUE}", f"_metadata.file_path AS {FILE}")
    split = ClassicColumn(reader(texts.sparkSession, options, columns, named=named).of(names.VALUE))
    return values.select(FILE, split.alias(_ROWS)).selectExpr(FILE, f"explode({_ROWS}) AS {_ROW}")


def reader(spark: SparkSession, options: FileOptions, columns: Sequence[str], *, named: bool) -> Any:
    """Our class that takes files apart."""
    return jvm_classes.made(
        spark, "internals.files.CsvRows", dict(options.reader), list(columns), named, options.exact_case
    )


def is_named(plan: Plan) -> bool:
    """Whether fields are found by name: of a given schema only if it is not applied by position."""
    if plan.inferred:
        return True
    has_header = plan.options.reader.get("header", "false").lower() == "true"
    by_position = plan.options.reader.get("enforceSchema", "true").lower() == "true"
    return has_header and (plan.options.rescued is not None or not by_position)


def of_text(text: str, declared: T.DataType, options: FileOptions) -> str:
    """SQL of a type for the text of a field; null where the text does not fit it."""
    form = options.reader.get("dateFormat" if isinstance(declared, T.DateType) else "timestampFormat")
    if form is not None and isinstance(declared, T.DateType | T.TimestampType | T.TimestampNTZType):
        return f"CAST(try_to_timestamp({text}, {names.literal(form)}) AS {declared.simpleString()})"
    return text_types.of_text(text, declared)


def _text(place: int) -> str:
    return f"{_ROW}.texts[{place}]"
