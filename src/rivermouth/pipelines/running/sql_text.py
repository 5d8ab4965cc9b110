"""The SQL of a pipeline as Spark takes it: names, table functions and parameters replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.errors import SqlFunctionRefused
from rivermouth.names import quoted
from rivermouth.pipelines.files.cloud_files_call import path_and_options
from rivermouth.pipelines.graph import Input
from rivermouth.pipelines.sql.rewrite import rewritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.running.workspace import Workspace
    from rivermouth.pipelines.spec import SourceLine
    from rivermouth.pipelines.sql.sources import Reference, TableFunction

_FILE_FORMATS: Final = frozenset({"delta", "parquet", "json", "csv", "orc", "text", "avro", "binaryfile", "xml"})
_KAFKA_NAMES: Final = {"bootstrapservers": "kafka.bootstrap.servers", "startingoffsets": "startingOffsets"}


def spark_sql(text: str, workspace: Workspace, at: SourceLine) -> str:
    """A statement as Spark takes it; for its tables and table functions there are temporary views afterwards.

    Raises:
        RivermouthError: A name, a parameter or a table function cannot be resolved.
    """
    views: dict[str, str] = {}

    def view(frame: DataFrame, wanted: str) -> str:
        name = wanted
        while views.get(name, wanted) != wanted or name in views:
            name = f"{name}_"
        views[name] = wanted
        frame.createOrReplaceTempView(quoted(name))
        return quoted(name)

    def table(reference: Reference) -> str | None:
        parts, stream = reference.parts, reference.is_streaming
        if len(parts) == 2 and parts[0].lower() in _FILE_FORMATS:  # noqa: PLR2004 - a format and a path
            return _path(parts, workspace, view, stream=stream)
        frame = workspace.table_of_parts(parts, stream=stream, options=reference.options)
        if frame is None:
            workspace.note(Input(f"table {'.'.join(parts)}", stream, inside=False))
            return None
        return view(frame, parts[-1] if not stream else f"{parts[-1]}")

    def function(call: TableFunction) -> str:
        return view(_called(call, workspace), f"{call.name}_source")

    params = {name: value for name, value in workspace.pipeline.configuration.items()}
    return rewritten(text, table=table, function=function, params=params, secret=workspace.secret, at=at)


def _path(parts: tuple[str, ...], workspace: Workspace, view: object, *, stream: bool) -> str | None:
    kind, place = parts[0].lower(), workspace.located(parts[1])
    workspace.note(Input(f"{kind} {place}", stream, inside=False, location=place if kind == "delta" else None))
    if stream:
        frame = workspace.session.readStream.format(kind).load(place)
        return str(view(frame, f"{kind}_source"))  # type: ignore[operator]
    return f"{kind}.{quoted(place)}"


def _called(call: TableFunction, workspace: Workspace) -> DataFrame:
    """The frame of a table function."""
    options = call.options(workspace.secret)
    if call.name in ("read_files", "cloud_files"):
        positional = call.positional(workspace.secret)
        if call.name == "cloud_files":
            path, given = path_and_options([*positional, options], at=call.at)
            return workspace.files_by_sql(path, {"inferColumnTypes": "false", **given}, stream=True)
        path = positional[0] if positional else options.pop("path", "")
        return workspace.files_by_sql(path, options, stream=call.is_streaming)
    if call.name == "read_kafka":
        given = {_KAFKA_NAMES.get(name.lower(), name): value for name, value in options.items()}
        if call.is_streaming:
            return workspace.session.readStream.format("kafka").options(**given).load()
        return workspace.session.read.format("kafka").options(**given).load()
    raise SqlFunctionRefused(at=call.at, function=call.name)
