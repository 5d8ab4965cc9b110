"""What is read of a source of files, and as which columns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import folded
from rivermouth.pipelines.files import schemas

if TYPE_CHECKING:
    from rivermouth.pipelines.files.options import FileOptions

FILE: Final = "__file"
"""The column with the address of a row's file, while the row is on its way."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read, and as which columns.

    Attributes:
        path: Where Spark reads.
        options: What the options say.
        schema: All columns but the rescued data, in order.
        partitions: The columns that folders make, which are in the schema too.
        inferred: Whether the schema was inferred.
    """

    path: str
    options: FileOptions
    schema: T.StructType
    partitions: T.StructType = dataclasses.field(default_factory=T.StructType)
    inferred: bool = False

    @property
    def in_files(self) -> T.StructType:
        """The columns that are read from the contents of files."""
        rescued = [] if self.options.rescued is None else [self.options.rescued]
        return schemas.without(self.schema, [*self.partitions.names, self.options.corrupt, *rescued])

    @property
    def has_corrupt(self) -> bool:
        """Whether there is a column for records that cannot be read."""
        return any(folded(each.name) == folded(self.options.corrupt) for each in self.schema.fields)

    def selected(self, columns: dict[str, str], pointers: str | None, corrupt: str) -> list[str]:
        """SQL of all columns in order.

        Args:
            columns: By name, SQL of the columns that are read from the contents.
            pointers: SQL of the text of the rescued data; None where there is no such column.
            corrupt: SQL of the text of a record that cannot be read, else null.
        """
        made = {**columns, **{name: value for name, (_, value) in self.partition_values().items()}}
        if self.has_corrupt:
            made[self.options.corrupt] = corrupt
        listed = self.schema.names
        if pointers is not None and self.options.rescued is not None:
            made[self.options.rescued] = pointers
            listed += [] if folded(self.options.rescued) in map(folded, listed) else [self.options.rescued]
        by_name = {folded(name): sql for name, sql in made.items()}
        return [f"{by_name[folded(name)]} AS {names.quoted(name)}" for name in listed]

    def partition_values(self) -> dict[str, tuple[str, str]]:
        """By name of the columns that folders make, SQL of the text and of the value.

        A text that does not fit its type is null where there is rescued data, else an error.
        """
        cast = "CAST" if self.options.rescued is None else "try_cast"
        found = {}
        for each in self.partitions.fields:
            text = _folder_value(each.name)
            found[each.name] = (text, f"{cast}({text} AS {each.dataType.simpleString()})")
        return found


def _folder_value(name: str) -> str:
    """SQL of the value that a folder ``name=value`` of a row's file has; null where there is none."""
    pattern = names.literal(f"/{_escaped(name)}=([^/]*)/")
    value = f"nullif(regexp_extract({FILE}, {pattern}, 1), '')"
    return f"nullif(try_url_decode({value}), '__HIVE_DEFAULT_PARTITION__')"


def _escaped(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign == "_" else f"[{sign}]" for sign in name)
