"""What a SELECT reads: tables, and table functions such as ``read_files``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from rivermouth.errors.pipeline_sql import SqlInvalid
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.constants import Constant, Expressions, closing, split_at_commas
from rivermouth.pipelines.sql.parameters import with_variables
from rivermouth.pipelines.sql.scopes import QUERY, Relation, Scope, begins_branch, branch
from rivermouth.pipelines.sql.table_clauses import END_OF_FROM, KEY_ONCE, alias_behind, end_of_rows, read_clauses
from rivermouth.pipelines.sql.tables import DECODING, Argument, Reference, Setting, TableFunction
from rivermouth.pipelines.sql.tokens import Token, is_part, place, tokens

SOURCE_FUNCTIONS: Final = frozenset(
    [
        "read_files",
        "cloud_files",
        "read_kafka",
        "read_kinesis",
        "read_pubsub",
        "read_pulsar",
        "read_statestore",
        "event_log",
        "table_changes",
    ]
)
"""Table functions that Spark does not have. Others, such as ``range`` and ``explode``, are left to Spark."""
Value = TypeVar("Value")
UNKNOWN_PLACE: Final = SourceLine("<sql>", 1)


@dataclass(slots=True)
class Sources:
    """The tables and table functions of a text, in its order.

    Attributes:
        text: The text, with the values of ``${name}`` in it.
        at: Where its first line is.
        params: Values of ``:name``.
        references: What was found.
        functions: What was found.
        relations: All that columns can be named by, with the part of the text in which they can.
    """

    text: str
    at: SourceLine = UNKNOWN_PLACE
    params: Mapping[str, str] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    functions: list[TableFunction] = field(default_factory=list)
    found: list[Token] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    _scope: Scope = ()

    def __post_init__(self) -> None:
        self.found = tokens(self.text, self.at)
        self._scope = branch(self.found, 0, len(self.found))
        self._level(0, len(self.found), frozenset())

    def _word(self, i: int, end: int) -> str:
        return self.found[i].word if 0 <= i < end else ""

    def _level(self, start: int, end: int, ctes: frozenset[str]) -> None:
        """Reads what one pair of parentheses holds, and what is within it."""
        i, is_query, outer = start, False, self._scope
        while i < end:
            word = self._word(i, end) if self._is_free(i) else ""
            if begins_branch(self.found, i, start):
                self._scope = branch(self.found, i, end)
            if word == "(":
                close = min(closing(self.found, i), end)
                self._level(i + 1, close, ctes)
                i = close + 1
            elif word == "WITH" and (cte := self._first_cte(i + 1, end)) is not None:
                i, ctes = self._ctes(cte, end, ctes, recursive=self._word(i + 1, end) == "RECURSIVE")
                is_query, start, self._scope = True, i, branch(self.found, i, end)
            elif word == "FROM" and (is_query or i == start) and self._is_from(i, end):
                i, is_query = self._relations(i + 1, end, ctes), True
            elif word == "TABLE" and self._is_query_of_table(i, start, end):
                i, is_query = self._query_of_table(i, end, ctes), True
            elif word == "JOIN" and is_query:
                i = self._relations(i + 1, end, ctes)
            else:
                is_query = is_query or word == "SELECT"
                i += 1
        self._scope = outer

    def _is_free(self, i: int) -> bool:
        """Whether the word at ``i`` is no part of a longer name, of a path or of a parameter."""
        return not is_part(self.found, i)

    def _is_clause(self, i: int) -> bool:
        """Whether the word at ``i`` begins a clause: FROM does not in ``IS DISTINCT FROM`` and ``CHANGES FROM``."""
        if not self._is_free(i):
            return False
        before = self._word(i - 1, i)
        is_distinct_from = before == "DISTINCT" and self._word(i - 2, i) in ("IS", "NOT")
        return self.found[i].word != "FROM" or not (is_distinct_from or before == "CHANGES")

    def _is_from(self, i: int, end: int) -> bool:
        """Whether FROM at ``i`` is behind no name, and before a table: it can be the name of a column."""
        return self._is_clause(i) and i + 1 < end and (self.found[i + 1].is_name or self.found[i + 1].text == "(")

    def _is_query_of_table(self, i: int, start: int, end: int) -> bool:
        follows = i == start or self._word(i - 1, end) in ("UNION", "ALL", "INTERSECT", "EXCEPT", "MINUS")
        return follows and i + 1 < end and (self.found[i + 1].is_name or self.found[i + 1].text == "(")

    def _query_of_table(self, i: int, end: int, ctes: frozenset[str]) -> int:
        """Reads ``TABLE name``, where no alias can be: ``SELECT * FROM name`` is the same."""
        before = len(self.references)
        after = self._relation(i + 1, end, ctes)
        if len(self.references) > before and self.found[i + 1].is_name:
            word = self.found[i].start, self.found[i].end
            self.references[-1] = replace(self.references[-1], table_word=word)
        return after

    def _first_cte(self, i: int, end: int) -> int | None:
        """The place of the first name of ``WITH name AS (...)``, or None where WITH is something else."""
        i += self._word(i, end) == "RECURSIVE" and self._word(i + 1, end) not in ("AS", "(")
        if i >= end or not self.found[i].is_name:
            return None
        after = i + 1
        if self._word(after, end) == "(":
            close = closing(self.found, after)
            if self._word(close + 1, end) not in ("AS", "("):
                return i if self._word(after + 1, end) in QUERY else None
            after = close + 1
        while self._word(after, end) in ("AS", "MATERIALIZED", "NOT"):
            after += 1
        return i if self._word(after, end) == "(" else None

    def _ctes(self, i: int, end: int, ctes: frozenset[str], *, recursive: bool) -> tuple[int, frozenset[str]]:
        while i < end and self.found[i].is_name:
            name = self.found[i].value.lower()
            body = i + 1
            if self._word(body, end) == "(" and self._word(body + 1, end) not in QUERY:
                body = closing(self.found, body) + 1
            while body < end and self._word(body, end) != "(":
                body += 1
            close = min(closing(self.found, body), end) if body < end else end
            self._level(body + 1, close, ctes | {name} if recursive else ctes)
            ctes, i = ctes | {name}, close + 1
            if self._word(i, end) != ",":
                break
            i += 1
        return i, ctes

    def _relations(self, i: int, end: int, ctes: frozenset[str]) -> int:
        """Reads what is between FROM or JOIN and the next clause; returns where that begins."""
        i = self._relation(i, end, ctes)
        in_view = False
        while i < end:
            word = self._word(i, end)
            if word in END_OF_FROM and self._is_clause(i):
                break
            if word == "LATERAL" and self._word(i + 1, end) == "VIEW":
                in_view = True
            if word == "(":
                close = min(closing(self.found, i), end)
                self._level(i + 1, close, ctes)
                i = close + 1
            elif (word == "," and not in_view) or (word == "JOIN" and self._is_free(i)):
                in_view = False
                i = self._relation(i + 1, end, ctes)
            else:
                i += 1
        return i

    def _relation(self, i: int, end: int, ctes: frozenset[str]) -> int:
        """Reads one table, function or subquery, and where the alias of a table could be written."""
        before = len(self.references)
        after = self._primary(i, end, ctes)
        last, alias = alias_behind(self.found, after, end)
        is_one, first = len(self.references) == before + 1, i
        while self._word(first, end) == "LATERAL":
            first += 1
        # Parentheses around one table are no place of an alias for what is within them; those of STREAM(name) are.
        is_stream = is_one and self._word(first, end) == "STREAM"
        while is_stream and self._word(first, end) in ("STREAM", "(") and first + 1 < after:
            first += 1
        if is_one and self.found[first].start == self.references[-1].start:
            place_of_alias = self.found[last - 1].end if alias is None else None
            self.references[-1] = replace(self.references[-1], scope=self._scope, alias_at=place_of_alias)
            parts = self.references[-1].parts if alias is None else ()
            self.relations.append(Relation(alias or self.references[-1].parts[-1], self._scope, parts))
        elif alias or (i < after <= i + 2 and self.found[after - 1].is_name):  # the latter: a CTE
            self.relations.append(Relation(alias or self.found[after - 1].value, self._scope))
        return after

    def _primary(self, i: int, end: int, ctes: frozenset[str], *, streaming: bool = False) -> int:
        """Reads one table, function or subquery; returns where what follows it begins."""
        while self._word(i, end) == "LATERAL" and self._word(i + 1, end) != "VIEW":
            i += 1
        word, after = self._word(i, end), self._word(i + 1, end)
        if word == "(":
            return self._parenthesis(i, end, ctes, streaming=streaming)
        if word == "STREAM" and i + 1 < end and (after == "(" or self._is_relation_name(i + 1, end)):
            return self._stream(i + 1, end, ctes)
        if word == "VALUES":
            after_rows = end_of_rows(self.found, i + 1, end)
            self._level(i + 1, after_rows, ctes)
            return after_rows
        if i >= end or not self.found[i].is_name:
            return i
        if word == "IDENTIFIER" and after == "(":
            return self._identifier(i, end, streaming=streaming)
        last = self._end_of_name(i, end)
        if self._word(last, end) == "(":
            return self._function(i, last, end, ctes, streaming=streaming)
        parts = tuple(token.value for token in self.found[i:last] if token.text != ".")
        if len(parts) > 1 or parts[0].lower() not in ctes:
            span = self.found[i].start, self.found[last - 1].end
            self.references.append(Reference(parts, streaming, *span))
            return self._clauses(last, end)
        return last

    def _clauses(self, i: int, end: int) -> int:
        """Reads the version and the options of the table before ``i``, which are cut where it gets another name."""
        read = Expressions(self.text, self.at, self.found[:end], self.params)
        found = read_clauses(read, i, has_version=not self.references[-1].is_streaming)
        if found.computed is not None:
            self.references[-1] = replace(self.references[-1], computed=found.computed)
        elif found.end > i:
            span = self.found[i].start, self.found[found.end - 1].end
            table = self.references[-1]
            spans = (*table.clauses, span)
            self.references[-1] = replace(table, options={**table.options, **found.options}, clauses=spans)
        return found.end

    def _stream(self, i: int, end: int, ctes: frozenset[str]) -> int:
        """Reads what is behind STREAM, with the options of ``WITH (...)`` behind it."""
        before = len(self.references), len(self.functions)
        after = self._primary(i, end, ctes, streaming=True)
        if len(self.references) > before[0]:
            return self._clauses(after, end)
        if len(self.functions) == before[1]:
            return after
        read = Expressions(self.text, self.at, self.found[:end], self.params)
        found = read_clauses(read, after, has_version=False)
        if found.end > after:
            more = tuple(Argument(key, Constant((value,))) for key, value in found.options.items())
            call, span = self.functions[-1], (self.found[after].start, self.found[found.end - 1].end)
            self.functions[-1] = replace(call, arguments=call.arguments + more, options_span=span)
        return found.end

    def _is_relation_name(self, i: int, end: int) -> bool:
        return self.found[i].is_name and self._word(i, end) not in END_OF_FROM | {"AS", "JOIN", "ON"}

    def _end_of_name(self, i: int, end: int) -> int:
        i += 1
        while i + 1 < end and self.found[i].text == "." and self.found[i + 1].is_name:
            i += 2
        return i

    def _parenthesis(self, i: int, end: int, ctes: frozenset[str], *, streaming: bool) -> int:
        close = min(closing(self.found, i), end)
        if self._word(i + 1, close) in QUERY:
            self._level(i + 1, close, ctes)
        elif streaming:
            after = self._primary(i + 1, close, ctes, streaming=True)
            self._level(after, close, ctes)
        else:
            after = self._relations(i + 1, close, ctes)
            self._level(after, close, ctes)
        return close + 1

    def _identifier(self, i: int, end: int, *, streaming: bool) -> int:
        """``IDENTIFIER('a' || '.b')`` names what its constant says."""
        close = min(closing(self.found, i + 1), end - 1)
        read = Expressions(self.text, self.at, self.found, self.params)
        name = read.plain(i + 2, close, "the argument of IDENTIFIER")
        parts = tuple(each.value for each in tokens(name, self.at) if each.text != ".")
        self.references.append(Reference(parts, streaming, self.found[i].start, self.found[close].end))
        return self._clauses(close + 1, end)

    def _function(self, i: int, open_: int, end: int, ctes: frozenset[str], *, streaming: bool) -> int:
        close = min(closing(self.found, open_), end)
        name = self.found[open_ - 1].value.lower()
        if name in SOURCE_FUNCTIONS:
            ranges = split_at_commas(self.found, open_ + 1, close)
            start, after = self.found[i].start, self.found[close].end if close < end else len(self.text)
            self._check_names(name, ranges)
            decoding = self._decoding(ranges) if name == "read_kafka" else {}
            ranges = [each for each in ranges if each not in decoding]
            arguments = tuple(self._argument(name, *each) for each in ranges)
            at = place(self.text, start, self.at)
            streaming = streaming or name == "cloud_files"
            call = TableFunction(name, arguments, streaming, start, after, at, decoding=dict(decoding.values()))
            self.functions.append(call)
            return close + 1
        for low, high in split_at_commas(self.found, open_ + 1, close):
            if self._word(low, high) == "TABLE":
                in_parentheses = self._word(low + 1, high) == "(" and self._word(low + 2, high) not in QUERY
                self._primary(low + 1 + in_parentheses, high, ctes)
            else:
                self._level(low, high, ctes)
        return close + 1

    def _check_names(self, function: str, ranges: list[tuple[int, int]]) -> None:
        """Raises SqlInvalid if an argument of a table function is named twice; Spark takes the names in any case."""
        seen = set[str]()
        for low, high in ranges:
            name = self._name(low, high)
            if name is not None and name.lower() in seen:
                detail = f"{function} has the argument {name} twice"
                at = place(self.text, self.found[low].start, self.at)
                raise SqlInvalid(at=at, detail=detail, fix="remove one of them")
            seen.add("" if name is None else name.lower())

    def _name(self, low: int, high: int) -> str | None:
        """What is written before the ``=>`` of an argument; None if it has no name."""
        return self.found[low].value if self._word(low + 1, high) == "=>" else None

    def _decoding(self, ranges: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[str, Setting]]:
        """The arguments of ``read_kafka`` that say how records are decoded, by where they are."""
        found = {}
        for low, high in ranges:
            name = (self._name(low, high) or "").lower()
            if name in DECODING:
                found[low, high] = name, self._setting(low + 2, high, f"the argument {name} of read_kafka")
        return found

    def _setting(self, low: int, high: int, subject: str) -> Setting:
        read = Expressions(self.text, self.at, self.found, self.params)
        word = self._word(low, high)
        if word not in ("MAP", "ARRAY") or self._word(low + 1, high) != "(":
            return read.constant(low, high, subject)
        ranges = read.arguments(low + 1)[0]
        if word == "ARRAY":
            return tuple(self._setting(*each, subject) for each in ranges)
        return _map(read, ranges, subject, self._setting)

    def _argument(self, function: str, low: int, high: int) -> Argument:
        name = self._name(low, high)
        low += 0 if name is None else 2
        read = Expressions(self.text, self.at, self.found, self.params)
        subject = f"the argument {name} of {function}" if name else f"an argument of {function}"
        if self._word(low, high) == "MAP" and self._word(low + 1, high) == "(":
            return Argument(name, _map(read, read.arguments(low + 1)[0], subject, read.constant))
        if function in ("event_log", "table_changes") and self.found[low].is_name and name is None:
            parts = [each.value for each in self.found[low:high] if each.is_name and each.word != "TABLE"]
            return Argument(name, Constant((".".join(parts),)))
        return Argument(name, read.constant(low, high, subject))


def _map(
    read: Expressions, ranges: list[tuple[int, int]], subject: str, value: Callable[[int, int, str], Value]
) -> dict[str, Value]:
    """What ``map(...)`` has, of the token ranges between its commas."""
    found: dict[str, Value] = {}
    for at in range(0, len(ranges), 2):
        key = read.plain(*ranges[at], subject)
        if at + 1 == len(ranges) or key in found:
            problem = "twice" if key in found else "without a value"
            raise SqlInvalid(
                at=place(read.text, read.found[ranges[at][0]].start, read.at),
                detail=f"{subject} is a map that has the key {key} {problem}",
                fix=KEY_ONCE if key in found else "write a value behind each key: map('key', 'value')",
            )
        found[key] = value(*ranges[at + 1], subject)
    return found


def sources(text: str, params: Mapping[str, str] | None = None, at: SourceLine = UNKNOWN_PLACE) -> Sources:
    """The tables and the table functions of a SELECT, with their places in the text.

    Args:
        text: Any SQL. Where it has ``${name}``, the places are those in the text with the values.
        params: Values of ``${name}`` and ``:name``.
        at: Where the text's first line is.

    Raises:
        SqlInvalid: A string or comment does not end, or an argument of a table function is named twice.
        SqlParameterUnknown: A parameter has no value.
        SqlNotConstant: An argument of a table function or of IDENTIFIER is not constant.
    """
    params = params or {}
    return Sources(with_variables(text, params, at), at, params)


def references(text: str, params: Mapping[str, str] | None = None, at: SourceLine = UNKNOWN_PLACE) -> list[Reference]:
    """The tables that a SELECT reads: no CTEs, no aliases, no table functions. As ``sources``."""
    return sources(text, params, at).references


def functions(
    text: str, params: Mapping[str, str] | None = None, at: SourceLine = UNKNOWN_PLACE
) -> list[TableFunction]:
    """The table functions of SOURCE_FUNCTIONS that a SELECT reads. As ``sources``."""
    return sources(text, params, at).functions
