"""``WATERMARK column DELAY OF INTERVAL 1 MINUTE``, as Databricks and as Spark write it."""

from __future__ import annotations

from typing import Final

from rivermouth.pipelines.sql.edits import Edit
from rivermouth.pipelines.sql.tokens import Token

_BEFORE_TABLE: Final = frozenset(("FROM", "JOIN", "STREAM", "LATERAL"))
_UNITS: Final = frozenset(("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"))


def end_of_watermark(found: list[Token], i: int) -> int:
    """The token behind the clause that begins at ``i``; ``i`` itself where that is no such clause."""
    span = _delay(found, i)
    return i if span is None else span[1] + 1


def _delay(found: list[Token], i: int) -> tuple[int, int] | None:
    """The first and the last token of the interval of the clause that begins at ``i``."""
    delay = next((j for j in range(i + 1, len(found) - 3) if found[j].word == "DELAY"), None)
    if found[i].word != "WATERMARK" or delay is None:
        return None
    if [each.word for each in found[delay + 1 : delay + 3]] != ["OF", "INTERVAL"]:
        return None
    first = delay + 3
    if found[first].is_string and " " in found[first].value.strip():
        return first, first
    return first, next((j for j in range(first, len(found)) if found[j].word.rstrip("S") in _UNITS), first)


def edits(text: str, found: list[Token]) -> list[Edit]:
    """What puts the clause before the alias of its table, and writes its interval as Spark takes it."""
    result: list[Edit] = []
    for i, token in enumerate(found):
        span = _delay(found, i)
        if span is None:
            continue
        first, last = span
        if first == last and found[first].is_string:
            result.append((found[first].start, found[first].end, found[first].value.strip()))
        alias = _alias(found, i)
        if alias is not None:
            end = found[last].end
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
