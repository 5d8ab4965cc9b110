"""Queries as Spark understands them: in some places another text, in all others what the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.constants import Expressions, closing
from rivermouth.pipelines.sql.file_metadata import FUNCTIONS as FILE_FUNCTIONS
from rivermouth.pipelines.sql.file_metadata import star_edits
from rivermouth.pipelines.sql.json_paths import edits as json_edits
from rivermouth.pipelines.sql.json_paths import json_paths
from rivermouth.pipelines.sql.parameters import is_marker, parameter
from rivermouth.pipelines.sql.sources import UNKNOWN_PLACE, Reference, TableFunction, sources
from rivermouth.pipelines.sql.tokens import Token, place, quoted_name, quoted_string

_Edit = tuple[int, int, str]

_BEFORE_TABLE: Final = frozenset(("FROM", "JOIN", "STREAM", "LATERAL"))

_UNITS: Final = frozenset(("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"))


def rewritten(
    text: str,
    *,
    table: Callable[[Reference], str | None],
    function: Callable[[TableFunction], str],
    params: Mapping[str, str],
    secret: Callable[[str, str], str],
    at: SourceLine = UNKNOWN_PLACE,
    json_in_strings: bool = False,
) -> str:
    """The query for Spark 4.2: names, table functions and parameters replaced, all else as it is written.

    ``STREAM(name)`` and ``STREAM name`` stay around what ``table`` and ``function`` give; Spark takes both around the
    name of a temporary view, but not around ``delta.`path```. Options behind a stream (``WITH (skipChangeCommits)``) go
    where ``table`` gives a name: whoever made that name has read them in the reference. ``WATERMARK column DELAY OF
    INTERVAL 1 MINUTE`` is Spark's own; it is put before the table's alias where it is behind it.

    ``column:path`` is Spark's own for columns of VARIANT. For a STRING with JSON, which Databricks reads by the same
    words, Spark refuses it when it analyses the query (COLUMN_IS_NOT_VARIANT_TYPE); which of both a column is, only
    Spark knows. With ``json_in_strings`` it becomes ``get_json_object(CAST(column AS STRING), '$.path')``, with the
    column's name: right for both types, but the type of its result is STRING where no cast follows.

    Args:
        text: A SELECT, or any other statement that reads tables.
        table: The name to write for a table, or None to leave it as it is.
        function: The name of the view to write for a call of a table function.
        params: Values of ``${name}`` and ``:name``. The value of ``:name`` becomes a string.
        secret: Gives the secret of a scope and key, for ``secret('scope', 'key')`` outside of table functions.
        at: Where the text's first line is; for errors.
        json_in_strings: Whether ``column:path`` becomes a call of get_json_object.

    Raises:
        SqlInvalid: A string or comment does not end.
        SqlParameterUnknown: A parameter has no value.
        SqlNotConstant: An argument of a table function, of IDENTIFIER or of secret is not constant.
    """
    read = sources(text, params, at)
    found = read.found
    changes: list[_Edit] = []
    for call in read.functions:
        stars = star_edits(found, call.start, call.end) if call.name in FILE_FUNCTIONS else None
        changes += [(call.start, call.end, function(replace(call, names_metadata=stars is not None))), *(stars or ())]
    for reference in read.references:
        name = table(reference)
        if name is not None:
            changes.append((reference.start, reference.end, name))
            if reference.options_span is not None:
                changes.append((*reference.options_span, ""))
        elif found[_at(found, reference.start)].word == "IDENTIFIER":
            changes.append((reference.start, reference.end, quoted_name(*reference.parts)))
    changes += _markers(read.text, found, params, at)
    changes += _secrets(read.text, found, secret, at, params)
    changes += _watermarks(read.text, found)
    if json_in_strings:
        changes += json_edits(json_paths(found))
    return _applied(read.text, changes)


def _at(found: list[Token], start: int) -> int:
    return next(i for i, token in enumerate(found) if token.start >= start)


def _applied(text: str, changes: list[_Edit]) -> str:
    """The text with the changes; one that is within another is left out."""
    pieces: list[str] = []
    position = 0
    for start, end, new in sorted(changes, key=lambda edit: edit[:2]):
        if start < position:
            continue
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def _markers(text: str, found: list[Token], params: Mapping[str, str], at: SourceLine) -> list[_Edit]:
    result = []
    for i, token in enumerate(found):
        if is_marker(found, i):
            name = found[i + 1].text
            value = parameter(name, params, f":{name}", place(text, token.start, at))
            result.append((token.start, found[i + 1].end, quoted_string(value)))
    return result


def _secrets(
    text: str, found: list[Token], secret: Callable[[str, str], str], at: SourceLine, params: Mapping[str, str]
) -> list[_Edit]:
    result = []
    for i, token in enumerate(found):
        if token.word == "SECRET" and i + 1 < len(found) and found[i + 1].text == "(":
            close = closing(found, i + 1)
            read = Expressions(text, at, found, params)
            value = read.constant(i, close + 1, "the argument of secret").text(secret)
            result.append((token.start, found[close].end, quoted_string(value)))
    return result


def _watermarks(text: str, found: list[Token]) -> list[_Edit]:
    """Puts WATERMARK before the alias of its table, and writes its interval as Spark takes it."""
    result: list[_Edit] = []
    for i, token in enumerate(found):
        if token.word != "WATERMARK":
            continue
        delay = next((j for j in range(i + 1, len(found) - 1) if found[j].word == "DELAY"), None)
        if delay is None or [each.word for each in found[delay + 1 : delay + 3]] != ["OF", "INTERVAL"]:
            continue
        first = delay + 3
        last = next((j for j in range(first, len(found)) if found[j].word.rstrip("S") in _UNITS), first)
        last = first if first < len(found) and " " in found[first].value.strip() else last
        if first < len(found) and found[first].is_string and last == first:
            result.append((found[first].start, found[first].end, found[first].value.strip()))
        alias = _alias(found, i)
        if alias is not None:
            end = found[min(last, len(found) - 1)].end
            result.append((found[alias].start, token.start, ""))
            result.append((end, end, f" {text[found[alias].start : found[i - 1].end]}"))
    return result


def _alias(found: list[Token], watermark: int) -> int | None:
    """The first token of the alias before WATERMARK, or None where the table has none there."""
    i = watermark - 1
    if i < 1 or not found[i].is_name or found[i - 1].text == ".":
        return None
    if found[i - 1].word == "AS":
        return i - 1
    is_alias = found[i - 1].text == ")" or (found[i - 1].is_name and found[i - 1].word not in _BEFORE_TABLE)
    return i if is_alias else None
