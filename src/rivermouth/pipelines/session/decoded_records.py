"""Records that a query of a pipeline decodes by the settings of a flow."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rivermouth.engine.query.decoded_stream import NEEDED, DecodedStream, decoded_stream
from rivermouth.engine.schema.kept_schemas import fixed
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import DefinitionInvalid, ProjectProblems, RivermouthError
from rivermouth.names import did_you_mean
from rivermouth.pipelines.python.decode import SETTINGS
from rivermouth.ports.internals.query_plans import count_parts, keeps_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.running.reads import Reads
    from rivermouth.spec import Flow

_FLOW: Final = "decode"
_NOT_DONE: Final = re.compile(r"; (nothing|the flow) was [a-z ]+$")
_OF_FLOW: Final = re.compile(rf"\bflows\.{_FLOW}\.|\bflow {_FLOW}: ")


def decoded(pipeline: Pipeline, frame: DataFrame, settings: Mapping[str, Any], reads: Reads, at: str) -> DataFrame:
    """The rows of the records that can be decoded. The others are counted, and become dead letters of the table.

    Args:
        pipeline: Gives the schema registry, and the folder of schema files.
        frame: A stream of Kafka records.
        settings: Those of a flow; ``format`` is one of them.
        reads: Keeps what the query decodes.
        at: The line that decodes.

    Raises:
        DefinitionInvalid: A setting is wrong, or the frame is no stream of Kafka records.
    """
    _check_frame(frame, reads, at)
    for name in settings:
        if name not in SETTINGS:
            raise _invalid(reads, at, f"it has no setting {name}", did_you_mean(name, SETTINGS))
    try:
        flow = flow_of(pipeline, {name: value for name, value in settings.items() if value is not None})
        if flow.infers or flow.policies.grows:
            detail = "its columns would be inferred or grow, and those of a query are fixed"
            raise _invalid(reads, at, detail, "write the schema that `rivermouth schema` shows, and no evolution")
        flow = fixed(frame.sparkSession, flow)
        columns = table_shape(frame.sparkSession, flow).columns.names
    except DefinitionInvalid:
        raise
    except ProjectProblems as error:
        raise _of_flow(reads, at, error.problems[0]) from error
    except RivermouthError as error:
        raise _of_flow(reads, at, error) from error
    alias = f"decoded {reads.dataset} {len(reads.decoded)}"
    rows, found = decoded_stream(frame, flow, columns, alias)
    reads.decoded.append(found)
    return rows


def within_query(evaluated: Sequence[Reads], function: str, at: object) -> Reads:
    """The query that is evaluated now and calls the function there.

    Raises:
        DefinitionInvalid: No query is evaluated now.
    """
    if evaluated:
        return evaluated[-1]
    detail, fix = "it is called outside of a query", "call it in the function that returns the rows of a dataset"
    raise DefinitionInvalid(at=str(at), definition=function, detail=detail, fix=fix)


def used_once(reads: Reads, frame: DataFrame) -> tuple[DecodedStream, ...]:
    """What a query decodes; checks that each record is decoded once.

    Raises:
        DefinitionInvalid: The query uses decoded records twice.
    """
    found = []
    for each in reads.decoded:
        count = count_parts(frame, each.alias)
        if count > 1:
            detail = "the query uses its rows twice, and each refused record would be counted twice"
            raise _invalid(reads, str(reads.at), detail, "decode in a table of its own, and read that table")
        if count:
            found.append(each)
    return tuple(found)


def _check_frame(frame: DataFrame, reads: Reads, at: str) -> None:
    if missing := [name for name in NEEDED if name not in frame.columns]:
        detail = f"the frame has no column {missing[0]}, which records of Kafka have"
        raise _invalid(reads, at, detail, "give it what spark.readStream.format('kafka') returns")
    if not frame.isStreaming:
        raise _invalid(
            reads, at, "the frame is no stream", "read the records with spark.readStream, or STREAM read_kafka(...)"
        )
    if keeps_state(frame):
        detail = "the query before it keeps state, so its records cannot be read again"
        raise _invalid(reads, at, detail, "decode the records first, and aggregate their columns")


def flow_of(pipeline: Pipeline, settings: Mapping[str, Any]) -> Flow:
    """A flow that reads records as these settings say, with its files and the schema registry."""
    project = pipeline.project
    body = {"topics": ["records"], "table": "default.records", **settings}
    spec = (
        type(project)
        .from_spec({"name": _FLOW, "lake": project.spec.lake, "flows": {_FLOW: body}}, project.base, project.environ)
        .spec
    )
    merged = project.spec.model_copy(update={"flows": spec.flows})
    return replace(project, spec=merged).flow(_FLOW)


def _of_flow(reads: Reads, at: str, error: RivermouthError) -> DefinitionInvalid:
    return _invalid(reads, at, detail_of(error), error.next_step)


def detail_of(error: RivermouthError) -> str:
    """What is wrong with the flow, as the detail of an error of the definition."""
    return _NOT_DONE.sub("", _OF_FLOW.sub("", str(error.facts.get("detail") or error.message)))


def _invalid(reads: Reads, at: str, detail: str, fix: str) -> DefinitionInvalid:
    return DefinitionInvalid(at=at, definition=f"decode of {reads.dataset}", detail=detail, fix=fix)
