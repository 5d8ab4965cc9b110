"""The datasets of a pipeline that may be flows, and why the others are none."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rivermouth.pipelines.convert.model import Draft, NoFlow, NotReadable, Relation
from rivermouth.pipelines.convert.query_settings import settings_in
from rivermouth.pipelines.convert.read_python import relation_of_python
from rivermouth.pipelines.convert.read_sql import relation_of_sql
from rivermouth.pipelines.graph import Declared, FlowNode, declared
from rivermouth.pipelines.names import Names, TableName, parted
from rivermouth.pipelines.spec import VIEWS, Dataset, Definitions, Expectation, PythonQuery, Query, SourceLine

_DEEPEST = 20
_SEVERAL = "it has several flows, and the table of a flow has one"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a conversion knows of a pipeline.

    Attributes:
        definitions: What its files define.
        names: How its names are resolved.
        params: Its configuration: values of ``${name}``, and settings of Spark.
    """

    definitions: Definitions
    names: Names
    params: Mapping[str, str]


@dataclass
class _Read:
    """What was read on the way to Kafka."""

    through: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    inner: tuple[Mapping[str, str], ...] = ()


def drafts(pipeline: Pipeline) -> Iterator[Draft | NoFlow]:
    """Each table of the pipeline as a draft, or why it is no flow.

    Args:
        pipeline: The pipeline.

    Raises:
        RivermouthError: Its definitions do not go together.
    """
    known = declared(pipeline.definitions, pipeline.names)
    for name, dataset in known.datasets.items():
        if dataset.kind in VIEWS:
            continue
        try:
            yield _Drafting(pipeline, known).draft(name, dataset)
        except NotReadable as error:
            yield NoFlow(dataset.name, str(error.at), error.reason)
    for sink in pipeline.definitions.sinks:
        yield NoFlow(sink.name, str(sink.at), "it is a sink, and a flow writes a table")
    for hook in pipeline.definitions.hooks:
        yield NoFlow(hook.name, str(hook.at), "it is an event hook, and a project has none")


@dataclass(frozen=True)
class _Drafting:
    pipeline: Pipeline
    known: Declared

    def draft(self, name: TableName, dataset: Dataset) -> Draft:
        """The draft of a table."""
        flow, read = self._flow(name, dataset), _Read()
        relation = self._whole(self._first(flow), flow.query, read)
        options = relation.options or {}
        cluster = {name: value for name, value in options.items() if name.lower().startswith("kafka.")}
        return Draft(
            replace(dataset, query=None, expectations=(*dataset.expectations, *read.expectations)),
            {name: value for name, value in options.items() if name not in cluster},
            relation.steps,
            settings_in({**self.pipeline.params, **flow.query.conf}),
            flow.cdc,
            cluster,
            read.through,
            decode=relation.decode,
            inner=read.inner,
        )

    def _flow(self, name: TableName, dataset: Dataset) -> FlowNode:
        """The one flow that writes a table."""
        if dataset.kind == "materialized_view":
            raise NotReadable(dataset.at, "it is a materialized view, and a flow appends or merges")
        flows = self.known.flows[name]
        if not flows:
            raise NotReadable(dataset.at, "no flow writes it")
        if len(flows) > 1:
            raise NotReadable(flows[1].at if dataset.query is not None else dataset.at, _SEVERAL)
        [flow] = flows
        if flow.once:
            raise NotReadable(flow.at, "its flow is run once, and a flow of a project goes on")
        if flow.kind not in ("append", "auto_cdc"):
            what = "snapshots" if flow.kind == "auto_cdc_from_snapshot" else "updates"
            raise NotReadable(flow.at, f"its flow takes {what}, and not records of Kafka")
        return flow

    def _first(self, flow: FlowNode) -> Relation:
        """What a flow reads: an AUTO CDC flow of Python the dataset that ``source`` names."""
        if flow.cdc is None or not isinstance(flow.query, PythonQuery):
            return self._relation(flow.query, flow.at)
        given = inspect.getclosurevars(flow.query.function).nonlocals
        if given.get("where"):
            raise NotReadable(flow.at, "it has a condition on its changes: write it into the view of the changes")
        return Relation(flow.at, table=str(given.get("source_name")))

    def _relation(self, query: Query, at: SourceLine) -> Relation:
        if isinstance(query, PythonQuery):
            return relation_of_python(query.function, at)
        return relation_of_sql(query, self.pipeline.params)

    def _whole(self, relation: Relation, query: Query, read: _Read) -> Relation:
        """The relation down to Kafka: the queries of the datasets that it reads take their places."""
        for _ in range(_DEEPEST):
            if relation.table is None:
                return relation
            dataset = self._read_dataset(relation, query)
            if dataset.query is None or dataset.kind == "materialized_view":
                raise NotReadable(relation.at, f"it reads {dataset.name}, whose rows are not those of a topic")
            if dataset.expectations and relation.steps:
                raise NotReadable(relation.at, f"it reads {dataset.name}, which has expectations of its own")
            read.expectations += dataset.expectations
            if dataset.kind not in VIEWS:
                read.through += (dataset.name,)
            query = dataset.query
            read.inner += (settings_in(query.conf),)
            relation = relation.over(self._relation(query, dataset.at))
        raise NotReadable(relation.at, "it reads datasets in a circle")

    def _read_dataset(self, relation: Relation, query: Query) -> Dataset:
        """The dataset that a query reads, whose rows are those of its own query alone."""
        parts = parted(str(relation.table)) or ()
        name = self.known.meant(self.pipeline.names, parts, query.use) if parts else None
        dataset = None if name is None else self.known.datasets.get(name)
        if name is None or dataset is None:
            raise NotReadable(relation.at, f"it reads the table {relation.table}, and not Kafka")
        if len(self.known.flows[name]) > 1:
            raise NotReadable(relation.at, f"it reads {dataset.name}, which has several flows")
        return dataset
