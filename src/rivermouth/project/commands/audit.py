"""What a door does to prove that every record is in exactly one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rivermouth.engine.audit.audit import FlowAudit, audit_flow
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.jobs import orders
from rivermouth.project.resolved.known_tables import where_there
from rivermouth.project.resolved.resolved_project import ResolvedProject


def _ignore(_: Any) -> None:
    """Hears, and does nothing."""


def audited(
    project: ResolvedProject,
    names: Sequence[str],
    hooks: RunHooks = NO_HOOKS,
    *,
    begin: Callable[[Sequence[str]], None] = _ignore,
    done: Callable[[FlowAudit], None] = _ignore,
) -> list[FlowAudit]:
    """What an audit of these flows, or of all, finds, in the order of the file; changes nothing.

    Args:
        project: The project.
        names: Flows; all where none is named.
        hooks: How the caller takes part.
        begin: Gets the names of all flows that will be audited, before Spark is started.
        done: Gets what the audit of a flow found, as soon as that flow is done.

    Raises:
        RivermouthError: What is wrong with the project, or keeps a flow from its table or its topics.
    """
    chosen = {job.flow.name: job for job in orders(project, names)}
    begin(tuple(chosen))
    with ManagedSession(project, hooks) as spark:

        def audit(flow: str) -> FlowAudit:
            found = audit_flow(spark, chosen[flow])
            done(found)
            return found

        return [*where_there(chosen, names, audit).values()]
