"""Dead letters of a batch that is about to be committed, held until they are in their table.

After a crash its rows may come again, and be judged by another definition, or be others: a snapshot, what a query gave
that runs once, or the rows of a query that does not repeat. What was counted is what is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.ports.internals.observed import Observed
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.ports.lake.lake_files import LakeFiles

FOLDER: Final = "_dead_letters_held"
"""Below the table's folder; Delta leaves folders alone whose names begin with ``_``."""
_DONE: Final = frozenset({"_HELD", "_SUCCESS"})
"""Either file says that all letters are there. Hadoop writes the second one, unless a setting of Spark forbids it."""


class HeldLetters:
    """Parquet files in the folder of a dataset's table: the dead letters of at most one ledger entry of each flow.

    They are written before the entry is committed. Those of another try of the entry do not count.

    Args:
        files: Where the table lies.
        table: The folder of the dataset's table.
    """

    def __init__(self, files: LakeFiles, table: str) -> None:
        self._files = files
        self._location = f"{table}/{FOLDER}"

    def hold(self, letters: DataFrame, entry: QueryEntry) -> int:
        """Keeps the dead letters of an entry that is about to be committed, in the place of older ones of its flow.

        Returns:
            How many there are.

        Guarantees:
            Stopped half-way: ``held`` returns none.
        """
        self.forget(entry.flow)
        observed = Observed(_of_values(letters), {"letters": Aggregate("count_if", "true")})
        observed.rows.write.parquet(self._place(entry))
        self._files.write(f"{self._place(entry)}/_HELD", "")
        return int(observed.get()["letters"])

    def held(self, spark: SparkSession, entry: QueryEntry) -> DataFrame | None:
        """The dead letters of an entry; None where they were not held."""
        return spark.read.parquet(self._place(entry)) if self.has(entry) else None

    def has(self, entry: QueryEntry) -> bool:
        """Whether the dead letters of an entry are held."""
        return not _DONE.isdisjoint(self._files.names(self._place(entry)))

    def forget(self, flow: str) -> None:
        """Removes those of a flow.

        Guarantees:
            Run twice: as once.
        """
        self._files.delete(self._of(flow))

    def _of(self, flow: str) -> str:
        return f"{self._location}/{quote(flow, safe='').replace('%', '=')}"

    def _place(self, entry: QueryEntry) -> str:
        return f"{self._of(entry.flow)}/{entry.attempt}"


def _of_values(letters: DataFrame) -> DataFrame:
    """The same without the fields of rows that have no type, and so no values: Parquet knows none such."""
    kept = _without_void(letters.schema)
    return letters if kept == letters.schema else letters.to(kept)


def _without_void(kind: T.StructType) -> T.StructType:
    fields = []
    for each in kind:
        inner = _without_void(each.dataType) if isinstance(each.dataType, T.StructType) else each.dataType
        if not isinstance(inner, T.NullType):
            fields.append(T.StructField(each.name, inner, each.nullable, each.metadata))
    return T.StructType(fields)
