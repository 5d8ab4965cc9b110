"""Columns that the folders ``name=value`` of files make, on rows of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.pipelines.files import failures
from rivermouth.pipelines.files.plan import FILE, FOLDERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.pipelines.files.plan import Plan

_OTHERS: Final = "__other_folders"


def with_folders(rows: DataFrame, plan: Plan) -> DataFrame:
    """Rows with the texts in the names of their folders, where such a folder can make a column.

    A row whose folders make a column that the plan does not know of is an error.

    Args:
        rows: Have ``__file``.
        plan: Of the source.
    """
    columns = plan.of_folders.names
    if columns:
        rows = rows.withColumn(FOLDERS, _texts(rows, columns))
    return _without_others(rows, plan.watched) if plan.watched else rows


def _texts(rows: DataFrame, columns: Sequence[str]) -> Column:
    made = jvm_classes.made(rows.sparkSession, "internals.files.FolderValues", list(columns))
    return ClassicColumn(made.of(FILE))


def _without_others(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    pointers = f"array({', '.join(names.literal('/' + name) for name in columns)})"
    there = f"filter({pointers}, (pointer, place) -> {_OTHERS}[place] IS NOT NULL)"
    failed = failures.raised("folders", FILE, f"array_join({there}, ', ')", is_sql=True)
    checked = rows.withColumn(_OTHERS, _texts(rows, columns))
    return checked.where(f"CASE WHEN {_OTHERS} IS NOT NULL THEN {failed} ELSE true END").drop(_OTHERS)
