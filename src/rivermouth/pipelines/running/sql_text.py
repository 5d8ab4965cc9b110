"""The SQL of a pipeline as Spark takes it: names, table functions and parameters replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from rivermouth.errors import SqlFunctionRefused, SqlNotSupported
from rivermouth.names import VIEW_PREFIX, quoted
from rivermouth.pipelines.files.cloud_files_call import path_and_options
from rivermouth.pipelines.graph import Input
from rivermouth.pipelines.session.pipeline_session import is_followed
from rivermouth.pipelines.session.sql_frames import SqlWithViews
from rivermouth.pipelines.sql.file_metadata import COLUMN as METADATA
from rivermouth.pipelines.sql.rewrite import Replacements, rewritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.spec import SourceLine
    from rivermouth.pipelines.sql.tables import Reference, TableFunction

_FILE_FORMATS: Final = frozenset({"delta", "parquet", "json", "csv", "orc", "text", "avro", "binaryfile", "xml"})
_KAFKA_NAMES: Final = {"bootstrapservers": "kafka.bootstrap.servers", "startingoffsets": "startingOffsets"}


class SqlSources(Protocol):
    """What SQL reads from."""

    session: Any
    """The pipeline's session."""

    def table_of_parts(self, parts: tuple[str, ...], *, stream: bool, options: Mapping[str, str]) -> DataFrame | None:
        """A frame of a table; None where Spark itself is to find it."""

    def files_by_sql(self, path: str, options: Mapping[str, str], *, stream: bool) -> DataFrame:
        """A frame of ``read_files`` or ``cloud_files``."""

    def located(self, path: str) -> str:
        """A path as Spark finds it."""

    def note(self, what: Input) -> None:
        """Hears what is read."""

    def event_log(self, name: str, at: str) -> DataFrame:
        """The events of the pipeline of this name, or of this pipeline if it has a dataset of this name."""

    def secret(self, scope: str, key: str) -> str:
        """A secret."""

    def decode(self, frame: DataFrame, settings: Mapping[str, Any], at: str = "") -> DataFrame:
        """The rows of Kafka records that can be decoded."""


def spark_sql(
    text: str, workspace: SqlSources, at: SourceLine, *, params: Mapping[str, str], keep_markers: bool = False
) -> SqlWithViews:
    """A statement as Spark takes it, with temporary views for its tables and table functions.

    The views have reserved names, so that they are in no way of CTEs and of views of the user.

    Args:
        text: The statement.
        workspace: What it reads from.
        at: Where its first line is.
        params: Values of ``${name}`` and ``:name``.
        keep_markers: Whether Spark is given the values of ``:name``.

    Raises:
        RivermouthError: A name, a parameter or a table function cannot be resolved.
    """
    views: dict[str, DataFrame] = {}

    def view(frame: DataFrame, what: str) -> str:
        # Spark's errors show the name where a table function has no alias.
        name = f"{VIEW_PREFIX}{next(workspace.session.view_numbers)}_{what}"
        views[name] = frame
        return quoted(name)

    def table(reference: Reference) -> str | None:
        parts, stream = reference.parts, reference.is_streaming
        if len(parts) == 2 and parts[0].lower() in _FILE_FORMATS:  # noqa: PLR2004 - a format and a path
            return _path(reference, workspace, view)
        frame = workspace.table_of_parts(parts, stream=stream, options=reference.options)
        if frame is None:
            workspace.note(Input(f"table {'.'.join(parts)}", stream, inside=False))
            return None
        if reference.computed is not None:
            raise reference.computed
        return view(frame, parts[-1])

    def function(call: TableFunction) -> str:
        frame = _called(call, workspace)
        return view(frame.select("*", METADATA) if call.names_metadata else frame, f"{call.name}_source")

    names = Replacements(table, function, workspace.secret)
    found = rewritten(text, names, params=params, at=at, keep_markers=keep_markers)
    return SqlWithViews(found, views)


def _path(reference: Reference, workspace: SqlSources, view: Callable[[DataFrame, str], str]) -> str:
    kind, place = reference.parts[0].lower(), workspace.located(reference.parts[1])
    stream, options = reference.is_streaming, reference.options
    if kind != "delta" and (reference.computed or not is_followed("delta", options)):
        fix = f"leave the version out, or name a Delta table in the place of the {kind} files"
        raise SqlNotSupported(at=None, clause=f"a version of {kind}.{quoted(place)}", fix=fix)
    if reference.computed is not None:
        raise reference.computed
    location = place if is_followed(kind, options) else None
    workspace.note(Input(f"{kind} {place}", stream, inside=False, location=location))
    if not stream and not options:
        return f"{kind}.{quoted(place)}"
    # Spark's own reader: the session's would locate the path once more.
    reader: Any = DataStreamReader(workspace.session) if stream else DataFrameReader(workspace.session)
    return view(reader.format(kind).options(**options).load(place), f"{kind}_source")


def _called(call: TableFunction, workspace: SqlSources) -> DataFrame:
    """The frame of a table function."""
    options = call.options(workspace.secret)
    if call.name in ("read_files", "cloud_files"):
        positional = call.positional(workspace.secret)
        if call.name == "cloud_files":
            path, given = path_and_options([*positional, options], at=call.at)
            return workspace.files_by_sql(path, {"inferColumnTypes": "false", **given}, stream=True)
        named = next((name for name in options if name.lower() == "path"), "path")
        path = positional[0] if positional else options.pop(named, "")
        return workspace.files_by_sql(path, options, stream=call.is_streaming)
    if call.name == "read_kafka":
        given = {_KAFKA_NAMES.get(name.lower(), name): value for name, value in options.items()}
        reader = workspace.session.readStream if call.is_streaming else workspace.session.read
        found: DataFrame = reader.format("kafka").options(**given).load()
        settings = call.settings(workspace.secret)
        return workspace.decode(found, settings, call.at) if settings else found
    if call.name == "read_kinesis":
        reader = workspace.session.readStream if call.is_streaming else workspace.session.read
        records: DataFrame = reader.format("kinesis").options(**options).load()
        return records
    if call.name == "table_changes" and (changes := _changes(call, workspace)) is not None:
        return changes
    if call.name == "event_log" and not call.is_streaming:
        for name in call.positional(workspace.secret)[:1]:
            return workspace.event_log(name, call.at)
    raise SqlFunctionRefused(at=call.at, function=call.name)


def _changes(call: TableFunction, workspace: SqlSources) -> DataFrame | None:
    """The change data feed of a table: ``table_changes('table', start [, end])``, of versions or times.

    None where there is no such table, or where the call has other arguments.
    """
    table, *bounds = call.positional(workspace.secret) or [""]
    if len(bounds) not in (1, 2):
        return None
    options = {"readChangeFeed": "true"}
    for side, bound in zip(("starting", "ending"), bounds, strict=False):
        options[side + ("Version" if bound.isdecimal() else "Timestamp")] = bound
    return workspace.table_of_parts(tuple(table.split(".")), stream=call.is_streaming, options=options)
