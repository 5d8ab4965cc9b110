"""The files of a pipeline, run on given rows and records into tables of the test's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.errors import ArgumentInvalid, DatasetNotInPipeline, TableNotWritten
from rivermouth.names import did_you_mean
from rivermouth.pipelines import commands
from rivermouth.pipelines.files.paths import is_inside
from rivermouth.pipelines.names import TableName
from rivermouth.pipelines.notebooks import SUFFIXES
from rivermouth.pipelines.running.pipeline import PATHS, Pipeline
from rivermouth.pipelines.running.reset import loaded_for
from rivermouth.pipelines.selection import Selection
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.side_tables.row_dead_letters import ROW, WHY
from rivermouth.testing.sessions import Folder, session_for_tests, table_frame, time_of
from rivermouth.testing.sources import Files, PipelineSources, Records, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.pipelines.running.update import DatasetOutcome
    from rivermouth.pipelines.spec import Dataset


def run_pipeline(
    place: str | Path | Sequence[str | Path],
    *,
    tables: Mapping[str, Rows] | None = None,
    topics: Mapping[str, Records] | None = None,
    files: Mapping[str, Files] | None = None,
    name: str | None = None,
    profile: str | None = None,
    params: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    now: dt.datetime | str | None = None,
    spark: SparkSession | None = None,
    check: bool = True,
) -> PipelineTest:
    """Runs an update of a pipeline on given sources; its tables are in a temporary lake.

    Args:
        place: The folder of the pipeline, its settings file, or source files.
        tables: Rows by the name of a table: dicts, or a frame. A table that the pipeline reads is replaced, and a
            dataset of the pipeline as well: its own query is not run then.
        topics: Records by Kafka topic or stream of Kinesis: values (a dict is sent as a JSON document, text as UTF-8),
            ``Record``s, or a frame with a column ``value``.
        files: Files by the path that the pipeline reads: rows for a file of JSON lines, contents by the name of the
            file, or a folder whose files are copied.
        name: The pipeline, where the folder has several.
        profile: The profile or target of its settings.
        params: Values of its configuration.
        environ: Environment variables, among them its secrets; the process's own where None.
        now: The current time of queries, of snapshots, of events and of records without a timestamp, with a time zone;
            None for the time of the machine.
        spark: The test's session, with Delta; by default that of this process, or a new one.
        check: Whether a failed dataset raises ``PipelineFailed``; else the error is in ``outcome``.

    Returns:
        The pipeline after its update; ``update`` runs another one.

    Raises:
        ArgumentInvalid: Something that is given cannot be rows, records, files or a time; or no pipeline is meant.
        TopicNotGiven: The pipeline reads a topic for which no records are given.
        PipelineFailed: A dataset failed.
        RivermouthError: What is wrong with the pipeline's files, definitions or queries.

    Guarantees:
        Neither a broker nor the pipeline's own lake is read or written. What a sink is given is in a Delta table of
        the test; functions of ``foreach_batch_sink`` are called.
    """
    pipeline = _pipeline(place, name, profile, params, environ)
    found = PipelineTest(pipeline, session_for_tests() if spark is None else spark)
    return found.update(tables=tables, topics=topics, files=files, now=now, check=check)


class PipelineTest:
    """A pipeline in a lake of its own; see ``run_pipeline``.

    Attributes:
        outcomes: What the last update came to, an outcome for each table and sink.
        spark: The session in which it runs, and to which the frames belong.
    """

    def __init__(self, pipeline: Pipeline, spark: SparkSession) -> None:
        self._folder = Folder()
        spec = pipeline.project.spec.model_copy(update={"lake": str(self._folder.path / "lake"), "catalog": None})
        project = replace(pipeline.project, spec=spec)
        settings = replace(pipeline.settings, storage=None, continuous=False)
        self._pipeline = _TestPipeline(settings, project, pipeline.configuration)
        self._sources = PipelineSources(spark, self._folder.path, pipeline.names)
        self.spark = spark
        self.outcomes: list[DatasetOutcome] = []

    def update(
        self,
        *,
        tables: Mapping[str, Rows] | None = None,
        topics: Mapping[str, Records] | None = None,
        files: Mapping[str, Files] | None = None,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        now: dt.datetime | str | None = None,
        check: bool = True,
    ) -> Self:
        """Adds to the sources, and runs an update as ``rivermouth run`` does: it evaluates the files again.

        Args:
            tables: More rows, by table.
            topics: More records, by topic.
            files: More files, by path.
            refresh: Only these datasets; all of them where empty.
            full_refresh: These are cleared, and filled from all that was given so far.
            now: The current time from this update on; None leaves it as it is.
            check: Whether a failed dataset raises an error.

        Raises:
            PipelineFailed: A dataset failed.
            RivermouthError: As of ``run_pipeline``.
        """
        self._sources.now = time_of(now) or self._sources.now
        self._sources.add(tables, topics, files)
        pipeline = replace(self._pipeline, configuration=self._configuration())
        options = commands.UpdateOptions(Selection(tuple(refresh), tuple(full_refresh)), follow=False)
        with loaded_for(
            options.selection, pipeline, self.spark, writes=True, computes=True, given=self._sources
        ) as found:
            self.outcomes = commands.updated(found, options)
        if check:
            commands.raise_failures(self.outcomes)
        return self

    def _configuration(self) -> dict[str, str]:
        """The settings of the pipeline, in which the paths of files that were given are theirs."""
        given = self._sources.paths
        kept = {
            name: value
            for name, value in self._pipeline.configuration.items()
            if not (name.startswith(PATHS) and any(is_inside(name.removeprefix(PATHS), path) for path in given))
        }
        return {**kept, **{f"{PATHS}{path}": folder for path, folder in given.items()}}

    def table(self, name: str) -> DataFrame:
        """A table of the pipeline, or one that was given.

        Raises:
            DatasetNotInPipeline: There is none of this name.
            TableNotWritten: It is not made yet.
        """
        found = self._resolved(name)
        location = self._sources.table(name, found) or self._pipeline.table(found)
        if not self._exists(location):
            self._check_known(name, found)
            raise TableNotWritten(table=f"dataset {name}")
        return table_frame(self.spark, location)

    def dead_letters(self, name: str) -> DataFrame:
        """The dead letters of a table of the pipeline, with the rows in the column ``row``; no rows without any.

        Raises:
            DatasetNotInPipeline: There is no table of this name.
        """
        location = f"{self._pipeline.table(self._resolved(name))}__dead_letters"
        if self._exists(location):
            return table_frame(self.spark, location)
        row = T.StructField(ROW, self.table(name).schema)
        return no_rows(self.spark, T.StructType([*WHY, row]))

    def outcome(self, name: str) -> DatasetOutcome:
        """What the last update came to for one table or sink.

        Raises:
            DatasetNotInPipeline: The last update knew none of this name.
        """
        wanted = self._resolved(name)
        for each in self.outcomes:
            if self._pipeline.names.resolve(each.dataset) == wanted:
                return each
        raise self._unknown(name)

    def counts(self, name: str) -> QueryCounts:
        """Where the rows of one table went in the last update: read, written, dropped, dead-lettered.

        Raises:
            DatasetNotInPipeline: The last update knew none of this name.
        """
        return self.outcome(name).counts

    def sink(self, name: str) -> DataFrame:
        """What a sink was given so far, other than one that is a function.

        Raises:
            TableNotWritten: It was given nothing.
        """
        location = self._sources.sink(name)
        if not self._exists(location):
            raise TableNotWritten(table=f"sink {name}")
        return table_frame(self.spark, location)

    def events(self) -> DataFrame:
        """The table of events of all updates."""
        return table_frame(self.spark, self._pipeline.event_log)

    def close(self) -> None:
        """Removes the lake and the sources of the test."""
        self._folder.close()

    def _exists(self, location: str) -> bool:
        return delta_table.exists(files_for(location, self.spark), location)

    def _resolved(self, name: str) -> TableName:
        found = self._pipeline.names.resolve(name)
        if found is None:
            raise self._unknown(name)
        return found

    def _check_known(self, name: str, wanted: TableName) -> None:
        if all(self._pipeline.names.resolve(each.dataset) != wanted for each in self.outcomes):
            raise self._unknown(name)

    def _unknown(self, name: str) -> DatasetNotInPipeline:
        fix = did_you_mean(name, [each.dataset for each in self.outcomes])
        return DatasetNotInPipeline(name=name, pipeline=self._pipeline.name, fix=fix)


@dataclass(frozen=True)
class _TestPipeline(Pipeline):
    """A pipeline whose tables are all in its lake, also those whose definitions name a folder."""

    def table(self, name: TableName, dataset: Dataset | None = None) -> str:  # noqa: ARG002 - its path is not for tests
        return super().table(name)


def _pipeline(
    place: str | Path | Sequence[str | Path],
    name: str | None,
    profile: str | None,
    params: Mapping[str, str] | None,
    environ: Mapping[str, str] | None,
) -> Pipeline:
    given: Any = [place] if isinstance(place, str | Path) else list(place)
    is_source = all(Path(each).suffix.lower() in SUFFIXES for each in given)
    if is_source and profile is not None:
        detail = f"it is about the settings of a pipeline, and {given[0]} is a source file"
        raise ArgumentInvalid(argument="profile", detail=detail, fix="name the settings file, or leave profile out")
    at, sources = (".", given) if is_source else (given[0], ())
    found = commands.pipelines(at, sources, profile=profile, params=params, environ=environ)
    known = ", ".join(each.name for each in found) or "none"
    fix = f'name="{found[0].name}"' if found else "the folder or the settings file of a pipeline, or its .py files"
    found = [each for each in found if name in (None, each.name)]
    if len(found) != 1:
        raise ArgumentInvalid(argument="place", detail=f"one pipeline is meant, and {place} has {known}", fix=fix)
    return found[0]
