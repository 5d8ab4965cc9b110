"""The table of another flow in the place of Kafka: the same topics, partitions and offsets, for as long as it has them.

A raw flow keeps keys, values and coordinates as they were, and its ledger says which of Kafka's offsets its table
holds. So a reader of the table is configured as for Kafka itself, and keeps a ledger by Kafka's offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rivermouth import names
from rivermouth.decoding.registry import schema_headers
from rivermouth.domain.kafka.kafka_offsets import flat_offsets, given_end, given_start
from rivermouth.domain.kafka.source_topics import GroupCommit, Topic
from rivermouth.domain.ledger import audit_window
from rivermouth.domain.ledger.offset_ranges import filled, flat
from rivermouth.domain.ledger.sampling import Record
from rivermouth.errors import SourceBehind, SourceNotMade, SourceUnfit, TableForeign
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows import envelope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.source_topics import Isolation
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.sampling import Window
    from rivermouth.domain.project.source_table import SourceTable
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

_FEW_READERS: Final = 8
_NEVER_CUT: Final = 2**63 - 1
_BYTES: Final = "CAST({} AS BINARY)"
_OF_RECORDS: Final = ("topic", "partition", "offset", "key", "value")
_ID_IN_HEADER: Final = f"{schema_headers.found(schema_headers.OF_VALUES, 'headers')} IS NOT NULL"
_PLACE: Final = "row_number() OVER (PARTITION BY topic, `partition` ORDER BY `offset`)"


@dataclass(frozen=True, slots=True)
class _Seen:
    """The table as it was looked at last: its newest version, which nobody had disturbed, and its newest entry."""

    version: int
    entry: Entry
    begins: Offsets


class TableSource:
    """A table that is read in the place of Kafka, by its ledger. Implements ``OffsetSource`` and ``RecordSource``.

    Each look at the topics finds the table's newest version, and frames are of that version: what comes to the table
    later, or is done to it, is for the next look.

    Args:
        source: The table, and the flow that writes it.
        files: Where it lies.
        reader: Name of the flow that reads it, for errors.
        spark: Any session; without one a table whose log was cleaned cannot be read.
    """

    def __init__(
        self, source: SourceTable, files: LakeFiles, *, reader: str, spark: SparkSession | None = None
    ) -> None:
        self._source = source
        self._files = files
        self._reader = reader
        self._spark = spark
        self._location = source.places.table
        owner = source.flow
        self._ledger = TableLedger(
            files, self._location, source.places.ledger_file, flow=owner.name, previously=owner.previously
        )
        self._seen: _Seen | None = None

    # --- what there is to read ---

    def topics(self, flow: Flow) -> dict[str, Topic]:  # noqa: ARG002 - it reads all that the table holds
        """The topics that the table's flow has read, by name, sorted, as the table is now.

        Raises:
            SourceNotMade: There is no table yet.
            SourceUnfit: It cannot be read in the place of Kafka.
            LedgerVoid: Others changed it, and it is not decided yet what becomes of its flow.
            RivermouthError: What else is wrong with its ledger.
        """
        return _topics(self._look().entry)

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of these topics that the table's flow has read, by name, sorted; raises as ``topics``."""
        return {name: topic for name, topic in _topics(self._look().entry).items() if name in names}

    def compacted(self, names: Collection[str]) -> set[str]:
        """All, if records were erased from the table, else none: by itself nothing is taken away from a table."""
        entry = self._known().entry
        return {*names} if entry.totals.erased or entry.kind == "forget" else set()

    def beginning_offsets(self, topics: Mapping[str, Topic]) -> Offsets:
        """Where the table's flow began to read each partition."""
        return _of(self._known().begins, topics)

    def end_offsets(self, topics: Mapping[str, Topic], isolation: Isolation | None = None) -> Offsets:
        """The first offset of each partition that the table does not have.

        With ``read_uncommitted`` there is no end: what the table lacks, because its flow is behind or reads again, may
        come, and the table does not show whether Kafka's log was cut.
        """
        ends = _of(self._known().entry.next_offsets, topics)
        if isolation != "read_uncommitted":
            return ends
        return {topic: dict.fromkeys(parts, _NEVER_CUT) for topic, parts in ends.items()}

    def offsets_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets | None:  # noqa: ARG002
        """None: the log of a table has no times of records."""
        return None

    def resolve_starting(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete first offset for every partition of ``topics``, as ``flow.starting_offsets`` says.

        Raises:
            SourceNotRead, PartitionMissing, OffsetsOutOfRange: Given offsets are not those of the table.
        """
        first, end = self.beginning_offsets(topics), self.end_offsets(topics)
        if flow.starting_offsets.kind == "latest":
            return end
        return first if flow.starting_offsets.kind == "earliest" else given_start(flow, topics, first, end)

    def resolve_ending(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete end (exclusive) for every partition of ``topics``, as ``flow.ending_offsets`` says.

        Raises:
            SourceNotRead, PartitionMissing, OffsetsOutOfRange: Given offsets are not those of the table.
        """
        ending, last = flow.ending_offsets, self.end_offsets(topics)
        if ending is None or ending.kind == "latest":
            return last
        return given_end(flow, ending, topics, self.beginning_offsets(topics), last)

    def records(self, windows: Sequence[Window], *, headers: bool = False) -> Iterator[Record]:
        """The rows of ``windows`` as records; of each partition in the order of their offsets.

        Args:
            windows: What is read.
            headers: Whether records say that a header has the id of a schema.

        Raises:
            SourceBehind: The table does not hold all of them any more.
        """
        if self._spark is None:
            raise SourceUnfit(
                flow=self._reader,
                table=self._source.places.full_name,
                detail="its rows are read by Spark, and there is no session",
                fix=f"rivermouth run {self._reader}",
            )
        left = {(each.topic, each.partition): each.records for each in windows}
        near: Ranges = {}
        far: Ranges = {}
        for each in windows:
            middle = min(each.end, each.start + each.records)
            near.setdefault(each.topic, {})[each.partition] = (each.start, middle)
            far.setdefault(each.topic, {})[each.partition] = (middle, each.end)
        # A table that has a row for every offset is read no further. After gaps the next rows are read.
        for ranges in (near, far):
            wanted = {
                topic: found
                for topic, parts in ranges.items()
                if (found := {part: (a, b) for part, (a, b) in parts.items() if b > a and left[topic, part]})
            }
            if not wanted:
                continue
            rows = self.batch(self._spark, wanted)
            is_told = headers and "headers" in rows.columns
            rows = rows.selectExpr(*_OF_RECORDS, f"{_ID_IN_HEADER if is_told else 'false'} AS id_in_header")
            for record in _in_order(rows, None if ranges is near else max(left.values())):
                if left[record.topic, record.partition]:
                    left[record.topic, record.partition] -= 1
                    yield record

    def weight(self, ranges: Ranges) -> tuple[int, int] | None:
        """Records of ``ranges`` and the bytes of their keys and values; None where all rows are the reader's.

        Raises:
            SourceBehind: The table does not hold all of ``ranges`` any more.
        """
        if self._spark is None or self._source.where is None:
            return None
        size = "coalesce(sum(ifnull(octet_length(key), 0) + ifnull(octet_length(value), 0)), 0)"
        ((records, size_bytes),) = self.batch(self._spark, ranges).selectExpr("count(*)", size).collect()
        return records, size_bytes

    def commit(self, group: str, offsets: Offsets) -> GroupCommit:  # noqa: ARG002 - nothing is committed
        """Commits nothing: no cluster is asked."""
        return GroupCommit(group, committed=False, detail="the flow reads a table")

    # --- the same as Spark reads it ---

    def with_headers(self, *, headers: bool) -> Self:  # noqa: ARG002 - what nobody asks of a table is not read
        """Itself."""
        return self

    def with_new_consumers(self) -> Self:
        """Itself."""
        return self

    def batch(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The rows of ``ranges`` in the columns of Spark's Kafka source, as the table was at the last look.

        Those for which the reader's ``where`` is not TRUE are left out, as a topic leaves out what it has compacted.
        Files of other offsets are left out by their statistics. A column that the table lacks is null; ``headers`` is
        then missing.

        Raises:
            SourceBehind: The table does not hold all of ``ranges``, or not any more.
        """
        return _planned(self._read(spark, ranges, self._source.where))

    @staticmethod
    def parted(sources: Sequence[TableSource], spark: SparkSession, ranges: Ranges, number: str) -> DataFrame:
        """As ``batch``, the rows of several readers of one table; no row is of two readers.

        A further column, an int, has the reader of each row: its place among ``sources``. The table is read as the
        first of them has seen it.

        Raises:
            SourceBehind: As ``batch``.
        """
        first, wheres = sources[0], [each._source.where or "true" for each in sources]  # noqa: SLF001
        cases = " ".join(f"WHEN {where} THEN {place}" for place, where in enumerate(wheres))
        # Of many of them hardly a file has no row, and to find that out takes longer than to read it.
        within = " OR ".join(f"({where})" for where in wheres) if len(wheres) <= _FEW_READERS else None
        rows = first._read(spark, ranges, within, f"coalesce(CASE {cases} END, -1) AS {number}")  # noqa: SLF001
        return _planned(rows.where(f"{number} >= 0"))

    # --- inside ---

    def _read(self, spark: SparkSession, ranges: Ranges, where: str | None, *more: str) -> DataFrame:
        """Rows of ``ranges`` that meet ``where``, with further columns over those of the table."""
        self._check_holds(ranges)
        reader = spark.read.format("delta").option("versionAsOf", self._known().version)
        called = {name: names.quoted(column) for name, column in self._source.flow.metadata_columns.items()}
        columns = {
            names.TOPIC: called["kafka_topic"],
            names.PARTITION: called["kafka_partition"],
            names.OFFSET: called["kafka_offset"],
            "timestamp": called.get("kafka_timestamp", "CAST(NULL AS TIMESTAMP)"),
            "timestampType": called.get("kafka_timestamp_type", "CAST(NULL AS INT)"),
            "key": _BYTES.format(called.get("kafka_key", "NULL")),
            "value": names.quoted("value"),
        }
        if "kafka_headers" in called:
            columns["headers"] = called["kafka_headers"]
        table = reader.load(self._location)
        table = table if where is None else table.where(where)
        rows = table.selectExpr(*(f"{column} AS {name}" for name, column in columns.items()), *more)
        back = {names.TOPIC: "topic", names.PARTITION: "partition", names.OFFSET: "offset"}
        return rows.where(envelope.inside(ranges)).withColumnsRenamed(back)

    def _known(self) -> _Seen:
        return self._seen or self._look()

    def _look(self) -> _Seen:
        seen = self._seen
        if seen is not None and delta_table.read_commit(self._files, self._location, seen.version + 1) is None:
            return seen
        versions = delta_table.commit_versions(self._files, self._location)
        if not versions:
            places, owner = self._source.places, self._source.flow.name
            raise SourceNotMade(flow=self._reader, table=places.full_name, owner=owner, option=places.option)
        # Before the ledger is read: it checks what others did up to its own look, and so up to this version.
        entry = self._position().entry
        self._check_fit(entry)
        self._seen = _Seen(versions[-1], entry, self._begins(entry))
        return self._seen

    def _position(self) -> LedgerPosition:
        try:
            return self._ledger.position()
        except TableForeign:
            if self._spark is None:
                raise
            # The log was cleaned; the snapshot knows better.
            return self._ledger.position(delta_snapshot.table_state(self._spark, self._location).transactions)

    def _check_fit(self, entry: Entry) -> None:
        for topic in entry.epochs:
            raise self._unfit(f"it has records of topic {topic} from before it was created again or cut", entry)

    def _check_holds(self, ranges: Ranges) -> None:
        """Raises SourceBehind if the table does not hold all of ``ranges``: a flow that rebuilds it is still behind."""
        ends = self._known().entry.next_offsets
        for topic, partition, _start, end in flat(ranges):
            stands = ends.get(topic, {}).get(partition, 0)
            if end > stands:
                raise SourceBehind(
                    flow=self._reader,
                    table=self._source.places.full_name,
                    owner=self._source.flow.name,
                    option=self._source.places.option,
                    topic=topic,
                    partition=partition,
                    stands=stands,
                    end=end,
                )

    def _begins(self, entry: Entry) -> Offsets:
        """Where each partition began; an older table, whose ledger does not name it, may still have all its entries."""
        begins = entry.begins
        unknown = [place for place in flat_offsets(entry.next_offsets) if place[1] not in begins.get(place[0], {})]
        if not unknown:
            return begins
        entries = [each.entry for each in reversed(self._ledger.newest())]
        if entries and entries[0].number == 0:
            return filled(begins, audit_window.starts(entries))
        topic, partition, _ = unknown[0]
        raise self._unfit(f"its log no longer tells where {topic}-{partition} begins", entry)

    def _unfit(self, detail: str, entry: Entry) -> SourceUnfit:
        topics = ", ".join(sorted(entry.next_offsets))
        fix = f"let the flow read what it reads itself: topics: [{topics}] instead of source:"
        return SourceUnfit(flow=self._reader, table=self._source.places.full_name, detail=detail, fix=fix)


def _topics(entry: Entry) -> dict[str, Topic]:
    return {
        name: Topic(name, entry.topic_ids.get(name), tuple(sorted(parts)))
        for name, parts in sorted(entry.next_offsets.items())
    }


def _of(offsets: Offsets, topics: Mapping[str, Topic]) -> Offsets:
    return {name: {p: offsets[name][p] for p in topic.partitions} for name, topic in topics.items()}


def _in_order(rows: DataFrame, most: int | None) -> Iterator[Record]:
    """The first ``most`` records of each partition, or all."""
    if most is not None:
        rows = rows.selectExpr("*", f"{_PLACE} AS __place").where(f"__place <= {most}").drop("__place")
    for topic, partition, offset, key, value, in_header in rows.orderBy(*_OF_RECORDS[:3]).toLocalIterator():
        content = None if value is None else bytes(value)
        yield Record(topic, partition, offset, key and bytes(key), content, in_header)


def _planned(rows: DataFrame) -> DataFrame:
    # What a table holds is found out without Spark.
    from rivermouth.ports.internals.prepared_plan import planned  # noqa: PLC0415

    return planned(rows)
