"""Rebuilds the table of a flow from the table that the flow reads, for the Python API and the command line."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivermouth.domain.ledger.ledger_rebuild import Rebuild
from rivermouth.engine.data_loss.decide import now
from rivermouth.engine.events import Event, TableEmptied
from rivermouth.errors import ArgumentInvalid, RebuildRefused
from rivermouth.project.commands import run_flows
from rivermouth.project.commands.managed_session import NO_HOOKS, RunHooks
from rivermouth.project.resolved.jobs import orders
from rivermouth.project.resolved.known_tables import check_one
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.engine.flow.jobs import FlowJob, FlowOutcome


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild of a table.

    Attributes:
        table: ``schema.table``.
        rows_before: Rows that were taken out; None if the table was not emptied.
        rows_after: Rows that it has now; None if it is not there.
        outcome: How the flow's run ended.
    """

    table: str
    rows_before: int | None
    rows_after: int | None
    outcome: FlowOutcome


def order_of(project: ResolvedProject, name: str) -> FlowJob:
    """The job of the one flow, after all checks of a rebuild that need no Spark.

    Raises:
        RebuildRefused: It does not read a table.
        ArgumentInvalid: The project is a trial.
        RivermouthError: What is wrong with the project.
    """
    check_one(project, name)
    (job,) = orders(project, [name])
    if project.debug:
        raise ArgumentInvalid(argument="debug", detail="a trial's table cannot be rebuilt", fix="project.run()")
    if job.snapshots is not None:
        raise RebuildRefused(
            at=job.at,
            flow=name,
            table=job.places.table,
            detail="the flow reads snapshots, and the next one brings all rows",
            fix=f"rivermouth run {name}",
        )
    if job.source is None:
        raise RebuildRefused(
            at=job.at,
            flow=name,
            table=job.places.table,
            detail="the flow does not read a table, and what Kafka dropped would be gone",
            fix="source: {table: ...} instead of topics:, with the table of a raw flow",
        )
    return job


def rebuild(
    project: ResolvedProject, name: str, *, who: str = "", why: str = "", hooks: RunHooks = NO_HOOKS
) -> Rebuilt:
    """Empties the table of one flow, and carries all that its source has into it.

    Args:
        project: Its flows.
        name: A flow with ``source: {table: ...}``.
        who: Who wants it, for the ledger.
        why: The reason, for the ledger.
        hooks: Hears of it, and may stop it.

    Raises:
        RebuildRefused: The flow does not read a table, or its own has rows that the source could not bring back.
        RivermouthError: Nothing was run at all.

    Guarantees:
        Run twice: emptied and made twice, with the same rows. Stopped anywhere: the table is as it was, or emptied and
        partly filled, and the next run of the flow carries the rest.
    """
    job = order_of(project, name)
    rows_before: list[int] = []

    def hear(event: Event) -> None:
        if isinstance(event, TableEmptied):
            rows_before.append(event.rows)
        hooks.listener(event)

    wanted = Rebuild(who=who, at=now(), why=why, mark=uuid.uuid4().hex)
    heard = replace(hooks, listener=hear)
    outcome, rows = run_flows.drained(project, job.starting(rebuild=wanted), heard)
    return Rebuilt(job.places.name, rows_before[0] if rows_before else None, rows, outcome)
