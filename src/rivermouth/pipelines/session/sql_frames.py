"""Frames of queries in SQL, and where in the user's file Spark finds a fault in one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rivermouth.names import quoted
from rivermouth.pipelines.sql.scopes import QUERY
from rivermouth.pipelines.sql.tokens import lexed
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.sql.rewrite import Rewritten

# Spark 4.2 lacks the text of this error, and raises another one that names it.
_NOT_VARIANT: Final = "COLUMN_IS_NOT_VARIANT_TYPE"
_PLACE: Final = re.compile(r"\bline (\d+),? pos (\d+)")
_DONE_AT_ONCE: Final = QUERY | {"(", "INSERT", "MERGE", "UPDATE", "DELETE"}
"""Statements that look views up once. Others, such as CREATE VIEW, may have Spark keep their text."""


@dataclass(frozen=True, slots=True)
class SqlWithViews:
    """A statement for Spark, and the temporary views that it reads, which are there within a ``with``.

    Attributes:
        query: The statement.
        views: The frame of each view, by name.
    """

    query: Rewritten
    views: Mapping[str, DataFrame]

    def __enter__(self) -> Rewritten:
        """Makes the views."""
        for name, frame in self.views.items():
            frame.createOrReplaceTempView(quoted(name))
        return self.query

    def __exit__(self, *_: object) -> None:
        """Drops the views, unless Spark may look for them when it runs what the statement has made."""
        first = next(lexed(self.query.text, self.query.at), None) if self.views else None
        if first is not None and first.word in _DONE_AT_ONCE:
            for name, frame in self.views.items():
                sessions.drop_view(frame, name)


def frame_of(
    query: Rewritten, run: Callable[[str], DataFrame], refused: Callable[[str], object] = lambda _: None
) -> DataFrame:
    """The frame of a query; where ``column:path`` reads no VARIANT, it reads the JSON of a STRING.

    Args:
        query: The query.
        run: Spark's ``sql``.
        refused: Hears where in the user's file a query is wrong that Spark refuses, as ``file:line:column``.

    Raises:
        PySparkException: Spark refuses the query.
    """
    try:
        return run(query.text)
    except (PySparkException, Py4JJavaError) as error:
        if _NOT_VARIANT not in str(error):
            _say(error, query, refused)
            raise
    query = query.with_json_in_strings()
    try:
        return run(query.text)
    except PySparkException as error:
        _say(error, query, refused)
        raise


def _say(error: Exception, query: Rewritten, refused: Callable[[str], object]) -> None:
    if found := _PLACE.search(str(error)):
        refused(query.place(int(found[1]), int(found[2])))
