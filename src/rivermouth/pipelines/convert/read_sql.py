"""A query in SQL as SELECTs over one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.convert.model import NotReadable, Relation, Step
from rivermouth.pipelines.names import parted
from rivermouth.pipelines.spec import SourceLine, SqlQuery
from rivermouth.pipelines.sql.constants import closing, split_at_commas
from rivermouth.pipelines.sql.edits import edited
from rivermouth.pipelines.sql.parameters import markers, with_variables
from rivermouth.pipelines.sql.sources import Sources, sources
from rivermouth.pipelines.sql.tokens import Token, is_part, line_of, tokens

SECRET: Final = "\0secret"  # noqa: S105 - it is a placeholder for one
"""Placeholder for the value of a secret, which is never written."""
_OPTIONS: Final = {"bootstrapservers": "kafka.bootstrap.servers", "startingoffsets": "startingOffsets"}


def relation_of_sql(query: SqlQuery, params: Mapping[str, str]) -> Relation:
    """The query as SELECTs over one source.

    Args:
        query: The query.
        params: Values of ``${name}`` and ``:name``.

    Raises:
        NotReadable: It is more than that.
        RivermouthError: Its text is no SQL, or a parameter has no value.
    """
    known = {**params, **query.conf}
    text = with_variables(query.text, known, query.at)
    text = edited(text, markers(text, tokens(text, query.at), known, query.at)).text
    read = sources(text, known, query.at)
    return _Select(text, query.at, read.found, read).query(0, len(read.found))


@dataclass(frozen=True, slots=True)
class _Select:
    text: str
    at: SourceLine
    found: list[Token]
    sources: Sources

    def query(self, low: int, high: int) -> Relation:
        """The tokens from ``low`` to before ``high`` as a query."""
        if self._word(low) == "(" and closing(self.found, low) == high - 1:
            return self.query(low + 1, high - 1)
        if self._word(low) != "SELECT" or self._word(low + 1) in ("DISTINCT", "ALL"):
            words = " ".join(filter(None, (self._word(low), self._word(low + 1))))
            raise self._no(low, f"a flow has nothing like {words}")
        begin = self._top(low + 1, high, "FROM")
        if begin is None:
            raise self._no(low, "it reads no table")
        inner, alias, after = self._relation(begin + 1, high)
        where = None
        if self._word(after) == "WHERE" and after < high:
            end = self._clause(after + 1, high)
            where, after = self._slice(after + 1, end, alias), end
        if after < high:
            raise self._no(after, f"a flow has nothing like {self._word(after) or self.found[after].text}")
        items = [self._slice(*each, alias) for each in split_at_commas(self.found, low + 1, begin)]
        return inner.then(Step(tuple(items), where))

    def _relation(self, i: int, high: int) -> tuple[Relation, str | None, int]:
        streaming, is_query = self._word(i) == "STREAM", False
        i += streaming
        if self._word(i) == "(":
            close = closing(self.found, i)
            is_query = self._word(i + 1) in ("SELECT", "WITH", "(")
            found = self.query(i + 1, close) if is_query else self._named(i + 1, close, streaming=streaming)
            after = close + 1
        else:
            after = self._end_of_name(i)
            if self._word(after) == "(":
                after = closing(self.found, after) + 1
            found = self._named(i, after, streaming=streaming)
        alias = None
        if self._word(after) == "AS":
            after += 1
        if after < high and self.found[after].is_name and self._word(after) not in _CLAUSES:
            alias, after = self.found[after].value, after + 1
        elif found.table is not None and not is_query:
            alias = (parted(found.table) or (None,))[-1]
        return found, alias, after

    def _named(self, low: int, high: int, *, streaming: bool) -> Relation:
        """A table, or a call of ``read_kafka``."""
        line = line_of(self.text, self.found[low].start, self.at)
        if self._word(low) == "STREAM":
            return self._relation(low, high)[0]
        call = next((each for each in self.sources.functions if each.start == self.found[low].start), None)
        if call is not None:
            if call.name != "read_kafka":
                raise NotReadable(line, f"it reads {call.name}, and not Kafka")
            if call.decoding:
                raise NotReadable(line, "it decodes records within read_kafka")
            options = {_OPTIONS.get(k.lower(), k): v for k, v in call.options(lambda _scope, _key: SECRET).items()}
            if not (streaming or call.is_streaming):
                raise NotReadable(line, "it is a batch query over Kafka")
            return Relation(line, options)
        if self._word(self._end_of_name(low)) == "(":
            raise NotReadable(line, f"it reads {self.found[low].text.lower()}(), and not Kafka")
        return Relation(line, table=self.text[self.found[low].start : self.found[high - 1].end])

    def _end_of_name(self, i: int) -> int:
        if i >= len(self.found) or not self.found[i].is_name:
            raise self._no(min(i, len(self.found) - 1), "it reads no table")
        i += 1
        while i + 1 < len(self.found) and self.found[i].text == "." and self.found[i + 1].is_name:
            i += 2
        return i

    def _top(self, low: int, high: int, word: str) -> int | None:
        depth = 0
        for i in range(low, high):
            depth += {"(": 1, ")": -1}.get(self.found[i].text, 0)
            if depth == 0 and self._word(i) == word and self._word(i - 1) != "DISTINCT":
                return i
        return None

    def _clause(self, low: int, high: int) -> int:
        ends = [end for word in _CLAUSES if (end := self._top(low, high, word)) is not None]
        return min(ends, default=high)

    def _slice(self, low: int, high: int, alias: str | None) -> str:
        """The text of tokens, without the alias of the relation before names."""
        if low >= high:
            raise self._no(min(low, len(self.found) - 1), "it selects nothing")
        start, end = self.found[low].start, self.found[high - 1].end
        if alias is None:
            return self.text[start:end]
        pieces, position = [], start
        for i in range(low, high - 1):
            qualifies = self.found[i].is_name and self.found[i].value.lower() == alias.lower()
            if qualifies and self.found[i + 1].text == "." and not is_part(self.found, i):
                pieces.append(self.text[position : self.found[i].start])
                position = self.found[i + 1].end
        return "".join([*pieces, self.text[position:end]])

    def _word(self, i: int) -> str:
        return self.found[i].word if 0 <= i < len(self.found) else ""

    def _no(self, i: int, reason: str) -> NotReadable:
        return NotReadable(line_of(self.text, self.found[i].start, self.at), reason)


_CLAUSES: Final = (
    *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "UNION", "EXCEPT"),
    *("MINUS", "INTERSECT", "WINDOW", "QUALIFY", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI"),
    *("NATURAL", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WATERMARK", "WITH"),
)
