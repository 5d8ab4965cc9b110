"""What a commit of Delta carries for the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableTransaction:
    """The transaction number and the metadata of one commit. Delta skips a commit whose number it has already.

    Attributes:
        app_id: The transaction's application.
        app_version: Its number.
        metadata: The text for ``userMetadata``.
    """

    app_id: str
    app_version: int
    metadata: str


@dataclass(frozen=True, slots=True)
class CountedTransaction:
    """A commit whose metadata is made once its rows are in files, so that it can hold their counts.

    Attributes:
        app_id: The transaction's application.
        app_version: Its number.
        metadata: Gives the text for ``userMetadata``.
        replaces: Whether the rows replace all rows of the table.
    """

    app_id: str
    app_version: int
    metadata: Callable[[], str]
    replaces: bool = False
