"""The analysed query of a materialized view as plain values: what each node does, what it reads, what it hands on."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class TableRead:
    """A Delta table that a node reads.

    Attributes:
        path: Its folder.
        version: The version that is read.
        id: Delta's UUID of the table.
        fixed: Whether the query itself names that version.
        plain: Whether its columns alone are read, and nothing of its files such as ``_metadata``.
        feed: Whether its change data feed is enabled.
    """

    path: str
    version: int
    id: str
    fixed: bool
    plain: bool
    feed: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One part of what a node groups its rows by.

    Attributes:
        sql: As SQL.
        type: Its type.
        columns: Ids of the columns of the node that have its value.
    """

    sql: str
    type: str
    columns: frozenset[int]


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of an analysed query, with those below it.

    Attributes:
        number: From the top, from left to right; within a subquery they begin at 0.
        op: Spark's name of it.
        output: Id and name of each column that it hands on.
        functions: Classes of the expressions in it.
        unsure: Functions in it that say something else each time.
        passes: Of a projection: by column the column below that it repeats.
        join: Spark's name of the kind of a join.
        keys: What its rows are grouped by; None where it groups none.
        table: The Delta table that it reads.
        children: Those below it.
        subqueries: Queries within its expressions.
    """

    number: int
    op: str
    output: tuple[tuple[int, str], ...] = ()
    functions: frozenset[str] = frozenset()
    unsure: tuple[str, ...] = ()
    passes: Mapping[int, int] | None = None
    join: str = ""
    keys: tuple[Key, ...] | None = None
    table: TableRead | None = None
    children: tuple[PlanNode, ...] = ()
    subqueries: tuple[PlanNode, ...] = ()

    def walk(self) -> Iterator[PlanNode]:
        """All nodes of the query, those of subqueries too."""
        yield self
        for each in (*self.children, *self.subqueries):
            yield from each.walk()

    def nodes(self) -> Iterator[PlanNode]:
        """All nodes of the query without those of subqueries, so that each number is there once."""
        yield self
        for each in self.children:
            yield from each.nodes()

    def reads(self) -> Iterator[TableRead]:
        """The Delta tables that are read, as they were when the query was analysed."""
        return (each.table for each in self.walk() if each.table is not None and not each.table.fixed)

    def reads_any(self, paths: frozenset[str]) -> bool:
        """Whether one of these tables is read here or below."""
        return any(each.path in paths for each in self.reads())


def relocated(node: PlanNode, place: Callable[[str], str]) -> PlanNode:
    """The tree with other folders of its tables.

    Args:
        node: Its top.
        place: Gives the folder that a table has in it, by the one that it has now.
    """
    return replace(
        node,
        table=None if node.table is None else replace(node.table, path=place(node.table.path)),
        children=tuple(relocated(each, place) for each in node.children),
        subqueries=tuple(relocated(each, place) for each in node.subqueries),
    )


def read_tree(text: str) -> PlanNode:
    """The tree, of the JSON that Java's side gives."""
    return _node(json.loads(text))


def _node(body: Mapping[str, Any]) -> PlanNode:
    table, keys = body.get("table"), body.get("keys")
    return PlanNode(
        number=body["number"],
        op=body["op"],
        output=tuple((number, name) for number, name in body["output"]),
        functions=frozenset(body["functions"]),
        unsure=tuple(body["unsure"]),
        passes=None if "passes" not in body else dict(body["passes"]),
        join=body.get("join", ""),
        keys=None if keys is None else tuple(Key(k["sql"], k["type"], frozenset(k["columns"])) for k in keys),
        table=None if table is None else TableRead(**{**table, "path": plain_path(table["path"])}),
        children=tuple(map(_node, body["children"])),
        subqueries=tuple(map(_node, body["subqueries"])),
    )


def plain_path(path: str) -> str:
    """A folder as all say it: a local one without ``file:`` and ``..``, none with a slash at its end or two of them."""
    path = path.removeprefix("file:") if path.startswith("file:/") else path
    return f"/{posixpath.normpath(path).lstrip('/')}" if path.startswith("/") else path.rstrip("/")


def table_name(path: str) -> str:
    """The last part of a table's folder."""
    return path.rstrip("/").rpartition("/")[2]
