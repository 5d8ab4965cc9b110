"""Values of a Kafka sink that a query of a pipeline makes by the formats of flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivermouth.errors import DefinitionInvalid, ProjectProblems, RivermouthError
from rivermouth.pipelines.session.decoded_records import detail_of, flow_of
from rivermouth.schemas.refused import SchemaRefused, fix_of
from rivermouth.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.running.reads import Reads
    from rivermouth.pipelines.spec import SourceLine
    from rivermouth.spec import EncodingFormat


def encoded(
    pipeline: Pipeline, frame: DataFrame, settings: str | Mapping[str, Any], reads: Reads, at: SourceLine
) -> Column:
    """A value of each row, binary, of the columns of the frame that have the names of the format's.

    Args:
        pipeline: Gives the schema registry, and the folder of schema files.
        frame: Has the columns.
        settings: As ``format`` of a flow.
        reads: Names the dataset.
        at: The line that encodes.

    Raises:
        DefinitionInvalid: A setting is wrong, or the columns are not those of the schema.
    """
    try:
        return _format(pipeline, settings).encoded(frame.sparkSession, frame.schema)
    except ProjectProblems as error:
        raise _of_flow(reads, at, error.problems[0]) from error
    except RivermouthError as error:
        raise _of_flow(reads, at, error) from error
    except ValueError as error:
        raise _invalid(reads, at, str(error), fix_of(error, "change the schema")) from error


def _format(pipeline: Pipeline, settings: str | Mapping[str, Any]) -> EncodingFormat:
    sink = {"type": "kafka", "topic": "values", "format": settings}
    made = flow_of(pipeline, {"format": "raw", "sink": sink}).sink
    found = made.encoding if isinstance(made, KafkaSink) else None
    if found is None:
        detail, fix = "it makes no JSON", "to_json(struct('*')) of Spark"
        raise SchemaRefused(detail, fix)
    return found


def _of_flow(reads: Reads, at: SourceLine, error: RivermouthError) -> DefinitionInvalid:
    return _invalid(reads, at, detail_of(error).replace("sink.format: ", ""), error.next_step)


def _invalid(reads: Reads, at: SourceLine, detail: str, fix: str) -> DefinitionInvalid:
    return DefinitionInvalid(at=str(at), definition=f"encode of {reads.dataset}", detail=detail, fix=fix)
