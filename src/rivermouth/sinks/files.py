"""The sink of files: each record that passes is a row of the table and a row in a file of an archive, once in each."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rivermouth.sinks._appending import AppendingSink
from rivermouth.sinks._texts import Texts

FILE_FORMATS = Literal["parquet", "orc", "avro", "csv", "json"]
_WRITTEN_BY_US = frozenset({"path", "mode"})


class FilesSink(AppendingSink):
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
    options: Texts = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_can_be(self) -> Self:
        for name in self.options:
            if name.lower() in _WRITTEN_BY_US:
                msg = f"options cannot have {name}: remove it"
                raise ValueError(msg)
        return self

    @property
    def archive(self) -> str:
        """The folder of the archive, as it is written."""
        return self.path


KIND = FilesSink
