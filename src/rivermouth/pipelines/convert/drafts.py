"""The datasets of a pipeline that may be flows, and why the others are none."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rivermouth.pipelines.convert.model import Draft, NoFlow, NotReadable, Relation
from rivermouth.pipelines.convert.read_python import relation_of_python
from rivermouth.pipelines.convert.read_sql import relation_of_sql
from rivermouth.pipelines.names import Names, TableName
from rivermouth.pipelines.spec import VIEWS, Dataset, Definitions, Expectation, Flow, PythonQuery, Query, SourceLine

_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a conversion knows of a pipeline.

    Attributes:
        definitions: What its files define.
        names: How its names are resolved.
        params: Values of ``${name}``.
    """

    definitions: Definitions
    names: Names
    params: Mapping[str, str]

    def dataset(self, name: str) -> Dataset | None:
        """The dataset that a name means."""
        wanted = self.names.resolve(name)
        found = (each for each in self.definitions.datasets if self.resolved(each) == wanted)
        return next(found, None) if wanted is not None else None

    def resolved(self, dataset: Dataset) -> TableName | None:
        """The name of a dataset."""
        return self.names.resolve(dataset.name)


@dataclass
class _Read:
    """What was read on the way to Kafka."""

    through: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()


def drafts(pipeline: Pipeline) -> Iterator[Draft | NoFlow]:
    """Each table of the pipeline as a draft, or why it is no flow.

    Args:
        pipeline: The pipeline.
    """
    for dataset in pipeline.definitions.datasets:
        if dataset.kind in VIEWS:
            continue
        try:
            yield _draft(pipeline, dataset)
        except NotReadable as error:
            yield NoFlow(dataset.name, str(error.at), error.reason)
    for sink in pipeline.definitions.sinks:
        yield NoFlow(sink.name, str(sink.at), "it is a sink, and a flow writes a table")


def _draft(pipeline: Pipeline, dataset: Dataset) -> Draft:
    if dataset.kind == "materialized_view":
        raise NotReadable(dataset.at, "it is a materialized view, and a flow appends or merges")
    wanted = pipeline.resolved(dataset)
    flows = [each for each in pipeline.definitions.flows if pipeline.names.resolve(each.target) == wanted]
    if dataset.query is not None:
        if flows:
            raise NotReadable(flows[0].at, "it has several flows, and the table of a flow has one")
        query, flow = dataset.query, None
    elif len(flows) == 1:
        query, flow = flows[0].query, flows[0]
    else:
        reason = "no flow writes it" if not flows else "it has several flows, and the table of a flow has one"
        raise NotReadable(dataset.at, reason)
    if flow is not None and flow.once:
        raise NotReadable(flow.at, "its flow is run once, and a flow of a project goes on")
    if flow is not None and flow.kind not in ("append", "auto_cdc"):
        what = "snapshots" if flow.kind == "auto_cdc_from_snapshot" else "updates"
        raise NotReadable(flow.at, f"its flow takes {what}, and not records of Kafka")
    read = _Read()
    first = _changes(pipeline, flow) if flow and flow.cdc else _relation(pipeline, query, dataset.at)
    relation = _whole(pipeline, first, read)
    options = relation.options or {}
    cluster = {name: value for name, value in options.items() if name.lower().startswith("kafka.")}
    kafka = {name: value for name, value in options.items() if name not in cluster}
    table = replace(dataset, query=None, expectations=(*dataset.expectations, *read.expectations))
    return Draft(
        table,
        kafka,
        relation.steps,
        dict(query.conf),
        flow.cdc if flow else None,
        cluster,
        read.through,
        decode=relation.decode,
    )


def _changes(pipeline: Pipeline, flow: Flow) -> Relation:
    """What an AUTO CDC flow reads: of Python the dataset that ``source`` names."""
    if not isinstance(flow.query, PythonQuery):
        return _relation(pipeline, flow.query, flow.at)
    given = inspect.getclosurevars(flow.query.function).nonlocals
    if given.get("where"):
        raise NotReadable(flow.at, "it has a condition on its changes: write it into the view of the changes")
    return Relation(flow.at, table=str(given.get("source_name")))


def _relation(pipeline: Pipeline, query: Query, at: SourceLine) -> Relation:
    if isinstance(query, PythonQuery):
        return relation_of_python(query.function, at)
    return relation_of_sql(query, pipeline.params)


def _whole(pipeline: Pipeline, relation: Relation, read: _Read) -> Relation:
    """The relation down to Kafka: the queries of the datasets that it reads take their places."""
    for _ in range(_DEEPEST):
        if relation.table is None:
            return relation
        dataset = pipeline.dataset(relation.table)
        if dataset is None:
            raise NotReadable(relation.at, f"it reads the table {relation.table}, and not Kafka")
        if dataset.query is None or dataset.kind == "materialized_view":
            raise NotReadable(relation.at, f"it reads {dataset.name}, whose rows are not those of a topic")
        if dataset.expectations and relation.steps:
            raise NotReadable(relation.at, f"it reads {dataset.name}, which has expectations of its own")
        read.expectations += dataset.expectations
        if dataset.kind not in VIEWS:
            read.through += (dataset.name,)
        relation = relation.over(_relation(pipeline, dataset.query, dataset.at))
    raise NotReadable(relation.at, "it reads datasets in a circle")
