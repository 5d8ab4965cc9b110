"""What a test gives in the place of a pipeline's sources, and of the machine's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.pipelines.names import Names, TableName
    from rivermouth.pipelines.spec import Definitions


class GivenSources(Protocol):
    """Tables and Kafka records that are given, and what becomes of definitions that would read or write elsewhere.

    Attributes:
        now: The current time of queries, of snapshots and of events; None for that of the machine.
    """

    now: dt.datetime | None

    def table(self, text: str, name: TableName | None) -> str | None:
        """The folder of the Delta table that is read in the place of a table; None where none is given.

        Args:
            text: The name as the query writes it.
            name: The same resolved; None where it is no name.
        """

    def records(self, session: SparkSession, options: Mapping[str, str], *, stream: bool) -> DataFrame:
        """The records of the topics that a reader's options name, in the columns of Spark's Kafka source."""

    def definitions(self, found: Definitions, names: Names) -> Definitions:
        """The definitions without the datasets in whose place a table is given; sinks write into the test's folder."""
