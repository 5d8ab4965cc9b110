"""What a flow's ``explode`` makes of the columns that its format reads, analysed before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, MapType

from rivermouth import names
from rivermouth.engine.table.problems import fix_of
from rivermouth.errors import ExplodeInvalid, first_line
from rivermouth.ports.internals.expressions import forbidden, forbidden_within, is_projection, repeatable, star_within
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import explode
from rivermouth.schemas import column_types
from rivermouth.spec import ArrayFormat, require_capability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.spec import Flow

_PROPERTY = "rivermouth.explode"
_SEVERAL = "it goes over several rows, or makes rows itself: write the array, without explode()"


def exploded_columns(spark: SparkSession, flow: Flow, payload: StructType) -> StructType:
    """The columns of an element: ``payload``, or with those of an element in the place of what the flow explodes.

    Raises:
        ExplodeInvalid: It cannot be had, is no array and no map, or may be another at another time.
    """
    explosion = flow.explosion
    if explosion is None:
        return payload
    fix = _fix(payload)
    try:
        if explosion.is_whole:
            require_capability(flow.value_format, ArrayFormat).elements(spark)
            return payload
        sql = names.as_sql(explosion.sql, payload.names)
        detail = forbidden(spark, sql) or ("it holds a *" if star_within(spark, sql) else None)
        if not detail:
            # In the form that a query has it, with brackets around.
            found = no_rows(spark, payload).selectExpr(f"(\n{sql}\n) AS elements")
            detail = _refused(found)
        if not detail:
            return column_types.nullable_columns(explode.columns(explosion, payload, found.schema[0].dataType))
    except (PySparkException, ValueError) as error:
        detail = first_line(error)
        fix = fix_of(error, payload.names, fix) if isinstance(error, PySparkException) else fix
    raise ExplodeInvalid(flow=flow.name, expression=flow.explode, detail=detail, fix=fix).about("explode")


def _fix(payload: StructType) -> str:
    """What could be exploded of these columns."""
    for field in payload:
        quoted = field.name if names.is_plain(field.name) else names.quoted(field.name)
        called = {ArrayType: "item", MapType: "(key, value)"}.get(type(field.dataType))
        if called is not None:
            return f'explode: "{quoted} AS {called}"'
    return 'declare an array in the schema: schema: "items array<string>"'


def exploded_properties(flow: Flow) -> dict[str, str]:
    """Table properties that say of what its rows are elements."""
    return {} if flow.explosion is None else {_PROPERTY: flow.explosion.sql}


def other_elements(flow: Flow, properties: Mapping[str, str]) -> str | None:
    """How the table's rows differ from those of the flow, in words; None if they do not: a position means the same."""
    its, mine = properties.get(_PROPERTY), exploded_properties(flow).get(_PROPERTY)
    return None if its == mine else f"its rows are {_described(its)}, those of the flow {_described(mine)}"


def _described(exploded: str | None) -> str:
    return "whole records" if exploded is None else f"elements of {exploded}"


def _refused(found: DataFrame) -> str | None:
    if not is_projection(found):
        return _SEVERAL
    if refused := forbidden_within(found):
        return refused
    return None if repeatable(found) else "it depends on chance or on the time, and an element keeps its position"
