"""The sink of files: each record that passes is a row of the table and a row in a file of an archive, once in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from rivermouth.sinks._appending import appended
from rivermouth.spec import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.sinks._target import Target

FILE_FORMATS = Literal["parquet", "orc", "avro", "csv", "json"]
_WRITTEN_BY_US = frozenset({"path", "mode"})


def _as_texts(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {str(name): str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}


_Options = Annotated[
    Mapping[str, str],
    BeforeValidator(_as_texts),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]


class FilesSink(Sink):
    """Rows are added to the table, and then written to files of an archive, commit by commit.

    Attributes:
        format: ``parquet``, ``orc``, ``avro``, ``csv`` or ``json``.
        path: The folder of the archive: below the lake, or an absolute path or URI.
        partition_by: Columns whose values become folders, ``column=value``; they are in no file. A column of text must
            be in the flow's ``partition_by`` too, which lets no value through that a folder cannot have.
        options: Options of Spark's writer, such as ``compression`` or ``header``.
    """

    type: Literal["files"] = "files"
    format: FILE_FORMATS
    path: str = Field(min_length=1)
    partition_by: tuple[str, ...] = ()
    options: _Options = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_can_be(self) -> Self:
        for name in self.options:
            if name.lower() in _WRITTEN_BY_US:
                msg = f"options cannot have {name}: remove it"
                raise ValueError(msg)
        return self

    def location(self, lake: str) -> str:
        """The folder of the archive."""
        path = self.path.rstrip("/")
        is_absolute = path.startswith(("/", "file:")) or "://" in path
        return path if is_absolute else f"{lake.rstrip('/')}/{path}"

    def write(self, rows: DataFrame, target: Target, entry: Entry) -> Commit:
        """Appends ``rows`` and ``entry`` to the table in one commit; they are written to files after it.

        Args:
            rows: In the shape of the table.
            target: The table.
            entry: The ledger entry that becomes true with these rows.

        Raises:
            CommitLost: Another process committed an entry of this number first.

        Guarantees:
            Run twice with one entry: the rows are there once. Stopped half-way: neither rows nor entry, or both.
        """
        return appended(rows, target, entry)


KIND = FilesSink
