"""Which columns of a table the records of a topic need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import LayoutInvalid
from rivermouth.schemas.refused import fix_of
from rivermouth.sinks.kafka import TOPIC_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.table.problems import Problems
    from rivermouth.sinks.kafka import KafkaSink
    from rivermouth.spec import Flow

_NO_TOPIC: Final = 'topic: good-orders in the sink, or a column topic: select: ["*", "concat(\'of-\', shop) AS topic"]'


def check_topic_columns(
    spark: SparkSession, flow: Flow, sink: KafkaSink, columns: T.StructType, problems: Problems
) -> None:
    """Keeps in ``problems`` each column that records need and the table does not have, or has in another type."""
    for setting, name in sink.columns.items():
        with problems.kept():
            _check_named(flow, sink, columns, setting, name)
    if sink.encoding is not None:
        with problems.kept():
            try:
                sink.encoding.encoded(spark, columns)
            except ValueError as error:
                fix = fix_of(error, "change the schema of the sink")
                raise LayoutInvalid(flow=flow.name, detail=str(error), fix=fix).about("sink", "format") from error


def _check_named(flow: Flow, sink: KafkaSink, columns: T.StructType, setting: str, name: str) -> None:
    by_column = setting == "topic" and name == TOPIC_COLUMN and sink.topic is None
    if name not in columns.names:
        path = ("headers", setting) if setting in sink.headers else () if by_column else (setting,)
        detail = f"there is no column {name!r} for the topic"
        detail = f"{detail}, and the sink names none" if by_column else detail
        fix = _NO_TOPIC if by_column else names.did_you_mean(name, columns.names)
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about("sink", *path)
    kind = columns[name].dataType
    if by_column and not isinstance(kind, T.StringType):
        detail = f"column {name!r} is {kind.simpleString()}, and names of topics are text"
        fix = f"topic: good-orders in the sink, or CAST({name} AS string)"
        raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about("sink")
