"""The tables of pipelines looked at, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.engine.table.describe_tables import TableDescription, describe
from rivermouth.names import STATE_FOLDER
from rivermouth.pipelines.running.known import KnownDataset, read_known
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.ports.lake.lake_reader import LakeReader

if TYPE_CHECKING:
    from rivermouth.pipelines.running.pipeline import Pipeline

_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class PipelineTable:
    """A table of a pipeline, or that of its dead letters. Implements ``LookedAt``.

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

    def newest_entry(self, reader: LakeReader) -> int | None:
        """The greatest number of a ledger entry of its flows; None for dead letters."""
        if self.kind == "dead_letters":
            return None
        number = QueryLedger(reader, self.location, "", flow="").newest_number()
        return None if number < 0 else number


def described(pipelines: Sequence[Pipeline], names: Sequence[str]) -> tuple[list[TableDescription], list[str]]:
    """What tables of pipelines consist of, and the names that mean none of them.

    Args:
        pipelines: The pipelines.
        names: ``schema.table``, with ``__dead_letters`` for dead letters, or as the pipeline writes them; all tables
            that are there where empty.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    found, known = [], set[str]()
    for pipeline in pipelines:
        reader = LakeReader(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S)
        for table in _tables(pipeline, reader):
            called = {table.name, table.dataset.dataset} if table.kind == "rows" else {table.name}
            known |= called
            if names and not called & {*names}:
                continue
            description = describe(reader, table)
            if description.exists or names:
                found.append(description)
    return found, [name for name in names if name not in known]


def _tables(pipeline: Pipeline, reader: LakeReader) -> Iterator[PipelineTable]:
    state = f"{pipeline.project.lake.rstrip('/')}/{STATE_FOLDER}"
    for each in read_known(reader, pipeline).datasets:
        if not each.location:
            continue
        letters = f"{each.table}__dead_letters"
        reports = f"{state}/maintenance"
        yield PipelineTable(each.table, each.location, pipeline.name, "rows", f"{reports}/{each.table}", each)
        yield PipelineTable(letters, each.dead_letters, pipeline.name, "dead_letters", f"{reports}/{letters}", each)
