"""The tables of pipelines looked at, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.engine.table.describe_tables import TableDescription, describe
from rivermouth.errors import TableUnknown
from rivermouth.names import AUTO_CDC_DELETED, AUTO_CDC_ROWS, STATE_FOLDER, did_you_mean
from rivermouth.pipelines.running.known import KnownDataset, read_known
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.ports.lake.lake_reader import LakeReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.ports.lake.lake_files import LakeFiles

_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class PipelineTable:
    """A table of a pipeline, or that of its dead letters. Implements ``DescribedTable``.

    Attributes:
        name: ``schema.table``.
        location: Its folder.
        flow: The pipeline.
        kind: Whether it has rows or dead letters.
        reports: The folder of what is kept of its maintenance.
        dataset: As the newest update knew it.
    """

    name: str
    location: str
    flow: str
    kind: Literal["rows", "dead_letters"]
    reports: str
    dataset: KnownDataset

    @property
    def called(self) -> set[str]:
        """The names that mean it."""
        return {self.name, self.dataset.dataset} if self.kind == "rows" else {self.name}

    def beside(self, _files: LakeFiles) -> list[str]:
        """No folders: the tables behind a target of AUTO CDC have files of many rows too, and are shown."""
        return []

    def guarded(self, _spark: SparkSession, *, alone: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """Takes no lease: if an update and this change the same files, Delta refuses the later commit."""
        return nullcontext()

    @property
    def behind(self) -> tuple[PipelineTable, ...]:
        """The tables in the folder of a target of AUTO CDC, whether they are there or not."""
        if self.kind == "dead_letters":
            return ()
        return tuple(self._below(folder) for folder in (AUTO_CDC_ROWS, AUTO_CDC_DELETED))

    def _below(self, folder: str) -> PipelineTable:
        name, location = f"{self.name}/{folder}", f"{self.location}/{folder}"
        return replace(self, name=name, location=location, reports=f"{self.reports}.{folder}")

    def newest_entry(self, reader: LakeReader) -> int | None:
        """The greatest number of a ledger entry of its flows; None for dead letters."""
        if self.kind == "dead_letters":
            return None
        number = QueryLedger(reader, self.location, "", flow="").newest_number()
        return None if number < 0 else number


@dataclass(frozen=True, slots=True)
class ChosenTables:
    """Tables that a command is about.

    Attributes:
        by_pipeline: Those of each pipeline that has some.
        others: The names that mean no table of a pipeline.
        known: The names that mean one.
    """

    by_pipeline: tuple[tuple[Pipeline, tuple[PipelineTable, ...]], ...]
    others: tuple[str, ...]
    known: tuple[str, ...]

    def unknown(self) -> TableUnknown:
        """Why a command about pipelines alone cannot go on: a name means none of their tables."""
        name = self.others[0]
        fix = did_you_mean(name, self.known) if self.known else "rivermouth run, which makes the tables"
        return TableUnknown(name=name, fix=fix)


def chosen(pipelines: Sequence[Pipeline], names: Sequence[str] = ()) -> ChosenTables:
    """The tables of these names, or all, as the newest update of each pipeline knew them.

    Args:
        pipelines: The pipelines.
        names: ``schema.table``, with ``__dead_letters`` for dead letters, or as the pipeline writes them.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    found, known = [], set[str]()
    for pipeline in pipelines:
        tables = list(_tables(pipeline, reader_of(pipeline)))
        known |= {name for table in tables for name in table.called}
        if wanted := tuple(each for each in tables if not names or each.called & {*names}):
            found.append((pipeline, wanted))
    others = tuple(name for name in names if name not in known)
    return ChosenTables(tuple(found), others, tuple(sorted(known)))


def described(found: ChosenTables) -> list[TableDescription]:
    """What these tables consist of, whether they are there or not.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    return [
        describe(reader, table)
        for pipeline, tables in found.by_pipeline
        for reader in [reader_of(pipeline)]
        for table in tables
    ]


def reader_of(pipeline: Pipeline) -> LakeReader:
    """What reads the lake of a pipeline."""
    return LakeReader(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S)


def _tables(pipeline: Pipeline, reader: LakeReader) -> Iterator[PipelineTable]:
    state = f"{pipeline.project.lake.rstrip('/')}/{STATE_FOLDER}"
    for each in read_known(reader, pipeline).datasets:
        if not each.location:
            continue
        letters = f"{each.table}__dead_letters"
        reports = f"{state}/maintenance"
        yield PipelineTable(each.table, each.location, pipeline.name, "rows", f"{reports}/{each.table}", each)
        yield PipelineTable(letters, each.dead_letters, pipeline.name, "dead_letters", f"{reports}/{letters}", each)
