"""Rows that come in parts: of each column the newest value that a record brought, and from which record it came.

A row of the table, a change and what is remembered of a deletion are all candidates: for the row as a whole, for each
column of its own, and for the deletion of their key. Of each the newest wins, and what is older than the newest
deletion is gone. So it does not matter in which order they come, how often, or how they are cut into batches.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.rows.keyed.changes import RECORDS
from rivermouth.rows.keyed.history import ENTRY
from rivermouth.rows.keyed.partial_changes import place_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, GroupedData

    from rivermouth.rows.keyed.change_order import Truncations

DELETION: Final = "__tombstone"
"""The place of the newest deletion of a key."""
MOVES: Final = "__moves"
"""Whether a key's row, or a value in it, comes from another record than before, or is gone."""
GONE: Final = "__gone"
"""Whether a key has no row."""
WRITES: Final = "__writes"
"""Whether a key's row is to be written: it moves, or a record of it was read again."""

# A deletion whose sequence nobody knows: Kafka's order alone says what is older.
_UNPLACED: Final = "__unplaced"
_KINDS: Final = (DELETION, _UNPLACED)
_ROW, _COLUMNS, _VALUE, _WAS, _AGAIN = "__row", "__columns", "__value", "__before", "__last"
# Of a deletion: whether a change says so, and not only what is remembered.
_SAID: Final = "__said"


def whole_columns(changes: DataFrame, order: ChangeOrder) -> list[str]:
    """The table's columns that go with the newest record of their key."""
    way = {names.DELETE, names.TRUNCATE, names.PLACES, *order.partial}
    way |= {names.SEQUENCE} if order.sequence != names.SEQUENCE else set()
    return [name for name in changes.columns if name not in way]


def current_rows(table: DataFrame, columns: Sequence[str], order: ChangeOrder) -> DataFrame:
    """Rows of the table as candidates, by key.

    Args:
        table: The table.
        columns: As ``whole_columns`` returns them.
        order: The table's.
    """
    # An older version may lack a column.
    lacking = [name for name in (*columns, *order.partial) if name not in table.columns]
    table = table.withColumns({name: F.lit(None) for name in lacking}) if lacking else table
    own = _place(order, order.sequence)
    said = {name: F.col(names.PLACES)[F.lit(name.lower())] for name in order.partial}
    places = {name: _standing_place(name, place, own, order) for name, place in said.items()}
    value = F.struct(*map(names.quoted, columns))
    return table.select(
        *map(names.quoted, order.keys), _valued(own, value, order).alias(_ROW), _candidates(places, order)
    )


def _standing_place(name: str, said: Column, own: Column, order: ChangeOrder) -> Column:
    """The place of a column of the table's row, by what ``__places`` says of it; null where nobody brought it."""
    if order.leaves:
        return F.when(F.map_contains_key(names.PLACES, F.lit(name.lower())), said).otherwise(own)
    return F.coalesce(said, F.when(F.col(names.quoted(name)).isNotNull(), own))


def placed(changes: DataFrame, known: DataFrame, order: ChangeOrder) -> DataFrame:
    """Changes whose tombstones have the sequence of the newest record of their key before them.

    Args:
        changes: The table's columns, ``__delete`` and ``__sequence``.
        known: The rows of their keys, as ``current_rows`` returns them.
        order: The table's.
    """
    before = Window.partitionBy(*map(names.quoted, (*order.keys, order.topic, order.partition)))
    before = before.orderBy(F.expr(order.in_partition())).rowsBetween(Window.unboundedPreceding, -1)
    marked = changes.withColumn(_WAS, F.max(names.SEQUENCE).over(before))
    joined = marked.alias("s").join(known.alias("t"), F.expr(order.same_key("s", "t")), "left")
    follows = F.expr(f"t.{_ROW} IS NOT NULL AND {order.by_kafka('s', f't.{_ROW}')}")
    behind = F.greatest(F.col(f"s.{_WAS}"), F.when(follows, F.col(f"t.{_ROW}.{names.SEQUENCE}")))
    sequence = F.when(F.col(names.DELETE), F.coalesce(F.col(f"s.{names.SEQUENCE}"), behind))
    sequence = sequence.otherwise(F.col(f"s.{names.SEQUENCE}"))
    kept = (
        sequence.alias(name) if name == names.SEQUENCE else F.col(f"s.{names.quoted(name)}") for name in changes.columns
    )
    return joined.select(*kept)


def candidates(changes: DataFrame, order: ChangeOrder, unread: Mapping[str, Column] | None = None) -> DataFrame:
    """Changes as candidates: a row each, with ``__records`` 1.

    Args:
        changes: The table's columns, ``__delete`` and ``__sequence``; their keys are not null.
        order: The table's.
        unread: By column: whether a change was read without it once, so that it brought none.
    """
    # No change brings what the table alone has by now.
    left = [name for name in order.partial if name not in changes.columns]
    unread = {**(unread or {}), **{name: F.lit(True) for name in left}}
    changes = changes.withColumns(dict.fromkeys(left, F.lit(None))) if left else changes
    own, brings = _place(order, names.SEQUENCE), ~F.col(names.DELETE)
    value = F.struct(*map(names.quoted, whole_columns(changes, order)))
    read = {name: ~unread.get(name, F.lit(False)) for name in order.partial}
    places = {name: F.when(brings & read[name] & _brought(name, order), own) for name in order.partial}
    return _with_deletions(
        changes,
        F.when(brings, _valued(own, value, order)).alias(_ROW),
        _candidates(places, order),
        order=order,
        deletes=F.col(names.DELETE),
        records=1,
    )


def remembered(deletions: DataFrame, like: DataFrame, order: ChangeOrder) -> DataFrame:
    """Deletions that are remembered, as candidates of the columns of ``like``, with ``__records`` 0."""
    nothing = (F.lit(None).cast(like.schema[name].dataType).alias(name) for name in (_ROW, _COLUMNS))
    found = _with_deletions(deletions, *nothing, order=order, deletes=F.lit(True), records=0)
    # What the batch itself deletes is to be remembered, and this is already.
    return found.withColumn(names.DELETE, F.lit(False))


def against(found: DataFrame, deleted: DataFrame, order: ChangeOrder) -> DataFrame:
    """Candidates, each by itself, with the deletions of ``deleted`` in place of their own, by key."""
    theirs = deleted.select(*map(names.quoted, order.keys), *_KINDS).alias("r")
    joined = found.drop(*_KINDS).alias("b").join(theirs, F.expr(order.same_key("b", "r")), "left")
    return joined.select("b.*", *(F.col(f"r.{kind}") for kind in _KINDS))


def newest(found: DataFrame, order: ChangeOrder) -> DataFrame:
    """Of each key the newest candidates, with ``__records`` and ``__delete``: whether one of the changes deletes."""
    keys = [names.quoted(name) for name in order.keys]
    parts = found.repartition(*keys).groupBy(*keys, names.TOPIC, names.PARTITION)
    return _newest(_newest(parts, order, _within).groupBy(*keys), order, _between)


def merged(
    found: DataFrame,
    known: DataFrame,
    columns: Sequence[str],
    order: ChangeOrder,
    truncations: Sequence[Truncations] = (),
    *,
    how: str = "left",
) -> DataFrame:
    """What rows become of the candidates for them.

    Args:
        found: As ``newest`` returns them, or ``candidates``.
        known: As ``current_rows`` returns them.
        columns: As ``whole_columns`` returns them.
        order: The table's.
        truncations: What they are older than is gone too.
        how: ``left`` for the keys in ``found``, ``full`` for those in ``known`` too.

    Returns:
        The table's columns, ``__gone``, ``__moves`` and ``__writes``; of ``found`` what is no candidate for a value:
        ``__tombstone``, the newest deletion or null, ``__delete``, ``__records`` and what else it has.
    """
    left = _alive(_picked(found, known, order, how), truncations, order)
    moves = ~F.col(_WAS).eqNullSafe(_all_places("", order))
    again = F.coalesce(F.col(_AGAIN) & F.col(_ROW).isNotNull(), F.lit(False))
    rest = [name for name in columns if name not in order.keys]
    return left.select(
        *(names.quoted(key) for key in order.keys),
        *(F.col(f"{_ROW}.{_VALUE}.{names.quoted(name)}").alias(name) for name in rest),
        *(_part(name, order).alias(name) for name in order.partial),
        _places(order).alias(names.PLACES),
        F.col(_ROW).isNull().alias(GONE),
        moves.alias(MOVES),
        (moves | again).alias(WRITES),
        *(names.quoted(name) for name in (*_KINDS, *_others(found, order))),
    )


def _part(name: str, order: ChangeOrder) -> Column:
    """The value of a column of its own; where records leave it out and none brought it, its SQL of ``unknown``."""
    path = f"{_COLUMNS}.{names.quoted(name)}"
    brought = F.col(f"{path}.{_VALUE}")
    if not order.leaves:
        return brought
    return F.when(F.col(path).isNotNull(), brought).otherwise(F.expr(order.unknown[order.partial.index(name)]))


def _picked(found: DataFrame, known: DataFrame, order: ChangeOrder, how: str) -> DataFrame:
    """Of each candidate and that of the table the newer one; ``__before``, where the table's come from; ``__last``."""
    joined = found.alias("b").join(known.alias("t"), F.expr(order.same_key("b", "t")), how)
    keys = (F.coalesce(*(F.col(f"{frame}.{names.quoted(key)}") for frame in "bt")).alias(key) for key in order.keys)
    again = " OR ".join(f"coalesce({order.same_record(f'b.{path}', f't.{path}')}, false)" for path in _paths(order))
    return _evaluated(
        joined,
        *keys,
        *_each(lambda path: _newer_of(path, order), order),
        _all_places("t.", order).alias(_WAS),
        F.expr(again).alias(_AGAIN),
        *(F.col(f"b.{names.quoted(name)}") for name in (*_KINDS, *_others(found, order))),
    )


def _alive(picked: DataFrame, truncations: Sequence[Truncations], order: ChangeOrder) -> DataFrame:
    """Without the candidates that are older than a deletion of their key, or than a truncation."""

    def alive(path: str) -> Column:
        dead = F.expr(f"({' OR '.join(f'({it} IS NOT NULL AND ({_outdone(path, it, order)}))' for it in _KINDS)})")
        for each in truncations:
            dead = dead | each.older(path, names.SEQUENCE)
        return F.when(F.expr(f"{path} IS NOT NULL") & ~dead, F.col(path))

    others = (F.col(names.quoted(name)) for name in picked.columns if name not in {_ROW, _COLUMNS})
    return _evaluated(picked, *_each(alive, order), *others)


def _outdone(path: str, deletion: str, order: ChangeOrder) -> str:
    """SQL, never null: whether a deletion that is there takes a candidate away.

    A record that brought the candidate and deletes by the rules of now does; one that deleted and brings it does not.
    """
    same = f"coalesce({deletion}.{_SAID} AND {order.same_record(path, deletion)}, false)"
    return f"{same} OR NOT ({order.newer(path, deletion, names.SEQUENCE)})"


def _paths(order: ChangeOrder) -> list[str]:
    """SQL of the candidates for a row: for all of it, and for each of its own columns."""
    return [_ROW, *(f"{_COLUMNS}.{names.quoted(name)}" for name in order.partial)]


def _each(of: Callable[[str], Column], order: ChangeOrder) -> tuple[Column, Column]:
    """``__row`` and ``__columns``, where each candidate is what ``of`` makes of its SQL."""
    row, *columns = map(of, _paths(order))
    named = (column.alias(name) for column, name in zip(columns, order.partial, strict=True))
    return row.alias(_ROW), F.struct(*named).alias(_COLUMNS)


def _all_places(frame: str, order: ChangeOrder) -> Column:
    """From where each candidate comes."""
    places = (_place_of(f"{frame}{path}", order).alias(f"_{i}") for i, path in enumerate(_paths(order)))
    return F.struct(*places)


def _others(found: DataFrame, order: ChangeOrder) -> list[str]:
    return [name for name in found.columns if name not in {*order.keys, _ROW, _COLUMNS, *_KINDS}]


def deletions(rows: DataFrame, entry: int, order: ChangeOrder) -> DataFrame:
    """What is to be remembered of ``merged`` rows: the newest deletion of each key that one of the changes deleted.

    Keys, coordinates, ``__sequence``, ``__truncate``, which is false, and ``__entry``.
    """
    kinds = _KINDS if order.sequence else (DELETION,)
    found = [rows.where(f"{names.DELETE} AND {kind} IS NOT NULL").select(*_facts(kind, order)) for kind in kinds]
    return functools.reduce(DataFrame.unionAll, found).withColumn(ENTRY, F.lit(entry).cast("bigint"))


def sources(table: DataFrame, order: ChangeOrder) -> DataFrame:
    """``__topic``, ``__partition``, ``__offset`` and ``__epoch`` of the records whose values stand in newer rows."""
    place = F.explode(F.map_values(names.PLACES)).alias(_VALUE)
    columns = zip((*names.IN_TABLE, names.EPOCH), (*order.place, order.epoch), strict=True)
    found = (F.col(f"{_VALUE}.{names.quoted(column)}").alias(name) for name, column in columns)
    return table.select(place).select(*found)


def _facts(kind: str, order: ChangeOrder) -> Iterator[Column]:
    yield from (F.col(names.quoted(name)) for name in order.keys)
    yield from (F.col(f"{kind}.{names.quoted(name)}") for name in order.columns if name not in order.keys)
    yield F.col(f"{kind}.{names.SEQUENCE}") if order.sequence else F.lit(None).cast("bigint").alias(names.SEQUENCE)
    yield F.lit(False).alias(names.TRUNCATE)


def _place(order: ChangeOrder, sequence: str | None) -> Column:
    """The place of a row or a change."""
    epoch = F.coalesce(F.col(order.epoch), F.lit(0)) if order.epochs else F.lit(0)
    told = {order.epoch: epoch, names.SEQUENCE: F.col(names.quoted(sequence or order.offset))}
    return F.struct(*(told.get(name, F.col(names.quoted(name))).alias(name) for name in place_fields(order)))


def _place_of(path: str, order: ChangeOrder) -> Column:
    """The place of a candidate, by its SQL; one of nulls if there is none."""
    return F.struct(*(F.col(f"{path}.{names.quoted(name)}").alias(name) for name in place_fields(order)))


def _valued(place: Column, value: Column, order: ChangeOrder) -> Column:
    return F.struct(*(place[name].alias(name) for name in place_fields(order)), value.alias(_VALUE))


def _candidates(places: dict[str, Column], order: ChangeOrder) -> Column:
    """For each column of its own, by its place or null: the candidate or null."""
    found = (
        F.when(place.isNotNull(), _valued(place, F.col(names.quoted(name)), order)).alias(name)
        for name, place in places.items()
    )
    return F.struct(*found).alias(_COLUMNS)


def _brought(name: str, order: ChangeOrder) -> Column:
    """Whether a change brings a column, be it a null."""
    if not (order.listed or order.leaves):
        return F.col(names.quoted(name)).isNotNull()
    said = F.col(names.PLACES)
    is_named = F.map_contains_key(said, F.lit(name.lower()))
    return said.isNull() | (~is_named if order.leaves else is_named)


def _with_deletions(rows: DataFrame, *found: Column, order: ChangeOrder, deletes: Column, records: int) -> DataFrame:
    own = _place(order, names.SEQUENCE)
    own = F.struct(*(own[name].alias(name) for name in place_fields(order)), F.lit(records > 0).alias(_SAID))
    # What is deleted by nobody knows what sequence is older by Kafka's order alone.
    unplaced = F.col(names.SEQUENCE).isNull() if order.sequence else F.lit(False)
    place = zip((names.TOPIC, names.PARTITION, names.OFFSET), order.place, strict=True)
    return rows.select(
        *map(names.quoted, order.keys),
        *(F.col(names.quoted(column)).alias(name) for name, column in place),
        *found,
        F.when(deletes & ~unplaced, own).alias(DELETION),
        F.when(deletes & unplaced, own).alias(_UNPLACED),
        deletes.alias(names.DELETE),
        F.lit(records).alias(RECORDS),
    )


def _within(path: str, order: ChangeOrder) -> Column:
    """What orders candidates of one partition."""
    sequence = [F.col(f"{path}.{names.SEQUENCE}")] if order.sequence else []
    said = [F.col(f"{path}.{_SAID}")] if path in _KINDS else []
    return F.struct(*sequence, F.expr(order.in_partition(path)), *said)


def _between(path: str, order: ChangeOrder) -> Column:
    """What orders the newest candidates of several partitions."""
    sequence = [names.SEQUENCE] if order.sequence else []
    between = (*sequence, order.timestamp, order.topic, order.partition)
    return F.struct(*(F.col(f"{path}.{names.quoted(name)}") for name in between))


def _newest(grouped: GroupedData, order: ChangeOrder, by: Callable[[str, ChangeOrder], Column]) -> DataFrame:
    def of(path: str) -> Column:
        return F.max_by(F.col(path), F.when(F.expr(f"{path} IS NOT NULL"), by(path, order)))

    return grouped.agg(
        *_each(of, order),
        *(of(kind).alias(kind) for kind in _KINDS),
        F.bool_or(names.DELETE).alias(names.DELETE),
        F.sum(RECORDS).alias(RECORDS),
    )


def _evaluated(frame: DataFrame, *columns: Column) -> DataFrame:
    """``frame.select(*columns)``, each column evaluated once, however often it is used."""
    # Spark would put a plain projection's expressions in the place of each use, and these into those that use them.
    return frame.select(F.inline(F.array(F.struct(*columns))))


def _newer_of(path: str, order: ChangeOrder) -> Column:
    """The newer one of a batch's and the table's candidate."""
    b, t = f"b.{path}", f"t.{path}"
    newer = f"{t} IS NULL OR {order.newer(b, t, names.SEQUENCE)}"
    return F.expr(f"CASE WHEN {b} IS NULL THEN {t} WHEN {newer} THEN {b} ELSE {t} END")


def _places(order: ChangeOrder) -> Column:
    """The places that the row does not tell: of values from other records, and of nulls that one brought."""
    row, found = _place_of(_ROW, order), []
    for name in order.partial:
        path = f"{_COLUMNS}.{names.quoted(name)}"
        place, said = _place_of(path, order), F.col(path).isNotNull()
        if order.leaves:
            # Of what nobody brought the place is null.
            place = F.when(said, place)
            told = F.col(_ROW).isNotNull() & ~(said & place.eqNullSafe(row))
        else:
            told = said & (F.col(f"{path}.{_VALUE}").isNull() | ~place.eqNullSafe(row))
        entry = F.struct(F.lit(name.lower()).alias("key"), place.alias("value"))
        found.append(F.when(told, entry))
    entries = F.array_compact(F.array(*found))
    return F.when(F.size(entries) > 0, F.map_from_entries(entries))
