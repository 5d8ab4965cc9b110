"""What a door does to prove that every record is in exactly one place."""

from __future__ import annotations

from collections.abc import Sequence

from rivermouth.engine.audit import FlowAudit, audit_flow
from rivermouth.project.families import where_there
from rivermouth.project.managed_session import NOBODY, Door, Spark
from rivermouth.project.orders import orders
from rivermouth.project.resolved import ResolvedProject


def audited(project: ResolvedProject, names: Sequence[str], door: Door = NOBODY) -> list[FlowAudit]:
    """What an audit of these flows, or of all, finds, in the order of the file; changes nothing.

    Raises:
        RivermouthError: What is wrong with the project, or keeps a flow from its table or its topics.
    """
    chosen = {order.flow.name: order for order in orders(project, names)}
    with Spark(project, door) as spark:
        return [*where_there(chosen, names, lambda flow: audit_flow(spark, chosen[flow])).values()]
