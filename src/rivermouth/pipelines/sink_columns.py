"""What columns a query needs for a sink. Pure but for Spark's types.

Source of the rules: https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.errors import KafkaOptionRefused, SinkColumnsInvalid

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.spec import Sink

_BYTES: Final = (T.StringType, T.BinaryType)
_KAFKA: Final[dict[str, tuple[type[T.DataType], ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": (T.StringType,),
    "partition": (T.IntegerType,),
    "headers": (T.ArrayType,),
}
_VALUE: Final = "select to_json(struct(*)) AS value"
_TOPIC: Final = 'options={"topic": "orders", ...} at the sink, or a column topic'


def check_sink_columns(sink: Sink, flow: FlowNode, columns: T.StructType) -> None:
    """Nothing, if the sink can take rows with these columns. Of sinks that are no Kafka, Spark itself checks them.

    Raises:
        SinkColumnsInvalid: The value is missing, there is no topic, or a column has a type that Kafka does not take.
        KafkaOptionRefused: An option of the sink is unknown, or has a value that it cannot have.
    """
    if (sink.format or "").lower() != "kafka":
        return
    try:
        read_options(sink.options)
    except KafkaOptionRefused as error:
        raise error.located(str(sink.at)) from None
    types = {each.name: each.dataType for each in columns}
    given = {key.lower() for key in sink.options}
    if "value" not in types:
        raise _invalid(sink, flow, "has no column value", _VALUE)
    if "topic" not in given and "topic" not in types:
        raise _invalid(sink, flow, "has no column topic, and the sink names none", _TOPIC)
    for name, kinds in _KAFKA.items():
        if name in types and not isinstance(types[name], kinds):
            known = " or ".join(kind.typeName() for kind in kinds)
            detail = f"has a column {name} of type {types[name].simpleString()}, and Kafka takes {known}"
            raise _invalid(sink, flow, detail, _VALUE if name == "value" else f"CAST({name} AS {known.split()[0]})")


def _invalid(sink: Sink, flow: FlowNode, detail: str, fix: str) -> SinkColumnsInvalid:
    return SinkColumnsInvalid(at=str(flow.at), flow=flow.name, sink=sink.name, detail=detail, fix=fix)
