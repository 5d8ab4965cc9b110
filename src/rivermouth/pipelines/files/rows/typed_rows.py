"""Rows of files that say the types of their columns (Avro, ORC, Parquet), and of those that have one (text, binary)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import java_session
from rivermouth.names import folded
from rivermouth.pipelines.files import failures, schemas
from rivermouth.pipelines.files.known_options import FIXED
from rivermouth.pipelines.files.plan import FILE
from rivermouth.pipelines.files.rows import rescue
from rivermouth.pipelines.files.rows.folders import with_folders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

    from rivermouth.pipelines.files.plan import Plan

_UNKNOWN: Final = "__unknown"


def rows(read: DataFrame, plan: Plan, rescued: T.StructType) -> DataFrame:
    """The rows as Spark read them.

    Args:
        read: Has the columns of ``plan.in_files`` and ``rescued``.
        plan: Of the source.
        rescued: Columns that files have and the schema does not.
    """
    filed = with_folders(read.selectExpr("*", f"_metadata.file_path AS {FILE}"), plan)
    columns = {each.name: names.quoted(each.name) for each in plan.in_files.fields}
    if plan.options.format in FIXED:
        return filed.selectExpr(*plan.selected(columns, None, "CAST(NULL AS STRING)"))
    checked = _checked(filed, plan, rescued)
    pairs = ", ".join(f"{names.quoted(each.name)} AS {names.quoted('/' + each.name)}" for each in rescued.fields)
    pointers = f"nullif(to_json(struct({pairs})), '{{}}')" if pairs else "CAST(NULL AS STRING)"
    told = rescue.with_text(checked, plan, pointers, columns)
    return told.selectExpr(*plan.selected(columns, rescue.RESCUED, "CAST(NULL AS STRING)"))


def _checked(filed: DataFrame, plan: Plan, rescued: T.StructType) -> DataFrame:
    """Rows, with an error at the first of a file with columns that would be passed over, unless these are ignored."""
    if plan.options.evolution == "none" and plan.options.rescued is None:
        return filed
    spark = filed.sparkSession
    fields = [*plan.schema.fields, *(each for each in rescued.fields if folded(each.name) not in _known(plan))]
    known = type(plan.schema)(fields).json()
    unknown = jvm_classes.made(spark, "internals.files.FileFields", java_session(spark), plan.options.format, known)
    kind = "new" if plan.options.evolution == "failOnNewColumns" else "started"
    failed = failures.raised(kind, FILE, _UNKNOWN, is_sql=True)
    marked = filed.withColumn(_UNKNOWN, ClassicColumn(unknown.of(FILE)))
    return marked.where(f"CASE WHEN {_UNKNOWN} IS NOT NULL THEN {failed} ELSE true END")


def _known(plan: Plan) -> set[str]:
    return {folded(each.name) for each in plan.schema.fields}


def only_in_files(plan: Plan, shape: T.StructType) -> T.StructType:
    """The columns that files have and the schema does not: they are read for the rescued data column."""
    if plan.options.rescued is None:
        return schemas.without(shape, shape.names)
    return schemas.without(shape, plan.schema.names)
