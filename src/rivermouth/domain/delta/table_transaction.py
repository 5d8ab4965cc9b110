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
class NewLayout:
    """What a table gets together with the rows that replace all of its rows.

    Attributes:
        schema: Its columns, as Spark's JSON of a schema.
        partition_by: Names of partition columns.
        cluster_by: Names of clustering columns; None where the table is not clustered.
    """

    schema: str
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CountedTransaction:
    """A commit whose metadata is made once its rows are in files, so that it can hold their counts.

    Attributes:
        app_id: The transaction's application.
        app_version: Its number.
        metadata: Gives the text for ``userMetadata``.
        replaces: Whether the rows replace all rows of the table. With a layout the table gets that, too.
    """

    app_id: str
    app_version: int
    metadata: Callable[[], str]
    replaces: bool | NewLayout = False
