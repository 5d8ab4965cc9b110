"""Which columns of a table the files of a sink cannot have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import LayoutInvalid
from rivermouth.rows.file_types import unfit_column, unfit_folder

if TYPE_CHECKING:
    from rivermouth.engine.table.problems import Problems
    from rivermouth.sinks.files import FilesSink
    from rivermouth.spec import Flow


def check_file_columns(flow: Flow, sink: FilesSink, columns: T.StructType, problems: Problems) -> None:
    """Keeps in ``problems`` each column that files of the sink cannot have, or that cannot be the name of a folder."""
    for place, name in enumerate(sink.partition_by):
        with problems.kept():
            _check_folder(flow, columns, name, ("sink", "partition_by", place))
    for column in columns:
        with problems.kept():
            if (detail := unfit_column(sink.format, T.StructType([column]))) is not None:
                fix = "format: json, or leave the column out of select or metadata_columns"
                raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about("sink", "format")


def _check_folder(flow: Flow, columns: T.StructType, name: str, path: tuple[str | int, ...]) -> None:
    # Values that cannot be folders are dead letters of a table that is partitioned by them.
    parts = [part if isinstance(part, str) else next(iter(part)) for part in flow.table.partition_by]
    if (detail := unfit_folder(name, columns, parts)) is None:
        return
    fix = f"remove {name}"
    if name not in columns.names:
        fix = names.did_you_mean(name, columns.names)
    elif isinstance(columns[name].dataType, T.StringType):
        fix = f"table: {{name: ..., partition_by: [{name}]}}"
    raise LayoutInvalid(flow=flow.name, detail=detail, fix=fix).about(*path)
