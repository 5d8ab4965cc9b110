"""What a flow's ``select`` makes of the columns that its format reads, analysed before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.engine.table.problems import condition_over, fix_of
from rivermouth.errors import ProjectInvalid, SelectInvalid, first_line
from rivermouth.ports.internals.expressions import forbidden, forbidden_within, is_projection, star_within
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import conform
from rivermouth.rows.columns import select_columns
from rivermouth.schemas import column_types
from rivermouth.schemas.column_types import RESCUED
from rivermouth.spec.selection import is_star

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.table.problems import Problems
    from rivermouth.spec import Flow

# Delta takes them in no name of a column.
_NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
_NO_TYPE: Final = ("void", "interval")
_CALLED: Final = re.compile(r"\s+AS\s+(\w+|`[^`]+`)\s*$", re.IGNORECASE)
_OWN_COLUMNS: Final = "write it with the record's own columns"
_STAR: Final = "a * for all columns cannot be part of an expression: name the columns"


def selected_columns(spark: SparkSession, flow: Flow, payload: StructType, problems: Problems) -> StructType:
    """The payload columns of the flow's table: ``payload``, or what the flow selects of it.

    The column of rescued fields comes after that, if it is not selected: no other column holds them. Each part of
    ``select`` that cannot be had, or is no single column of each record, is kept in ``problems`` as SelectInvalid.

    Raises:
        ProjectInvalid: A policy lets a new column in for which there is no place.
        ColumnCollision: A column that is read has the name of a metadata column, whether it is selected or not.
        ColumnReserved: Such a column has a name that rivermouth uses while it processes a batch.
    """
    if not flow.select:
        return payload
    _check_new_columns(flow, payload)
    read = no_rows(spark, payload)
    beside = no_rows(spark, conform.table_columns(flow, payload, record_keys.column_type(spark, flow)))
    found: list[StructField] = []
    for index, expression in enumerate(flow.select):
        with problems.kept(*_makes(expression, payload)):
            rows = read if is_star(expression) else beside
            fields, wrong = [], None
            try:
                fields = _columns(rows, names.as_sql(expression, rows.columns))
            except _Refused as refused:
                wrong = refused
            wrong = wrong or _in_the_way(expression, fields, found, payload) or _no_rescue(flow, expression, fields)
            if wrong:
                raise SelectInvalid(flow=flow.name, expression=expression, detail=str(wrong), fix=wrong.fix).about(
                    "select", index
                ) from wrong.__cause__
            found += fields
    if flow.policies.rescues and RESCUED not in (field.name for field in found):
        found.append(payload[RESCUED])
    return column_types.nullable_columns(StructType(found))


class _Refused(Exception):
    """An expression that is more than a column of each record, or none; ``fix`` says what to write."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def _columns(rows: DataFrame, expression: str) -> list[StructField]:
    """The columns that an expression makes of those of ``rows``, by nothing but a projection.

    Raises:
        _Refused: It does not.
    """
    spark = rows.sparkSession
    try:
        # First: to analyse reflection is to load a class.
        if refused := forbidden(spark, expression):
            raise _Refused(refused, _OWN_COLUMNS)
        if star_within(spark, expression):
            raise _Refused(_STAR, "select: ['*']")
        selected = rows.selectExpr(expression)
    except PySparkException as error:
        example = f"select: ['*', {condition_over(rows.columns)} AS is_there]"
        raise _Refused(first_line(error), fix_of(error, rows.columns, example)) from error
    if not is_projection(selected):
        msg = "it goes over several rows, or makes several of one: each record is one row"
        raise _Refused(msg, "select one column of each record; for a row of each element of an array write explode:")
    if refused := forbidden_within(selected):
        raise _Refused(refused, _OWN_COLUMNS)
    return selected.schema.fields


def _check_new_columns(flow: Flow, payload: StructType) -> None:
    if flow.gains_columns:
        return
    there = {name.lower() for field in payload for name in (field.name, column_types.name_in_json(field))}
    for name, policy in flow.policies.columns.items():
        if policy.on_new_column == "evolve" and name.lower() not in there:
            what = f"evolution.columns lets {name!r} in, and new columns have no place in a select without *"
            raise ProjectInvalid(detail=f"flows.{flow.name}: {what}", fix=f"write '*' into it, or leave {name} out")


def _no_rescue(flow: Flow, expression: str, fields: list[StructField]) -> _Refused | None:
    """What is wrong with a column that is called like that of what is rescued, and is not; None if nothing is."""
    is_it = is_star(expression) or select_columns.is_rescued(expression)
    if not flow.policies.rescues or is_it or RESCUED not in (names.folded(field.name) for field in fields):
        return None
    return _Refused(f"column {RESCUED} is that of what is rescued: write AS and another name", "AS another_name")


def _in_the_way(
    expression: str, fields: list[StructField], before: list[StructField], payload: StructType
) -> _Refused | None:
    """What is wrong with columns behind others; None if nothing is."""
    taken = {names.folded(each.name) for each in before}
    for field in fields:
        kind = field.dataType.simpleString()
        if _NOT_IN_NAMES & set(field.name) and field.name not in payload.names:
            detail = "it has no name that a column can have: write AS and a name after it"
            return _Refused(detail, f"{expression} AS a_name")
        if kind.startswith(_NO_TYPE):
            detail = f"column {field.name} is {kind}, which no table has: write CAST(… AS type)"
            return _Refused(detail, f"CAST({_unnamed(expression)} AS string) AS {field.name}")
        if names.folded(field.name) in taken:
            return _Refused(f"column {field.name} is there twice", f"{_unnamed(expression)} AS another_name")
        taken.add(names.folded(field.name))
    return None


def _makes(expression: str, payload: StructType) -> list[str]:
    """The names of the columns that it would make, as far as its text shows them."""
    if is_star(expression):
        return payload.names
    called = _CALLED.search(expression)
    return [called[1].strip("`") if called else expression.strip().rpartition(".")[2].strip("`")]


def _unnamed(expression: str) -> str:
    """The expression without the name that it is given."""
    return _CALLED.sub("", expression)
