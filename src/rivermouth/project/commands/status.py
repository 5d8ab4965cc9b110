"""How a project's flows are doing, found without a Spark session; ``run_flows`` loads Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.engine.flow.failures import read_failure
from rivermouth.engine.report.checkpoints import CheckpointReport, checkpoint_report
from rivermouth.engine.report.flow_status import FlowStatus
from rivermouth.engine.report.status import failed_then, project_status
from rivermouth.errors import LakeNotReadable
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.project.resolved.jobs import check_static
from rivermouth.project.resolved.known_tables import state_of, with_children
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.spec import Flow


def status(project: ResolvedProject, names: Sequence[str] = (), *, timeout_s: float = 1.0) -> list[FlowStatus]:
    """How the flows of these names, or all, are doing, in the order of the file; changes nothing.

    Args:
        project: Its flows.
        names: Flows; all where empty.
        timeout_s: Bound on the broker's answer, in seconds.

    Raises:
        RivermouthError: The project itself is wrong. A flow in trouble, and a broker that does not answer, are
            told in the statuses.
    """
    check_static(project, names)
    # Topics that have no table yet are told as well.
    known = with_children(project, ask=True, timeout_s=timeout_s)
    flows = known.flows(tuple(names))
    found = project_status(
        [(flow, known.places_of(flow)) for flow in flows],
        bootstrap_servers=project.bootstrap_servers,
        options=project.kafka_options(),
        spark_conf=project.spark_conf,
        sources={
            flow.name: source
            for flow in flows
            if (source := known.source_of(flow) or known.snapshots_of(flow)) is not None
        },
        timeout_s=timeout_s,
    )
    families = [flow for name, flow in project.spec.flows.items() if flow.is_family and (not names or name in names)]
    return [*found, *_of_families(known, families, timeout_s)]


def _of_families(known: ResolvedProject, families: Sequence[Flow], timeout_s: float) -> Iterator[FlowStatus]:
    """Of families themselves: of those that have no table, and those that failed to look for their topics."""
    reader = LakeReader(known.spark_conf, timeout_s=timeout_s)
    for family in families:
        status = FlowStatus(family.name, family.table.name, trigger_s=family.trigger.every)
        try:
            status = replace(status, failure=read_failure(reader, state_of(known, family).failures, family.name))
        except LakeNotReadable as error:
            status = replace(status, code=error.code, message=error.message, hint=error.next_step)
        if status.failure is not None:
            status = replace(status, message=failed_then(status.failure))
        elif status.code is None:
            status = replace(status, message=_childless(family))
        if status.failure is not None or not known.flows((family.name,)):
            yield status


def _childless(family: Flow) -> str:
    what = "topic" if family.routed_by is None else f"value of {family.routed_by}"
    return f"no {what} has a table yet"


def checkpoints(project: ResolvedProject, name: str) -> list[CheckpointReport]:
    """The checkpoint of one flow compared with its ledger, and what a start would do; changes nothing.

    For a family there is a report for each child.

    Raises:
        FlowUnknown: The project has no flow of this name.
        RivermouthError: The project itself is wrong, or the lake does not answer.
    """
    check_static(project, [name])
    known = with_children(project)
    return [
        checkpoint_report(flow, known.places_of(flow), spark_conf=project.spark_conf) for flow in known.flows((name,))
    ]
