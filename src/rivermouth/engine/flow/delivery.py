"""Where the rows of a flow go besides its table: what a topic and an archive of files promise in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError

from rivermouth.errors import RivermouthError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Delivery(Protocol):
    """Takes the rows of one batch after the other, each with the ledger entry that says so.

    Guarantees:
        Stopped anywhere: those who read what is committed see a batch with its entry, or nothing of it.
    """

    @property
    def ledger_place(self) -> str:
        """Where the entries are kept, for messages."""

    def newest_entry(self) -> str | None:
        """The text of the newest committed ledger entry; None before the first."""

    def begin(self) -> None:
        """Begins a batch; what is left of one that was not committed is gone."""

    def send(self, rows: DataFrame) -> int:
        """Writes rows that nobody sees yet; how many there were."""

    def commit(self, entry: str) -> None:
        """Commits what was sent, and the text of its ledger entry."""

    def abandon(self) -> None:
        """Takes back what was sent, unless it is decided already, and closes."""

    def close(self) -> None:
        """Closes what is open. A batch that is open is not committed."""


@contextmanager
def abandoned_where_it_fails(delivery: Delivery) -> Iterator[None]:
    """Abandons the delivery where the block fails; told is why it failed, also if the abandoning fails too."""
    try:
        yield
    except BaseException:
        with suppress(RivermouthError, OSError, Py4JError):
            delivery.abandon()
        raise
