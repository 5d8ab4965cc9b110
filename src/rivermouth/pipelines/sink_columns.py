"""What columns a query needs for a sink. Pure but for Spark's types.

Source of the rules: https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.errors import DefinitionInvalid, KafkaOptionRefused, SinkColumnsInvalid, SinkOptionRefused
from rivermouth.pipelines.names import parted
from rivermouth.pipelines.spec import TABLE_NAME
from rivermouth.ports.lake.archive_reader import FORMATS
from rivermouth.rows.file_types import unfit_column, unfit_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.names import Names, TableName
    from rivermouth.pipelines.spec import Dataset, Sink

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
    """Checks that the sink can take rows with these columns. For a format that is not ours, Spark itself checks them.

    Raises:
        SinkColumnsInvalid: The value is missing, there is no topic, or a column has a type that the sink does not take.
        KafkaOptionRefused, SinkOptionRefused: An option of the sink is unknown, missing, or has a value that it cannot
            have.
    """
    kind = (sink.format or "").lower()
    if kind == "delta":
        _check_table(sink)
    if kind in FORMATS:
        _check_files(sink, flow, kind, columns)
    if kind == "kafka":
        _check_records(sink, flow, columns)


def check_file_mode(sink: Sink, flow: FlowNode, mode: str) -> None:
    """Checks that the sink takes what an output mode gives.

    Raises:
        SinkColumnsInvalid: It is a sink of files, or a Delta table without keys to find rows by, and the query changes
            rows that it gave before.
    """
    kind = (sink.format or "").lower()
    if mode == "update" and kind == "delta":
        fix = "a streaming table in the place of the sink, and keys=[...] on the flow: each row replaces the one before"
        raise _invalid(sink, flow, "gives the rows that changed with each batch, and a Delta sink only appends", fix)
    if mode == "append" or kind not in FORMATS:
        return
    what = "the rows that changed" if mode == "update" else "its whole result"
    fix = 'withWatermark("at", "1 hour") in the query of an append flow: each window is written once'
    raise _invalid(sink, flow, f"gives {what} with each batch, and files only take new rows", fix)


def check_once(sink: Sink, flow: FlowNode, *, streaming: bool) -> None:
    """Checks that the sink can take a flow that runs once, and that a flow which does not run once reads a stream.

    Args:
        sink: The sink; its options can be read.
        flow: The flow.
        streaming: Whether its query reads a stream.

    Raises:
        DefinitionInvalid: The flow runs once, and nothing keeps that it has; or its query reads no stream, and it does
            not run once.
    """
    kind, detail, fix = (sink.format or "").lower(), "", ""
    keeps = kind in FORMATS or (kind == "kafka" and read_options(sink.options).delivery == "exactly_once")
    if flow.once and not keeps:
        detail = "it runs once, and only sinks of Kafka and of files that are exactly once know that it has"
        fix = "remove once=True, and read a stream"
    elif not flow.once and not streaming:
        detail = "its query reads no stream"
        fix = "read a stream: spark.readStream or STREAM(...)"
        fix = f"once=True at the flow, and its rows are written once; or {fix}" if keeps else fix
    if detail:
        definition = f"flow {flow.name} into sink {sink.name}"
        raise DefinitionInvalid(at=str(flow.at), definition=definition, detail=detail, fix=fix)


def table_of(sink: Sink) -> str | None:
    """The table that a Delta sink names; None where it names none, or a path."""
    given = {key.lower(): value for key, value in sink.options.items()}
    return given.get(TABLE_NAME) if (sink.format or "").lower() == "delta" and "path" not in given else None


def check_sink_place(
    sink: Sink, names: Names, datasets: Mapping[TableName, Dataset], folder: Callable[[str, str], str]
) -> None:
    """Checks that a sink has a place, and that a Delta sink does not write into a table of the pipeline.

    The rows of such a table are counted in its ledger.

    Args:
        sink: The sink.
        names: Resolves names of tables.
        datasets: Those of the pipeline.
        folder: Finds the folder of a path; with the place where the path is written.

    Raises:
        SinkOptionRefused: It does.
        FilePathUnmapped: Its path is one of Databricks, and no setting has it.
    """
    for path in (value for name, value in sink.options.items() if name.lower() == "path"):
        folder(path, str(sink.at))
    table = table_of(sink)
    name = None if table is None else names.resolve(table)
    if name in datasets:
        detail = f"names the dataset {table}"
        fix = f'dp.append_flow(target="{table}"), in the place of the sink'
        raise SinkOptionRefused(at=str(sink.at), sink=sink.name, option="tableName", detail=detail, fix=fix)


def _check_table(sink: Sink) -> None:
    if "path" in {key.lower() for key in sink.options}:
        return
    table = table_of(sink)
    detail = "is missing" if table is None else f"is no name of a table: {table}"
    if table is None or not 1 <= len(parted(table) or ()) <= 3:  # noqa: PLR2004 - catalog, schema, table
        fix = 'options={"tableName": "gold.orders"}, or {"path": ...}'
        raise SinkOptionRefused(at=str(sink.at), sink=sink.name, option="tableName", detail=detail, fix=fix)


def partition_columns(sink: Sink) -> tuple[str, ...]:
    """The columns whose values become folders: those of the option ``partitionBy``."""
    text = next((value for key, value in sink.options.items() if key.lower() == "partitionby"), "")
    return tuple(each for part in text.split(",") if (each := part.strip()))


def _check_files(sink: Sink, flow: FlowNode, kind: str, columns: T.StructType) -> None:
    if "path" not in {key.lower() for key in sink.options}:
        raise _invalid(sink, flow, "has rows for files, and the sink names no path", 'options={"path": "archive"}')
    if (detail := unfit_column(kind, columns)) is not None:
        raise _invalid(sink, flow, f"cannot be written: {detail}", 'format="json" at the sink')
    for name in partition_columns(sink):
        if (detail := unfit_folder(name, columns)) is not None:
            fix = "remove it from partitionBy, or use a date or a number"
            raise _invalid(sink, flow, f"cannot be written: {detail}", fix)


def _check_records(sink: Sink, flow: FlowNode, columns: T.StructType) -> None:
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
