"""Sinks of a pipeline that keep a ledger of their own, so that each batch reaches them once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.pipelines.running.pipeline import file_name
from rivermouth.pipelines.sink_columns import partition_columns
from rivermouth.ports.kafka.kafka_transactions import KafkaTransactions, SinkNames
from rivermouth.ports.lake.archive_reader import FORMATS, SPARK_LOG
from rivermouth.ports.lake.file_archive import Archive, FileArchive
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.rows import kafka_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.engine.flow.delivery import Delivery
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.spec import Sink

_OURS: Final = ("path", "partitionby")


def is_kafka(node: Node) -> bool:
    """Whether the node is a sink of the format ``kafka``."""
    return node.sink is not None and (node.sink.format or "").lower() == "kafka"


def is_archive(node: Node) -> bool:
    """Whether the node is a sink of files."""
    return node.sink is not None and (node.sink.format or "").lower() in FORMATS


def names_of(pipeline: Pipeline, node: Node, flow: FlowNode) -> SinkNames:
    """What the transactions of a flow are called: the same in every run, and of no other pipeline or lake."""
    called = f"{pipeline.name}-{node.name.table}-{flow.name}"
    return SinkNames.of(flow.name, node.name.table, called, f"{pipeline.state}/{node.name.table}/{flow.name}")


def delivery_of(loaded: Loaded, node: Node, flow: FlowNode, sink: Sink) -> Delivery | None:
    """What writes the batches of a flow into a sink, each once; None of a sink that has no ledger.

    Args:
        loaded: The pipeline.
        node: The sink's node.
        flow: The flow.
        sink: The sink, with resolved options.

    Raises:
        RivermouthError: The cluster cannot be used.
    """
    if is_kafka(node):
        options = read_options(sink.options)
        if options.delivery != "exactly_once":
            return None
        return KafkaTransactions(loaded.workspace.session, options, names_of(loaded.pipeline, node, flow))
    if not is_archive(node):
        return None
    location = next(value for key, value in sink.options.items() if key.lower() == "path").rstrip("/")
    files = files_for(location, loaded.workspace.session)
    if files.names(f"{location}/{SPARK_LOG}"):
        # Spark's own sink began it: readers leave out what its log does not list.
        return None
    written = {key: value for key, value in sink.options.items() if key.lower() not in _OURS}
    archive = Archive(location, (sink.format or "").lower(), written, partition_columns(sink))
    return FileArchive(files, archive, file_name(f"{loaded.pipeline.name}.{flow.name}"))


def shaped(node: Node, sink: Sink, frame: DataFrame) -> DataFrame:
    """The rows of a batch as the sink takes them."""
    return kafka_records.records(frame, read_options(sink.options).topic) if is_kafka(node) else frame
