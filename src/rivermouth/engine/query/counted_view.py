"""Views with expectations that a streaming query reads: how many of their rows failed, and were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.ports.internals.observed import ObservedStream
from rivermouth.rows import row_expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.rows.row_expectations import RowExpectation


@dataclass(frozen=True, slots=True)
class CountedView:
    """A view as one query reads it.

    Attributes:
        view: Its name, as users write it.
        expectations: Conditions on its rows.
        observed: Counts its rows.
    """

    view: str
    expectations: Sequence[RowExpectation]
    observed: ObservedStream

    @property
    def counts(self) -> QueryCounts:
        """Where its rows went since ``reset``, once an action has processed them."""
        return row_expectations.counted(self.expectations, self.observed.get())


def counted_view(view: str, rows: DataFrame, expectations: Sequence[RowExpectation]) -> tuple[DataFrame, CountedView]:
    """The rows of a view that its readers get, and their counter.

    Args:
        view: Its name.
        rows: A streaming frame.
        expectations: Conditions on its rows; those whose action is fail end the query.
    """
    observed = ObservedStream(row_expectations.route(rows, expectations), row_expectations.counting(expectations))
    passed = observed.rows.where(row_expectations.IN_TABLE).drop(*row_expectations.way_columns(expectations))
    return passed, CountedView(view, expectations, observed)


def reset(views: Sequence[CountedView]) -> None:
    """Begins to count a batch."""
    for each in views:
        each.observed.reset()


def with_views(counts: QueryCounts, views: Sequence[CountedView]) -> QueryCounts:
    """The counts of a batch with those of the views that it read; of a view that it read twice both."""
    found: dict[str, QueryCounts] = {}
    for each in views:
        found[each.view] = found.get(each.view, QueryCounts()) + each.counts
    return replace(counts, views=found)
