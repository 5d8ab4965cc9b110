"""Dead letters of a batch that cannot be had again, held until they are in their table.

The batches of a stream come again after a crash, and their dead letters with them. A snapshot, or what a query gave
that runs once, may be another one the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

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

    def hold(self, letters: DataFrame, entry: QueryEntry) -> None:
        """Keeps the dead letters of an entry that is about to be committed, in the place of older ones of its flow.

        Guarantees:
            Stopped half-way: ``held`` returns none.
        """
        self.forget(entry.flow)
        letters.write.parquet(self._place(entry))
        self._files.write(f"{self._place(entry)}/_HELD", "")

    def held(self, spark: SparkSession, entry: QueryEntry) -> DataFrame | None:
        """The dead letters of an entry; None where they were not held."""
        if _DONE.isdisjoint(self._files.names(self._place(entry))):
            return None
        return spark.read.parquet(self._place(entry))

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
