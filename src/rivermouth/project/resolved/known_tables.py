"""The children of families, as far as a door knows them without a run: of flows with a table for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from rivermouth.domain.project.table_per_topic import STAND_IN, Kept, child_of, is_child, named_topics
from rivermouth.engine.flow.table_per_topic import topics_of
from rivermouth.errors import ArgumentInvalid, FlowUnknown, RivermouthError, TopicMissing
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.lake.known_topics import read_kept
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.sources.table_values import TableValues
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.spec import Flow

Done = TypeVar("Done")

TIMEOUT_S: Final = 10.0


def with_children(project: ResolvedProject, *, ask: bool = False, timeout_s: float = TIMEOUT_S) -> ResolvedProject:
    """The project with the known children of each family.

    Known are the topics that are kept in the lake or named in the file. With ``ask``, also the topics that Kafka has or
    the values that a table has; a system that does not answer is left out.

    Raises:
        LakeNotReadable: What is kept cannot be read.
        RivermouthError: What is wrong with the project.
    """
    families = [project.flow(name) for name, flow in project.spec.flows.items() if flow.is_family]
    if not families:
        return project
    reader = LakeReader(project.spark_conf, timeout_s=timeout_s)
    kept = {each.name: read_kept(reader, state_of(project, each), each) for each in families}
    if ask:
        kept = {each.name: _asked(project, each, kept[each.name], timeout_s) for each in families}
    return replace(project, kept=kept)


def state_of(project: ResolvedProject, family: Flow) -> FlowPlaces:
    """Places by which the lake and the state of a family are known."""
    topic = next(iter(named_topics(family)), STAND_IN)
    return project.places_of(child_of(family, topic))


def names_of(project: ResolvedProject, name: str) -> list[str]:
    """The flow of this name, or the children of a family that are known.

    Raises:
        FlowUnknown: The project has none of this name.
        LakeNotReadable: What is kept of the family cannot be read.
    """
    return [flow.name for flow in with_children(project).flows((name,))]


def flows_called(project: ResolvedProject | None, name: str) -> list[str]:
    """As ``names_of``, with the topics that Kafka has; none where the project has no such flow."""
    if project is None:
        return []
    try:
        return [flow.name for flow in with_children(project, ask=True).flows((name,))]
    except FlowUnknown:
        return []


def where_there(flows: Iterable[str], named: str | Sequence[str], work: Callable[[str], Done]) -> dict[str, Done]:
    """What comes of the work on each of these flows; children of a family whose topic was deleted are left out.

    Raises:
        TopicMissing: The topic of a flow that was named itself is not there.
    """
    named = (named,) if isinstance(named, str) else named
    done = {}
    for flow in flows:
        try:
            done[flow] = work(flow)
        except TopicMissing:
            if flow in named or not is_child(flow):
                raise
    return done


def check_one(project: ResolvedProject, name: str, argument: str = "FLOW") -> None:
    """Checks that this is not the name of a family, where one flow is needed.

    Raises:
        ArgumentInvalid: It is the name of a family.
    """
    flow = project.spec.flows.get(name)
    if flow is not None and flow.is_family:
        each = "topics" if flow.routed_by is None else f"values of {flow.routed_by}"
        detail = f"{name} is a flow for each of its {each}, and one is meant"
        fix = f"{name}.TOPIC" if flow.routed_by is None else f"{name}.VALUE"
        raise ArgumentInvalid(at=project.at("flows", name), argument=argument, detail=detail, fix=fix)


def _asked(project: ResolvedProject, family: Flow, kept: Kept, timeout_s: float) -> Kept:
    try:
        source = project.source_of(family)
        if source is not None and family.routed_by is not None:
            reader = LakeReader(project.spark_conf, timeout_s=timeout_s)
            found = TableValues(reader, source, family.routed_by, family=family.name).topics(family)
        else:
            with Kafka(project.bootstrap_servers, project.kafka_options(), timeout_s) as kafka:
                found = topics_of(family, kafka)
    except RivermouthError:
        return kept  # each child says so itself
    return replace(kept, topics=tuple(sorted({*kept.topics, *found})))
