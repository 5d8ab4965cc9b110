"""What is read of a source of files, and as which columns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import folded
from rivermouth.pipelines.files import schemas
from rivermouth.pipelines.files.paths import visible

if TYPE_CHECKING:
    from rivermouth.pipelines.files.options import FileOptions

FILE: Final = "__file"
"""The column with the address of a row's file, while the row is on its way."""
FOLDERS: Final = "__folders"
"""The column with the texts in the names of its folders, one for each of ``Plan.of_folders``."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read, and as which columns.

    Attributes:
        path: Where Spark reads.
        options: What the options say.
        schema: All columns but the rescued data, in order.
        partitions: The columns that folders make, which are in the schema too.
        optional: Columns of the schema that a file has in its contents, unless its folders make them.
        watched: Names of other columns that folders could make: a file with such a folder ends the query, and the
            next start knows of the folder.
        inferred: Whether the schema was inferred.
    """

    path: str
    options: FileOptions
    schema: T.StructType
    partitions: T.StructType = dataclasses.field(default_factory=T.StructType)
    optional: T.StructType = dataclasses.field(default_factory=T.StructType)
    watched: tuple[str, ...] = ()
    inferred: bool = False

    @property
    def pattern(self) -> str:
        """The path for Spark's reader, which finds no hidden files by it."""
        return visible(self.path)

    @property
    def in_files(self) -> T.StructType:
        """The columns that are read from the contents of files."""
        rescued = [] if self.options.rescued is None else [self.options.rescued]
        return schemas.without(self.schema, [*self.partitions.names, self.options.corrupt, *rescued])

    @property
    def of_folders(self) -> T.StructType:
        """The columns that folders make or may make."""
        return T.StructType([*self.partitions.fields, *self.optional.fields])

    @property
    def has_corrupt(self) -> bool:
        """Whether there is a column for records that cannot be read."""
        return any(folded(each.name) == folded(self.options.corrupt) for each in self.schema.fields)

    def selected(self, columns: dict[str, str], pointers: str | None, corrupt: str) -> list[str]:
        """SQL of all columns in order.

        Args:
            columns: By name, SQL of the columns that are read from the contents. The rows have ``__folders`` if folders
                can make columns.
            pointers: SQL of the text of the rescued data; None where there is no such column.
            corrupt: SQL of the text of a record that cannot be read, else null.
        """
        made = {**columns, **{name: value for name, (_, value) in self.partition_values().items()}}
        for name, (_, value) in self.optional_values().items():
            made[name] = f"coalesce({value}, {columns[name]})"
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
        return self._values(self.partitions, 0)

    def optional_values(self) -> dict[str, tuple[str, str]]:
        """The same of columns that folders may make; both are null where a row's folders make none."""
        return self._values(self.optional, len(self.partitions))

    def _values(self, columns: T.StructType, begin: int) -> dict[str, tuple[str, str]]:
        cast = "CAST" if self.options.rescued is None else "try_cast"
        found = {}
        for place, each in enumerate(columns.fields, begin):
            text = f"{FOLDERS}[{place}]"
            found[each.name] = (text, f"{cast}({text} AS {each.dataType.simpleString()})")
        return found
