"""Work that only a table's writer may do: asked of it while it runs, done here while nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivermouth.engine.batch.deliver import close_delivery
from rivermouth.engine.flow.flow_inputs import OpenSource
from rivermouth.engine.open.open_flow import open_flow
from rivermouth.engine.open.sources import reading
from rivermouth.engine.run import requests
from rivermouth.errors import TableBusy
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.lease import TableLease, living_holder
from rivermouth.ports.lake.storage_checks import check_fenced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.project.commands.managed_session import RunHooks


def perform_as_writer(spark: SparkSession, job: FlowJob, request: requests.Request, hooks: RunHooks) -> dict[str, Any]:
    """What became of the request. A flow that drains is waited for, one that follows is asked.

    Raises:
        RequestUnanswered: The flow's writer tried and failed.
        RivermouthError: What else is wrong.
    """
    while True:
        try:
            return _as_writer(spark, job, request, hooks)
        except TableBusy as busy:
            hooks.say(f"{job.flow.name}: waiting for its writer, {busy.facts['holder']}")
        answer = _asked(spark, job, request)
        if answer is not None:
            return answer


def _as_writer(spark: SparkSession, job: FlowJob, request: requests.Request, hooks: RunHooks) -> dict[str, Any]:
    flow, places = job.flow, job.places
    check_fenced(spark, places)
    lease_files = files_for(places.lake, spark)
    with (
        # Its writer is asked at once.
        TableLease(lease_files, places.lease_file, flow=flow.name, table=places.table, pause=lambda _s: True) as lease,
        reading(spark, job) as (kafka, source),
    ):
        run = open_flow(spark, job, OpenSource(kafka, source), hooks.listener)
        run.lease = lease
        try:
            requests.clear_pending(run.context)
            return requests.execute(run, request)
        finally:
            close_delivery(run)


def _asked(spark: SparkSession, job: FlowJob, request: requests.Request) -> dict[str, Any] | None:
    files = files_for(job.places.lake, spark)

    def is_running() -> bool:
        return living_holder(files, job.places.lease_file) is not None

    return requests.submit(files, job.places, request, is_running=is_running)
