"""Which materialized views can be brought up to date by the rows that changed alone, and how. Pure rules.

A query is a tree of nodes. What changed is in some of its tables. A node is *row by row* in a table where each of that
table's rows comes to rows of its own, whatever the others are: then the rows of the result that are new are those that
the query makes of the table's new rows. A node that groups rows makes of each group rows of its own: then the groups in
which a row changed are computed again, and no others. Whatever is not named here is computed in full.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.query.view_tree import plain_path, table_name

if TYPE_CHECKING:
    from rivermouth.domain.query.view_tree import PlanNode

_ROW_BY_ROW: Final = frozenset(
    {
        "Project",
        "Filter",
        "SubqueryAlias",
        "View",
        "Generate",
        "Expand",
        "Sort",
        "ResolvedHint",
        "UnresolvedHint",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "CollectMetrics",
    }
)
"""Nodes that make of each row rows of its own. The order of rows is none of a table's, so sorting changes nothing."""
_GROUPS: Final = frozenset({"Aggregate", "Distinct", "Deduplicate", "Window"})
_LEFT: Final = frozenset({"INNER", "CROSS", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI"})
"""Joins in which a new row on the left changes nothing that older ones on the left came to."""
_RIGHT: Final = frozenset({"INNER", "CROSS", "RIGHT OUTER"})
_OF_ITS_TIME: Final = frozenset({"Now", "LocalTimestamp", "VariableReference"})
_NO_TIME: Final = frozenset({"CurrentRow"})
_OF_USERS: Final = frozenset(
    {
        "PythonUDF",
        "PythonUDAF",
        "PythonUDTF",
        "ScalaUDF",
        "ScalaUDAF",
        "ScalaAggregator",
        "HiveSimpleUDF",
        "HiveGenericUDF",
        "HiveGenericUDTF",
        "HiveUDAFFunction",
        "ApplyFunctionExpression",
        "V2Aggregator",
    }
)
_KEY_TYPES: Final = frozenset(
    {
        "string",
        "binary",
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)
"""Types whose equal values are the same value, so that a table's row is found by what the query groups by."""
_WORDS: Final = {
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Tail": "tail",
    "Sample": "a sample",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
    "LateralJoin": "a LATERAL join",
    "Pivot": "PIVOT",
    "MapInPandas": "mapInPandas",
    "MapInArrow": "mapInArrow",
    "PythonMapInArrow": "mapInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
}


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column of the result that has one part of what rows are grouped by.

    Attributes:
        place: Its number among the result's columns, from 0.
        type: Its type.
    """

    place: int
    type: str


@dataclass(frozen=True, slots=True)
class Way:
    """How a view is brought up to date by what changed.

    Attributes:
        kind: ``append``: the rows that the query makes of new rows are appended. ``groups``: the groups in which a row
            changed are computed again.
        leaves: Numbers of the nodes that read what changed.
        emptied: Numbers of the nodes that bring nothing new.
        keyed: Number of the node that groups rows.
        columns: The columns of the result that identify the group of a row.
    """

    kind: Literal["append", "groups"]
    leaves: tuple[int, ...]
    emptied: tuple[int, ...] = ()
    keyed: int = -1
    columns: tuple[GroupColumn, ...] = ()


class _Full(Exception):
    """The rules know no increment, for this reason."""


def changes_by_itself(tree: PlanNode, what: str = "its query") -> str:
    """Why the result may be another one though no table has changed; empty where it is not.

    Args:
        tree: The query, or a part of it.
        what: What that is, in words.
    """
    for node in tree.walk():
        if node.unsure:
            return f"{what} calls {node.unsure[0]}(), which says something else each time"
        for name in sorted(node.functions - _NO_TIME):
            if name.startswith("Current") or name in _OF_ITS_TIME:
                return f"{what} depends on the time, the session or the user"
    return ""


def way_of(tree: PlanNode, changed: Collection[str]) -> Way | str:
    """How the result follows changes of these tables; or why it is computed in full.

    Args:
        tree: The query.
        changed: Folders of tables.
    """
    paths = frozenset(map(plain_path, changed))
    if reason := changes_by_itself(tree) or calls_users_code(tree):
        return reason
    try:
        walk = _Walk(paths)
        keyed = walk.down(tree, groups=True)
        if keyed is None:
            return Way("append", tuple(walk.leaves), tuple(walk.emptied))
        return Way("groups", tuple(walk.leaves), tuple(walk.emptied), keyed.number, _columns(tree, keyed))
    except _Full as reason:
        return str(reason)


def never_by_increments(tree: PlanNode) -> str:
    """Why no change of any of its tables can be followed by increments; empty where one can."""
    reasons = [found for path in _paths(tree) if isinstance(found := way_of(tree, [path]), str)]
    if len(reasons) < len(_paths(tree)):
        return ""
    return reasons[0] if reasons else "its query reads no Delta table"


def _paths(tree: PlanNode) -> list[str]:
    return list(dict.fromkeys(each.path for each in tree.reads()))


def calls_users_code(tree: PlanNode, what: str = "its query") -> str:
    """Why it is not known what the query does; empty where it is."""
    if any(node.functions & _OF_USERS for node in tree.walk()):
        return f"{what} calls a user's own function, whose code may have changed"
    return ""


class _Walk:
    """The way from the result down to the tables that changed."""

    def __init__(self, paths: frozenset[str]) -> None:
        self._paths = paths
        self.leaves: list[int] = []
        self.emptied: list[int] = []

    def down(self, node: PlanNode, *, groups: bool) -> PlanNode | None:
        """The node that groups rows, on the way from this one to what changed; None where there is none.

        Args:
            node: One below which something changed.
            groups: Whether rows may be grouped here.
        """
        if any(each.reads_any(self._paths) for each in node.subqueries):
            raise _Full(f"{self._named(node)} is read by a subquery")
        if node.table is not None:
            if not node.table.plain:
                raise _Full(f"its query reads more of {table_name(node.table.path)} than its columns")
            self.leaves.append(node.number)
            return None
        if node.op in _GROUPS:
            return self._group(node, groups=groups)
        if node.op == "Union":
            self._union(node)
            return None
        if node.op == "Join":
            return self._join(node, groups=groups)
        if node.op in _ROW_BY_ROW and len(node.children) == 1:
            return self.down(node.children[0], groups=groups)
        raise _Full(f"its query has {_WORDS.get(node.op, node.op)}, where a row can change what others come to")

    def _group(self, node: PlanNode, *, groups: bool) -> PlanNode:
        if not groups:
            raise _Full("its query groups rows that are grouped or united already")
        if not node.keys:
            word = (
                "has a window without PARTITION BY" if node.op == "Window" else "aggregates all rows, without GROUP BY"
            )
            raise _Full(f"its query {word}")
        self.down(node.children[0], groups=False)
        return node

    def _union(self, node: PlanNode) -> None:
        for each in node.children:
            if each.reads_any(self._paths):
                self.down(each, groups=False)
            else:
                self.emptied.append(each.number)

    def _join(self, node: PlanNode, *, groups: bool) -> PlanNode | None:
        left, right = node.children
        if left.reads_any(self._paths) and right.reads_any(self._paths):
            raise _Full(f"both sides of a join have changed: {self._named(left)} and {self._named(right)}")
        side, allowed = (left, _LEFT) if left.reads_any(self._paths) else (right, _RIGHT)
        if node.join.upper() not in allowed:
            raise _Full(
                f"{self._named(side)} has changed on a side of a {node.join} join that decides about older rows"
            )
        return self.down(side, groups=groups)

    def _named(self, node: PlanNode) -> str:
        found = (each.path for each in node.reads() if each.path in self._paths)
        return table_name(next(found, "a table"))


def _columns(tree: PlanNode, keyed: PlanNode) -> tuple[GroupColumn, ...]:
    """The columns of the result by which the rows of a group are found.

    Raises:
        _Full: A part of the key is none of the columns, or of a type by which rows are not found.
    """
    found = []
    for key in keyed.keys or ():
        ids = _passed(tree, keyed, key.columns)
        place = next((place for place, (number, _) in enumerate(tree.output) if number in ids), None)
        if place is None:
            raise _Full(f"what its query groups by is not among its columns: {key.sql}")
        if key.type not in _KEY_TYPES and not key.type.startswith("decimal("):
            raise _Full(f"its query groups by {key.sql}, which is a {key.type}")
        found.append(GroupColumn(place, key.type))
    return tuple(found)


def _passed(node: PlanNode, keyed: PlanNode, columns: frozenset[int]) -> frozenset[int]:
    """The ids under which a node hands on these columns of the node that groups rows."""
    if node is keyed:
        return columns & {number for number, _ in node.output}
    for child in node.children:
        if any(each is keyed for each in child.walk()):
            below = _passed(child, keyed, columns)
            if node.passes is not None:
                return frozenset(out for out, source in node.passes.items() if source in below)
            return below & {number for number, _ in node.output}
    return frozenset()
