"""Schemas inferred from what a flow reads: a sample or all of it, folded in this process, without Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.decoding.wrapped.unwrap_in_python import unwrap_of
from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.sampling import SAMPLE_BYTES, SAMPLE_RECORDS, Record, spread, whole
from rivermouth.errors import (
    DocumentsTooWide,
    GroupWithoutOffsets,
    OffsetsOutOfRange,
    SchemaEmpty,
    SchemaNotInferred,
)
from rivermouth.rows.conform import is_taken
from rivermouth.schemas.inference import MAX_FIELDS, Limits, Shape, ShapesExplode
from rivermouth.schemas.inferred import MAX_COLUMNS, Inferred, SchemaTooWide, schema_of
from rivermouth.schemas.open_fields import open_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.domain.ledger.sampling import Window
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow

_WAIT: Final = 'wait for its first records, or declare the columns: schema: "id bigint"'


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """How a topic is looked at for its schema.

    Attributes:
        records: About how many records a sample has; None for all that there are.
        times: Whether strings that are all dates or all times get such a type.
        max_fields: An object with more distinct fields is a map.
        latest_per_key: Whether of each key only the newest record counts, within what is read.
        apart: Names, in lower case, of fields of any shape, into which nothing looks.
    """

    records: int | None = SAMPLE_RECORDS
    times: bool = False
    max_fields: int = MAX_FIELDS
    latest_per_key: bool = False
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a topic.

    Attributes:
        subject: What was looked at, in words: ``topic orders``.
        shape: What was in the records.
        read: Records that were read.
        offsets: How many offsets there are, an upper bound of the records.
        whole: Whether all of them were read.
        latest_per_key: Whether only the newest record of each key counts.
        seconds: How long it took.
    """

    subject: str
    shape: Shape
    read: int
    offsets: int
    whole: bool
    latest_per_key: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Inference:
    """A schema, and what was seen for it.

    Attributes:
        seen: What was seen.
        inferred: The schema; its columns can be those of the flow's table.
    """

    seen: Seen
    inferred: Inferred


def infer(flow: Flow, topics: OffsetSource, look: SampleSpec) -> Inference:
    """The schema of what the flow reads now.

    Args:
        flow: Says what is read, and which columns its table has besides.
        topics: What there is to read.
        look: How much of it is read, and how the types of values are inferred.

    Raises:
        SchemaEmpty: There is no record with a value.
        SchemaNotInferred: There are values and no document among them.
        DocumentsTooWide: The documents have too many fields.
        RivermouthError: What else keeps the flow from its topics.

    Guarantees:
        Reads only.
    """
    return schema_of_seen(flow, seen_of(flow, topics, look), times=look.times)


def schema_of_seen(flow: Flow, seen: Seen, *, times: bool) -> Inference:
    """The schema of what was seen; raises as ``infer``, of what is seen alone."""
    shape, subject = seen.shape, seen.subject
    if shape.records == 0:
        detail = "there is no record" if seen.read == 0 else "no record has a value"
        detail = detail if seen.whole else f"{detail}, in a sample of {seen.read:,}"
        raise SchemaEmpty(subject=subject, detail=detail, fix=_WAIT, has_values=not seen.whole)
    if shape.sound_records == 0:
        reason, first = min(shape.corrupt.items(), key=lambda each: (-each[1].count, each[0]))
        topic, partition, offset = first.example
        found = f"{reason} at {topic}-{partition} offset {offset}"
        detail = f"of {shape.records:,} values none is a JSON object ({found})"
        raise SchemaNotInferred(subject=subject, detail=detail, fix="format: raw, or format: text")
    try:
        inferred = schema_of(shape, times=times, is_taken=lambda name: is_taken(flow, name), is_open=open_for(flow))
    except SchemaTooWide:
        raise _too_wide(subject, shape) from None
    if not inferred.found.fields:
        raise SchemaEmpty(subject=subject, detail="its documents have no fields", fix=_WAIT)
    if not inferred.schema.fields:
        raise SchemaEmpty(subject=subject, detail="no field of its documents has a value", fix=_WAIT)
    return Inference(seen, inferred)


def without_values(flow: Flow, empty: SchemaEmpty) -> str | None:
    """What a run says of a flow that has nothing to store yet, and so needs no schema; None where it is an error.

    A start at the end is found when the table is made: a run that made none would move it.
    """
    if empty.has_values or flow.starting_offsets.kind == "latest":
        return None
    return f"{empty.message.partition(';')[0]}; it waits for its first value"


def seen_of(flow: Flow, topics: OffsetSource, look: SampleSpec) -> Seen:
    """What is seen of what the flow reads; there may be no schema in it.

    Raises:
        DocumentsTooWide: There are too many different paths.
        RivermouthError: What keeps the flow from its topics.
    """
    began_at = time.monotonic()
    known = topics.topics(flow)
    ranges = _ranges(flow, topics, known)
    rounds = _rounds(topics, ranges, look)
    reading = _Reading(topics, rounds, look, headers=flow.has_schema_header)
    shape = shape_of(flow, reading.newest() if look.latest_per_key else reading.all(), look)
    return Seen(
        subject=subject_of(flow),
        shape=shape,
        read=reading.read,
        offsets=offset_ranges.size(ranges),
        whole=not reading.cut and sum(each.records for part in rounds for each in part) >= offset_ranges.size(ranges),
        latest_per_key=look.latest_per_key,
        seconds=time.monotonic() - began_at,
    )


def shape_of(flow: Flow, records: Iterable[Record], look: SampleSpec) -> Shape:
    """What is in the values of these records of the flow.

    Raises:
        DocumentsTooWide: There are too many different paths.
    """
    shape = Shape(Limits(max_fields=look.max_fields), look.apart)
    unwrap = {in_header: unwrap_of(flow, id_in_header=in_header) for in_header in (False, True)}
    try:
        for record in records:
            place = (record.topic, record.partition, record.offset)
            shape.add(record.value, place, unwrap[record.id_in_header])
    except ShapesExplode:
        raise _too_wide(subject_of(flow), shape) from None
    return shape


def subject_of(flow: Flow) -> str:
    """What a flow reads, in words."""
    if flow.source is not None:
        return flow.source.shown
    named = sorted({*flow.topics, *flow.assign})
    return f"topic{'s' * (len(named) > 1)} {', '.join(named)}" if named else f"topics {flow.topic_pattern}"


def _rounds(topics: OffsetSource, ranges: Ranges, look: SampleSpec) -> list[list[Window]]:
    """The windows that are read: all that there is where it is no more than a sample may have."""
    if look.records is None:
        return whole(ranges)
    # Of a table's rows a flow may want few: to look for them window by window would take a job of Spark for each.
    weight = topics.weight(ranges) if offset_ranges.size(ranges) > look.records else None
    few = weight is not None and weight[0] <= look.records and weight[1] <= SAMPLE_BYTES
    return whole(ranges) if few else spread(ranges, look.records)


class _Reading:
    """Records of windows, counted on the way; a sample ends where it has too many bytes."""

    def __init__(self, topics: OffsetSource, rounds: list[list[Window]], look: SampleSpec, *, headers: bool) -> None:
        self.read = 0
        self.cut = False
        self._topics = topics
        self._rounds = rounds
        self._headers = headers
        self._bytes_left = SAMPLE_BYTES if look.records is not None else None

    def all(self) -> Iterator[Record]:
        for windows in self._rounds:
            for record in self._topics.records(windows, headers=self._headers):
                self.read += 1
                yield record
                if self._bytes_left is not None:
                    self._bytes_left -= len(record.value or b"") + len(record.key or b"")
                    if self._bytes_left < 0:
                        self.cut = True
                        return

    def newest(self) -> Iterator[Record]:
        """Of each key the newest record; those without a key are all there."""
        if self._bytes_left is None:
            yield from self._newest_of_all()
            return
        kept: dict[tuple[str, int, bytes], Record] = {}
        for record in self.all():
            if record.key is None:
                yield record
                continue
            place = (record.topic, record.partition, record.key)
            # Windows come in no order of time.
            if place not in kept or kept[place].offset < record.offset:
                kept[place] = record
        yield from kept.values()

    def _newest_of_all(self) -> Iterator[Record]:
        """Read twice: keys and offsets are less to remember than values."""
        last = {(each.topic, each.partition, each.key): each.offset for each in self.all()}
        self.read = 0
        for record in self.all():
            if record.key is None or last.get((record.topic, record.partition, record.key)) == record.offset:
                yield record


def _ranges(flow: Flow, topics: OffsetSource, known: Mapping[str, Topic]) -> Ranges:
    """What the flow reads; all that there is where it starts at the end, or began at what Kafka does not hold now."""
    end = topics.resolve_ending(flow, known)
    try:
        found = offset_ranges.between(topics.resolve_starting(flow, known), end)
    except (GroupWithoutOffsets, OffsetsOutOfRange):
        found = {}
    return found if offset_ranges.size(found) else offset_ranges.between(topics.beginning_offsets(known), end)


def _too_wide(subject: str, shape: Shape) -> DocumentsTooWide:
    detail = f"its documents have more than {MAX_COLUMNS:,} different fields"
    if len(shape.documents.fields or {}) <= MAX_COLUMNS:
        fix = "max_fields: 100, for maps in place of wide objects; or format: text"
        return DocumentsTooWide(subject=subject, detail=detail, fix=fix)
    fix = 'format: text, or declare the columns that you need: schema: "id bigint"'
    return DocumentsTooWide(subject=subject, detail=f"{detail} of their own", fix=fix)
