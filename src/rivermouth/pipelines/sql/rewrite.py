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
from rivermouth.pipelines.sql.parameters import markers, variables
from rivermouth.pipelines.sql.scopes import alias_of, column_edits, qualifiers
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


@dataclass(frozen=True, slots=True)
class Replacements:
    """What is written in the place of names that Spark does not know.

    Attributes:
        table: The name to write for a table, or None to leave it as it is.
        function: The name of the view to write for a call of a table function.
        secret: Gives the secret of a scope and key, for ``secret('scope', 'key')`` outside of table functions.
    """

    table: Callable[[Reference], str | None]
    function: Callable[[TableFunction], str]
    secret: Callable[[str, str], str]


def rewritten(
    text: str,
    names: Replacements,
    *,
    params: Mapping[str, str],
    at: SourceLine = UNKNOWN_PLACE,
    keep_markers: bool = False,
) -> Rewritten:
    """The query for Spark 4.2: names, table functions and parameters replaced, all else as it is written.

    ``STREAM(name)`` and ``STREAM name`` stay around what ``table`` and ``function`` give; Spark takes both around the
    name of a temporary view, but not around ``delta.`path```. A table that gets another name and has no alias gets its
    own name as alias, so that ``orders.id`` and ``silver.orders.id`` are still its column; see ``alias_of``. Its
    version (``VERSION AS OF 3``) and its options (``WITH (skipChangeCommits)``) are left out where ``table`` gives a
    name: they are in the reference. ``WATERMARK column DELAY OF INTERVAL 1 MINUTE`` is Spark's own; it is put before
    the table's alias where it is behind it.

    ``column:path`` is Spark's own for columns of VARIANT. For a STRING with JSON, which Databricks reads by the same
    words, Spark refuses it when it analyses the query (COLUMN_IS_NOT_VARIANT_TYPE); which of both a column is, only
    Spark knows. For that case there is ``Rewritten.with_json_in_strings``.

    Args:
        text: A SELECT, or any other statement that reads tables.
        names: What is written for tables, table functions and secrets.
        params: Values of ``${name}`` and ``:name``. The value of ``:name`` becomes a string.
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
        changes += [
            (call.start, call.end, names.function(replace(call, names_metadata=stars is not None))),
            *(stars or ()),
        ]
        if call.options_span is not None:
            changes.append((*call.options_span, ""))
    named, aliases = qualifiers(found, read.relations, read.references), list[tuple[Reference, str]]()
    for reference in read.references:
        name = names.table(reference)
        alias = None if name is None or reference.alias_at is None else alias_of(reference, named)
        changes += _named(reference, name, read.text, alias)
        aliases += [] if alias is None else [(reference, alias)]
    changes += column_edits(aliases, named)
    if not keep_markers:
        changes += markers(read.text, found, params, at)
    changes += _secrets(read.text, found, names.secret, at, params)
    changes += watermark_edits(read.text, found)
    filled = edited(text, variables(text, params, at))
    return Rewritten(text, at, filled, tuple(changes), edited(filled.text, changes))


def _named(reference: Reference, name: str | None, text: str, alias: str | None) -> list[Edit]:
    """What puts a name, and an alias, where a table is read."""
    if name is None:
        is_computed = text[reference.start : reference.end].upper().startswith("IDENTIFIER")
        return [(reference.start, reference.end, quoted_name(*reference.parts))] if is_computed else []
    result = [(reference.start, reference.end, name), *((*span, "") for span in reference.clauses)]
    last = tokens(name, UNKNOWN_PLACE)[-1].value
    if reference.alias_at is not None and alias is not None and last.lower() != alias.lower():
        result.append((reference.alias_at, reference.alias_at, f" AS {quoted_name(alias)}"))
        if reference.table_word is not None:
            result.append((*reference.table_word, "SELECT * FROM"))
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
