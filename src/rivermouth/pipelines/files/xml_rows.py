"""Rows of XML files, by Spark's own reader, with what does not fit in the rescued data column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.pipelines.files import rescue
from rivermouth.pipelines.files.plan import FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.files.plan import Plan

CORRUPT: Final = "__corrupt"
OTHERS: Final = "__others"


def read_schema(plan: Plan) -> T.StructType:
    """The columns that Spark's reader is asked for: elements that are no column come in one of their own."""
    others = T.StructField(OTHERS, T.ArrayType(T.StringType()))
    return T.StructType([*plan.in_files.fields, others, T.StructField(CORRUPT, T.StringType())])


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
    name = r"regexp_extract(other, '^\\s*<([^\\s/>]+)', 1)"
    pairs = f"transform({OTHERS}, other -> struct(concat('/', {name}) AS key, other AS value))"
    # An element may be there several times; map_from_entries takes each name once.
    first = f"filter({pairs}, (each, place) -> array_position(transform({pairs}, p -> p.key), each.key) = place + 1)"
    others = f"to_json(map_from_entries({first}))"
    whole = "CAST(NULL AS STRING)" if plan.has_corrupt else f"to_json(named_struct('/_corrupt_record', {CORRUPT}))"
    broken = f"({CORRUPT} IS NOT NULL)"
    pointers = f"CASE WHEN {broken} THEN {whole} ELSE nullif({others}, '{{}}') END"
    checked = rescue.new_columns(rescue.malformed(filed, plan, broken), plan, pointers)
    told = rescue.with_text(checked, plan, pointers)
    columns = {each.name: names.quoted(each.name) for each in plan.in_files.fields}
    return told.selectExpr(*plan.selected(columns, rescue.RESCUED, CORRUPT))
