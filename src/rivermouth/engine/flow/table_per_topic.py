"""The flows that a family has now: compares its topics in Kafka with those that the lake's state lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from rivermouth.domain.project.distinct_locations import check_beside
from rivermouth.domain.project.table_per_topic import beyond, child_of, named_topics
from rivermouth.engine.flow.lost_state import lost_at
from rivermouth.errors import (
    BrokerUnreachable,
    ErasureUnfinished,
    LakeNotReadable,
    LakeNotWritable,
    LookupKeysTwice,
    LookupTableMissing,
    LookupTooLarge,
    PlaceInvalid,
    RivermouthError,
    SinkFenced,
    SinkUnreachable,
    SourceBehind,
    TableShared,
    TablesTooMany,
    TokenNotMade,
    TopicPatternEmpty,
)
from rivermouth.ports.lake.known_topics import begin, keep, read_kept

if TYPE_CHECKING:
    from rivermouth.domain.project.table_per_topic import Kept
    from rivermouth.engine.flow.jobs import FamilyJob, FlowJob
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

# A service that runs on waits for these to be over.
PASSING: Final = (
    BrokerUnreachable,
    ErasureUnfinished,
    LakeNotReadable,
    LakeNotWritable,
    LookupKeysTwice,
    LookupTableMissing,
    LookupTooLarge,
    SinkFenced,
    SinkUnreachable,
    SourceBehind,
    TokenNotMade,
)
_NAMED: Final = 3


class Finder(Protocol):
    """What has the topics of families, or the values of a column in their place."""

    def topics(self, flow: Flow) -> Collection[str]:
        """Those that a family finds."""

    def describe(self, names: Collection[str]) -> Collection[str]:
        """Those of these that are there."""


@dataclass(frozen=True, slots=True)
class DiscoveredTables:
    """What one look at a family's topics found.

    Attributes:
        orders: Children that can run and do not run yet, by topic.
        refused: Why others cannot, by the child's name.
        problem: Why no new one is made at all.
    """

    orders: list[FlowJob] = field(default_factory=list)
    refused: Mapping[str, RivermouthError] = field(default_factory=dict)
    problem: RivermouthError | None = None


def topics_of(family: Flow, kafka: Finder) -> tuple[str, ...]:
    """The topics that a family has now: those that it names, there or not, or those that its pattern finds.

    Of a family that is parted by a column of its source they are that column's values.

    Raises:
        TopicPatternEmpty: The pattern finds none.
        SourceNotMade: There is no source yet.
        BrokerUnreachable: No answer in time.
    """
    return tuple(kafka.topics(family)) if family.is_found else named_topics(family)


def look(
    job: FamilyJob, files: LakeFiles, kafka: Finder, *, known: Collection[str] = (), waits: bool = False
) -> DiscoveredTables:
    """The children that shall run, without those of ``known``; new ones are kept in the lake.

    Args:
        job: The family.
        files: The lake's small files.
        kafka: The cluster, or the table, that has them.
        known: Topics whose children run already.
        waits: Whether the family is begun even if it has no topic yet: all that come are late then.

    Raises:
        TopicPatternEmpty: No topic matches the pattern.
        RivermouthError: The broker or the lake does not answer.

    Guarantees:
        Run twice: the second time finds the same children. Stopped half-way: what was not kept is found again, and
        still counts as there at the beginning if it was.
    """
    try:
        there = topics_of(job.flow, kafka)
    except TopicPatternEmpty:
        if waits:
            begin(files, job.places, job.flow, ())
        raise
    if known and {*there} <= {*known}:
        return DiscoveredTables()  # as nearly always: the lake is not asked
    # A misspelt name is reported by its flow, and not kept.
    made = {*there} if job.flow.is_found else {*kafka.describe(there)}
    kept = _kept(job, files, made)
    found, fresh = _looked(job, there, begin(files, job.places, job.flow, kept.first or made), known)
    for topic in fresh:
        if topic in made:
            keep(files, job.places, job.flow, topic)
    return found


def foreseen(job: FamilyJob, files: LakeFiles, kafka: Finder) -> DiscoveredTables:
    """What ``look`` would find for a run; reads only.

    Raises:
        TopicPatternEmpty: No topic matches the pattern.
        RivermouthError: The broker or the lake does not answer.
    """
    there = topics_of(job.flow, kafka)
    found, _ = _looked(job, there, _kept(job, files, there), ())
    return found


def _kept(job: FamilyJob, files: LakeFiles, there: Collection[str]) -> Kept:
    """What is kept of a family; where that was deleted, the topics whose tables lost their state are the first ones.

    A topic without a table came later, or else it would have one: it is read from its beginning.
    """
    kept = read_kept(files, job.places, job.flow)
    if kept.first is not None:
        return kept
    children = {each: job.child(child_of(job.flow, each)) for each in there}
    begun = frozenset(each for each, child in children.items() if lost_at(child.flow, files, child.places) is not None)
    return replace(kept, first=begun) if begun else kept


def _looked(
    job: FamilyJob, there: Sequence[str], kept: Kept, known: Collection[str]
) -> tuple[DiscoveredTables, list[str]]:
    """What was found, and the topics of it that are to be kept."""
    # One that was named and is not there says so itself.
    named = there if job.only is None else sorted(job.only)
    wanted = [each for each in named if each not in known]
    fresh = [each for each in wanted if each not in kept.topics]
    too_many = beyond(job.flow, kept.topics, fresh)
    children = {each: job.child(child_of(job.flow, each, is_late=kept.is_late(each))) for each in wanted}
    refused = _refused(job, kept, {} if too_many else {each: children[each] for each in fresh})
    made = [each for each in fresh if not too_many and children[each].flow.name not in refused]
    going = sorted({*wanted} - {*fresh} | {*made})
    problem = _too_many(job.flow, kept, too_many) if too_many else None
    return DiscoveredTables([children[each] for each in going], refused, problem), made


def _refused(job: FamilyJob, kept: Kept, fresh: Mapping[str, FlowJob]) -> dict[str, RivermouthError]:
    """Why new children cannot be, by name: others have their table."""
    refused: dict[str, RivermouthError] = {}
    if not fresh:
        return refused
    others = [*job.others, *(job.child(child_of(job.flow, each)).places for each in kept.topics)]
    for child in fresh.values():
        try:
            check_beside(child.places, others)
        except (PlaceInvalid, TableShared) as error:
            refused[child.flow.name] = error
        else:
            others.append(child.places)
    return refused


def _too_many(family: Flow, kept: Kept, topics: Sequence[str]) -> TablesTooMany:
    most = len(kept.topics) + len(topics)
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    table = f'table: {{name: "{family.table.name}", max_tables: {most}}}'
    return TablesTooMany(
        flow=family.name,
        tables=len(kept.topics),
        count=len(topics),
        what_of="topics" if family.routed_by is None else f"values of {family.routed_by}",
        topics=", ".join(topics[:_NAMED]) + more,
        max_tables=family.table.max_tables,
        fix=f"{table}, or a narrower topic_pattern" if family.topic_pattern else table,
    )
