"""What a door does with a project: run, plan, validate. The shell and Python share it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.project import table_per_topic
from rivermouth.engine.events import Event, FlowFailed, Listener
from rivermouth.engine.flow.jobs import FlowJob, FlowOutcome, StartActions, located
from rivermouth.engine.open.sources import check_where
from rivermouth.engine.report.plan import FlowPlan, ahead, plan_order
from rivermouth.engine.run.requests import handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.engine.schema.kept_schemas import resolved_schema, with_columns
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import FlowBroken, FlowsFailed, ProjectProblems, RivermouthError, SchemaNotKept
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.lake_writer import LakeWriter
from rivermouth.ports.spark import session
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks, check_broker
from rivermouth.project.file.reading import raise_all
from rivermouth.project.resolved.jobs import (
    DEBUG_OFFSETS,
    check_decision,
    check_static,
    each_of,
    order_of,
    run_jobs,
    updating,
)
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.unstarted import TIMEOUT_S, noting
from rivermouth.spec import EndingOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.adoption import Adoption
    from rivermouth.spec import Flow


NO_ACTIONS: Final = StartActions()


def run(
    project: ResolvedProject,
    names: Sequence[str] = (),
    *,
    follow: bool = False,
    hooks: RunHooks = NO_HOOKS,
    start: StartActions = NO_ACTIONS,
) -> list[FlowOutcome]:
    """Carries the flows of these names, or all, side by side in one Spark session.

    Args:
        project: Its flows.
        names: Flows; all where empty.
        follow: Go on at each flow's trigger until ``hooks.stop`` is asked; else end when all is read.
        hooks: Hears of it, and may stop it.
        start: What is done before the first batch. A decision and an adoption are for the one flow that is named;
            ``update_schema`` is for those flows that infer their schema.

    Returns:
        An outcome a flow, in the order of the file; a flow that failed did not stop the others.

    Raises:
        ArgumentInvalid: A decision for more than one flow, or for a trial.
        RivermouthError: Nothing was run at all.

    Guarantees:
        Run twice: the second run goes on where the tables' ledgers stand. Stopped anywhere: every record is in
        the table and its dead letters once, or comes with the next run.
    """
    chosen = run_jobs(project, names, follow=follow)
    if start.decision or start.adoption:
        check_decision(project, chosen)
        chosen = each_of(chosen, lambda job: job.starting(decision=start.decision, adoption=start.adoption))
    if start.update_schema:
        chosen = updating(chosen)
    engine = ManagedSession(project, hooks, use="follow" if follow else "drain")
    with noting(project, chosen):
        check_broker(project, chosen)
    with noting(project, chosen), engine as spark:
        if project.debug and not follow:
            chosen = each_of(chosen, functools.partial(_limited, spark))
        supervisor = _supervisor(project, hooks, engine, spark)
        with hooks.stop.over(supervisor, engine.kill):
            outcomes = supervisor.run(chosen, keep_following=follow)
    if hooks.stop.asked:
        # What stopped the flows may have stopped Spark too: an error that this caused is no failure.
        return [replace(each, error=None) if isinstance(each.error, FlowBroken) else each for each in outcomes]
    return outcomes


def drained(project: ResolvedProject, job: FlowJob, hooks: RunHooks) -> tuple[FlowOutcome, int | None]:
    """One flow drained, and the rows of its table afterwards; None if there is no table.

    Raises:
        RivermouthError: Nothing was run at all.
    """
    engine = ManagedSession(project, hooks)
    with noting(project, [job]), engine as spark:
        supervisor = _supervisor(project, hooks, engine, spark)
        with hooks.stop.over(supervisor, engine.kill):
            (outcome,) = supervisor.run([job], keep_following=False)
        there = not session.has_ended(supervisor.state.spark) and delta_table.exists(
            files_for(job.places.table, supervisor.state.spark), job.places.table
        )
        rows = supervisor.state.spark.read.format("delta").load(job.places.table).count() if there else None
    if hooks.stop.asked and isinstance(outcome.error, FlowBroken):
        outcome = replace(outcome, error=None)
    return outcome, rows


def _supervisor(project: ResolvedProject, hooks: RunHooks, engine: ManagedSession, spark: SparkSession) -> Supervisor:
    lake = LakeWriter(project.spark_conf, timeout_s=TIMEOUT_S)
    return Supervisor(spark, _without_echo(hooks), handle_pending, restart=engine.restart, lake=lake)


def raise_failures(outcomes: Sequence[FlowOutcome]) -> None:
    """Raises if a flow failed.

    Raises:
        FlowsFailed: Some flows failed; the error names them.
    """
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        names = ", ".join(outcome.flow for outcome in failed)
        raise FlowsFailed(failed=len(failed), total=len(outcomes), names=names) from failed[0].error


def validate(project: ResolvedProject, names: Sequence[str] = (), hooks: RunHooks = NO_HOOKS) -> list[Flow]:
    """The flows, after everything was checked that needs no broker: by ourselves first, then by Spark.

    Raises:
        ProjectProblems: Several things are wrong; all are told.
        RivermouthError: The one thing that is wrong.
    """
    check_static(project, names)
    flows = project.flows(tuple(dict.fromkeys(table_per_topic.parted(name)[0] for name in names)))
    # One child says for all what is wrong with a family.
    shown = {table_per_topic.parted(each.name)[0]: each for each in reversed(project.stand_ins())}
    problems: list[RivermouthError] = []
    with ManagedSession(project, hooks) as spark:
        for job in [order_of(project, shown[flow.name]) for flow in flows]:
            try:
                _check_shape(spark, job)
            except ProjectProblems as several:
                problems += located(several, job).problems
            except RivermouthError as error:
                problems.append(located(error, job))
    problems.sort(key=lambda problem: int((problem.at or ":0").rpartition(":")[2]))
    raise_all(problems, project.file)
    return flows


def _check_shape(spark: SparkSession, job: FlowJob) -> None:
    """Checks that Spark accepts the flow's schema, expectations, table layout, and the condition on its source."""
    if job.source is not None:
        check_where(session.for_flow(spark), job.source, job.flow.name)
    try:
        flow = resolved_schema(spark, job.flow, files_for(job.places.lake, spark), job.places)
    except SchemaNotKept:
        # Its columns come with its first run. What it says of them itself can be read.
        with_columns(job.flow, StructType([]))
    else:
        table_shape(session.for_flow(spark), flow)


def plan(
    project: ResolvedProject, names: Sequence[str] = (), hooks: RunHooks = NO_HOOKS, *, adoption: Adoption | None = None
) -> list[FlowPlan]:
    """What a run would do now, a plan a flow; what would stop a flow is its plan's ``problem``.

    With ``adoption``, for the one flow that is named, what a run with it would do.

    Raises:
        ArgumentInvalid: An adoption for more than one flow.
        RivermouthError: Nothing would be run at all.

    Guarantees:
        Reads only: no table, no checkpoint, no lease is made.
    """
    run_as = run_jobs(project, names)
    if adoption:
        check_decision(project, run_as)
    check_broker(project, run_as)
    wanted = each_of(run_as, lambda job: job.starting(adoption=adoption))
    with ManagedSession(project, hooks, use="look") as spark:
        return [plan for job in wanted for plan in plan_order(spark, job)]


def _without_echo(hooks: RunHooks) -> Listener:
    """The door's listener, spared what breaks because somebody wanted the run to end."""
    echo = f"[{FlowBroken.code}]"

    def hear(event: Event) -> None:
        if not (hooks.stop.asked and isinstance(event, FlowFailed) and event.error.startswith(echo)):
            hooks.listener(event)

    return hear


def _limited(spark: SparkSession, job: FlowJob) -> FlowJob:
    """The order with an end after its first ``DEBUG_OFFSETS`` offsets; as it is where they cannot be known."""
    try:
        ranges = offset_ranges.limited(ahead(spark, job), DEBUG_OFFSETS)
    except RivermouthError:
        return job  # the run itself will say so, as this flow's own failure
    ending = EndingOffsets(kind="offsets", offsets=offset_ranges.ends(ranges))
    return replace(job, flow=job.flow.model_copy(update={"ending_offsets": ending}))
