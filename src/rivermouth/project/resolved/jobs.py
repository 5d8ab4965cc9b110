"""What a door's work is about: the flows of a project, with everything resolved that a run of them needs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.project import table_per_topic
from rivermouth.engine.flow.jobs import FamilyJob, FlowJob, Job
from rivermouth.errors import ArgumentInvalid
from rivermouth.project.resolved.known_tables import state_of, with_children
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.static_checks import validate_static

if TYPE_CHECKING:
    from rivermouth.errors.base import SettingPath
    from rivermouth.spec import Flow

DEBUG_OFFSETS: Final = 1000
"""The most offsets that a trial (``debug``) reads: in one run, or in each batch if it follows."""


def orders(project: ResolvedProject, names: Sequence[str] = ()) -> list[FlowJob]:
    """The flows of these names, or all, with everything resolved that their work needs.

    A family is replaced by its children that are kept in the lake or named in the file.

    Raises:
        FlowUnknown: The project has none of this name.
        RivermouthError: What else is wrong with the project, as far as can be said without Spark and a broker.
    """
    check_static(project, names)
    known = with_children(project)
    return [order_of(known, flow) for flow in known.flows(tuple(names))]


def run_jobs(project: ResolvedProject, names: Sequence[str] = (), *, follow: bool = False) -> list[Job]:
    """The same for a run, which finds the children of families itself; of those that are named only these.

    Raises:
        FlowUnknown: The project has none of this name.
        ArgumentInvalid: A flow shall follow and has ``ending_offsets``.
        RivermouthError: What else is wrong with the project, as far as can be said without Spark and a broker.
    """
    check_static(project, names)
    known = with_children(project)
    wanted = {known.flow(name).name for name in names or project.spec.flows}
    chosen: list[Job] = []
    for name, spec in project.spec.flows.items():
        topics = {table_per_topic.parted(each)[1] for each in wanted if table_per_topic.is_child_of(each, name)}
        if name not in wanted and not topics:
            continue
        flow = project.flow(name)
        if follow and flow.ending_offsets is not None:
            raise ArgumentInvalid(
                at=project.at("flows", name, "ending_offsets"),
                argument="--follow",
                detail=f"flow {name} ends at ending_offsets",
                fix=f"rivermouth run {name}, without --follow; or remove ending_offsets",
            )
        whole = name in wanted
        chosen.append(_family(known, flow, None if whole else topics) if spec.is_family else order_of(known, flow))
    return chosen


def check_static(project: ResolvedProject, names: Sequence[str] = ()) -> None:
    """Checks the project as far as possible without Spark and a broker, and that it has these flows.

    Raises:
        FlowUnknown: One of the flows is missing.
        RivermouthError: The problem of the project.
    """
    project.flows(tuple(name for name in names if not table_per_topic.is_child(name)))
    validate_static(project)


def order_of(project: ResolvedProject, flow: Flow) -> FlowJob:
    """A flow that the project gave, with everything resolved that its work needs.

    Raises:
        RivermouthError: What is wrong with the project.
    """
    chosen = _debugged(flow) if project.debug else flow
    servers, options = project.bootstrap_servers, project.kafka_options()
    return FlowJob(
        chosen,
        project.places_of(flow),
        servers,
        options,
        at=project.at("flows", flow.name),
        place=_place(project, flow),
        source=None if flow.source is None else project.source_of(flow),
        snapshots=project.snapshots_of(flow),
    )


def _place(project: ResolvedProject, flow: Flow) -> Callable[[SettingPath], str | None]:
    """Where the settings of a flow stand in the project's file."""
    return lambda path: project.at("flows", flow.name, *path)


def _family(project: ResolvedProject, flow: Flow, topics: Collection[str] | None) -> FamilyJob:
    return FamilyJob(
        flow,
        state_of(project, flow),
        project.bootstrap_servers,
        project.kafka_options(),
        child=functools.partial(order_of, project),
        others=tuple(
            project.places_of(each) for each in project.flows() if not table_per_topic.is_child_of(each.name, flow.name)
        ),
        only=None if topics is None else frozenset(topics),
        at=project.at("flows", flow.name),
        place=_place(project, flow),
        source=None if flow.source is None else project.source_of(flow),
    )


def each_of(chosen: Sequence[Job], change: Callable[[FlowJob], FlowJob]) -> list[Job]:
    """The orders, each changed; those of children when they are found."""

    def changed(job: Job) -> Job:
        if isinstance(job, FlowJob):
            return change(job)
        make = job.child
        return replace(job, child=lambda flow: change(make(flow)))

    return [changed(job) for job in chosen]


def updating(chosen: Sequence[Job]) -> list[Job]:
    """The orders, with the wish that schemas are inferred again where they are inferred.

    Raises:
        ArgumentInvalid: None is.
    """
    if not any(job.flow.infers for job in chosen):
        detail, fix = "no flow that would run infers its schema", "format: {type: json, schema: infer}"
        raise ArgumentInvalid(at=chosen[0].at, argument="--update-schema", detail=detail, fix=fix)
    return each_of(chosen, lambda job: job.starting(update_schema=job.flow.infers))


def check_decision(project: ResolvedProject, chosen: Sequence[Job]) -> None:
    """Checks that exactly one flow would run, and that it is no trial.

    Raises:
        ArgumentInvalid: Several flows would run, or it is a trial.
    """
    names = [name for job in chosen for name in _names(job)]
    flow = names[0] if len(names) == 1 else "FLOW"
    if len(chosen) == 1 and isinstance(chosen[0], FamilyJob) and len(names) != 1:
        flow = f"{chosen[0].flow.name}.TOPIC"
    if len(names) != 1:
        detail, fix = "it is about one flow, and several would run", f"rivermouth run {flow} ..."
        raise ArgumentInvalid(argument="decision", detail=detail, fix=fix)
    if project.debug:
        # A trial's table is another one, and the bound of a trial is worked out before the decision is.
        detail, fix = "it takes no decision", f"rivermouth run {flow} ..., without --debug"
        raise ArgumentInvalid(argument="--debug", detail=detail, fix=fix)


def _names(job: Job) -> Sequence[str]:
    """The flows that would run, as far as they are known; those of a whole family are several."""
    if isinstance(job, FlowJob):
        return (job.flow.name,)
    topics = (table_per_topic.STAND_IN, table_per_topic.STAND_IN) if job.only is None else sorted(job.only)
    return tuple(f"{job.flow.name}.{topic}" for topic in topics)


def _debugged(flow: Flow) -> Flow:
    limit = min(flow.trigger.max_offsets or DEBUG_OFFSETS, DEBUG_OFFSETS)
    trigger = flow.trigger.model_copy(update={"max_offsets": limit, "min_offsets": None, "max_delay": None})
    # The group's offsets are the real flow's.
    return flow.model_copy(update={"trigger": trigger, "group_id": None})
