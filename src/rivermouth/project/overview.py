"""How a project's flows are doing, told without a Spark session; apart from ``operate``, which loads Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rivermouth.engine.checkpoints import CheckpointReport, checkpoint_report
from rivermouth.engine.status import FlowStatus, project_status
from rivermouth.project.families import with_children
from rivermouth.project.load import Project
from rivermouth.project.orders import check_static

if TYPE_CHECKING:
    from rivermouth.spec import Flow


def status(project: Project, names: Sequence[str] = (), *, timeout_s: float = 1.0) -> list[FlowStatus]:
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
    childless = [
        FlowStatus(name, flow.table.name, message=_childless(flow), trigger_s=flow.trigger.every)
        for name, flow in project.spec.flows.items()
        if flow.is_family and (not names or name in names) and not known.flows((name,))
    ]
    return [*found, *childless]


def _childless(family: Flow) -> str:
    what = "topic" if family.routed_by is None else f"value of {family.routed_by}"
    return f"no {what} has a table yet"


def checkpoints(project: Project, name: str) -> list[CheckpointReport]:
    """What lies at the checkpoint of one flow beside its ledger, and what a start would do; changes nothing.

    Of a family a report for each child.

    Raises:
        FlowUnknown: The project has no flow of this name.
        RivermouthError: The project itself is wrong, or the lake does not answer.
    """
    check_static(project, [name])
    known = with_children(project)
    return [
        checkpoint_report(flow, known.places_of(flow), spark_conf=project.spark_conf) for flow in known.flows((name,))
    ]
