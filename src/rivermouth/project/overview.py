"""How a project's flows are doing, told without a Spark session; apart from ``operate``, which loads Spark."""

from __future__ import annotations

from collections.abc import Sequence

from rivermouth.engine.checkpoints import CheckpointReport, checkpoint_report
from rivermouth.engine.status import FlowStatus, project_status
from rivermouth.project.load import Project
from rivermouth.project.validate import validate_static


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
    flows = project.flows(tuple(names))
    validate_static(project)
    return project_status(
        [(flow, project.places(flow.name)) for flow in flows],
        bootstrap_servers=project.bootstrap_servers,
        options=project.kafka_options(),
        spark_conf=project.spark_conf,
        sources={flow.name: source for flow in flows if (source := project.source(flow.name)) is not None},
        timeout_s=timeout_s,
    )


def checkpoint(project: Project, name: str) -> CheckpointReport:
    """What lies at the checkpoint of one flow beside its ledger, and what a start would do; changes nothing.

    Raises:
        FlowUnknown: The project has no flow of this name.
        RivermouthError: The project itself is wrong, or the lake does not answer.
    """
    (flow,) = project.flows((name,))
    validate_static(project)
    return checkpoint_report(flow, project.places(name), spark_conf=project.spark_conf)
