"""Rows of XML files, by Spark's own reader, with what does not fit in the rescued data column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.pipelines.files.plan import FILE
from rivermouth.pipelines.files.rows import csv_rows, rescue
from rivermouth.pipelines.files.rows.folders import with_folders
from rivermouth.pipelines.files.rows.xml_values import OTHERS, Elements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.files.plan import Plan

CORRUPT: Final = "__corrupt"


def read_schema(plan: Plan) -> T.StructType:
    """The columns that Spark's reader is asked for: simple ones as text, and in one column what is no column."""
    elements = _elements(plan)
    fields = [
        elements.read_field(
            each if _is_nested(each) else T.StructField(each.name, T.StringType(), metadata=each.metadata)
        )
        for each in plan.in_files.fields
    ]
    others = T.StructField(OTHERS, T.ArrayType(T.StringType()))
    return T.StructType([*fields, others, T.StructField(CORRUPT, T.StringType())])


def read_options(plan: Plan) -> dict[str, str]:
    """The options of Spark's reader."""
    return {
        **plan.options.reader,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "wildcardColName": OTHERS,
    }


def rows(read: DataFrame, plan: Plan) -> DataFrame:
    """The rows of XML elements that Spark read as ``read_schema``."""
    filed = read.selectExpr("*", f"_metadata.file_path AS {FILE}")
    elements, fields = _elements(plan), plan.in_files.fields
    read_as = {each.name: elements.value(names.quoted(each.name), each) for each in fields}
    columns = {
        each.name: read_as[each.name]
        if _is_nested(each)
        else csv_rows.of_text(read_as[each.name], each.dataType, plan.options)
        for each in fields
    }
    typed = {
        each.name: (read_as[each.name], columns[each.name])
        for each in fields
        if not _is_nested(each) and not isinstance(each.dataType, T.StringType)
    }
    told = rescue.joined(elements.lost(plan.in_files), rescue.misfits(typed))
    whole = "CAST(NULL AS STRING)" if plan.has_corrupt else f"to_json(named_struct('/_corrupt_record', {CORRUPT}))"
    broken = f"({CORRUPT} IS NOT NULL)"
    pointers = f"CASE WHEN {broken} THEN {whole} ELSE {told} END"
    checked = rescue.new_columns(rescue.malformed(filed, plan, broken), plan, pointers)
    told_in = rescue.with_text(with_folders(checked, plan), plan, pointers, columns)
    return told_in.selectExpr(*plan.selected(columns, rescue.RESCUED, CORRUPT))


def _is_nested(field: T.StructField) -> bool:
    return isinstance(field.dataType, T.StructType | T.ArrayType | T.MapType | T.VariantType)


def _elements(plan: Plan) -> Elements:
    told = plan.options.reader
    rescues = plan.options.rescued is not None
    return Elements(told.get("attributePrefix", "_"), told.get("valueTag", "_VALUE"), rescues)
