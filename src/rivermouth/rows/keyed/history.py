"""The history of a key: the result of all that is known of it, in whichever order it became known.

A key has places, each a value of the sequence. At a place the newest record by Kafka's order counts, and it is either
a version, which is valid from there to the next place, or a deletion, which is not. A truncation is a place of all
keys, and gives way to a version there. A tombstone has no place of its own: it ends the version that it follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from rivermouth import names
from rivermouth.rows.keyed import compared_rows
from rivermouth.schemas.column_types import nullable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rivermouth.rows.keyed.change_order import ChangeOrder

KIND: Final = "__kind"
ROW: Final = "__row"
ENTRY: Final = "__entry"
"""Of something remembered: the number of the ledger entry for which that was; what was never committed is not so."""
RECORDS: Final = "__records"
HAS_UPDATE: Final = "__updates"
HAS_DELETE: Final = "__deletes"
HAS_FACT: Final = "__facts"
"""Of a point, boolean: whether a version of the table comes or changes there, goes, or is to be remembered."""

NEW: Final = "__new"
_VERSION, _DELETION, TOMBSTONE = "version", "deletion", "tombstone"
AT, _KNOWN, _FROM, _ENDED, _HELD = "__at", "__known", "__from", "__ended", "__held"
_ALTERED: Final = "__altered"
_PLACE, _TRUNCATIONS, START = "__place", "__truncations", "__last"
_SNAPSHOTS, _WHOLE = "__snapshots", "__whole"
_NTH: Final = "__nth"
_BATCH, _TABLE, _REMEMBERED = 0, 1, 2
# How well it is known what is at a place: only that something was deleted or begun there, or which record did.
_DEDUCED_END, _DEDUCED_START, _RECORD = 0, 1, 2

_WORDS: Final = """
    altered at before begins begun closed deleted_at deletes ended ends entry fact facts fine from held here kind known
    last moved new next nth place records row same shown snapshots spread t then truncations unmerged up updates w was
    whole
"""
RESERVED: Final = frozenset(f"__{word}" for word in _WORDS.split())
"""Names that no column of a table with versions may have, in lower case."""


@dataclass(frozen=True, slots=True)
class ExistingVersions:
    """What is known of the keys of some changes, besides these.

    Attributes:
        versions: The rows of the table that have one of the keys.
        facts: What is remembered: deletions, tombstones, versions that no row shows, and truncations; None if nothing.
        marks: The truncations, as ``truncations`` returns them; None if there are none.
    """

    versions: DataFrame
    facts: DataFrame | None = None
    marks: DataFrame | None = None


def columns_of(changes: DataFrame, order: ChangeOrder) -> list[str]:
    """The columns of a table's row among those of ``changes``."""
    way = {names.DELETE, names.TRUNCATE, names.ORDINAL, *({names.SEQUENCE} if order.tracked is None else ())}
    return [name for name in changes.columns if name not in way]


def until(facts: DataFrame, entry: int) -> DataFrame:
    """What is remembered of the entries up to this one: a later one may never have been committed."""
    return facts.where(f"{ENTRY} <= {entry}")


def truncations(changes: DataFrame, facts: DataFrame | None, order: ChangeOrder) -> DataFrame:
    """One row with ``__truncations``: the sequences of all that are known, an array, ascending.

    And, if they are snapshots, ``__snapshots``, a map from the sequence to the one that counts there.
    """
    wanted = [names.SEQUENCE, *(map(names.quoted, order.columns) if order.snapshots else ())]
    marks = changes.where(names.TRUNCATE).select(*wanted)
    if facts is not None:
        marks = marks.unionAll(facts.where(names.TRUNCATE).select(*wanted))
    found = F.sort_array(F.collect_set(names.SEQUENCE)).alias(_TRUNCATIONS)
    if not order.snapshots:
        return marks.agg(found)
    place = [names.quoted(name) for name in (order.topic, order.partition)]
    latest = F.struct(names.quoted(order.timestamp), *place)
    marks = marks.select(*wanted, F.expr(order.as_record()).alias(_WHOLE), latest.alias("__then"))
    last = F.max_by(F.struct(_WHOLE, "__then"), F.expr(order.in_partition())).alias("__last")
    parts = marks.groupBy(names.SEQUENCE, *place).agg(last)
    counts = parts.groupBy(names.SEQUENCE).agg(F.max_by(f"__last.{_WHOLE}", "__last.__then").alias(_WHOLE))
    by_sequence = F.map_from_entries(F.collect_list(F.struct(names.SEQUENCE, _WHOLE))).alias(_SNAPSHOTS)
    return counts.agg(found, by_sequence)


def truncated(versions: DataFrame, marks: DataFrame, order: ChangeOrder) -> DataFrame:
    """The keys of those versions during which a truncation of ``marks`` falls; a snapshot also where one begins.

    Of several places that are one version, the last may be where it ends. A truncation there parts it from the others.
    """
    after = ">=" if order.snapshots else ">"
    ends = f"{names.END_AT} IS NULL OR x < {names.END_AT}"
    if order.tracked is not None and order.sequence is not None:
        ends += f" OR x <= {names.quoted(order.sequence)}"
    inside = f"exists({_TRUNCATIONS}, x -> x {after} {names.START_AT} AND ({ends}))"
    found = versions.crossJoin(F.broadcast(marks)).where(inside)
    return found.select(*map(names.quoted, order.keys))


def points(
    changes: DataFrame, known: ExistingVersions, order: ChangeOrder, *, values: bool = True, deduced: bool = True
) -> DataFrame:
    """The places of each key, with what is there and what that makes of the table.

    Args:
        changes: The table's columns, ``__delete``, ``__truncate`` and ``__sequence``.
        known: All that is known of their keys, and of those that a truncation of them is about.
        order: The table's.
        values: Whether a record that is stored with other values than ``changes`` has counts as changed.
        deduced: Whether a version's end implies a deletion that nothing else reports.

    Returns:
        A row a place; ``written``, ``to_remember`` and ``__records``, how many of the changes are there, tell of it.
        One without place holds the tombstones of keys that nobody has seen.
    """
    placed, shape = _all_known(changes, known, order, deduced=deduced)
    compared = _compared(shape, order) if values else []
    newest = _newest(_behind_what_they_follow(placed, order) if order.unplaced else placed, order, compared)
    return _judged(_spans(_beside(newest, known.marks, AT), order), order)


def tombstones(changes: DataFrame, known: ExistingVersions, order: ChangeOrder) -> DataFrame:
    """The tombstones among ``changes`` and what is remembered, each with the place that it has.

    Args:
        changes: As of ``points``.
        known: As of ``points``.
        order: The table's.

    Returns:
        ``__row``, with key and coordinates, ``__at``, and ``__new``: whether it is one of ``changes``.
    """
    placed, _ = _all_known(changes, known, order, deduced=True)
    found = _behind_what_they_follow(placed, order).where(f"{KIND} = '{TOMBSTONE}'")
    return found.select(ROW, AT, (F.col(_FROM) == _BATCH).alias(NEW))


def _all_known(
    changes: DataFrame, known: ExistingVersions, order: ChangeOrder, *, deduced: bool
) -> tuple[DataFrame, StructType]:
    """A row for all that is said of a place, tombstones not there yet; and what ``__row`` has in it."""
    columns = columns_of(changes, order)
    batch = _of_changes(changes, columns)
    shape: StructType = batch.schema[ROW].dataType  # type: ignore[assignment]
    versions = _of_versions(known, columns, order, shape, deduced=deduced)
    found = versions.unionByName(batch, allowMissingColumns=True)
    if known.facts is not None:
        found = found.unionByName(_of_facts(known.facts, order, shape), allowMissingColumns=True)
    return _placed(found.select(*(F.col(f"{ROW}.{names.quoted(key)}") for key in order.keys), "*"), order), shape


def _beside(found: DataFrame, marks: DataFrame | None, sequence: str) -> DataFrame:
    if marks is None:
        return found.withColumn(_TRUNCATIONS, F.expr(f"filter(array({sequence}), x -> false)"))
    return found.crossJoin(F.broadcast(marks))


def _of_changes(changes: DataFrame, columns: Sequence[str]) -> DataFrame:
    kind = f"""CASE WHEN NOT {names.DELETE} THEN '{_VERSION}' WHEN {names.SEQUENCE} IS NULL THEN '{TOMBSTONE}'
        ELSE '{_DELETION}' END"""
    # As a table has it: nothing in it is never null.
    shape = StructType([changes.schema[name] for name in columns])
    nth = F.col(names.ORDINAL) if names.ORDINAL in changes.columns else F.lit(None)
    return changes.where(f"NOT {names.TRUNCATE}").select(
        nth.cast("int").alias(_NTH),
        F.struct(*(F.col(names.quoted(name)) for name in columns)).cast(nullable(shape)).alias(ROW),
        F.col(names.SEQUENCE).cast(nullable(changes.schema[names.SEQUENCE].dataType)).alias(AT),
        F.expr(kind).alias(KIND),
        F.lit(_RECORD).alias(_KNOWN),
        F.lit(_BATCH).alias(_FROM),
        F.lit(False).alias(_ENDED),
    )


def _of_versions(
    known: ExistingVersions, columns: Sequence[str], order: ChangeOrder, shape: StructType, *, deduced: bool
) -> DataFrame:
    """What a table's rows say: the record that each shows, and that something is at its start and at its end."""
    versions = known.versions
    # An older version of the table may lack a column.
    parts = [F.col(f"t.{names.quoted(name)}") if name in versions.columns else F.lit(None) for name in columns]
    kinds = [shape[name].dataType for name in columns]
    row = F.struct(*(part.cast(kind).alias(name) for part, kind, name in zip(parts, kinds, columns, strict=True)))
    held = F.struct(*(F.col(f"{ROW}.{names.quoted(name)}").alias(name) for name in _held(order)))
    start, end = f"{ROW}.{names.START_AT}", f"{ROW}.{names.END_AT}"
    rows = _beside(versions.alias("t").select(row.cast(shape).alias(ROW)).withColumn(_HELD, held), known.marks, start)
    at = f"{ROW}.{names.quoted(order.sequence or '')}"
    ends = f"{end} <> {at} AND NOT array_contains({_TRUNCATIONS}, {end})"

    def said(place: str, kind: str, known: int, ended: str, held: str) -> str:
        return (
            f"named_struct('{AT}', {place}, '{KIND}', '{kind}', '{_KNOWN}', {known}, '{_FROM}', {_TABLE}, "
            f"'{_ENDED}', {ended}, '{_HELD}', {held})"
        )

    closed = f"coalesce({end} = {at}, false)" if deduced else "false"
    shown = said(at, _VERSION, _RECORD, closed, f"IF({start} = {at}, {_HELD}, NULL)")
    begun = said(f"IF({start} < {at}, {start}, NULL)", _VERSION, _DEDUCED_START, "false", _HELD)
    ended = said(f"IF({ends}, {end}, NULL)", _DELETION, _DEDUCED_END, "false", f"IF(false, {_HELD}, NULL)")
    said_of = [shown, *([begun] if order.tracked is not None else []), *([ended] if deduced else [])]
    return rows.selectExpr(ROW, f"inline(filter(array({', '.join(said_of)}), x -> x.{AT} IS NOT NULL))")


def _held(order: ChangeOrder) -> list[str]:
    """By which columns it is told whether a row must change."""
    return [*dict.fromkeys([names.END_AT, order.sequence or "", *order.columns])]


def _of_facts(facts: DataFrame, order: ChangeOrder, shape: StructType) -> DataFrame:
    """What is remembered, but for truncations; of deletions the row has no more than key and coordinates."""
    plain = {*order.keys, *order.columns}
    stored = facts.schema[ROW].dataType if ROW in facts.columns else None
    hidden = set(getattr(stored, "names", ()))
    parts = []
    for field in shape:
        name = names.quoted(field.name)
        found = F.col(name) if field.name in plain else F.lit(None)
        if field.name in hidden - plain:
            found = F.col(f"{ROW}.{name}")
        parts.append(found.cast(field.dataType).alias(field.name))
    return facts.where(f"NOT {names.TRUNCATE}").select(
        F.struct(*parts).cast(shape).alias(ROW),
        F.col(names.SEQUENCE).cast(shape[names.START_AT].dataType).alias(AT),
        F.col(KIND),
        F.lit(_RECORD).alias(_KNOWN),
        F.lit(_REMEMBERED).alias(_FROM),
        (F.col(ENTRY) if ENTRY in facts.columns else F.lit(None).cast("bigint")).alias(ENTRY),
        F.lit(False).alias(_ENDED),
    )


def _placed(found: DataFrame, order: ChangeOrder) -> DataFrame:
    """With topic, partition, the place within it, and time, side by side; a key's rows lie together."""
    columns = {
        name: F.col(f"{ROW}.{names.quoted(column)}")
        for name, column in (
            (names.TOPIC, order.topic),
            (names.PARTITION, order.partition),
            (names.TIMESTAMP, order.timestamp),
        )
    }
    columns[_PLACE] = F.expr(f"struct({order.in_partition(ROW)})")
    return found.withColumns(columns).repartition(*map(names.quoted, order.keys))


def _behind_what_they_follow(found: DataFrame, order: ChangeOrder) -> DataFrame:
    """Each tombstone at the greatest place of its key that a record before it has.

    Before it is by offset where all records of the key are in one partition, and by time where they are not.
    """
    keys = [names.quoted(key) for key in order.keys]
    everything = Window.partitionBy(*keys)
    start, now = Window.unboundedPreceding, Window.currentRow
    here = Window.partitionBy(*keys, names.TOPIC, names.PARTITION).orderBy(_PLACE).rangeBetween(start, now)
    time = [names.TIMESTAMP, names.TOPIC, names.PARTITION, _PLACE]
    by_time = everything.orderBy(*time).rangeBetween(start, now)
    # What was deduced of a place is of no time, if a record is known to be there.
    best = F.max(_KNOWN).over(Window.partitionBy(*keys, AT))
    counted = found.withColumn("__before", F.when(F.col(_KNOWN) == best, F.col(AT)))
    partition = F.struct(names.TOPIC, names.PARTITION)
    moved = counted.withColumns(
        {
            "__here": F.max("__before").over(here),
            "__then": F.max("__before").over(by_time),
            "__spread": F.min(partition).over(everything) != F.max(partition).over(everything),
        }
    )
    at = f"IF({KIND} = '{TOMBSTONE}', greatest({AT}, __here, IF(__spread, __then, NULL)), {AT})"
    moved = moved.withColumn("__was", F.col(AT)).withColumn(AT, F.expr(at))
    # What a tombstone ended that has moved on since is told by its new place.
    left = F.when((F.col(KIND) == TOMBSTONE) & (F.col("__was") != F.col(AT)), F.col("__was"))
    stays = ~F.array_contains(F.collect_set(left).over(everything), F.col(AT))
    return moved.withColumn(_ENDED, F.col(_ENDED) & F.coalesce(stays, F.lit(True)))


def _compared(shape: StructType, order: ChangeOrder) -> list[str]:
    """By which columns it is told whether a record was read otherwise when it was stored."""
    told = {*order.keys, *order.columns, *order.unlike, names.START_AT, names.END_AT, names.SEQUENCE}
    return [each.name for each in shape if each.name not in told and not compared_rows.needs_help(each.dataType)]


def _newest(found: DataFrame, order: ChangeOrder, compared: Sequence[str]) -> DataFrame:
    """A row a place: the newest record there, ``__w``, and the newest tombstone behind it, ``__t``."""
    keys = [names.quoted(key) for key in order.keys]
    was = "__was" if "__was" in found.columns else AT
    is_tombstone = F.col(KIND) == TOMBSTONE
    if ENTRY not in found.columns:
        found = found.withColumn(ENTRY, F.lit(None).cast("bigint"))
    what = F.struct(ROW, KIND, _KNOWN, _FROM)
    new = F.col(_FROM) == _BATCH
    # Of what is stored of one record the table's row counts, then what was remembered last; of what a record of the
    # batch does to one place the last.
    stored = F.struct((-F.col(_FROM)).alias("from"), ENTRY, _NTH)
    parts = found.groupBy(*keys, AT, names.TOPIC, names.PARTITION).agg(
        F.max_by(what, F.when(~is_tombstone, F.struct(_KNOWN, _PLACE, ~new, stored))).alias("__w"),
        F.max_by(what, F.when(~is_tombstone, F.struct(_KNOWN, _PLACE, new, stored))).alias("__new"),
        F.max_by(_ENDED, F.when(~is_tombstone, F.struct(_KNOWN, _PLACE, _ENDED))).alias(_ENDED),
        F.max_by(
            F.struct(ROW, _FROM, F.col(was).alias("__was")), F.when(is_tombstone, F.struct(_PLACE, _FROM, ENTRY))
        ).alias("__t"),
        F.max(_HELD).alias(_HELD),
        F.count_if(new).alias(RECORDS),
    )
    # A record that is stored already stays as it is, unless it is read otherwise by now.
    columns = [f"__w.{ROW}.{names.quoted(name)} <=> __new.{ROW}.{names.quoted(name)}" for name in compared]
    alike = f"__w.{KIND} = __new.{KIND} AND (__w.{KIND} <> '{_VERSION}' OR ({' AND '.join(columns) or 'true'}))"
    chosen = F.expr(f"IF({alike}, __w, __new)").withField(_ENDED, F.col(_ENDED))
    parts = parts.withColumn("__w", chosen.withField(_ALTERED, F.expr(f"NOT ({alike})"))).drop("__new", _ENDED)

    def latest(one: str, *first: str) -> str:
        of = f"{one}.{ROW}"
        named = [f"{of}.{names.quoted(name)}" for name in (order.timestamp, order.topic, order.partition)]
        return f"IF({one} IS NULL, NULL, struct({', '.join([*first, *named])}))"

    return parts.groupBy(*keys, AT).agg(
        F.max_by("__w", F.expr(latest("__w", f"__w.{_KNOWN}"))).alias("__w"),
        F.max_by("__t", F.expr(latest("__t"))).alias("__t"),
        F.max(_HELD).alias(_HELD),
        F.sum(RECORDS).alias(RECORDS),
    )


def _spans(newest: DataFrame, order: ChangeOrder) -> DataFrame:
    """With the versions: whether there is one, whether it begins and ends there, from when and until when."""
    by_key = Window.partitionBy(*map(names.quoted, order.keys)).orderBy(AT)
    closed = f"coalesce(__w.{_ENDED}, false) OR (__t IS NOT NULL AND {order.by_kafka(f'__t.{ROW}', f'__w.{ROW}')})"
    up = f"__w.{KIND} = '{_VERSION}'"
    if order.snapshots:
        # Of two snapshots with one sequence the older one is none.
        mine = f"__w.{_KNOWN} = {_RECORD} AND {order.as_record(f'__w.{ROW}')} <> {_SNAPSHOTS}[{AT}]"
        up += f" AND NOT coalesce({mine}, false)"
    found = newest.withColumn("__up", F.expr(f"coalesce({up}, false)"))
    found = found.withColumn("__closed", F.expr(f"__up AND ({closed})"))
    next_cut = f"array_min(filter({_TRUNCATIONS}, x -> x > {AT}))"
    found = found.withColumn("__next", F.lead(AT).over(by_key))
    found = found.withColumn(names.END_AT, F.expr(f"IF(__closed, {AT}, least(__next, {next_cut}))"))
    if order.tracked is None:
        return found.withColumns(
            {"__begins": F.col("__up"), "__ends": F.col("__up"), START: F.col(AT), "__shown": F.col(_HELD)}
        )
    before = F.lag(F.struct("__up", "__closed", AT, F.col(f"__w.{ROW}").alias(ROW))).over(by_key)
    row: Any = newest.schema["__w"].dataType
    kinds: Any = row[ROW].dataType
    tracked = ((names.quoted(name), kinds[name].dataType) for name in order.tracked)
    alike = [compared_rows.alike(f"__before.{ROW}.{name}", f"__w.{ROW}.{name}", kind) for name, kind in tracked]
    # What a snapshot holds it does not end.
    until_now = "<" if order.snapshots else "<="
    cut = f"exists({_TRUNCATIONS}, x -> x > __before.{AT} AND x {until_now} {AT})"
    same = " AND ".join(["__up", "__before.__up", "NOT __before.__closed", f"NOT {cut}", *alike])
    found = found.withColumn("__before", before).withColumn("__same", F.expr(f"coalesce({same}, false)"))
    found = found.withColumn("__begins", F.expr("__up AND NOT __same"))
    begun = F.last(F.when(F.col("__begins"), F.struct(AT, _HELD)), ignorenulls=True).over(by_key)
    goes_on = F.coalesce(F.lead("__same").over(by_key), F.lit(False))
    found = found.withColumn("__begun", begun).withColumn("__ends", F.col("__up") & ~goes_on)
    return found.withColumn(START, F.col(f"__begun.{AT}")).withColumn("__shown", F.col(f"__begun.{_HELD}"))


def _judged(found: DataFrame, order: ChangeOrder) -> DataFrame:
    """With what the table lacks and has too much, and what is to be remembered."""
    at = names.quoted(order.sequence or "")
    same = f"__shown.{names.END_AT} <=> {names.END_AT} AND {order.same_record('__shown', f'__w.{ROW}')}"
    same += f" AND NOT __w.{_ALTERED}"
    if order.tracked is not None:
        same += f" AND __shown.{at} = {AT}"
    of_batch = f"__w.{_FROM} = {_BATCH} AND __w.{KIND} = '{_DELETION}'"
    hidden = f"__up AND NOT __ends AND __w.{_KNOWN} = {_RECORD} AND __w.{_FROM} <> {_REMEMBERED}"
    moved = f"__t IS NOT NULL AND (__t.{_FROM} = {_BATCH} OR NOT __t.__was <=> {AT})"
    marked = {
        HAS_UPDATE: f"__ends AND (__shown IS NULL OR NOT coalesce({same}, false))",
        HAS_DELETE: f"{_HELD} IS NOT NULL AND NOT __begins",
        "__fact": f"coalesce(({of_batch}) OR ({hidden}), false)",
        "__moved": f"coalesce({moved}, false)",
    }
    found = found.withColumns({name: F.expr(sql) for name, sql in marked.items()})
    return found.withColumn(HAS_FACT, F.expr("__fact OR __moved"))
