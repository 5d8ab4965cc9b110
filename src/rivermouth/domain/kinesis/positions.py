"""How far a query has read the shards of Kinesis: what is in a checkpoint and in a ledger entry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

_KEY: Final = "kinesis"
_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """How far a shard has been read.

    Attributes:
        after: The sequence number of the last record that was read; empty where none was.
        seen: No record that came before this time is unread, in ms since 1970.
        ended: Whether the shard is closed and all of it has been read.
    """

    after: str = ""
    seen: int = 0
    ended: bool = False

    def is_before(self, sequence_number: str) -> bool:
        """Whether a record of the shard is behind the position."""
        return not self.after or int(sequence_number) > int(self.after)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream has been read.

    Attributes:
        created: When the stream was made, in ms since 1970: another one of this name has another.
        begin: Where a shard without read records begins: ``TRIM_HORIZON``, or a time in ms since 1970.
        begun: When it was first looked at, by Kinesis' clock, in ms since 1970.
        shards: By id.
    """

    created: int
    begin: str | int
    begun: int
    shards: Mapping[str, ShardPosition] = field(default_factory=dict)


Positions = Mapping[str, StreamPosition]
"""Of each stream."""


def to_body(positions: Positions) -> dict[str, Any]:
    """As Spark keeps it."""
    return {_KEY: _FORM, "streams": {name: asdict(each) for name, each in positions.items()}}


def from_body(body: Mapping[str, Any]) -> dict[str, StreamPosition]:
    """The positions of their JSON."""
    found = {}
    for name, each in body["streams"].items():
        shards = {shard: ShardPosition(**position) for shard, position in each["shards"].items()}
        found[name] = StreamPosition(**{**each, "shards": shards})
    return found


def is_kinesis(body: Any) -> bool:
    """Whether offsets of a source are those of Kinesis."""
    return isinstance(body, dict) and body.get(_KEY) == _FORM


def readable(listed: Mapping[str, tuple[str, ...]], position: StreamPosition) -> list[str]:
    """The shards that can be read now: those that have not ended, and whose parents have.

    Args:
        listed: The shards that the stream has, each with its parents.
        position: How far they have been read. A parent that the stream has no longer does not count.
    """
    ended = {shard for shard, each in position.shards.items() if each.ended}
    return [
        shard
        for shard, parents in listed.items()
        if shard not in ended and all(parent in ended for parent in parents if parent in listed)
    ]


def with_children(
    listed: Mapping[str, tuple[str, ...]], shards: Mapping[str, ShardPosition]
) -> dict[str, ShardPosition]:
    """The positions with those of shards that are new: nothing of them has been read.

    What is new came after the last record of its parents. So none of it was there before they were last looked at.

    Args:
        listed: The shards that the stream has, each with its parents.
        shards: The positions so far. Those of shards that ended, and that the stream no longer has, are left out.
    """
    found = {shard: each for shard, each in shards.items() if shard in listed or not each.ended}
    for shard, parents in sorted(listed.items()):
        if shard not in found:
            seen = [found[parent].seen for parent in parents if parent in found]
            seen = seen or [each.seen for each in found.values()]
            found[shard] = ShardPosition(seen=min(seen, default=0))
    return found


def range_start(start: Positions, end: Positions, stream: str, shard: str) -> ShardPosition:
    """Where a batch begins to read a shard.

    A batch that was planned before a crash, and that was the first, is read from where it began then.
    """
    if stream in start and start[stream].begun == end[stream].begun and shard in start[stream].shards:
        return start[stream].shards[shard]
    return ShardPosition(seen=end[stream].begun)
