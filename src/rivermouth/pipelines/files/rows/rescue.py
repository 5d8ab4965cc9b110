"""The rescued data column, and what happens to records and columns that nobody expects: SQL over rows of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.pipelines.files import failures, schemas
from rivermouth.pipelines.files.plan import FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.files.plan import Plan

RESCUED: Final = "__rescued_text"
_PATH_SETTING: Final = "spark.databricks.sql.rescuedDataColumn.filePath.enabled"


def with_text(rows: DataFrame, plan: Plan, pointers: str, columns: dict[str, str] | None = None) -> DataFrame:
    """Rows with the text of the rescued data column, where there is one.

    Args:
        rows: Have ``__file``, and ``__folders`` if folders can make columns.
        plan: Of the source.
        pointers: SQL of a JSON object from JSON pointers to what is rescued, or null.
        columns: By name, SQL of the columns that are read from the contents.
    """
    if plan.options.rescued is None:
        return rows
    spark = rows.sparkSession
    told = spark.conf.get(_PATH_SETTING, "true") or "true"
    file = FILE if told.lower() == "true" else "CAST(NULL AS STRING)"
    if plan.of_folders.fields:
        pointers = joined(pointers, misfits({**plan.partition_values(), **_of_folders(plan, columns or {})}))
    text = jvm_classes.made(spark, "internals.files.Rescued").of(pointers, file)
    return rows.withColumn(RESCUED, ClassicColumn(text))


def _of_folders(plan: Plan, columns: dict[str, str]) -> dict[str, tuple[str, str]]:
    """As for ``misfits``, what folders make columns of: a text that does not fit, else another value in the file."""
    found = {}
    for name, (text, value) in plan.optional_values().items():
        other = f"WHEN {value} <> {columns[name]} THEN CAST({columns[name]} AS STRING)"
        found[name] = (f"CASE WHEN {value} IS NULL THEN {text} {other} END", "CAST(NULL AS STRING)")
    return found


def joined(first: str, second: str) -> str:
    """SQL of one JSON object with the members of two; each of the two may be null or without members."""
    one, other = f"nullif({first}, '{{}}')", f"nullif({second}, '{{}}')"
    both = f"concat(substring({one}, 1, char_length({one}) - 1), ',', substring({other}, 2))"
    return f"coalesce({both}, {one}, {other})"


def misfits(texts: dict[str, tuple[str, str]]) -> str:
    """SQL of a JSON object with the fields whose text is there and whose value is not.

    Args:
        texts: By name of a column, SQL of its text, and SQL of its value.
    """
    if not texts:
        return "CAST(NULL AS STRING)"
    pairs = ", ".join(
        f"{names.literal(names.pointer_step(name))}, CASE WHEN {value} IS NULL THEN {text} END"
        for name, (text, value) in texts.items()
    )
    return f"to_json(map_filter(map({pairs}), (misfit_name, misfit_text) -> misfit_text IS NOT NULL))"


def malformed(rows: DataFrame, plan: Plan, corrupt: str) -> DataFrame:
    """Rows as ``mode`` says: all, without those that cannot be read, or an error at the first of these.

    Args:
        rows: Have ``__file``.
        plan: Of the source.
        corrupt: SQL, never null: whether a row is one that cannot be read.
    """
    if plan.options.mode == "DROPMALFORMED":
        return rows.where(f"NOT ({corrupt})")
    if plan.options.mode == "FAILFAST":
        failed = failures.raised("malformed", FILE, plan.options.format)
        return rows.where(f"CASE WHEN {corrupt} THEN {failed} ELSE true END")
    return rows


def new_columns(rows: DataFrame, plan: Plan, pointers: str) -> DataFrame:
    """Rows, with an error at the first that has a field that is new where the evolution mode is failOnNewColumns."""
    if plan.options.evolution != "failOnNewColumns":
        return rows
    listed = ", ".join(names.literal(each) for each in ("/_corrupt_record", *schemas.pointers(plan.schema)))
    general = r"regexp_replace(new_name, '/[0-9]+(?=/|$)', '/[]')"
    known = f"array_contains(array({listed}), new_name) OR array_contains(array({listed}), {general})"
    fresh = f"filter(json_object_keys({pointers}), new_name -> NOT ({known}))"
    failed = failures.raised("new", FILE, f"array_join({fresh}, ', ')", is_sql=True)
    return rows.where(F.expr(f"CASE WHEN coalesce(size({fresh}) > 0, false) THEN {failed} ELSE true END"))
