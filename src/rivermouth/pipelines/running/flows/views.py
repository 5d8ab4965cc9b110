"""A materialized view before it is refreshed: its query, what happened to what it reads, its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.query.refresh_decision import SourceChange, ViewState
from rivermouth.domain.query.view_tree import plain_path, relocated
from rivermouth.engine.query.refresh import ViewSource
from rivermouth.pipelines.running.flows.view_definition import definition_of
from rivermouth.pipelines.running.reads import read_by
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_changes import change_of, changed_by
from rivermouth.ports.internals.query_plans import ViewPlan
from rivermouth.rows import row_expectations
from rivermouth.schemas.type_widening import holds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.domain.query.view_tree import PlanNode
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated
    from rivermouth.ports.delta.query_ledger import QueryPosition
    from rivermouth.ports.lake.lake_files import LakeFiles


_FILLED: Final = SourceChange("lost", reason="it will be computed or filled again")
"""What happens to a table in whose place an empty one is read."""


@dataclass(frozen=True, slots=True)
class View:
    """A materialized view that is to be refreshed.

    Attributes:
        plan: Its query, at one version of each table.
        state: What is known of it.
        sources: The Delta tables that it reads, by folder.
    """

    plan: ViewPlan
    state: ViewState
    sources: Mapping[str, ViewSource]


def view_of(
    loaded: Loaded,
    node: Node,
    evaluated: Evaluated,
    context: QueryContext,
    position: QueryPosition,
    columns: StructType | None,
) -> View:
    """What is known of a view; nothing is written for it.

    Args:
        loaded: The pipeline.
        node: The view.
        evaluated: Its query.
        context: Its flow.
        position: Where that is in its ledger.
        columns: Of its table; None where there is none.
    """
    files, entry, frame, tables = context.files, position.entry, evaluated.frame, loaded.resolver.tables
    plan = ViewPlan(frame)
    tree = relocated(plan.tree, tables.own_place)
    locations, outside = read_by(evaluated.inputs, tree, _finder(loaded))
    sources = _sources(loaded, tree, locations, entry)
    changes = {
        path: _FILLED if tables.has_stand_in(path) else _change(files, entry, tree, path, each)
        for path, each in sources.items()
    }
    feeds = {each.path for each in tree.reads() if each.feed and changes[each.path].same_settings}
    for path in feeds:
        sources[path] = replace(sources[path], has_feed=True)
        changes[path] = replace(changes[path], changed_bytes=changes[path].feed_bytes)
    letters, judged = entry.counts.dead_lettered, _judging(frame, plan.tree, context)
    state = ViewState(
        entry=entry,
        fingerprint=definition_of(loaded.pipeline, evaluated, tree, judged, context),
        tree=tree,
        sources=changes,
        outside=(*outside, *_tables_of(judged)),
        judged=judged,
        changed_by_others=_changed_by_others(context, position),
        lacks_letters=letters > 0
        and context.dead_letters.newest_entry(loaded.workspace.session, entry.flow) < entry.number
        and not context.held_letters.has(entry),
        has_letters=any(each.action == "dead_letter" for each in context.expectations),
        unfit_columns=dict(_unfit(frame.schema, columns or (), node)),
        policy=policy_of(node),
        is_redefined=node.name in tables.to_redefine,
    )
    return View(plan, state, sources)


def policy_of(node: Node) -> str:
    """The refresh policy of a view."""
    said = None if node.dataset is None else node.dataset.refresh_policy
    return said or "auto"


def _unfit(brought: StructType, columns: Iterable[StructField], node: Node) -> Iterator[tuple[str, str]]:
    """The columns of a query, in lower case, by whose values no row of its table is found, and why.

    Delta has the empty text, and texts that name no folder, as null in a partition column.
    """
    there = {each.name.lower(): each.dataType for each in columns}
    parts = {name.lower() for name in node.dataset.partition_by} if node.dataset is not None else set()
    for each in brought:
        name = each.name.lower()
        mine = there.get(name)
        if mine is None or not holds(each.dataType, mine):
            yield name, "is of another type in its table"
        elif name in parts and isinstance(each.dataType, (T.StringType, T.BinaryType)):
            yield name, "is a text that its table is partitioned by"


def _finder(loaded: Loaded) -> Callable[[str], Node | None]:
    def find(name: str) -> Node | None:
        resolved: TableName | None = loaded.graph.names.resolve(name)
        return loaded.graph.node(resolved) if resolved is not None else None

    return find


def _sources(loaded: Loaded, tree: PlanNode, locations: Sequence[str], entry: QueryEntry) -> dict[str, ViewSource]:
    found = dict[str, ViewSource]()
    for table in tree.reads():
        found[table.path] = ViewSource(table.version, table.id, entry.sources.get(table.path, -1))
    for location in locations:  # those that the function of a query reads, and that are not in the plan of its result
        if (path := plain_path(location)) not in found:
            files = loaded.workspace.files_of_lake
            version = (delta_table.commit_versions(files, location) or [-1])[-1]
            found[path] = ViewSource(version, delta_table.table_id(files, location) or "", entry.sources.get(path, -1))
    return found


def _change(files: LakeFiles, entry: QueryEntry, tree: PlanNode, path: str, source: ViewSource) -> SourceChange:
    if path not in entry.sources:
        return SourceChange("lost", reason="it was not read before")
    if entry.tables.get(path) != source.table_id:
        return SourceChange("lost", reason="another table is in its place")
    if source.known == source.version:
        return SourceChange("same")
    if not all(each.plain for each in tree.reads() if each.path == path):
        return SourceChange("lost", reason="one partition of it is read, or more than its columns")
    return change_of(files, path, source.known, source.version)


def _judging(frame: DataFrame, tree: PlanNode, context: QueryContext) -> tuple[PlanNode, ...]:
    """The nodes that check the rows of a query, whose own nodes are ``tree``, by its expectations."""
    if not context.expectations:
        return ()
    judged = ViewPlan(row_expectations.route(frame, context.expectations)).tree
    rest = sum(1 for _ in judged.nodes()) - sum(1 for _ in tree.nodes())
    found: list[PlanNode] = []
    while len(found) < max(rest, 1):
        found.append(replace(judged, children=()))
        judged = judged.children[0]
    return tuple(found)


def _tables_of(judging: Sequence[PlanNode]) -> Iterator[str]:
    """What expectations read themselves."""
    return ("a table in an expectation" for each in judging if each.subqueries)


def _changed_by_others(context: QueryContext, position: QueryPosition) -> str:
    """What somebody else did to the rows of the view's table since its newest refresh looked at it."""
    if position.entry.kind != "refresh":
        return ""
    versions = context.ledger.versions_of_others(position)
    return changed_by(context.files, context.places.table, iter(versions))
