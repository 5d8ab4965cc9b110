"""What a commit of Delta carries for the ledger."""

from __future__ import annotations

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
