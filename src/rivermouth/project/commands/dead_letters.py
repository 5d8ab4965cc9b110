"""What a door does with dead letters: list, show, replay, discard. Also while the flow runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rivermouth.engine.dead_letters.browse import Letter, LetterGroup, list_letters, show_letters
from rivermouth.engine.events import Replayed, StillFailing
from rivermouth.engine.run import requests
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.commands.as_writer import perform_as_writer
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.jobs import orders
from rivermouth.project.resolved.known_tables import where_there
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.rows.dead_letter import DeadLetterFilter


def listed(
    project: ResolvedProject, names: Sequence[str], wanted: DeadLetterFilter, hooks: RunHooks = NO_HOOKS
) -> list[LetterGroup]:
    """The dead letters of these flows, or of all, by flow, status, stage, reason and field.

    Raises:
        RivermouthError: What is wrong with the project.
    """
    chosen = orders(project, names)
    with ManagedSession(project, hooks) as spark:
        return [group for job in chosen for group in list_letters(for_flow(spark), job, wanted)]


def shown(
    project: ResolvedProject, names: Sequence[str], wanted: DeadLetterFilter, *, limit: int, hooks: RunHooks = NO_HOOKS
) -> list[Letter]:
    """At most ``limit`` dead letters of each of these flows, whole: what they hold is handed out.

    Raises:
        RivermouthError: What is wrong with the project.
    """
    chosen = orders(project, names)
    with ManagedSession(project, hooks) as spark:
        return [letter for job in chosen for letter in show_letters(for_flow(spark), job, wanted, limit)]


def replayed(
    project: ResolvedProject,
    names: Sequence[str],
    wanted: DeadLetterFilter,
    *,
    dry_run: bool = False,
    hooks: RunHooks = NO_HOOKS,
) -> list[Replayed]:
    """Tries open dead letters again by the flows as they are now; those that pass go into the tables.

    While a flow runs with ``--follow`` its own writer does it between two batches; a run that only drains is
    waited for.

    Raises:
        RequestUnanswered: The flow's writer tried and failed.
        RivermouthError: What else is wrong.

    Guarantees:
        Run twice: the second time moves none. Stopped half-way: rows that are in the table already are only
        marked by the next replay.
    """
    answers = _performed(project, names, requests.Request("replay", wanted, dry_run), hooks)
    return [_replayed(answer) for answer in answers]


def discarded(
    project: ResolvedProject,
    names: Sequence[str],
    wanted: DeadLetterFilter,
    *,
    dry_run: bool = False,
    hooks: RunHooks = NO_HOOKS,
) -> dict[str, int]:
    """Gives open dead letters up; how many of each flow. They stay in their table as ``discarded``.

    Raises:
        RequestUnanswered: The flow's writer tried and failed.
        RivermouthError: What else is wrong.

    Guarantees:
        Run twice: the second time finds none.
    """
    answers = _performed(project, names, requests.Request("discard", wanted, dry_run), hooks)
    return {answer["flow"]: answer["discarded"] for answer in answers}


def _replayed(answer: dict[str, Any]) -> Replayed:
    """What a writer answered, which may have gone through a file; one of an earlier release tells no reasons."""
    reasons = tuple(StillFailing(**each) for each in answer.get("reasons", ()))
    return Replayed(**{**answer, "reasons": reasons})


def _performed(
    project: ResolvedProject, names: Sequence[str], request: requests.Request, hooks: RunHooks
) -> list[dict[str, Any]]:
    chosen = {job.flow.name: job for job in orders(project, names)}
    with ManagedSession(project, hooks) as spark:
        done = where_there(chosen, names, lambda flow: _one(spark, chosen[flow], request, hooks))
    return [{"flow": flow, **answer} for flow, answer in done.items()]


def _one(spark: SparkSession, job: FlowJob, request: requests.Request, hooks: RunHooks) -> dict[str, Any]:
    place = job.places.dead_letter_table
    if not delta_table.exists(files_for(place, spark), place):
        # Opening the flow would make its table.
        if request.kind == "discard":
            return {"discarded": 0}
        return asdict(Replayed(job.flow.name, "", tried=0, replayed=0, remaining=0, dry_run=request.dry_run))
    return perform_as_writer(spark, job, request, hooks)
