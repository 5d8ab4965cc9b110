"""The expressions of a flow, analysed by Spark over the columns that they may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType, VariantType

from rivermouth import names
from rivermouth.engine.table.file_columns import check_file_columns
from rivermouth.engine.table.problems import condition_over, fix_of
from rivermouth.engine.table.topic_columns import check_topic_columns
from rivermouth.errors import ExpectationInvalid, LayoutInvalid, first_line
from rivermouth.ports.internals.expressions import forbidden, forbidden_within
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import checks, partition_values
from rivermouth.rows.columns import table_columns
from rivermouth.schemas import column_types
from rivermouth.sinks.files import FilesSink
from rivermouth.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.table.problems import Problems
    from rivermouth.spec import Flow

# Types of what is no single value.
NO_VALUES: Final = (ArrayType, MapType, StructType, VariantType)
_PARTITIONS: Final = ("table", "partition_by")
_OWN_COLUMNS: Final = "write it with the record's own columns"


def with_derived_columns(spark: SparkSession, flow: Flow, columns: StructType, problems: Problems) -> StructType:
    """``columns``, and behind them those that the flow derives, as far as Spark can make them."""
    derived = []
    for name, expression in table_columns.derived_columns(flow).items():
        with problems.kept(name):
            derived.append(StructField(name, _derived(spark, flow, columns, name, expression)))
    return StructType([*columns.fields, *derived])


def _derived(spark: SparkSession, flow: Flow, columns: StructType, name: str, expression: str) -> Any:
    path = _path_of(flow, name)
    sql = names.as_sql(expression, columns.names)
    try:
        # First: to analyse reflection is to load a class.
        refused = forbidden(spark, sql)
        if not refused:
            column = no_rows(spark, columns).selectExpr(sql)
            refused = forbidden_within(column)
    except PySparkException as error:
        example = f"{{{name}: {condition_over(columns.names).partition(' ')[0]}}}"
        fix = fix_of(error, columns.names, f"write an expression of Spark SQL: {example}")
        detail = f"{expression}: {first_line(error)}"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about(*path) from error
    if refused:
        raise LayoutInvalid(flow=flow.name, detail=f"{expression}: {refused}", fix=_OWN_COLUMNS).about(*path)
    return column.schema[0].dataType


def _path_of(flow: Flow, name: str) -> tuple[str | int, ...]:
    """The path of a derived column in the flow's settings."""
    for at, parts in (
        (("sink", "keys"), flow.keyed.keys if flow.keyed else ()),
        (_PARTITIONS, flow.table.partition_by),
    ):
        for index, part in enumerate(parts):
            if isinstance(part, dict) and name in part:
                return (*at, index, name)
            if isinstance(part, str) and names.expression_name(part) == name:
                return (*at, index)
    return ("table",)


def check_expectations(spark: SparkSession, flow: Flow, columns: StructType, problems: Problems) -> None:
    """Keeps in ``problems`` each condition that Spark cannot analyse, or that is none."""
    empty: Any = no_rows(spark, columns) if flow.expectations else None
    for index, expectation in enumerate(flow.expectations):

        def refused(detail: str, fix: str, *, name: str = expectation.name, at: int = index) -> ExpectationInvalid:
            found = ExpectationInvalid(flow=flow.name, name=name, detail=detail, fix=fix)
            return found.about("expectations", at, "condition")

        with problems.kept():
            _check_condition(spark, names.as_sql(expectation.condition, columns.names), empty, refused)


def _check_condition(spark: SparkSession, condition: str, empty: Any, refused: Any) -> None:
    example = f"condition: {condition_over(empty.columns)}"
    try:
        if detail := forbidden(spark, condition):
            raise refused(detail, _OWN_COLUMNS)
        column = empty.selectExpr(condition)
        if detail := forbidden_within(column):
            raise refused(detail, _OWN_COLUMNS)
    except PySparkException as error:
        raise refused(first_line(error), fix_of(error, empty.columns, example)) from error
    found = column.schema
    if len(found) != 1 or found[0].dataType.simpleString() != "boolean":
        raise refused(f"its condition is {found[0].dataType.simpleString()}, not boolean", example)
    try:
        empty.selectExpr(checks.met(condition))
    except PySparkException as error:
        raise refused(f"it cannot be used in brackets: {first_line(error)}", example) from error


def check_layout(flow: Flow, columns: StructType, problems: Problems) -> None:
    """Keeps in ``problems`` each column of the table's layout that it does not have or cannot use."""
    parted = table_columns.partition_columns(flow)
    for at, wanted, there in (
        (_PARTITIONS, parted, columns.names),
        (("table", "cluster_by"), flow.table.cluster_by, columns.names),
        (("table", "column_comments"), flow.table.column_comments, columns.names),
        (("maintenance", "optimize", "zorder"), flow.zorder, [name for name in columns.names if name not in parted]),
    ):
        for index, name in enumerate(wanted):
            with problems.kept():
                place = name if at[-1] == "column_comments" else index
                _check_layout_column(flow, columns, name, there, (*at, place))


def check_sink(spark: SparkSession, flow: Flow, columns: StructType, problems: Problems) -> None:
    """Keeps in ``problems`` each column that a sink needs and the table does not have, or has in another type."""
    if isinstance(flow.sink, KafkaSink):
        check_topic_columns(spark, flow, flow.sink, columns, problems)
    if isinstance(flow.sink, FilesSink):
        check_file_columns(flow, flow.sink, columns, problems)


def _check_layout_column(
    flow: Flow, columns: StructType, name: str, there: list[str], path: tuple[str | int, ...]
) -> None:
    zorder = "zorder" in path
    if name not in there:
        detail = f"there is no column {name!r}"
        detail = f"zorder: {detail} within the partitions" if zorder else detail
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=names.did_you_mean(name, there)).about(*path)
    if path[: len(_PARTITIONS)] == _PARTITIONS and not partition_values.has_folder(name):
        detail, fix = f"column {name!r} has too long a name for a folder", f"{{part: {names.quoted(name)}}}"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=f"derive one from it: {fix}").about(*path)
    if "column_comments" in path:
        return
    separates = _is_single if path[: len(_PARTITIONS)] == _PARTITIONS else column_types.has_bounds
    kind = columns[name].dataType
    if not separates(kind):
        detail = f"column {name!r} is of type {kind.simpleString()}, which cannot separate files"
        usable = [each for each in there if separates(columns[each].dataType)]
        fix = f"name another column: {', '.join(usable)}"
        if name == flow.metadata_columns.get("kafka_key") and isinstance(kind, BinaryType):
            fix = "key_format: text, if keys are texts"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about(*path)


def _is_single(kind: DataType) -> bool:
    return not isinstance(kind, NO_VALUES)
