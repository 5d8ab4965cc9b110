"""The query of a materialized view: at one version of each table, over rows that changed, or for some groups."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from rivermouth.decoding.jvm.java_objects import java_class, java_frame
from rivermouth.domain.query.view_tree import PlanNode, read_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyspark.sql import DataFrame

KEY = "key_"
"""Names of the columns of keys begin so; behind it there is the number of the part of the key."""


class ViewPlan:
    """An analysed query, whose Delta tables stay at the versions that they had when it was analysed.

    Args:
        frame: The query.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._spark = frame.sparkSession
        self._java = java_class(self._spark, "rivermouth.internals.views.ViewPlan")(java_frame(frame))

    @cached_property
    def tree(self) -> PlanNode:
        """The query as plain values."""
        return read_tree(self._java.tree())

    def whole(self) -> DataFrame:
        """The whole result."""
        return self._frame(self._java.whole())

    def changes(self, leaf: int, after: int, *, by_feed: bool) -> DataFrame:
        """The rows that came to a table and went behind a version, with ``_change_type`` (string).

        Args:
            leaf: Number of the node that reads the table.
            after: A version of the table.
            by_feed: Whether its change data feed is read; else the files of its commits.
        """
        return self._frame(self._java.changes(leaf, after, not by_feed))

    def over(self, leaves: Sequence[int], rows: Sequence[DataFrame], emptied: Sequence[int]) -> DataFrame:
        """The query with other rows in the place of these tables, and with no rows in that of other nodes."""
        return self._frame(self._java.over(list(leaves), [java_frame(each) for each in rows], list(emptied)))

    def keys(self, keyed: int, leaves: Sequence[int], rows: Sequence[DataFrame], emptied: Sequence[int]) -> DataFrame:
        """The keys that such rows have at the node ``keyed``, each once, as ``key_0``, ``key_1`` and so on."""
        found = self._java.keys(keyed, list(leaves), [java_frame(each) for each in rows], list(emptied))
        return self._frame(found)

    def restricted(self, keyed: int, keys: DataFrame) -> DataFrame:
        """The part of the result that comes of the groups with these keys."""
        return self._frame(self._java.restricted(keyed, java_frame(keys)))

    def _frame(self, java: Any) -> DataFrame:
        return ClassicDataFrame(java, self._spark)
