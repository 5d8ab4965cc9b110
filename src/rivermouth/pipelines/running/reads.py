"""What a query that is evaluated has read so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rivermouth.errors.pipeline_sql import SqlNotSupported
from rivermouth.pipelines.graph import Input
from rivermouth.pipelines.names import NO_USE
from rivermouth.pipelines.session.pipeline_session import is_followed
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.domain.query.view_tree import PlanNode
    from rivermouth.engine.query.counted_view import CountedView
    from rivermouth.engine.query.decoded_stream import DecodedStream
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.names import TableName, Use
    from rivermouth.pipelines.spec import SourceLine

_VERSION_OF_VIEW: Final = "leave the version out, or name a table in the place of the view"
_WITHOUT_SOURCE: Final = ("OneRowRelation", "Range")
"""Nodes of a plan that make rows of nothing."""
_LOCAL_ROWS: Final = ("LocalRelation", "LogicalRDD", "ExternalRDD")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A query as it was evaluated.

    Attributes:
        frame: What it returned.
        inputs: What it read.
        views: Views with expectations that it read as streams.
        decoded: Records that it decodes.
        shared: Views whose frames it has together with other queries.
        kafka: The options of the Kafka sources that it reads, also by views.
    """

    frame: DataFrame
    inputs: tuple[Input, ...]
    views: tuple[CountedView, ...] = ()
    decoded: tuple[DecodedStream, ...] = ()
    shared: frozenset[TableName] = frozenset()
    kafka: tuple[Mapping[str, str], ...] = field(default=(), repr=False)


@dataclass(slots=True)
class Reads:
    """What the query that is evaluated now has read so far.

    Attributes:
        dataset: Whose query it is.
        at: Where it is defined.
        use: What ``USE`` has chosen for the query.
        flow: Which of its flows; empty for a view.
        found: By name, and whether it is a stream.
        views: Views with expectations that it reads as streams.
        decoded: Records that it decodes.
        shared: Views whose frames it has together with other queries.
        kafka: The options of the Kafka sources that it reads.
    """

    dataset: str
    at: SourceLine
    use: Use = NO_USE
    flow: str = ""
    found: dict[tuple[str, bool], Input] = field(default_factory=dict)
    views: list[CountedView] = field(default_factory=list)
    decoded: list[DecodedStream] = field(default_factory=list)
    shared: set[TableName] = field(default_factory=set)
    kafka: list[Mapping[str, str]] = field(default_factory=list, repr=False)

    def note(self, what: Input) -> None:
        """Keeps one more."""
        self.found.setdefault((what.name, what.stream), what)

    def shares(self, name: TableName, view: Evaluated) -> bool:
        """Whether the query can have the frame of a view together with other queries; kept, if so.

        Two reads of one query get two frames: Spark identifies columns by ids, so a join of a frame with itself would
        be ambiguous. A view whose rows are counted for each of its readers has a frame for each.
        """
        mine = view.shared | {name}
        if view.views or view.decoded or mine & self.shared:
            return False
        self.shared |= mine
        return True

    def take(self, view: Evaluated, counted: Sequence[CountedView]) -> None:
        """Keeps what the query reads by a view."""
        self.views += [*view.views, *counted]
        self.decoded += view.decoded
        self.kafka += view.kafka


def each_once(inputs: list[Input]) -> tuple[Input, ...]:
    """The inputs of several queries, each once."""
    return tuple({(each.name, each.stream): each for each in inputs}.values())


def in_own_session(evaluated: Evaluated) -> Evaluated:
    """The same query in a session of its own: settings of its commit do not change those of other flows."""
    own = sessions.cloned(evaluated.frame.sparkSession)
    sessions.make_active(own)
    return replace(evaluated, frame=sessions.rehomed(evaluated.frame, own))


def read_by(
    inputs: Sequence[Input], tree: PlanNode, find: Callable[[str], Node | None]
) -> tuple[list[str], tuple[str, ...]]:
    """The folders of the Delta tables that a query names, and what else it reads.

    Rows that a function made are not in the text of the analysed query: another call may make others. A frame that was
    made outside of the query, for example at the top of a file, is in the query's plan alone.
    """
    places, outside, waiting = list[str](), list[str](), list(inputs)
    if any(name in node.op for node in tree.walk() for name in _LOCAL_ROWS):
        outside.append("rows that the query itself holds")
    while waiting:
        each = waiting.pop()
        node = find(each.name) if each.inside else None
        if node is not None and node.kind == "view":
            waiting += node.inputs
        elif each.location is None:
            outside.append(each.name)
        else:
            places.append(each.location)
    leaves = (each for each in tree.walk() if not each.children and each.table is None)
    if not outside and any(each.op not in _WITHOUT_SOURCE for each in leaves):
        outside.append("a frame that was made outside of it")
    return places, tuple(outside)


def refuse_version_of_view(view: str, options: Mapping[str, str]) -> None:
    """Nothing, unless a view is read at a version: it has none.

    Raises:
        SqlNotSupported: It is.
    """
    if not is_followed("delta", options):
        raise SqlNotSupported(at=None, clause=f"a version of the view {view}", fix=_VERSION_OF_VIEW)
