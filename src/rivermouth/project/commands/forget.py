"""What a door does to have a person's rows and dead letters erased. Also while the flow runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.domain.ledger.erasure import ForgetReport, ForgetRequest
from rivermouth.engine.data_loss.decide import now
from rivermouth.engine.run import requests
from rivermouth.errors import ArgumentInvalid, ForgetRefused
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.project.commands.as_writer import perform_as_writer
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks, check_broker
from rivermouth.project.resolved.current_user import current_user
from rivermouth.project.resolved.jobs import orders
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.tables import chosen_one

if TYPE_CHECKING:
    from rivermouth.engine.table.describe_tables import FlowTable


def forgotten(
    project: ResolvedProject,
    name: str,
    request: ForgetRequest,
    *,
    dry_run: bool = False,
    confirm: Callable[[ForgetReport], bool] | None = None,
    hooks: RunHooks = NO_HOOKS,
) -> ForgetReport:
    """Erases those rows of a table, and those of its dead letters, for which conditions are TRUE.

    They go from the newest version of the table. What older versions hold, VACUUM deletes. Nothing brings them back: no
    replay, no rewind. While the flow runs with ``--follow`` its own writer does it between two batches; a run that only
    drains is waited for.

    Args:
        project: Its flows.
        name: ``schema.table``; the name of a flow means its table.
        request: The conditions and the reason. In a keyed table all rows of a key are erased if one of them matches.
            Dead letters are erased too if only erased rows have their Kafka key. The reason is kept, so it should name
            no person.
        dry_run: Only say what would go.
        confirm: Asked before it is done, with what would go; False lets everything stay.
        hooks: Hears what goes on.

    Returns:
        What it came to; with ``dry_run`` if nothing was done.

    Raises:
        TableUnknown: No flow writes a table of that name.
        ArgumentInvalid: No condition was given, or the table is one of dead letters.
        ForgetRefused: A condition is none, or the table's rows cannot be erased.
        RequestUnanswered: The flow's writer tried and failed.
        RivermouthError: What else is wrong.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: nothing is erased, or the next run of the flow, or
        of this, does the rest.
    """
    table = chosen_one(project, name)
    _check(table, request)
    (job,) = orders(project, [table.flow])
    check_broker(project, [job])
    erasure = replace(request, who=current_user(), at=now(), mark=uuid.uuid4().hex)
    with ManagedSession(project, hooks) as spark:
        if not delta_table.exists(files_for(table.location, spark), table.location):
            fix = f"rivermouth run {table.flow}"
            raise ForgetRefused(table=table.name, detail="it is not made yet", fix=fix)

        def ask(*, dry: bool) -> ForgetReport:
            asked = requests.Request("forget", dry_run=dry, erasure=erasure)
            return ForgetReport(**perform_as_writer(spark, job, asked, hooks))

        if dry_run or confirm is not None:
            foreseen = ask(dry=True)
            if dry_run or not foreseen.found or confirm is None or not confirm(foreseen):
                return foreseen
        return ask(dry=False)


def _check(table: FlowTable, request: ForgetRequest) -> None:
    if table.kind == "dead_letters":
        detail = f"{table.name} holds dead letters, which go with the rows of their table"
        fix = f"rivermouth tables forget {table.places.name} --dead-letters CONDITION"
        raise ArgumentInvalid(argument="TABLE", detail=detail, fix=fix)
    if request.where is None and request.dead_letters is None:
        fix = f"rivermouth tables forget {table.name} --where CONDITION"
        raise ArgumentInvalid(argument="--where", detail="nothing says what is to be erased", fix=fix)
