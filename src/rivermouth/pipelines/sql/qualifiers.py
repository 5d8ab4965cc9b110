"""Conditions on the columns of a query that name the table of a column, as the query itself does."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.tokens import is_part, tokens


def without_qualifiers(
    condition: str, columns: Collection[str], qualified: Mapping[str, Collection[str]], at: SourceLine
) -> str:
    """The condition with ``c.price`` as ``price`` where ``price`` is a column that the query has from ``c``.

    What a query returns is kept without the names of the tables that it came from.

    Args:
        condition: SQL of a boolean.
        columns: The columns of the query, in lower case: where ``c`` is one of them, ``c.price`` is its field.
        qualified: By table or alias the columns that come from it, all in lower case.
        at: Where the condition is; for errors.

    Raises:
        SqlInvalid: A string, a quoted name or a comment does not end.
    """
    found, kept, position = tokens(condition, at), "", 0
    for i, token in enumerate(found[:-2]):
        point, column = found[i + 1], found[i + 2]
        begins = token.is_name and point.text == "." and column.is_name and not is_part(found, i)
        table = token.value.lower()
        if begins and table not in columns and column.value.lower() in qualified.get(table, ()):
            kept += condition[position : token.start]
            position = column.start
    return kept + condition[position:]
