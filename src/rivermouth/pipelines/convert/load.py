"""What the files of a pipeline define, read for a conversion: only Python needs a Spark session for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rivermouth.errors import NothingDefined
from rivermouth.pipelines.convert.drafts import Pipeline
from rivermouth.pipelines.notebooks import cells
from rivermouth.pipelines.spec import Definitions
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.definitions.sql_session import SqlSession
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks

if TYPE_CHECKING:
    from rivermouth.pipelines.running.pipeline import Pipeline as RunPipeline


@contextmanager
def read(pipeline: RunPipeline, hooks: RunHooks = NO_HOOKS) -> Iterator[Pipeline]:
    """The pipeline as a conversion knows it; no query is run, and no source is read.

    Raises:
        NothingDefined: Its files define nothing.
        RivermouthError: What is wrong with a file or a definition.
    """
    files = pipeline.settings.files
    if files and all(each.suffix.lower() == ".sql" for each in files):
        yield Pipeline(_of_sql(pipeline), pipeline.names, pipeline.configuration)
        return
    with (
        tempfile.TemporaryDirectory(prefix="rivermouth-convert-") as state,
        ManagedSession(pipeline.project, hooks) as spark,
    ):
        from rivermouth.pipelines.running.load import evaluated  # noqa: PLC0415 - loads Spark

        with evaluated(pipeline, spark, state=state) as (_, definitions):
            yield Pipeline(definitions, pipeline.names, pipeline.configuration)


def _of_sql(pipeline: RunPipeline) -> Definitions:
    found = Definitions()
    for file in pipeline.settings.files:
        session = SqlSession(dict(pipeline.configuration))
        for cell in cells(file, pipeline.settings.shown(file)):
            if cell.language == "sql":
                found += read_sql(cell.text, cell.at, session=session)
    if not found.datasets and not found.sinks:
        shown = ", ".join(pipeline.settings.shown(each) for each in pipeline.settings.files)
        raise NothingDefined(pipeline=pipeline.name, files=shown)
    return found
