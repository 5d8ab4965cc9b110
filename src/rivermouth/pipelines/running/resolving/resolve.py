"""The graph of a pipeline, found by evaluating its queries: what each reads, and which columns it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.query.refresh_decision import policy_refused
from rivermouth.engine.query.cdc_settings import target_columns
from rivermouth.errors import (
    DefinitionInvalid,
    NewColumnsNotTaken,
    PipelineCircle,
    QueryNotStreaming,
    QueryStreaming,
    RefreshPolicyRefused,
    SnapshotInvalid,
    SnapshotMissing,
)
from rivermouth.names import END_AT, START_AT
from rivermouth.pipelines.graph import Declared, FlowNode, Graph, Node, circle
from rivermouth.pipelines.real_time import check_real_time
from rivermouth.pipelines.running.declared_columns import (
    check_brought,
    check_columns,
    check_texts,
    declared_columns,
    sequence_type,
    united,
    with_computed,
    with_listed,
)
from rivermouth.pipelines.running.flows.notifying import check_notifications
from rivermouth.pipelines.running.output_modes import (
    check_no_keys,
    check_output_mode,
    check_table_mode,
    check_update_keys,
    sink_output_mode,
)
from rivermouth.pipelines.running.reads import Evaluated, each_once, read_by
from rivermouth.pipelines.running.resolving.dataset_tables import DatasetTables, Rewrites
from rivermouth.pipelines.running.resolving.not_null import with_not_null
from rivermouth.pipelines.session import lake_tables
from rivermouth.pipelines.session.dataset_conditions import with_conditions
from rivermouth.pipelines.session.snapshot_functions import VERSION_TYPES, is_versioned, takes_version
from rivermouth.pipelines.sink_columns import check_file_mode, check_once, check_sink_columns, check_sink_place
from rivermouth.pipelines.spec import VIEWS, Dataset, PythonQuery
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.internals.query_plans import ViewPlan
from rivermouth.schemas.column_types import nullable_columns

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import Input
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.workspace import Workspace
    from rivermouth.pipelines.spec import SourceLine


class Resolver:
    """Looks at the datasets of a pipeline in the order in which they read each other. Implements ``Nodes``.

    Args:
        workspace: Evaluates queries.
        declared: What the pipeline's files define.
        stand_ins: A folder for empty tables in the place of those that cannot be read.
        rewrites: Which tables the update writes from the beginning.
        writes: Whether tables are made and changed.

    Attributes:
        tables: The tables of the datasets.
    """

    def __init__(
        self,
        workspace: Workspace,
        declared: Declared,
        stand_ins: str,
        rewrites: Rewrites,
        *,
        writes: bool,
    ) -> None:
        self.workspace = workspace
        self.declared = declared
        self.tables = DatasetTables(workspace, stand_ins, rewrites, writes=writes)
        self._nodes: dict[TableName, Node] = {}
        self._path: list[TableName] = []
        self._versions: dict[str, T.DataType] = {}
        self._of_other_snapshots: dict[str, list[T.StructField]] = {}
        self._evaluated: dict[tuple[TableName, str], Evaluated] = {}
        workspace.nodes = self

    def graph(self) -> Graph:
        """All nodes, each behind those that it reads; their tables can be read afterwards.

        Raises:
            RivermouthError: What is wrong with a query, a name or a schema.
        """
        # What is declared is read before the first table is made.
        for dataset in self.declared.datasets.values():
            if dataset.kind not in VIEWS:
                declared_columns(dataset)
        for name in [*self.declared.datasets, *(each for each in self.declared.flows if not each.schema)]:
            self.node(name)
        self.workspace.of_views.clear()
        found = Graph(tuple(self._nodes.values()), self.workspace.names)
        if self.tables.writes:
            # What reads one of them by the graph is evaluated again behind it; others read what is there.
            self._nodes |= {name: replace(self._nodes[name], stand_in=None) for name in self.tables.to_redefine}
        return found

    def node(self, name: TableName) -> Node:
        """See ``Nodes``.

        Raises:
            PipelineCircle: It is being looked at already.
        """
        if name in self._nodes:
            return self._nodes[name]
        dataset = self.declared.datasets.get(name)
        if name in self._path:
            at = None if dataset is None else str(dataset.at)
            raise PipelineCircle(at=at, path=circle(self._path, name, self.workspace.names))
        self._path.append(name)
        try:
            found = self._sink(name) if dataset is None else self._dataset(name, dataset)
        finally:
            self._path.pop()
        self._nodes[name] = found
        return found

    def evaluated(self, name: TableName, flow: FlowNode) -> Evaluated | None:
        """The query of a flow as it was evaluated for the graph, once; None where it is to be evaluated again."""
        return self._evaluated.pop((name, flow.name), None)

    def forget(self, names: Collection[TableName]) -> None:
        """The queries of these datasets are evaluated again: a table that they read is another one now."""
        # Others take theirs out meanwhile.
        self._evaluated = {key: each for key, each in list(self._evaluated.items()) if key[0] not in names}

    def forget_tables(self) -> None:
        """Tables are looked at again, and batch queries evaluated: both are as they were when the graph was made."""
        self.tables.forget()
        self._evaluated = {key: each for key, each in self._evaluated.items() if each.frame.isStreaming}

    def _kept(self, name: TableName, flow: FlowNode, evaluated: Evaluated) -> Evaluated:
        """What was evaluated, for its run."""
        self._evaluated[name, flow.name] = evaluated
        return evaluated

    def _of_flow(self, flow: FlowNode, dataset: str, at: SourceLine) -> Evaluated:
        return self.workspace.evaluate(flow.query, dataset, at, flow=flow.name)

    def _sink(self, name: TableName) -> Node:
        sink, flows = self.declared.sinks[name.table], self.declared.flows[name]
        found = [self._kept(name, flow, self._of_flow(flow, sink.name, flow.at)) for flow in flows]
        if not sink.given:
            check_sink_place(sink, self.workspace.names, self.declared.datasets, self.workspace.pipeline.written)
        for flow, each in zip(flows, found, strict=True):
            if each.decoded:
                detail = f"sink {sink.name} has no dead letters, and its query decodes records"
                fix = "decode in a table, and let the flow of the sink read that table"
                raise DefinitionInvalid(at=str(flow.at), definition=f"flow {flow.name}", detail=detail, fix=fix)
            check_no_keys(flow, sink.name)
            check_sink_columns(sink, flow, each.frame.schema)
            check_once(sink, flow, streaming=each.frame.isStreaming)
            check_notifications(sink, flow, each.frame.columns)
            check_real_time(self.workspace.params, flow, each.frame, sink)
            mode = sink_output_mode(flow, each.frame)
            check_file_mode(sink, flow, mode)
            with self.workspace.errors(flow.at, sink.name):
                check_output_mode(each.frame, mode, flow)
        return Node(name, "sink", None, sink, *_with_inputs(flows, found))

    def _dataset(self, name: TableName, dataset: Dataset) -> Node:
        flows, shown = self.declared.flows[name], self.workspace.names.shown(name)
        if dataset.kind in VIEWS:
            evaluated = self.workspace.evaluate(flows[0].query, shown, dataset.at)
            dataset = with_conditions(dataset, [evaluated.frame])
            self.workspace.of_views[name] = evaluated
            return Node(name, "view", dataset, None, *_with_inputs(flows, [evaluated]), evaluated.frame.schema)
        if dataset.kind == "materialized_view" or (dataset.kind == "table" and len(flows) == 1):
            evaluated = self._kept(name, flows[0], self._of_flow(flows[0], shown, dataset.at))
            if not evaluated.frame.isStreaming:
                flows = (replace(flows[0], kind="refresh"),)
                self._check_policy(dataset, shown, evaluated)
                return self._table(name, "materialized_view", dataset, flows, [evaluated], [evaluated.frame.schema])
            if dataset.kind == "materialized_view":
                fix = "remove STREAM or readStream from the query, or make it a streaming table"
                raise QueryStreaming(at=str(dataset.at), dataset=shown, fix=fix)
            return self._table(name, "streaming_table", dataset, flows, [evaluated], [evaluated.frame.schema])
        found = [self._kept(name, flow, self._flow(flow, name, dataset)) for flow in flows]
        schemas = [self.brought(flow, each.frame) for flow, each in zip(flows, found, strict=True)]
        return self._table(name, "streaming_table", dataset, flows, found, schemas)

    def _check_policy(self, dataset: Dataset, shown: str, evaluated: Evaluated) -> None:
        """Raises RefreshPolicyRefused if a view cannot be refreshed by its policy."""
        policy = dataset.refresh_policy or "auto"
        if policy in ("auto", "full"):
            return
        tree = ViewPlan(evaluated.frame).tree

        def find(name: str) -> Node | None:
            resolved = self.workspace.names.resolve(name)
            return self.node(resolved) if resolved is not None else None

        _, outside = read_by(evaluated.inputs, tree, find)
        if reason := policy_refused(tree, outside, policy):
            fix = "write refresh_policy auto, or change the query"
            raise RefreshPolicyRefused(at=str(dataset.at), dataset=shown, policy=policy, reason=reason, fix=fix)

    def _flow(self, flow: FlowNode, name: TableName, dataset: Dataset) -> Evaluated:
        """A flow of a streaming table as it was evaluated; snapshots, and what runs once, may be batches."""
        shown = self.workspace.names.shown(name)
        if flow.kind == "auto_cdc_from_snapshot":
            return self.workspace.evaluate(self._first_snapshot(flow, name, dataset), shown, flow.at)
        if flow.once:
            return self._of_flow(flow, shown, flow.at)
        return self._streamed(flow, shown)

    def _streamed(self, flow: FlowNode, dataset: str) -> Evaluated:
        evaluated = self._of_flow(flow, dataset, flow.at)
        if not evaluated.frame.isStreaming:
            fix = "read a stream: spark.readStream or STREAM(...); or make it a materialized view"
            if any(each.name.startswith("read_files") for each in evaluated.inputs):
                fix = "write STREAM read_files(...); or make it a materialized view"
            raise QueryNotStreaming(at=str(flow.at), dataset=dataset, fix=fix)
        return evaluated

    def brought(self, flow: FlowNode, frame: DataFrame) -> T.StructType:
        """The columns that a flow brings to its table."""
        if flow.cdc is None:
            return frame.schema
        others = self._of_other_snapshots.get(flow.name, ())
        check_columns(flow, flow.cdc, frame.schema, others)
        with self.workspace.errors(flow.at, flow.name):
            kind = self._versions.get(flow.name) or sequence_type(flow.cdc, frame)
            return target_columns(with_listed(frame.schema, flow.cdc, others), flow.cdc, kind)

    def _first_snapshot(self, flow: FlowNode, name: TableName, dataset: Dataset) -> PythonQuery:
        """A query that gives the first snapshot of a flow; the type of its version is kept.

        Where the function has none, as once the first ones are gone, it gives no rows in the columns of the table.
        """
        query = flow.query
        if not isinstance(query, PythonQuery):
            msg = "snapshots are defined in Python"
            raise TypeError(msg)
        if not takes_version(query):
            return query
        if flow.cdc is not None and (flow.cdc.track_history_columns or flow.cdc.track_history_except_columns):
            known = (self._columns_there(name, dataset), declared_columns(dataset))
            self._of_other_snapshots[flow.name] = [field for columns in known for field in columns or ()]

        def first() -> Any:
            found = query.function(None)  # type: ignore[call-arg]
            if found is None:
                return self.workspace.session.createDataFrame([], self._columns_of_table(flow, name, dataset))
            if not is_versioned(found):
                raise SnapshotInvalid(at=str(flow.at), flow=flow.name)
            self._versions[flow.name] = VERSION_TYPES[type(found[1])]
            return found[0]

        return PythonQuery(first, query.conf, query.use)

    def _columns_of_table(self, flow: FlowNode, name: TableName, dataset: Dataset) -> T.StructType:
        """The columns of a table, or those that are declared; without the span of a version, whose type is kept.

        Raises:
            SnapshotMissing: It has none.
        """
        columns = self._columns_there(name, dataset) or declared_columns(dataset)
        if columns is None:
            raise SnapshotMissing(at=str(flow.at), flow=flow.name, dataset=self.workspace.names.shown(name))
        versions = flow.cdc is not None and flow.cdc.scd_type != 1
        span = [each for each in columns if versions and each.name in {START_AT, END_AT}]
        if span:
            self._versions[flow.name] = span[0].dataType
        return nullable_columns(T.StructType([each for each in columns if each not in span]))

    def _columns_there(self, name: TableName, dataset: Dataset) -> T.StructType | None:
        """The columns that a table has; None where there is none."""
        location = self.workspace.pipeline.table(name, dataset)
        if not delta_table.exists(self.workspace.files_of_lake, location):
            return None
        with self.workspace.errors(dataset.at, self.workspace.names.shown(name)):
            return table_state(self.workspace.session, location).columns

    def _table(
        self,
        name: TableName,
        kind: Literal["streaming_table", "materialized_view"],
        dataset: Dataset,
        flows: tuple[FlowNode, ...],
        found: list[Evaluated],
        schemas: list[T.StructType],
    ) -> Node:
        if kind == "streaming_table":
            _check_refresh_policy(dataset)
        columns = declared_columns(dataset) or united(schemas)
        if kind == "streaming_table":
            check_texts(columns, dataset)
        for flow, brought in zip(flows, schemas, strict=True):
            check_brought(flow, brought, columns or brought, dataset)
        location = self.workspace.pipeline.table(name, dataset)
        if dataset.path:
            lake_tables.find_at(self.workspace.session, name, location)
        with self.workspace.errors(dataset.at, self.workspace.names.shown(name)):
            frames = [with_computed(each.frame, columns) for each in found]
        for flow, frame in zip(flows, frames, strict=True):
            check_real_time(self.workspace.params, flow, frame, None)
            check_update_keys(flow, self.workspace.names.shown(name), frame.schema, is_alone=len(flows) == 1)
            with self.workspace.errors(flow.at, self.workspace.names.shown(name)):
                check_table_mode(flow, frame, is_alone=len(flows) == 1)
        dataset = with_conditions(dataset, frames)
        flows = with_not_null(dataset, columns, flows, frames)
        node = Node(name, kind, dataset, None, *_with_inputs(flows, found), columns, location)
        return node if columns is None else self.tables.placed(node, dataset)

    def grow(self, node: Node, flow: FlowNode, frame: DataFrame) -> None:
        """Gives a table the columns that a query has come to have since the graph was made; nothing for a sink.

        Raises:
            NewColumnsNotTaken: The dataset does not declare them, or another flow brings them as another type.
            TableSchemaChanged: The table cannot take them.
        """
        dataset = node.dataset
        if dataset is None:
            return
        known: T.StructType = node.columns
        try:
            brought = self.brought(flow, frame)
            columns = known if dataset.schema is not None else united([known, brought]) or known
            check_brought(flow, brought, columns, dataset)
        except DefinitionInvalid as error:
            raise NewColumnsNotTaken(at=error.at, **error.facts) from None
        if columns != known:
            self.tables.grow(node, columns)


def _with_inputs(flows: tuple[FlowNode, ...], found: list[Evaluated]) -> tuple[tuple[FlowNode, ...], tuple[Input, ...]]:
    """The flows with what each of them reads, and what all of them read."""
    known = tuple(replace(flow, inputs=each.inputs) for flow, each in zip(flows, found, strict=True))
    return known, each_once([each for flow in known for each in flow.inputs])


def _check_refresh_policy(dataset: Dataset) -> None:
    """A streaming table has none."""
    if dataset.refresh_policy is not None:
        raise DefinitionInvalid(
            at=str(dataset.at),
            definition=f"streaming table {dataset.name}",
            detail="it has a refresh_policy, which is for materialized views",
            fix="remove refresh_policy",
        )
