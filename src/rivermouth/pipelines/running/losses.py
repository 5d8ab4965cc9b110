"""What a full refresh of a table would lose: rows whose sources are gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.domain.kinesis.options import TRIM_HORIZON
from rivermouth.domain.kinesis.positions import from_body, is_kinesis
from rivermouth.domain.query.query_entry import read_json
from rivermouth.pipelines.running.flows.flow_runs import context_of
from rivermouth.pipelines.session.snapshot_functions import is_versioned, takes_version, version_text
from rivermouth.pipelines.spec import PythonQuery
from rivermouth.ports.internals import sessions
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kinesis.kinesis_client import KinesisClient
from rivermouth.ports.kinesis.shards import describe, retention_text

if TYPE_CHECKING:
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded


def what_would_be_lost(loaded: Loaded, node: Node) -> str:
    """A sentence about what the sources of a table no longer have; empty where they have all of it."""
    for flow in node.flows:
        context = context_of(loaded, node, flow, lambda _: None)
        entry = context.ledger.position(loaded.workspace.session).entry
        if not entry.begun:
            continue
        if flow.kind == "auto_cdc_from_snapshot":
            if entry.source_kind == "snapshots" and (lost := _of_snapshots(flow, read_json(entry.begun)[0])):
                return lost
            continue
        for source, offsets in enumerate(read_json(entry.begun)):
            if lost := _lost(loaded, context, source, offsets):
                return lost
    return ""


def _lost(loaded: Loaded, context: QueryContext, source: int, offsets: Any) -> str:
    if not isinstance(offsets, dict):
        return ""
    if "reservoirId" in offsets:  # a Delta table gives all the rows that it has
        return ""
    if set(offsets) == {"logOffset"}:
        return _of_files(loaded, context, source)
    if is_kinesis(offsets):
        return _of_kinesis(loaded, offsets)
    if offsets and all(isinstance(each, dict) for each in offsets.values()):
        return _of_kafka(loaded, context, source, offsets)
    return ""


def _of_snapshots(flow: FlowNode, begun: Any) -> str:
    """Whether the snapshots that the versions of a table came from are given no more; SCD type 1 keeps the newest."""
    if flow.cdc is None or flow.cdc.scd_type == 1:
        return ""
    if not isinstance(flow.query, PythonQuery) or not takes_version(flow.query):
        return "it has versions of rows of earlier snapshots, and its source has the newest snapshot alone"
    first = flow.query.function(None)  # type: ignore[call-arg]
    if is_versioned(first) and version_text(first[1]) == begun:
        return ""
    return f"it has versions of rows since snapshot {begun}, and its function does not begin with that one any more"


def _of_kafka(loaded: Loaded, context: QueryContext, source: int, ends: dict[str, dict[str, int]]) -> str:
    """Whether Kafka's log begins behind the place where the query began."""
    text = context.files.read(f"{context.places.checkpoint}/sources/{source}/0")
    begun = _initial(text) if text is not None else {topic: dict.fromkeys(parts, 0) for topic, parts in ends.items()}
    options = loaded.workspace.clusters.client_options(next(iter(begun), ""))
    with Kafka(options.pop("bootstrap.servers", ""), options) as kafka:
        topics = kafka.describe(list(begun))
        gone = [topic for topic in begun if topic not in topics]
        if gone:
            return f"topic {gone[0]} is gone"
        first = kafka.beginning_offsets(topics)
    for topic, parts in begun.items():
        for partition, offset in parts.items():
            now = first.get(topic, {}).get(int(partition), 0)
            if now > max(offset, 0):
                return f"{topic}-{partition} begins at offset {now} now, and the table has rows from offset {offset} on"
    return ""


def _of_kinesis(loaded: Loaded, offsets: dict[str, Any]) -> str:
    """Whether streams have deleted what was there when the query began."""
    for name, position in from_body(offsets).items():
        options = next((each for each in loaded.workspace.kinesis_options if name in each.streams), None)
        if options is None:
            return f"stream {name} is not read any more"
        client = KinesisClient(options)
        found = describe(client, name)
        oldest = position.begun - found.retention_ms if position.begin == TRIM_HORIZON else int(position.begin)
        if max(oldest, position.created) < client.now_ms - found.retention_ms:
            kept = retention_text(found.retention_hours)
            return f"stream {name} keeps records for {kept}, and the table may have older ones"
    return ""


def _initial(text: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(text.lstrip("\0").split("\n", 1)[1])
    return found


def _of_files(loaded: Loaded, context: QueryContext, source: int) -> str:
    """Whether files that were read are gone."""
    session = loaded.workspace.session
    entry = context.ledger.position(session).entry
    known = [
        path for number, path, _ in context.source_files.known(session, context.flow, entry.number) if number == source
    ]
    gone = [path for path in known if not _is_there(session, path)]
    return f"{len(gone)} of {len(known)} files that it has read are gone" if gone else ""


def _is_there(session: Any, address: str) -> bool:
    """Whether a file is there; its address has escapes, which a path would escape once more."""
    place = java_class(session, "org.apache.hadoop.fs.Path")(java_class(session, "java.net.URI").create(address))
    system = place.getFileSystem(sessions.hadoop_conf(session))
    return bool(system.exists(place))
