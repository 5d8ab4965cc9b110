"""Rows of files that say the types of their columns (Avro, ORC, Parquet), and of those that have one (text, binary)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import java_session
from rivermouth.pipelines.files import failures, schemas
from rivermouth.pipelines.files.known_options import FIXED
from rivermouth.pipelines.files.plan import FILE
from rivermouth.pipelines.files.rows import rescue, struct_fields
from rivermouth.pipelines.files.rows.folders import with_folders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.files.plan import Plan

_UNKNOWN: Final = "__unknown"


def rows(read: DataFrame, plan: Plan, read_as: T.StructType) -> DataFrame:
    """The rows as Spark read them.

    Args:
        read: Has the columns of ``read_as``.
        plan: Of the source.
        read_as: As ``read_schema`` gives it.
    """
    filed = with_folders(read.selectExpr("*", f"_metadata.file_path AS {FILE}"), plan)
    columns = {
        mine.name: struct_fields.narrowed(names.quoted(mine.name), mine.dataType, each.dataType)
        for mine, each in zip(plan.in_files.fields, read_as.fields, strict=False)  # those that are declared come first
    }
    if plan.options.format in FIXED:
        return filed.selectExpr(*plan.selected(columns, None, "CAST(NULL AS STRING)"))
    checked = _checked(filed, plan, read_as)
    others = struct_fields.others("", plan.in_files, read_as)
    pairs = ", ".join(f"{value} AS {names.quoted(pointer)}" for pointer, value in others)
    pointers = f"nullif(to_json(struct({pairs})), '{{}}')" if pairs else "CAST(NULL AS STRING)"
    told = rescue.with_text(checked, plan, pointers, columns)
    return told.selectExpr(*plan.selected(columns, rescue.RESCUED, "CAST(NULL AS STRING)"))


def _checked(filed: DataFrame, plan: Plan, read_as: T.StructType) -> DataFrame:
    """Rows, with an error at the first of a file with columns that would be passed over, unless these are ignored."""
    if plan.options.evolution == "none" and plan.options.rescued is None:
        return filed
    spark = filed.sparkSession
    fails = plan.options.evolution == "failOnNewColumns"
    known = (plan.schema if fails else schemas.united(plan.schema, read_as)).json()
    depth = int(plan.options.reader.get("recursiveFieldMaxDepth", "-1"))
    unknown = jvm_classes.made(
        spark, "internals.files.FileFields", java_session(spark), plan.options.format, known, depth
    )
    # What is neither rescued nor added is in no later schema.
    is_stuck = plan.options.rescued is None and plan.options.evolution != "addNewColumns"
    kind = "new" if fails or is_stuck else "started"
    failed = failures.raised(kind, FILE, _UNKNOWN, is_sql=True)
    marked = filed.withColumn(_UNKNOWN, ClassicColumn(unknown.of(FILE)))
    return marked.where(f"CASE WHEN {_UNKNOWN} IS NOT NULL THEN {failed} ELSE true END")


def read_schema(plan: Plan, shape: T.StructType) -> T.StructType:
    """The columns that Spark reads: with rescued data, also the fields that files have and the schema does not.

    Args:
        plan: Of the source.
        shape: The fields of the files.
    """
    if plan.options.rescued is None:
        return plan.in_files
    declared = plan.in_files
    of_others = schemas.without(plan.schema, declared.names).names
    wide = schemas.united(declared, schemas.without(shape, of_others))
    fields = [
        each if struct_fields.others("", declared, T.StructType([each])) else mine
        for mine, each in zip(declared.fields, wide.fields, strict=False)
    ]
    return T.StructType([*fields, *wide.fields[len(fields) :]])
