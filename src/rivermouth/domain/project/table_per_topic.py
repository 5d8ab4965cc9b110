"""A flow whose table name has a placeholder is a family: it defines a child flow for each topic. Pure values.

A child is a flow like any other: one topic, one table with a ledger of its own. Its name is ``FLOW.TOPIC``; a flow's
own name has no dot, so the first dot separates the two. In a flow that reads a table, each value of a column of that
table takes the place of a topic (``domain/project/table_per_value.py``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.domain.project.table_per_value import is_routed, routed_child
from rivermouth.spec import EndingOffsets, StartingOffsets

if TYPE_CHECKING:
    from rivermouth.spec import Flow

STAND_IN: Final = "*"
"""No topic has this name; it is used for all topics that a pattern may find, if none is known."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a family in the lake.

    Attributes:
        topics: Those whose tables were begun, sorted.
        first: Those that the family's first run found; None before that run.
    """

    topics: tuple[str, ...] = ()
    first: frozenset[str] | None = None

    def is_late(self, topic: str) -> bool:
        """Whether a topic appeared after the family was begun; such a one is read from its beginning."""
        return self.first is not None and topic not in self.first


def parted(name: str) -> tuple[str, str]:
    """The family's name and the topic of a child's name; no topic in the name of another flow."""
    family, _, topic = name.partition(".")
    return family, topic


def is_child(name: str) -> bool:
    """Whether this is the name of a child."""
    return "." in name


def is_child_of(name: str, family: str) -> bool:
    """Whether this is the name of a child of ``family``."""
    return name.startswith(f"{family}.")


def named_topics(family: Flow) -> tuple[str, ...]:
    """The topics that a family names itself, sorted; none where it has a pattern."""
    return tuple(sorted({*family.topics, *family.assign}))


def reads(family: Flow, topic: str) -> bool:
    """Whether a topic of this name belongs to the family, as it is written now."""
    if family.routed_by is not None:
        return is_routed(topic)
    if family.topic_pattern is None:
        return topic in named_topics(family)
    with suppress(re.error):
        return re.fullmatch(family.topic_pattern, topic) is not None
    return False  # what is wrong with the pattern is told of the project


def child_of(family: Flow, topic: str, *, is_late: bool = False) -> Flow:
    """The flow that carries one topic of a family into the topic's own table.

    Args:
        family: The flow as it is written.
        topic: The topic.
        is_late: Whether it appeared after the family was begun: then it is read from its beginning.
    """
    if family.routed_by is not None:
        return routed_child(family, topic, is_late=is_late)
    start, end = family.starting_offsets, family.ending_offsets
    if is_late:
        start = StartingOffsets(kind="earliest")
    elif start.kind == "offsets":
        own = {topic: start.offsets[topic]} if topic in start.offsets else {}
        start = start.model_copy(update={"offsets": own}) if own else StartingOffsets(kind="earliest")
    if end is not None and end.kind == "offsets":
        own = {topic: end.offsets[topic]} if topic in end.offsets else {}
        end = end.model_copy(update={"offsets": own}) if own else EndingOffsets(kind="latest")
    assigned = topic in family.assign
    return family.model_copy(
        update={
            "name": f"{family.name}.{topic}",
            "topics": () if assigned else (topic,),
            "topic_pattern": None,
            "assign": {topic: family.assign[topic]} if assigned else {},
            "starting_offsets": start,
            "ending_offsets": end,
            # As long as the flow had one topic it wrote that one's table itself.
            "previously": f"{family.previously}.{topic}" if family.previously else family.name,
        }
    )


def makes_table(family: Flow, table: str) -> bool:
    """Whether a table of this name may be one of the family's."""
    pattern = re.sub(r"\\\{[^{}]*\\\}", "[A-Za-z0-9_]+", re.escape(family.table.name))
    return family.is_family and re.fullmatch(pattern, table) is not None


def beyond(family: Flow, kept: Collection[str], found: Iterable[str]) -> tuple[str, ...]:
    """Of the topics that were found those that have no table yet, if there would be too many; else none."""
    fresh = tuple(sorted(set(found) - set(kept)))
    return fresh if fresh and len(kept) + len(fresh) > family.table.max_tables else ()


def deleted_topic(child: Flow) -> str:
    """What is said of a child whose topic was deleted."""
    return f"topic {parted(child.name)[1]} is not there any more"
