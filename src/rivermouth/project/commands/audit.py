"""What a door does to prove that every record is in exactly one place."""

from __future__ import annotations

from collections.abc import Sequence

from rivermouth.engine.audit.audit import FlowAudit, audit_flow
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.known_tables import where_there
from rivermouth.project.resolved.orders import orders
from rivermouth.project.resolved.resolved_project import ResolvedProject


def audited(project: ResolvedProject, names: Sequence[str], hooks: RunHooks = NO_HOOKS) -> list[FlowAudit]:
    """What an audit of these flows, or of all, finds, in the order of the file; changes nothing.

    Raises:
        RivermouthError: What is wrong with the project, or keeps a flow from its table or its topics.
    """
    chosen = {job.flow.name: job for job in orders(project, names)}
    with ManagedSession(project, hooks) as spark:
        return [*where_there(chosen, names, lambda flow: audit_flow(spark, chosen[flow])).values()]
