"""What a flow's ``select`` makes of the columns that its format reads, analysed before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from rivermouth import names
from rivermouth.errors import ProjectInvalid, SelectInvalid, first_line
from rivermouth.ports.expressions import forbidden, forbidden_within, star_within
from rivermouth.rows import json_types, record_keys, schema, selecting
from rivermouth.rows.undeclared import RESCUED
from rivermouth.spec.selection import is_star

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.spec import Flow

# Delta takes them in no name of a column.
_NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
_NO_TYPE: Final = ("void", "interval")
_STAR: Final = "a * for all columns stands alone: name the columns"


def selected_columns(spark: SparkSession, flow: Flow, payload: StructType) -> StructType:
    """The payload columns of the flow's table: ``payload``, or what the flow selects of it.

    What is rescued stands behind that, if it is not selected: it stands nowhere else.

    Raises:
        ProjectInvalid: A policy lets a new column in for which there is no place.
        ColumnCollision: A column that is read bears the name of a metadata column, whether it is selected or not.
        ColumnReserved: Such a column bears a name of the way.
        SelectInvalid: Something that is selected cannot be had, or stands for no single column of each record.
    """
    if not flow.select:
        return payload
    _check_new_columns(flow, payload)
    read = spark.createDataFrame([], payload)
    beside = spark.createDataFrame([], schema.table_columns(flow, payload, record_keys.column_type(spark, flow)))
    found: list[StructField] = []
    for expression in flow.select:
        try:
            # First: to analyse reflection is to load a class.
            detail = forbidden(spark, expression) or (_STAR if star_within(spark, expression) else None)
            rows = read if is_star(expression) else beside
            fields = [] if detail else _columns(rows.selectExpr(expression))
        except (PySparkException, _Refused) as error:
            detail = first_line(error)
        detail = detail or _in_the_way(fields, found, payload) or _no_rescue(flow, expression, fields)
        if detail:
            raise SelectInvalid(flow=flow.name, expression=expression, detail=detail)
        found += fields
    if flow.policies.rescues and RESCUED not in (field.name for field in found):
        found.append(payload[RESCUED])
    return json_types.nullable_columns(StructType(found))


class _Refused(Exception):
    """An expression that is more than a column of each record."""


def _columns(selected: DataFrame) -> list[StructField]:
    """The columns of a frame that was made by nothing but a projection.

    Raises:
        _Refused: It was not.
    """
    plan: Any = selected._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows plans only in words
    while plan.nodeName() == "Project":
        plan = plan.child()
    if plan.children().size():
        msg = "it goes over several rows, or makes several of one: each record is one row"
        raise _Refused(msg)
    if refused := forbidden_within(selected):
        raise _Refused(refused)
    return selected.schema.fields


def _check_new_columns(flow: Flow, payload: StructType) -> None:
    if flow.gains_columns:
        return
    there = {name.lower() for field in payload for name in (field.name, json_types.name_in_json(field))}
    for name, policy in flow.policies.columns.items():
        if policy.on_new_column == "evolve" and name.lower() not in there:
            what = f"evolution.columns lets {name!r} in, and new columns have no place in a select without *"
            raise ProjectInvalid(detail=f"flows.{flow.name}: {what}", fix=f"write '*' into it, or leave {name} out")


def _no_rescue(flow: Flow, expression: str, fields: list[StructField]) -> str | None:
    """What is wrong with a column that is called like that of what is rescued, and is not; None if nothing is."""
    is_it = is_star(expression) or selecting.is_rescued(expression)
    if not flow.policies.rescues or is_it or RESCUED not in (names.folded(field.name) for field in fields):
        return None
    return f"column {RESCUED} is that of what is rescued: write AS and another name"


def _in_the_way(fields: list[StructField], before: list[StructField], payload: StructType) -> str | None:
    """What is wrong with columns behind others, in words; None if nothing is."""
    taken = {names.folded(each.name) for each in before}
    for field in fields:
        if _NOT_IN_NAMES & set(field.name) and field.name not in payload.names:
            return "it has no name that a column can bear: write AS and a name behind it"
        if field.dataType.simpleString().startswith(_NO_TYPE):
            return f"column {field.name} is {field.dataType.simpleString()}, which no table has: write CAST(… AS type)"
        if names.folded(field.name) in taken:
            return f"column {field.name} stands twice"
        taken.add(names.folded(field.name))
    return None
