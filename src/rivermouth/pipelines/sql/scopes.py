"""Where the tables of a query can be named: in the SELECT that reads them, and in the subqueries within it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.sql.edits import Edit
from rivermouth.pipelines.sql.tables import Reference
from rivermouth.pipelines.sql.tokens import Token, is_part, quoted_name

QUERY: Final = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"))
"""Words with which a query begins."""
Scope = tuple[tuple[int, int], ...]
"""Parts of a text: of each its first character, and the one after its last."""

_BETWEEN_QUERIES: Final = frozenset(("UNION", "EXCEPT", "MINUS", "INTERSECT"))
_ORDERS: Final = frozenset(("ORDER", "SORT", "CLUSTER", "DISTRIBUTE"))


@dataclass(frozen=True, slots=True)
class Relation:
    """What columns can be named by.

    Attributes:
        name: The name of a CTE or the last part of a table's name, or the alias.
        scope: Where they can.
        parts: The whole name of a table that has no alias.
    """

    name: str
    scope: Scope
    parts: tuple[str, ...] = ()


def begins_branch(found: list[Token], i: int, start: int) -> bool:
    """Whether a SELECT begins at ``i``: the first one between parentheses from ``start``, or one behind UNION."""
    word = found[i].word
    return (i == start and word in QUERY) or (word in QUERY | {"("} and _is_behind_operator(found, i))


def _is_behind_operator(found: list[Token], i: int) -> bool:
    i -= 1 + (i > 1 and found[i - 1].word in ("ALL", "DISTINCT"))
    return i > 0 and found[i].word in _BETWEEN_QUERIES and _is_operator(found, i)


def _is_operator(found: list[Token], i: int) -> bool:
    """Whether EXCEPT and its like at ``i`` is between queries: no part of a name, and no columns to leave out."""
    after = i + 1
    is_of_star = (
        i > 0
        and found[i - 1].text == "*"
        and found[i].word == "EXCEPT"
        and after < len(found)
        and found[after].text == "("
    )
    if is_part(found, i) or is_of_star:
        return False
    while after < len(found) and found[after].word in ("ALL", "DISTINCT", "("):
        after += 1
    return after < len(found) and found[after].word in QUERY


def branch(found: list[Token], start: int, end: int) -> Scope:
    """The parts of a text that belong to the SELECT at ``start``: to the next UNION, or to ``end``.

    To the first of a UNION belongs its ORDER BY, too, and not to the last: the columns of the result are the first's.
    """
    if start >= end:
        return ()
    depth, stop, is_behind = 0, found[end - 1].end, _is_behind_operator(found, start)
    is_united = is_behind
    for i in range(start, end):
        depth += {"(": 1, ")": -1}.get(found[i].text, 0)
        if depth != 0 or i == start:
            continue
        if found[i].word in _BETWEEN_QUERIES and _is_operator(found, i):
            if is_behind:
                return ((found[start].start, found[i].start),)
            stop, is_united = stop if is_united else found[i].start, True
        elif is_united and found[i].word in _ORDERS and i + 1 < end and found[i + 1].word == "BY":
            order = (found[i].start, found[end - 1].end)
            return ((found[start].start, order[0]),) if is_behind else ((found[start].start, stop), order)
    return ((found[start].start, stop),)


@dataclass(frozen=True, slots=True)
class Qualifier:
    """Names before a column that say which relation it comes from.

    Attributes:
        start: Their first character.
        end: The one after their last.
        count: How many they are.
        relation: What they name.
        is_shared: Whether another relation that could be meant there has the same last name.
    """

    start: int
    end: int
    count: int
    relation: Relation
    is_shared: bool


def qualifiers(found: list[Token], relations: Collection[Relation], tables: Iterable[Reference]) -> list[Qualifier]:
    """All qualifiers of columns in a text.

    Args:
        found: The tokens of the text.
        relations: All that columns can be named by.
        tables: The tables that the text reads, whose names are no qualifiers.
    """
    result, spans = [], [(each.start, each.end) for each in tables]
    for i, token in enumerate(found):
        if not token.is_name or is_part(found, i):
            continue
        if not any(low <= token.start < high for low, high in spans):
            each = _qualifier(found, i, relations)
            result += [] if each is None else [each]
    return result


def alias_of(reference: Reference, named: Iterable[Qualifier]) -> str:
    """The alias of a table that gets another name: the last part of its name.

    It is the whole name where a column is named by more than the last part, and only that tells it from another.

    Args:
        reference: The table.
        named: All qualifiers of the text.
    """
    parts = _lower(reference.parts)
    is_whole = any(
        each.count > 1
        and each.is_shared
        and each.relation.scope == reference.scope
        and _lower(each.relation.parts) == parts
        for each in named
    )
    return ".".join(reference.parts) if is_whole else reference.parts[-1]


def column_edits(aliases: Iterable[tuple[Reference, str]], named: Iterable[Qualifier]) -> list[Edit]:
    """What makes ```orders`.id`` of ``silver.orders.id``, for tables that have an alias in the text for Spark.

    Args:
        aliases: The tables and their aliases.
        named: All qualifiers of the text.
    """
    result: list[Edit] = []
    known = {(each.scope, _lower(each.parts)): alias for each, alias in aliases}
    for each in named:
        alias = known.get((each.relation.scope, _lower(each.relation.parts)))
        if alias is not None and (each.count > 1 or alias.lower() != each.relation.name.lower()):
            result.append((each.start, each.end, quoted_name(alias)))
    return result


def _qualifier(found: list[Token], i: int, relations: Collection[Relation]) -> Qualifier | None:
    """The names from ``i`` on that name a relation; None where they name none, or two."""
    parts: list[str] = []
    last = i
    while last + 1 < len(found) and found[last].is_name and found[last + 1].text == ".":
        parts.append(found[last].value.lower())
        last += 2
    there = [each for each in relations if _is_within(found[i].start, each.scope)] if parts else []
    for number in range(len(parts), 0, -1):
        named = tuple(parts[:number])
        meant = [each for each in there if _ends_with(each, named)]
        if meant:
            whole = [each for each in meant if _lower(each.parts) == named] or meant
            inner = min(whole, key=lambda each: _size(each.scope))
            if len({_lower(each.parts) for each in whole if each.scope == inner.scope}) > 1:
                return None
            is_shared = any(_has_name_of(each, inner) for each in there)
            return Qualifier(found[i].start, found[i + 2 * number - 2].end, number, inner, is_shared)
    return None


def _is_within(position: int, scope: Scope) -> bool:
    return any(low <= position < high for low, high in scope)


def _size(scope: Scope) -> int:
    return sum(high - low for low, high in scope)


def _has_name_of(other: Relation, relation: Relation) -> bool:
    """Whether another relation has the last name of this one."""
    return other.name.lower() == relation.name.lower() and _lower(other.parts) != _lower(relation.parts)


def _ends_with(relation: Relation, named: tuple[str, ...]) -> bool:
    return named == ((relation.name.lower(),) if len(named) == 1 else _lower(relation.parts)[-len(named) :])


def _lower(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)
