"""Frames of queries in SQL, and where in the user's file Spark finds a fault in one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.sql.rewrite import Rewritten

# Spark 4.2 lacks the text of this error, and raises another one that names it.
_NOT_VARIANT: Final = "COLUMN_IS_NOT_VARIANT_TYPE"
_PLACE: Final = re.compile(r"\bline (\d+),? pos (\d+)")


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
