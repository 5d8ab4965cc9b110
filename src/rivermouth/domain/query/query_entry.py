"""A ledger entry of a query: which batch a commit of its table brings, where the sources were, and the counts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self

from rivermouth import names
from rivermouth.errors import LedgerTooNew, LedgerUnreadable

_KEY: Final = "rivermouth_query"
_REPLAY: Final = "replayed_dead_letters"
_FORM: Final = 1

Kind = Literal["created", "batch", "ended", "refresh", "reset", "cleared"]
SourceKind = Literal["stream", "snapshots", "batch"]
ONE_BATCH: Final = "one batch"
"""In the place of Spark's id of a query, where there is none."""


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Where the rows of a batch went: ``read = written + dropped + dead_lettered``.

    Attributes:
        read: Rows that the query returned.
        written: Rows in the table; of keyed targets changes that were merged.
        dropped: Rows that an expectation left out.
        dead_lettered: Rows in the dead letters.
        late: Rows that a watermark left out of the state of the query, before it returned rows; not among ``read``.
        expectations: By expectation for how many rows it was not TRUE.
        views: Where the rows of views went that a streaming query reads, by view: ``read = written + dropped``. Written
            are those that the query got.
    """

    read: int = 0
    written: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    expectations: Mapping[str, int] = field(default_factory=dict)
    views: Mapping[str, QueryCounts] = field(default_factory=dict)
    late: int = 0

    def __add__(self, other: QueryCounts) -> QueryCounts:
        names = {**self.expectations, **other.expectations}
        return QueryCounts(
            self.read + other.read,
            self.written + other.written,
            self.dropped + other.dropped,
            self.dead_lettered + other.dead_lettered,
            {name: self.expectations.get(name, 0) + other.expectations.get(name, 0) for name in names},
            {
                name: self.views.get(name, NO_COUNTS) + other.views.get(name, NO_COUNTS)
                for name in {**self.views, **other.views}
            },
            self.late + other.late,
        )

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """The counts of their JSON."""
        views = {name: cls.from_body(each) for name, each in body.get("views", {}).items()}
        return cls(**{**body, "views": views})


NO_COUNTS: Final = QueryCounts()


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """What one commit of a table says of the flow that made it.

    Attributes:
        flow: The flow's name.
        number: Of its entries in this table, from 0; the transaction number of the commit.
        kind: ``created`` with the table, ``batch`` of a streaming query, ``ended`` behind the last batch of one that
            runs once, ``refresh`` of a materialized view; ``reset`` (the sources are read again) and ``cleared`` (the
            same, and the table was emptied).
        query_id: Spark's id of the query, which is that of its checkpoint; empty where there is none.
        batch_id: Spark's number of the batch; -1 before the first.
        offsets: The lines of Spark's log of offsets for that batch, as Spark wrote them, without their version; empty
            where the query begins at the beginning.
        begun: The same lines of the first batch since the sources were read from their beginning.
        sources: Of a materialized view the versions of the Delta tables that it read, by their folders. Of a batch of a
            stream those of the tables that it was joined with when it began; it may have seen newer ones.
        tables: Delta's UUIDs of these tables, by the same.
        refreshed: How the view was refreshed: ``append``, ``groups`` or ``full``.
        reason: Why it was, and why in that way.
        files: How many files its sources have read since they were read from their beginning; None where that is not
            known.
        onto: The version of its table that was looked at before it was refreshed; later ones of others are unknown. In
            the table behind a target of AUTO CDC the number of the entry in the target.
        counts: Of this batch.
        totals: Of all batches since the table was made or emptied; of a view since it was last computed in full.
        streams: What each of the query's streams is, in the order by which Spark numbers them.
        fingerprint: Of the analysed query.
        stateful: Whether the query keeps state between its batches.
        keys_mark: In the table behind a target of AUTO CDC: a number made of the keys and truncations of its changes.
        attempt: Made for each try of a commit, to tell tries apart.
    """

    flow: str
    number: int = 0
    kind: Kind = "created"
    query_id: str = ""
    batch_id: int = -1
    offsets: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    refreshed: str = ""
    reason: str = ""
    onto: int = -1
    files: int | None = None
    counts: QueryCounts = NO_COUNTS
    totals: QueryCounts = NO_COUNTS
    streams: tuple[str, ...] = ()
    fingerprint: str = ""
    stateful: bool = False
    keys_mark: int | None = None
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)

    def after_batch(
        self, query_id: str, batch_id: int, offsets: tuple[str, ...], *, fingerprint: str, stateful: bool
    ) -> QueryEntry:
        """The entry of the batch that follows; without its counts, and the tables that it is joined with."""
        return QueryEntry(
            flow=self.flow,
            number=self.number + 1,
            kind="batch",
            query_id=query_id,
            batch_id=batch_id,
            offsets=offsets,
            begun=self.begun or offsets,
            files=self.files if self.offsets else 0,
            totals=self.totals,
            fingerprint=fingerprint,
            stateful=stateful,
        )

    def after_end(self) -> QueryEntry:
        """The entry that says that a streaming query which runs once has read all that there was."""
        return replace(self, number=self.number + 1, kind="ended", counts=NO_COUNTS, attempt=uuid.uuid4().hex)

    def has_run(self, *, streaming: bool) -> bool:
        """Whether a flow that runs once has: all its batches are in the table."""
        return self.kind == ("ended" if streaming else "batch")

    def after_refresh(self, refreshed: str, reason: str, read: Mapping[str, tuple[int, str]]) -> QueryEntry:
        """The entry of the refresh that follows; without its counts, its fingerprint and the version it is put onto.

        Args:
            refreshed: ``append``, ``groups`` or ``full``; a full one replaces all rows.
            reason: Why.
            read: Version and UUID of each table that is read, by its folder.
        """
        return QueryEntry(
            flow=self.flow,
            number=self.number + 1,
            kind="refresh",
            sources={path: version for path, (version, _) in read.items()},
            tables={path: table_id for path, (_, table_id) in read.items()},
            refreshed=refreshed,
            reason=reason,
            totals=NO_COUNTS if refreshed == "full" else self.totals,
        )

    def after_reset(self, *, cleared: bool) -> QueryEntry:
        """The entry from which on the sources are read from their beginning; ``cleared`` if the table was emptied."""
        kind: Kind = "cleared" if cleared else "reset"
        totals = QueryCounts() if cleared else self.totals
        return QueryEntry(flow=self.flow, number=self.number + 1, kind=kind, totals=totals)

    @property
    def planned_at_ms(self) -> int | None:
        """When Spark planned the batch, in milliseconds since 1970; None of a batch that is no stream's."""
        return json.loads(self.offsets[0]).get("batchTimestampMs") if self.offsets else None

    @property
    def source_kind(self) -> SourceKind | None:
        """What its offsets are of; None where it has none."""
        if not self.offsets:
            return None
        if self.query_id != ONE_BATCH:
            return "stream"
        return "snapshots" if "snapshot" in json.loads(self.offsets[0]) else "batch"

    def of_emptied_table(self) -> QueryEntry:
        """This entry for a table that another flow's reset emptied after it."""
        return replace(self.after_reset(cleared=True), number=self.number, attempt=self.attempt)

    def streams_moved(self, streams: tuple[str, ...]) -> bool:
        """Whether a query with these streams cannot go on: Spark finds what a stream has read by its number.

        A stream in the place of another one can go on, for example in another folder.
        """
        return bool(self.offsets) and streams_moved(self.streams, streams)

    def with_files(self, count: int) -> QueryEntry:
        """The same entry for a batch that reads ``count`` files."""
        return self if self.files is None else replace(self, files=self.files + count)

    def counted(self, counts: QueryCounts) -> QueryEntry:
        """The same entry with the counts of its batch."""
        return replace(self, counts=counts, totals=self.totals + counts)

    def holds(self, query_id: str, batch_id: int) -> bool:
        """Whether a batch of a query is in the table already."""
        return self.query_id == query_id and self.batch_id >= batch_id

    def to_json(self) -> str:
        """As the commit of the table keeps it."""
        body = asdict(self)
        return json.dumps(
            {_KEY: _FORM, **{name: value for name, value in body.items() if value not in ("", (), {}, None)}}
        )

    @classmethod
    def from_json(cls, text: str, *, table: str, version: int) -> Self | None:
        """The entry; None where a commit says something else.

        Raises:
            LedgerTooNew: A later version of rivermouth wrote it.
            LedgerUnreadable: It is damaged.
        """
        try:
            body = json.loads(text)
        except ValueError:
            return None
        if not isinstance(body, dict) or _KEY not in body:
            return None
        form = body.pop(_KEY)
        if not isinstance(form, int) or form > _FORM:
            raise LedgerTooNew(table=table, found=form, supported=_FORM)
        try:
            for name in ("counts", "totals"):
                body[name] = QueryCounts.from_body(body.get(name, {}))
            for name in ("offsets", "begun", "streams"):
                body[name] = tuple(body.get(name, ()))
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise LedgerUnreadable(table=table, version=version, detail=str(error)) from None


def streams_moved(before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    """Whether streams have other numbers than before, or there are more or fewer of them.

    Args:
        before: The format of each, and what names its source. Earlier versions kept the format alone of a source other
            than files, which is any source of that format. Empty where nothing is known.
        now: The same of the query as it is.
    """
    if not before or len(before) != len(now):
        return bool(before)
    pairs = zip(before, now, strict=True)
    return any(not _may_be(one, other) and any(_may_be(one, each) for each in now) for one, other in pairs)


def _may_be(before: str, now: str) -> bool:
    """Whether a stream may be the one of before."""
    return before in (now, now.partition(" ")[0])


def replay_text(dataset: str, number: int, **counts: int) -> str:
    """What the commit says that brings dead letters of a dataset into its table."""
    return json.dumps({_REPLAY: dataset, "replay": number, **counts})


def is_replay(text: str) -> bool:
    """Whether a commit that says ``text`` brings dead letters into their table."""
    try:
        return isinstance(body := json.loads(text), dict) and _REPLAY in body
    except ValueError:
        return False


def fingerprint(plan: str, exact: str = "") -> str:
    """A short text that stays the same as long as an analysed query does.

    Args:
        plan: Its text, as Spark writes it down.
        exact: What else decides, such as its constants.
    """
    import hashlib  # noqa: PLC0415 - for this alone
    import re  # noqa: PLC0415

    # These differ in each process: the name of the last field of a JSON document, and the numbers of temporary views.
    names_of_process = rf"{names.PROCESS_PREFIX}[0-9a-f]{{10}}|{names.VIEW_PREFIX}\d+_"
    # These differ in each plan: numbers of queries of WITH, ids of watermarks, and addresses of Java objects in memory.
    fresh = r"(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+|(?<=EventTimeWatermark )[0-9a-f-]{36}"
    plan = re.sub(rf"{fresh}|(?<=[A-Za-z])@[0-9a-f]{{1,8}}\b|{names_of_process}", "", plan)
    # So do the numbers of columns, which tell columns of one name apart: they are counted from the beginning.
    numbers = dict[str, int]()
    plan = re.sub(r"#(\d+)L?", lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", plan)
    return hashlib.sha256(f"{plan}\0{re.sub(names_of_process, '', exact)}".encode()).hexdigest()[:16]


def read_json(lines: tuple[str, ...]) -> list[Any]:
    """The offsets of the sources: the lines behind the first, each as JSON; None of a source without any."""
    return [None if line == "-" else json.loads(line) for line in lines[1:]]
