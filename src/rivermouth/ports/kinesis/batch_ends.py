"""Up to where a batch reads each shard: found by a few calls for single records, without reading all of them twice."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from rivermouth.domain.kinesis.options import LATEST
from rivermouth.domain.kinesis.positions import (
    Positions,
    ShardPosition,
    StreamPosition,
    readable,
    with_children,
)
from rivermouth.errors import KinesisDataLost, KinesisSourceUnreadable
from rivermouth.ports.kinesis.kinesis_client import CallRefused, KinesisClient
from rivermouth.ports.kinesis.shards import (
    FoundStream,
    Shard,
    arrival_ms,
    at_time,
    begin_of,
    check_whole,
    describe,
    first,
    last,
    list_shards,
    text_of,
)

_SECOND_MS: Final = 1000
_LOOK_BACK_MS: Final = (10_000, 600_000)
"""Most shards get their newest record in the last seconds: the end of what is there is looked for from here on."""
_AT_ONCE: Final = 8
_DESCRIBE_EVERY_S: Final = 60.0


class BatchEnds:
    """Plans batches of a query.

    Args:
        client: Of the query.
    """

    def __init__(self, client: KinesisClient) -> None:
        self._client = client
        self._options = client.options
        self._found: dict[str, tuple[float, FoundStream]] = {}
        self._listed: dict[str, tuple[float, dict[str, Shard]]] = {}
        self._until_ms: int | None = None

    def freeze(self) -> None:
        """From now on no record is planned that comes later."""
        for name in self._options.streams:
            self._stream(name)
        self._until_ms = self._now_ms() + _SECOND_MS  # Kinesis reports whole seconds

    def beginning(self) -> Positions:
        """Where a query begins that has read nothing.

        Raises:
            KinesisSourceUnreadable: A stream cannot be read.
            KinesisThrottled: There are too many calls.
        """
        return {name: self._begun(self._stream(name)) for name in self._options.streams}

    def end(self, start: Positions) -> Positions:
        """The end of the batch that begins at ``start``; equal to it where there is nothing new.

        Raises:
            KinesisDataLost: Records may be gone that were not read.
            KinesisSourceUnreadable: A stream cannot be read.
            KinesisThrottled: There are too many calls.
        """
        ends = {}
        for name in self._options.streams:
            found = self._stream(name)
            ends[name] = self._stream_end(found, start[name] if name in start else self._begun(found))
        return ends if any(self._is_new(name, start.get(name), each) for name, each in ends.items()) else start

    def _is_new(self, name: str, start: StreamPosition | None, end: StreamPosition) -> bool:
        """Whether a batch is worth it: a stream has records, or it is a good while since they were looked for.

        A stream that keeps its records for a shorter time than another one is looked at more often.
        """
        if start is None or set(start.shards) != set(end.shards):
            return True
        patience = self._stream(name).retention_ms // 4
        pairs = [(start.shards[shard], each) for shard, each in end.shards.items()]
        return any(
            (old.after, old.ended) != (new.after, new.ended) or new.seen - old.seen > patience for old, new in pairs
        )

    def _now_ms(self) -> int:
        return self._client.now_ms or int(time.time() * 1000)

    def _stream(self, name: str) -> FoundStream:
        at, found = self._found.get(name, (0.0, None))
        if found is None or time.monotonic() - at > _DESCRIBE_EVERY_S:
            found = describe(self._client, name)
            self._found[name] = time.monotonic(), found
        return found

    def _shards(self, name: str) -> dict[str, Shard]:
        at, found = self._listed.get(name, (0.0, {}))
        if not found or time.monotonic() - at >= self._options.shard_fetch_interval_s:
            found = list_shards(self._client, name)
            self._listed[name] = time.monotonic(), found
        return found

    def _begun(self, found: FoundStream) -> StreamPosition:
        now, begin = self._now_ms(), self._options.begin
        shards = {shard: ShardPosition(seen=now) for shard in self._shards(found.name)}
        return StreamPosition(found.created, now if begin == LATEST else begin, now, shards)

    def _stream_end(self, found: FoundStream, stream: StreamPosition) -> StreamPosition:
        if stream.created != found.created:
            raise _another(found, stream)
        listed = self._shards(found.name)
        shards = dict(stream.shards)
        for shard in [shard for shard in shards if shard not in listed and not shards[shard].ended]:
            if self._options.fail_on_data_loss:
                detail = f"shard {shard} is gone, and was last read at {text_of(shards[shard].seen)}"
                raise KinesisDataLost(source=f"kinesis {found.name}", detail=detail)
            del shards[shard]
        parents = {shard: each.parents for shard, each in listed.items()}
        shards = with_children(parents, shards)
        ready = readable(parents, replace(stream, shards=shards))

        def end_of(shard: str) -> ShardPosition:
            return self._shard_end(found, stream, shard, listed[shard], shards[shard])

        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(ready)))) as threads:
            shards |= dict(zip(ready, threads.map(end_of, ready), strict=True))
        return replace(stream, shards=shards)

    def _shard_end(
        self, found: FoundStream, stream: StreamPosition, shard: str, info: Shard, position: ShardPosition
    ) -> ShardPosition:
        client, name = self._client, found.name
        if self._options.fail_on_data_loss:
            check_whole(client, found, shard, position)
        until = self._until_ms or self._now_ms() + _SECOND_MS
        head = self._head(name, stream, shard, position)
        if head is None:
            return replace(position, ended=info.is_closed, seen=position.seen if info.is_closed else self._now_ms())
        if arrival_ms(head) > until:
            return position
        cut = arrival_ms(head) + int(self._options.max_batch_duration_s * 1000)
        if cut < min(until, self._now_ms()):
            record = first(client, name, shard, at_time(cut))
            if record is not None and position.is_before(record["SequenceNumber"]):
                return ShardPosition(record["SequenceNumber"], arrival_ms(record))
        if info.is_closed:
            return replace(position, ended=True)
        newest = self._newest(name, stream, shard, position, until)
        return position if newest is None else ShardPosition(newest["SequenceNumber"], min(until, self._now_ms()))

    def _head(self, name: str, stream: StreamPosition, shard: str, position: ShardPosition) -> Mapping[str, Any] | None:
        """The first record that was not read."""
        try:
            return first(self._client, name, shard, begin_of(stream, position))
        except CallRefused as error:
            if self._options.fail_on_data_loss:
                detail = f"shard {shard} no longer knows the record that was read last ({error.code})"
                raise KinesisDataLost(source=f"kinesis {name}", detail=detail) from None
            return first(self._client, name, shard, begin_of(stream, ShardPosition()))

    def _newest(
        self, name: str, stream: StreamPosition, shard: str, position: ShardPosition, until: int
    ) -> Mapping[str, Any] | None:
        now = self._now_ms()
        for back in _LOOK_BACK_MS:
            if now - back <= position.seen:
                break
            record = last(self._client, name, shard, at_time(now - back), until)
            if record is not None and position.is_before(record["SequenceNumber"]):
                return record
        try:
            return last(self._client, name, shard, begin_of(stream, position), until)
        except CallRefused:
            return last(self._client, name, shard, begin_of(stream, ShardPosition()), until)


def _another(found: FoundStream, stream: StreamPosition) -> KinesisSourceUnreadable:
    detail = (
        f"it was made at {text_of(found.created)}, and its position is of a stream of this name that was made at "
        f"{text_of(stream.created)}"
    )
    fix = "rivermouth run --reset-checkpoint DATASET"
    return KinesisSourceUnreadable(source=f"kinesis {found.name}", detail=detail, fix=fix)
