"""Queries as Spark understands them: in some places another text, in all others what the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.constants import Expressions, closing
from rivermouth.pipelines.sql.edits import Edit, Edited, edited
from rivermouth.pipelines.sql.file_metadata import FUNCTIONS as FILE_FUNCTIONS
from rivermouth.pipelines.sql.file_metadata import star_edits
from rivermouth.pipelines.sql.json_paths import edits as json_edits
from rivermouth.pipelines.sql.json_paths import json_paths
from rivermouth.pipelines.sql.parameters import is_marker, parameter, variables
from rivermouth.pipelines.sql.sources import UNKNOWN_PLACE, sources
from rivermouth.pipelines.sql.tables import Reference, TableFunction
from rivermouth.pipelines.sql.tokens import Token, place, quoted_name, quoted_string, tokens
from rivermouth.pipelines.sql.watermarks import edits as watermark_edits


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query for Spark, and where its words are in the user's file.

    Attributes:
        source: The text as the user wrote it.
        at: Where its first line is.
        filled: With the values of ``${name}``.
        changes: What is changed in that.
        final: The result.
    """

    source: str
    at: SourceLine
    filled: Edited
    changes: tuple[Edit, ...]
    final: Edited

    @property
    def text(self) -> str:
        """The query for Spark."""
        return self.final.text

    def place(self, line: int, position: int) -> str:
        """Where a word is in the user's file, as ``file:line:column``.

        Args:
            line: Its line in ``text``, from 1, as in Spark's errors.
            position: Its character in the line, from 0.
        """
        lines = self.text.splitlines(keepends=True)
        now = sum(len(each) for each in lines[: line - 1]) + position
        return place(self.source, self.filled.origin(self.final.origin(now)), self.at)

    def with_json_in_strings(self) -> Rewritten:
        """The same query, in which ``column:path`` reads the JSON of a STRING.

        It becomes ``get_json_object(CAST(column AS STRING), '$.path')``, with the column's name: right for VARIANT and
        for STRING, but the type of its result is STRING where no cast follows, and names in the path are
        case-sensitive.
        """
        paths = json_edits(json_paths(tokens(self.filled.text, self.at)))
        return replace(self, final=edited(self.filled.text, [*self.changes, *paths]))


def rewritten(
    text: str,
    *,
    table: Callable[[Reference], str | None],
    function: Callable[[TableFunction], str],
    params: Mapping[str, str],
    secret: Callable[[str, str], str],
    at: SourceLine = UNKNOWN_PLACE,
    keep_markers: bool = False,
) -> Rewritten:
    """The query for Spark 4.2: names, table functions and parameters replaced, all else as it is written.

    ``STREAM(name)`` and ``STREAM name`` stay around what ``table`` and ``function`` give; Spark takes both around the
    name of a temporary view, but not around ``delta.`path```. A table that gets another name and has no alias gets its
    own name as alias, so that ``orders.id`` and ``silver.orders.id`` are still its column. Options behind a stream
    (``WITH (skipChangeCommits)``) are left out where ``table`` gives a name: they are in the reference. ``WATERMARK
    column DELAY OF INTERVAL 1 MINUTE`` is Spark's own; it is put before the table's alias where it is behind it.

    ``column:path`` is Spark's own for columns of VARIANT. For a STRING with JSON, which Databricks reads by the same
    words, Spark refuses it when it analyses the query (COLUMN_IS_NOT_VARIANT_TYPE); which of both a column is, only
    Spark knows. For that case there is ``Rewritten.with_json_in_strings``.

    Args:
        text: A SELECT, or any other statement that reads tables.
        table: The name to write for a table, or None to leave it as it is.
        function: The name of the view to write for a call of a table function.
        params: Values of ``${name}`` and ``:name``. The value of ``:name`` becomes a string.
        secret: Gives the secret of a scope and key, for ``secret('scope', 'key')`` outside of table functions.
        at: Where the text's first line is; for errors.
        keep_markers: Whether ``:name`` stays, because Spark is given its value; not in the arguments of table
            functions and of IDENTIFIER.

    Raises:
        SqlInvalid: A string or comment does not end.
        SqlParameterUnknown: A parameter has no value.
        SqlNotConstant: An argument of a table function, of IDENTIFIER or of secret is not constant.
    """
    read = sources(text, params, at)
    found = read.found
    changes: list[Edit] = []
    for call in read.functions:
        stars = star_edits(found, call.start, call.end) if call.name in FILE_FUNCTIONS else None
        changes += [(call.start, call.end, function(replace(call, names_metadata=stars is not None))), *(stars or ())]
        if call.options_span is not None:
            changes.append((*call.options_span, ""))
    for reference in read.references:
        name = table(reference)
        changes += _named(reference, name, read.text)
        if name is not None and reference.alias_at is not None:
            changes += _columns_of(reference, found)
    if not keep_markers:
        changes += _markers(read.text, found, params, at)
    changes += _secrets(read.text, found, secret, at, params)
    changes += watermark_edits(read.text, found)
    filled = edited(text, variables(text, params, at))
    return Rewritten(text, at, filled, tuple(changes), edited(filled.text, changes))


def _named(reference: Reference, name: str | None, text: str) -> list[Edit]:
    """What puts a name where a table is read; under another name, the table's own becomes its alias."""
    if name is None:
        is_computed = text[reference.start : reference.end].upper().startswith("IDENTIFIER")
        return [(reference.start, reference.end, quoted_name(*reference.parts))] if is_computed else []
    result = [(reference.start, reference.end, name)]
    if reference.options_span is not None:
        result.append((*reference.options_span, ""))
    last = tokens(name, UNKNOWN_PLACE)[-1].value
    if reference.alias_at is not None and last.lower() != reference.parts[-1].lower():
        result.append((reference.alias_at, reference.alias_at, f" AS {quoted_name(reference.parts[-1])}"))
    return result


def _columns_of(reference: Reference, found: list[Token]) -> list[Edit]:
    """What makes ``orders.id`` of ``silver.orders.id``, for a table that is now another or has its name as alias."""
    parts = [part.lower() for part in reference.parts]
    width = 2 * len(parts) - 1
    result: list[Edit] = []
    for i in range(len(found) - width if len(parts) > 1 else 0):
        names = [token.value.lower() for token in found[i : i + width : 2] if token.is_name]
        dots = {token.text for token in found[i + 1 : i + width + 1 : 2]}
        if names == parts and dots == {"."} and (i == 0 or found[i - 1].text != "."):
            result.append((found[i].start, found[i + width - 1].end, quoted_name(reference.parts[-1])))
    return result


def _markers(text: str, found: list[Token], params: Mapping[str, str], at: SourceLine) -> list[Edit]:
    result = []
    for i, token in enumerate(found):
        if is_marker(found, i):
            name = found[i + 1].text
            value = parameter(name, params, f":{name}", place(text, token.start, at))
            result.append((token.start, found[i + 1].end, quoted_string(value)))
    return result


def _secrets(
    text: str, found: list[Token], secret: Callable[[str, str], str], at: SourceLine, params: Mapping[str, str]
) -> list[Edit]:
    result = []
    for i, token in enumerate(found):
        if token.word == "SECRET" and i + 1 < len(found) and found[i + 1].text == "(":
            close = min(closing(found, i + 1), len(found) - 1)
            read = Expressions(text, at, found, params)
            value = read.constant(i, close + 1, "the argument of secret").text(secret)
            result.append((token.start, found[close].end, quoted_string(value)))
    return result
