"""What an update knew of the pipeline's datasets, kept in the lake: for commands that do not start Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rivermouth.domain.kafka.read_topics import ReadTopics, read_topics
from rivermouth.errors import LakeNotReadable
from rivermouth.ports.lake.archive_reader import FORMATS

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.ports.lake.lake_files import LakeFiles

_FORMAT: Final = 1
UNSTARTED: Final = "_update"
"""In the place of a flow's name, where an update ended before it refreshed a dataset."""


@dataclass(frozen=True, slots=True)
class KnownDataset:
    """A table or sink of a pipeline, as its newest update knew it.

    Attributes:
        dataset: Its name, as the pipeline writes it.
        kind: ``streaming_table``, ``materialized_view`` or ``sink``.
        table: ``schema.table``; empty for a sink.
        location: The folder of its table; empty for a sink.
        flows: Names of the flows that write it.
        side_files: By flow the copy of its newest ledger entry.
        expectations: By name the condition and the action.
        views: The same of the views that its queries read as streams, by view.
        archive: The folder of a sink of files; empty for others.
    """

    dataset: str
    kind: str
    table: str
    location: str
    flows: tuple[str, ...]
    side_files: dict[str, str]
    expectations: dict[str, tuple[str, str]]
    views: dict[str, dict[str, tuple[str, str]]]
    archive: str = ""

    @property
    def dead_letters(self) -> str:
        """The folder of the table of its dead letters."""
        return f"{self.location}__dead_letters"


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    """What the newest update of a pipeline knew.

    Attributes:
        datasets: Its tables and sinks, in the order in which they are refreshed.
        topics: The Kafka topics that its queries read, and where; no passwords.
    """

    datasets: tuple[KnownDataset, ...] = ()
    topics: tuple[ReadTopics, ...] = ()


def keep_known(loaded: Loaded) -> None:
    """Keeps which tables and sinks the pipeline has now; writes nothing where that is known already."""
    pipeline, files = loaded.pipeline, loaded.workspace.files_of_lake
    found = [_known(loaded, node) for node in loaded.graph.nodes if node.kind != "view"]
    body = {"format": _FORMAT, "datasets": [asdict(each) for each in found]}
    cluster = pipeline.project.bootstrap_servers, pipeline.project.kafka_options()
    topics = dict.fromkeys(read_topics(each, *cluster) for each in loaded.workspace.clusters.options)
    text = json.dumps({**body, "topics": [asdict(each) for each in topics if each is not None]})
    if files.read(pipeline.known) != text:
        files.write(pipeline.known, text)


def _known(loaded: Loaded, node: Node) -> KnownDataset:
    places = {flow.name: loaded.pipeline.flow_places(node.name, flow.name, node.dataset) for flow in node.flows}
    return KnownDataset(
        dataset=loaded.graph.names.shown(node.name) if node.is_table else node.name.table,
        kind=node.kind,
        table=str(node.name) if node.is_table else "",
        location=(node.location or "") if node.is_table else "",
        flows=tuple(places),
        side_files={flow: each.side_file for flow, each in places.items()},
        expectations=_expectations(node),
        views={
            loaded.graph.names.shown(each.name): found
            for each in _views(loaded, node)
            if (found := _expectations(each))
        },
        archive=_archive(loaded, node),
    )


def _archive(loaded: Loaded, node: Node) -> str:
    if node.sink is None or (node.sink.format or "").lower() not in FORMATS:
        return ""
    path = next((value for key, value in node.sink.options.items() if key.lower() == "path"), "")
    return loaded.pipeline.located(path, str(node.sink.at)).rstrip("/")


def _expectations(node: Node) -> dict[str, tuple[str, str]]:
    return {each.name: (each.condition, each.action) for each in node.expectations}


def _views(loaded: Loaded, node: Node) -> list[Node]:
    """The views that the queries of a table or sink read as streams, also by other views."""
    found: dict[TableName, Node] = {}
    waiting = [node]
    while waiting:
        for each in waiting.pop().inputs:
            view = loaded.graph.read_node(each) if each.stream else None
            if view is not None and view.kind == "view" and view.name not in found:
                found[view.name] = view
                waiting.append(view)
    return list(found.values())


def read_known(files: LakeFiles, pipeline: Pipeline) -> KnownPipeline:
    """What the newest update knew; nothing where there was no update yet.

    Raises:
        LakeNotReadable: The store does not answer, or the file is damaged.
    """
    text = files.read(pipeline.known)
    if text is None:
        return KnownPipeline()
    try:
        body = json.loads(text)
        if body["format"] != _FORMAT:
            raise LakeNotReadable(place=pipeline.known, detail="a later version of rivermouth wrote it")
        topics = tuple(ReadTopics(**each) for each in body.get("topics", ()))
        return KnownPipeline(tuple(_dataset(each) for each in body["datasets"]), topics)
    except (ValueError, TypeError, KeyError) as error:
        raise LakeNotReadable(place=pipeline.known, detail=f"it is damaged: {error}") from error


def _read(expectations: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    return {name: (condition, action) for name, (condition, action) in expectations.items()}


def _dataset(body: dict[str, Any]) -> KnownDataset:
    read = {
        "flows": tuple(body["flows"]),
        "expectations": _read(body["expectations"]),
        "views": {name: _read(said) for name, said in body.get("views", {}).items()},
    }
    return KnownDataset(**{**body, **read})
