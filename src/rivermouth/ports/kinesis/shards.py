"""Streams and shards of Kinesis as they are now, and the records of a shard from a position on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rivermouth.domain.kinesis.options import TRIM_HORIZON
from rivermouth.domain.kinesis.positions import ShardPosition, StreamPosition
from rivermouth.errors import KinesisDataLost, KinesisSourceUnreadable
from rivermouth.ports.kinesis.kinesis_client import CallRefused, KinesisClient

_EXPIRED: Final = "ExpiredIteratorException"
_NOT_THERE: Final = "ResourceNotFoundException"
_HOUR_MS: Final = 3_600_000
HOURS_A_DAY: Final = 24


@dataclass(frozen=True, slots=True)
class FoundStream:
    """A stream.

    Attributes:
        name: Its name.
        created: When it was made, in ms since 1970.
        retention_hours: So long it keeps records.
        open_shards: How many shards take records now.
    """

    name: str
    created: int
    retention_hours: int
    open_shards: int

    @property
    def retention_ms(self) -> int:
        """So long it keeps records, in ms."""
        return self.retention_hours * _HOUR_MS


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that a stream has.

    Attributes:
        parents: The shards that it was split from or merged of.
        is_closed: Whether it takes no more records.
    """

    parents: tuple[str, ...]
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Page:
    """What one call for records brought.

    Attributes:
        records: As boto3 gives them.
        at_tip: Whether there were no more then.
    """

    records: list[dict[str, Any]]
    at_tip: bool


def describe(client: KinesisClient, name: str) -> FoundStream:
    """A stream as it is now.

    Raises:
        KinesisSourceUnreadable: There is none of this name, or Kinesis does not answer.
        KinesisThrottled: There are too many calls.
    """
    try:
        found = client.call("describe_stream_summary", name, StreamName=name)["StreamDescriptionSummary"]
    except CallRefused as error:
        raise _unreadable(name, error) from None
    created = found["StreamCreationTimestamp"]
    return FoundStream(name, _ms(created), found["RetentionPeriodHours"], found["OpenShardCount"])


def list_shards(client: KinesisClient, name: str) -> dict[str, Shard]:
    """The shards of a stream that have not been trimmed, by id.

    Raises:
        KinesisSourceUnreadable: As ``describe``.
        KinesisThrottled: As ``describe``.
    """
    found: dict[str, Shard] = {}
    asked: dict[str, str] = {"StreamName": name}
    while True:
        try:
            answer = client.call("list_shards", name, **asked)
        except CallRefused as error:
            raise _unreadable(name, error) from None
        for each in answer["Shards"]:
            parents = tuple(each[key] for key in ("ParentShardId", "AdjacentParentShardId") if each.get(key))
            found[each["ShardId"]] = Shard(parents, "EndingSequenceNumber" in each["SequenceNumberRange"])
        if not answer.get("NextToken"):
            return found
        asked = {"NextToken": answer["NextToken"]}


def pages(
    client: KinesisClient, stream: str, shard: str, begin: Mapping[str, Any], limit: int | None = None
) -> Iterator[Page]:
    """The records of a shard from a place on; ends where the shard is closed and has no more.

    Args:
        client: Of the query.
        stream: The stream.
        shard: Id of the shard.
        begin: The place: arguments of ``get_shard_iterator``.
        limit: Records of one call, where it is not the one of the options.

    Raises:
        CallRefused: Kinesis does not know the place.
        KinesisSourceUnreadable: Kinesis does not answer.
        KinesisThrottled: There are too many calls.
    """
    iterator: str | None = _iterator(client, stream, shard, begin)
    while iterator:
        try:
            answer = client.fetch(stream, shard, iterator, limit or client.options.max_records_per_fetch)
        except CallRefused as error:
            if error.code != _EXPIRED:
                raise
            iterator = _iterator(client, stream, shard, begin)
            continue
        records = answer["Records"]
        if records:
            begin = after(records[-1]["SequenceNumber"])
        iterator = answer.get("NextShardIterator")
        yield Page(records, answer.get("MillisBehindLatest", 0) == 0)


def _iterator(client: KinesisClient, stream: str, shard: str, begin: Mapping[str, Any]) -> str:
    found = client.call("get_shard_iterator", stream, StreamName=stream, ShardId=shard, **begin)
    return str(found["ShardIterator"])


def after(sequence_number: str) -> dict[str, Any]:
    """The place behind a record."""
    return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence_number}


def at_time(ms: int) -> dict[str, Any]:
    """The place of the first record that came at this time or later."""
    return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime.fromtimestamp(ms / 1000, UTC)}


def begin_of(stream: StreamPosition, position: ShardPosition) -> dict[str, Any]:
    """The place behind a position."""
    if position.after:
        return after(position.after)
    if isinstance(stream.begin, int):
        return at_time(stream.begin)
    return {"ShardIteratorType": TRIM_HORIZON}


def first(client: KinesisClient, stream: str, shard: str, begin: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first record from a place on; None where there is none yet, or no more."""
    for page in pages(client, stream, shard, begin, limit=1):
        if page.records:
            return page.records[0]
        if page.at_tip:
            return None
    return None


def last(
    client: KinesisClient, stream: str, shard: str, begin: Mapping[str, Any], until_ms: int
) -> dict[str, Any] | None:
    """The newest record from a place on, or the first one that came after ``until_ms``; None where there is none."""
    found: dict[str, Any] | None = None
    for page in pages(client, stream, shard, begin):
        if page.records:
            found = page.records[-1]
        if page.at_tip or (found is not None and arrival_ms(found) > until_ms):
            return found
    return found


def check_whole(client: KinesisClient, found: FoundStream, shard: str, position: ShardPosition) -> None:
    """Checks that Kinesis still has all records of a shard after a position.

    Raises:
        KinesisDataLost: It may have deleted some.
    """
    if position.seen + found.retention_ms >= client.now_ms:
        return
    if position.after:
        place = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": position.after}
        try:
            oldest = first(client, found.name, shard, place)
        except CallRefused:
            oldest = None
        if oldest is not None and oldest["SequenceNumber"] == position.after:
            return
    detail = (
        f"shard {shard} was last read at {text_of(position.seen)}, and its records are kept for "
        f"{retention_text(found.retention_hours)}: records that came since may be gone"
    )
    raise KinesisDataLost(source=f"kinesis {found.name}", detail=detail)


def retention_text(hours: int) -> str:
    """A number of hours as text, in days where they are whole ones."""
    days, rest = divmod(hours, HOURS_A_DAY)
    number, unit = (hours, "hour") if rest else (days, "day")
    return f"{number} {unit}" + ("" if number == 1 else "s")


def text_of(ms: int) -> str:
    """A time, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000))


def arrival_ms(record: Mapping[str, Any]) -> int:
    """When a record came, in ms since 1970."""
    return _ms(record["ApproximateArrivalTimestamp"])


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _unreadable(name: str, error: CallRefused) -> KinesisSourceUnreadable:
    if error.code == _NOT_THERE:
        fix = f"aws kinesis create-stream --stream-name {name} --shard-count 1"
        return KinesisSourceUnreadable(source=f"kinesis {name}", detail="there is no such stream", fix=fix)
    return KinesisSourceUnreadable(
        source=f"kinesis {name}",
        detail=f"Kinesis refuses it with {error.code}",
        fix="correct the options of the source",
    )
