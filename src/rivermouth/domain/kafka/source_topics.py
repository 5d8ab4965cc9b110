"""Topics as a flow reads them, and what became of a consumer group's offsets. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a flow reads it.

    Attributes:
        name: Its name.
        id: Kafka's UUID of it in Kafka's own notation; a topic that is created again gets another one. None
            where the service has no ids.
        partitions: The partitions that the flow reads, ascending; all of them unless it assigns some.
    """

    name: str
    id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """What became of offsets that were to be committed to a consumer group.

    Attributes:
        group: The group.
        committed: Whether the group now has these offsets.
        detail: Why not, in one sentence; empty if committed.
    """

    group: str
    committed: bool
    detail: str = ""
