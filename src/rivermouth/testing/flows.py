"""A flow of a project file, run on given records into a table of the test's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from rivermouth.engine.flow.jobs import FlowJob, FlowOutcome
from rivermouth.engine.run.requests import handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import ArgumentInvalid, TableMissing
from rivermouth.names import did_you_mean
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals import sessions
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.sources.given_source import GivenSource
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.project.resolved.known_tables import check_one
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.rows import dead_letter
from rivermouth.sinks.files import FilesSink
from rivermouth.spec import StartingOffsets
from rivermouth.spec.places import Places
from rivermouth.testing.records import GivenRecords
from rivermouth.testing.sessions import Folder, session_for_tests, table_frame, time_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.ledger.ledger import Counts
    from rivermouth.spec import Flow

_ARCHIVE: Final = "_archive"
"""The folder of the archive in the lake of the test."""


def run_flow(
    project: str | Path | ResolvedProject | Mapping[str, Any],
    flow: str,
    records: Iterable[Any] = (),
    *,
    spark: SparkSession | None = None,
    environ: Mapping[str, str] | None = None,
    tables: Mapping[str, DataFrame] | None = None,
    now: dt.datetime | str | None = None,
) -> FlowTest:
    """Runs one flow on given records; its table and its dead letters are in a temporary lake.

    Args:
        project: The project file; or a project, or what its file would hold.
        flow: Name of the flow; of a flow with a table for each topic ``FLOW.TOPIC``.
        records: ``rivermouth.Record``s, or their values: a dict is sent as a JSON document, text as UTF-8, bytes as
            they are, None as a tombstone. At most 10,000 at a time.
        spark: The test's session, with Delta; by default that of this process, or a new one.
        environ: Environment variables of the project file; the process's own where None.
        tables: The tables in which the flow looks up columns, by the names that its ``lookup`` has.
        now: The current time of the flow's expressions and of records without a timestamp, with a time zone; None for
            the time of the machine.

    Returns:
        The flow after its run; ``update`` runs it again on more records.

    Raises:
        FlowUnknown: The project has none of this name.
        ArgumentInvalid: The flow reads a table or snapshots, or a record is none.
        RivermouthError: Why the flow failed.

    Guarantees:
        Neither the broker, nor the project's own lake, nor the archive of a sink of files is read or written. All
        records are read, wherever the flow would start.
    """
    found = FlowTest(_project(project, environ), flow, session_for_tests() if spark is None else spark)
    for name, rows in (tables or {}).items():
        found.write_table(name, rows)
    return found.update(records, now=now)


class FlowTest:
    """A flow in a lake of its own; see ``run_flow``.

    Attributes:
        outcome: How its last run ended.
        spark: The session in which it runs, and to which the frames belong.
    """

    def __init__(self, project: ResolvedProject, flow: str, spark: SparkSession) -> None:
        check_one(project, flow)
        self._folder = Folder()
        # Tables are found by their folders here, whatever the project does with catalogs and places.
        spec = project.spec.model_copy(update={"lake": str(self._folder.path), "places": Places(), "catalog": None})
        project = replace(project, spec=spec)
        self._flow = self._looking_here(_readable(project, project.flow(flow)))
        self._places = project.places_of(self._flow)
        self._records = GivenRecords()
        self._topic = next(iter((*self._flow.topics, *self._flow.assign)), self._flow.name)
        for topic in (*self._flow.topics, *self._flow.assign):
            self._records.add((), topic)
        self._now: dt.datetime | None = None
        self.spark = spark
        self.outcome: FlowOutcome | None = None

    def update(self, records: Iterable[Any] = (), *, now: dt.datetime | str | None = None, check: bool = True) -> Self:
        """Gives more records, and runs the flow until it has read them.

        Args:
            records: As of ``run_flow``.
            now: The current time from this run on; None leaves it as it is.
            check: Whether an error of the flow is raised; else it is in ``outcome``.

        Raises:
            ArgumentInvalid: One is no record, or ``now`` is no time.
            RivermouthError: Why the flow failed.
        """
        self._now = time_of(now) or self._now
        self._records.add(records, self._topic, self._now)
        spark = self.spark if self._now is None else sessions.cloned(self.spark, self._now)
        source = GivenSource(self._records.all, self._records.topics)
        job = FlowJob(self._flow, self._places, "", {}, given=source)
        supervisor = Supervisor(spark, lambda _: None, handle_pending)
        (self.outcome,) = supervisor.run([job], keep_following=False)
        if check and self.outcome.error is not None:
            raise self.outcome.error
        return self

    def write_table(self, name: str, rows: DataFrame) -> Self:
        """Writes a table in which the flow looks up columns, or a new version of it.

        Args:
            name: As the flow's ``lookup`` has it.
            rows: All rows of the table.

        Raises:
            ArgumentInvalid: The flow looks up nothing in a table of this name.
        """
        places = {each.table: each.location for each in self._flow.lookup}
        if name not in places:
            detail, fix = f"flow {self._flow.name} looks up nothing in {name}", did_you_mean(name, places)
            raise ArgumentInvalid(argument="tables", detail=detail, fix=fix if places else "leave it out")
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(places[name])
        return self

    def _looking_here(self, flow: Flow) -> Flow:
        """The flow, which looks up columns in tables of the test."""
        place = self._folder.path / "_lookups"
        tables = dict.fromkeys(each.table for each in flow.lookup)
        here = {table: str(place / str(number)) for number, table in enumerate(tables)}
        return flow.model_copy(update={"lookup": tuple(each.at(here[each.table]) for each in flow.lookup)})

    @property
    def counts(self) -> Counts:
        """Where the records of the last run went."""
        if self.outcome is None:
            msg = "the flow has not run yet"
            raise ValueError(msg)
        return self.outcome.counts

    def table(self) -> DataFrame:
        """The flow's table.

        Raises:
            TableMissing: The flow has not made it.
        """
        place = self._places.table
        if not delta_table.exists(files_for(place, self.spark), place):
            raise TableMissing(table=self._places.name, flow=self._flow.name)
        return table_frame(self.spark, place)

    def dead_letters(self) -> DataFrame:
        """The dead letters of the flow's table; no rows where there are none."""
        place = self._places.dead_letter_table
        if delta_table.exists(files_for(place, self.spark), place):
            return table_frame(self.spark, place)
        return no_rows(self.spark, dead_letter.columns(self._flow))

    def close(self) -> None:
        """Removes the lake of the test."""
        self._folder.close()


def _project(
    project: str | Path | ResolvedProject | Mapping[str, Any], environ: Mapping[str, str] | None
) -> ResolvedProject:
    if isinstance(project, ResolvedProject):
        return project
    if isinstance(project, str | Path):
        return ResolvedProject.load(project, environ)
    return ResolvedProject.from_spec(project, environ=environ)


def _readable(project: ResolvedProject, flow: Flow) -> Flow:
    if flow.source is not None:
        detail = f"flow {flow.name} reads a table or snapshots, and a test gives Kafka records"
        fix = f'project.check_records("{flow.name}", [...]), for a flow that reads a table'
        raise ArgumentInvalid(at=project.at("flows", flow.name, "source"), argument="flow", detail=detail, fix=fix)
    table = flow.table.model_copy(update={"name": ".".join(flow.table.name.split(".")[-2:])})
    changes = {
        "starting_offsets": StartingOffsets.model_validate("earliest"),
        "ending_offsets": None,
        "group_id": None,
        "maintenance": None,
    }
    # An absolute path or a URI is the archive of production, with its ledger.
    sink = flow.sink.model_copy(update={"path": _ARCHIVE}) if isinstance(flow.sink, FilesSink) else flow.sink
    return flow.model_copy(update={**changes, "places": Places(), "table": table, "sink": sink})
